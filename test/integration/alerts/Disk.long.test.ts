/** The alert on the disk of a SQLite store: a real file system that is almost full. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { make, test, watched } from "./Process.ts"
import * as Prometheus from "./Prometheus.ts"

const makeFolder = () => mkdtempSync(join(tmpdir(), "rollcall-disk-"))
const mount = (folder: string) =>
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], { stdio: "ignore" })
const unmount = (folder: string) => {
  execFileSync("umount", [folder], { stdio: "ignore" })
  rmSync(folder, { recursive: true, force: true })
}

/** Only root may mount a file system, and not in every container, so this is skipped with `CI=true` too. */
const missing = Prometheus.missing ?? (() => {
  const folder = makeFolder()
  try {
    mount(folder)
  } catch {
    rmSync(folder, { recursive: true, force: true })
    return "no right to mount a file system"
  }
  unmount(folder)
  return null
})()

describe.skipIf(missing !== null)(`the alert on the disk${missing === null ? "" : ` (skipped: ${missing})`}`, () => {
  test(
    "RollcallDiskSpaceLow fires while the disk of the store has less than a tenth of free space, and ends when there is more",
    4,
    function*() {
      const disk = yield* Effect.acquireRelease(
        Effect.sync(() => {
          const folder = makeFolder()
          mount(folder)
          return folder
        }),
        (folder) => Effect.sync(() => unmount(folder))
      )
      const service = yield* make({ store: `sqlite:${join(disk, "rollcall.db")}` })
      const prometheus = yield* watched(service)
      const file = join(disk, "other")
      writeFileSync(file, Buffer.alloc(56 * 1024 ** 2))
      const [alert] = yield* prometheus.fires("RollcallDiskSpaceLow")
      assert.match(
        alert?.annotations["summary"] ?? "",
        /^\d(\.\d+)?MiB are left on the disk of the store of 127\.0\.0\.1:\d+$/
      )
      rmSync(file)
      yield* prometheus.clears("RollcallDiskSpaceLow")
      yield* prometheus.quiet
    }
  )
})
