/** A demo that ends while it still reads. `Cli.test.ts` has the other. */
import { assert, describe, it } from "vitest"
import { run } from "./Program.ts"

describe("demo", () => {
  it("--for 1s --json prints one object, and passes its check, although it may end before some backfills have begun", async () => {
    const { code, stderr, stdout } = await run(["demo", "--for", "1s", "--json", "--seed", "3"])
    assert.strictEqual(code, 0, stdout + stderr)
    assert.lengthOf(stdout.trimEnd().split("\n"), 1)
    const { check, records_read } = JSON.parse(stdout)
    assert.isAbove(check.compared, 1000)
    assert.isAbove(records_read, check.compared)
    assert.deepStrictEqual(check, { ...check, passed: true, missing: [], differences: [] })
  })
})
