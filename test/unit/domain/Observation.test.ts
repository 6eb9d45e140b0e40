import { assert, describe, it } from "@effect/vitest"
import { observe, readRow } from "../../../src/domain/Observation.ts"
import * as Processing from "../../../src/domain/Processing.ts"

const processing = Processing.plain("ats.tag")

describe("a row", () => {
  it("whose id holds a null character is set aside, with its text, as one without an id is", () => {
    for (const id of [undefined, 7, "", "a\0b"]) {
      const row = readRow(processing, { id, name: "n" })
      assert("unreadable" in row)
      assert.strictEqual(row.text, JSON.stringify({ id, name: "n" }))
    }
  })

  it("that holds one elsewhere is published as it is; only what is kept beside it goes without", () => {
    const row = readRow(processing, { id: "a", remote_id: "r\0", changed_at: "\0", name: "n\0" })
    assert("id" in row)
    const { changedAt, content, remoteId } = observe(processing, row)
    assert.deepStrictEqual([remoteId, changedAt, content["name"]], [null, null, "n\0"])
  })
})
