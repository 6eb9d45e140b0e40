/**
 * The running service on a disk that takes 300 ms to confirm a write: slow versions of `fsync` and `fdatasync`, compiled
 * here, replace those of the whole process.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { execFileSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import * as Home from "./Home.ts"
import { until } from "./Patience.ts"
import { launch, streams } from "./Service.ts"

const syncMillis = 300

const missing = ((): string | null => {
  if (process.platform !== "linux") return "LD_PRELOAD needs Linux"
  try {
    execFileSync("gcc", ["--version"], { stdio: "ignore" })
    return null
  } catch {
    return "no gcc"
  }
})()
if (missing !== null && process.env["CI"] === "true") throw new Error(`these tests need gcc: ${missing}`)

const source = `
#include <sys/syscall.h>
#include <unistd.h>
int fsync(int fd) { usleep(${syncMillis * 1000}); return syscall(SYS_fsync, fd); }
int fdatasync(int fd) { usleep(${syncMillis * 1000}); return syscall(SYS_fdatasync, fd); }
`

/** Builds the library that makes the disk slow, in `folder`. */
const buildSlowLibrary = (folder: string): string => {
  const [code, library] = [join(folder, "slow.c"), join(folder, "slow.so")]
  writeFileSync(code, source)
  execFileSync("gcc", ["-D_DEFAULT_SOURCE", "-shared", "-fPIC", "-o", library, code])
  return library
}

/** Sends requests until `over`, and returns their durations, in ms. */
const timesOf = (address: string, over: () => boolean) =>
  Effect.promise(async () => {
    const times: Array<number> = []
    while (!over()) {
      const startedAt = performance.now()
      const { status } = await fetch(address)
      times.push(performance.now() - startedAt)
      assert.strictEqual(status, 200)
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    return times
  })

describe.skipIf(missing !== null)(`a slow disk${missing === null ? "" : `, skipped: ${missing}`}`, () => {
  it.live(
    `does not delay the liveness probe while backfills run: ${syncMillis} ms to confirm a write (X10)`,
    () =>
      Effect.gen(function*() {
        const { settings } = yield* Home.make({ records: 5_000 })
        const service = yield* launch({
          ...settings,
          ROLLCALL_INTERVAL: "1 hour",
          ROLLCALL_SWEEP_INTERVAL: "1 hour",
          LD_PRELOAD: buildSlowLibrary(yield* Home.folder)
        })
        const url = yield* service.url
        let isOver = false
        const filled = until(
          "the backfills to be read",
          streams(url),
          (views) => views.every(({ last_sweep_at }) => last_sweep_at !== null)
        ).pipe(Effect.ensuring(Effect.sync(() => (isOver = true))))
        const [times] = yield* Effect.all([timesOf(`${url}/health/live`, () => isOver), filled], {
          concurrency: "unbounded"
        })
        const pages = service.steps.filter((step) => step === "backfill").length
        assert.isAtLeast(pages, 15)
        assert.isAbove(times.length, 15)
        // a busy machine delays single probes; the disk would delay each
        const median = times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)]
        assert.isBelow(median!, syncMillis)
        assert.strictEqual(yield* service.end("SIGTERM"), 0)
      })
  )
})
