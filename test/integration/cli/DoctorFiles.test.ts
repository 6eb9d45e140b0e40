/** The warnings of the doctor about the permissions of the database file. */
import { chmodSync, mkdirSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import type { CheckResult } from "../../../src/cli/doctor/CheckResult.ts"
import { inDirectory, run } from "./Program.ts"

const examined = async (file: string) => {
  const { stdout } = await run(["doctor", "--json"], {
    ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
    ROLLCALL_API_KEY: "k3y",
    ROLLCALL_HTTP_PORT: "0",
    ROLLCALL_STORE: `sqlite:${file}`
  })
  const { checks }: { checks: ReadonlyArray<CheckResult> } = JSON.parse(stdout)
  return checks.filter(({ check }) => check === "store")
}

const created = (file: string) =>
  run(["start", "--once"], {
    ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
    ROLLCALL_API_KEY: "k3y",
    ROLLCALL_STORE: `sqlite:${file}`
  })

describe.skipIf(process.getuid === undefined)("doctor", () => {
  it("finds nothing wrong with the permissions of a store that Rollcall created", () =>
    inDirectory(async (directory) => {
      const file = join(directory, "rollcall.db")
      await created(file)
      assert.deepStrictEqual((await examined(file)).map(({ status }) => status), ["ok"])
    }))

  it("warns about database files that other users can read or change, and says chmod", () =>
    inDirectory(async (directory) => {
      const file = join(directory, "rollcall.db")
      await created(file)
      chmodSync(file, 0o644)
      const [, readable] = await examined(file)
      assert.deepInclude(readable, { status: "warning", hint: `Run: chmod 600 ${file}` })
      assert.strictEqual(readable?.message, `${file} can be read by other users (mode 644)`)
      chmodSync(file, 0o660)
      assert.include((await examined(file))[1]?.message, "can be changed by other users (mode 660)")
    }))

  it("warns about directories to which other users can write, also those around it and behind a link", () =>
    inDirectory(async (directory) => {
      const [outer, inner] = [join(directory, "outer"), join(directory, "outer", "inner")]
      mkdirSync(inner, { recursive: true })
      const file = join(inner, "rollcall.db")
      const link = join(directory, "link.db")
      await created(file)
      symlinkSync(file, link)
      for (const [folder, mode] of [[inner, 0o777], [inner, 0o1777], [outer, 0o775]] as const) {
        chmodSync(folder, mode)
        for (const path of [file, link]) {
          const [, warned, ...others] = await examined(path)
          assert.deepStrictEqual(others, [])
          assert.strictEqual(warned?.status, "warning")
          assert.include(warned?.message, `the directory ${folder} (mode ${mode.toString(8)})`)
          assert.include(warned?.hint, `chmod go-w ${folder}`)
        }
        chmodSync(folder, 0o755)
      }
    }))

  it("reports a symbolic link to nothing, like start", () =>
    inDirectory(async (directory) => {
      const file = join(directory, "rollcall.db")
      symlinkSync(join(directory, "nothing"), file)
      const [problem] = await examined(file)
      assert.strictEqual(problem?.status, "problem")
      assert.include(problem?.hint, "is a symbolic link to a file that does not exist")
      assert.include((await created(file)).stderr, "is a symbolic link to a file that does not exist")
    }))
})
