/** The checks of the doctor for the database file: its permissions, and the keys that it needs. */
import { randomBytes } from "node:crypto"
import { chmodSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { assert, describe, it } from "vitest"
import type { CheckResult } from "../../../src/cli/doctor/CheckResult.ts"
import { parseKey } from "../../../src/domain/EncryptionKey.ts"
import { inDirectory, runCommand } from "./Program.ts"

const examined = async (file: string, keys = "") => {
  const { stdout } = await runCommand(["doctor", "--json"], {
    ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
    ROLLCALL_API_KEY: "k3y",
    ROLLCALL_HTTP_PORT: "0",
    ROLLCALL_STORE: `sqlite:${file}`,
    ROLLCALL_ENCRYPTION_KEY: keys
  })
  const { checks }: { checks: ReadonlyArray<CheckResult> } = JSON.parse(stdout)
  return checks.filter(({ check }) => check === "store")
}

const created = (file: string, keys = "") =>
  runCommand(["start", "--once"], {
    ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
    ROLLCALL_API_KEY: "k3y",
    ROLLCALL_STORE: `sqlite:${file}`,
    ROLLCALL_ENCRYPTION_KEY: keys
  })

describe.skipIf(process.getuid === undefined)("doctor", () => {
  it("warns if other users can read the file or write to its directory, and not if Rollcall created both", () =>
    inDirectory(async (directory) => {
      const file = join(directory, "rollcall.db")
      await created(file)
      assert.deepStrictEqual((await examined(file)).map(({ status }) => status), ["ok"])
      chmodSync(file, 0o644)
      chmodSync(directory, 0o777)
      const [, readable, writable] = await examined(file)
      assert.deepInclude(readable, { status: "warning", hint: `Run: chmod 600 ${file}` })
      assert.strictEqual(readable?.message, `${file} can be read by other users (mode 644)`)
      assert.include(writable?.message, `other users can write to the directory ${directory} (mode 777)`)
    }))

  it("names a key that the store needs and the configuration lacks; start then ends with 1 and the same remedy", () =>
    inDirectory(async (directory) => {
      const file = join(directory, "rollcall.db")
      const [first, second] = [randomBytes(32).toString("base64"), randomBytes(32).toString("base64")]
      const { id } = parseKey(first)!
      await created(file, first)
      assert.deepStrictEqual((await examined(file, `${second}\n${first}`)).map(({ status }) => status), ["ok"])
      for (const keys of ["", second]) {
        const [problem] = await examined(file, keys)
        assert.strictEqual(problem?.status, "problem")
        const { code, stderr } = await created(file, keys)
        assert.strictEqual(code, 1)
        for (const text of [problem?.hint, stderr]) {
          assert.include(text, `encrypted with the key ${id}, which this process does not have`)
          assert.include(text, "Add what is missing to the file of ROLLCALL_ENCRYPTION_KEY_FILE")
        }
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
