/** A sandbox that is started again while a store still has the records of its earlier world. */
import { assert, it } from "@effect/vitest"
import { inDirectory, runCommand, sandboxed } from "./Program.ts"

const text = "the API's data is a different world than the one in this store"

it("a store of another world of the sandbox is named by the log and by doctor, and the same world is not", () =>
  inDirectory(async (directory, _, serve) => {
    const { environment } = await sandboxed(serve, directory)
    const settings = { ...environment, ROLLCALL_MODELS: "ats.tag,ats.offer", ROLLCALL_LOG_FORMAT: "json" }
    const examined = async (more = {}) => {
      const { code, stderr } = await runCommand(["start", "--once"], { ...settings, ...more })
      assert.strictEqual(code, 0, stderr)
      const { stdout } = await runCommand(["doctor", "--json"], { ...settings, ...more })
      return [stderr.split(text).length - 1, stdout.includes(text)]
    }
    assert.deepStrictEqual(await examined(), [0, false])
    assert.deepStrictEqual(await examined(), [0, false])
    const { url } = await sandboxed(serve, directory)
    // a line for each of the two streams, once
    assert.deepStrictEqual(await examined({ ROLLCALL_API_URL: url }), [2, true])
    assert.deepStrictEqual(await examined({ ROLLCALL_API_URL: url }), [0, true])
    assert.deepStrictEqual(await examined(), [0, false])
  }))
