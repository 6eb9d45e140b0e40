/** A demo that ends while it still reads. `Cli.test.ts` has the others. */
import { assert, describe, it } from "vitest"
import { run } from "./Program.ts"

describe("demo", () => {
  it("--for 1s passes its check, although it may end before some backfills have begun", async () => {
    const { code, stderr, stdout } = await run(["demo", "--for", "1s", "--json", "--seed", "3"])
    assert.strictEqual(code, 0, stdout + stderr)
    const { check } = JSON.parse(stdout)
    assert.deepStrictEqual(check, { ...check, passed: true, missing: [], differences: [] })
  })
})
