import { assert, describe, it } from "@effect/vitest"
import { observe, parseRow } from "./Observation.ts"
import * as Processing from "./Processing.ts"

const processing = Processing.make("ats.application", {
  remoteData: "drop",
  redact: { "/candidate/last_name": "drop" },
  key: ""
})

const plain = Processing.defaultProcessing("ats.tag")

describe("a quarantined row", () => {
  it("contains no dropped or redacted properties (S1)", () => {
    const row = parseRow(processing, { candidate: { last_name: "Lovelace", title: "x" }, remote_data: { of: "Ada" } })
    assert.deepStrictEqual(row, { unreadable: "no string id", text: '{"candidate":{"title":"x"},"remote_data":null}' })
  })

  it("has nesting as its reason, and keeps the properties that are not nested too deeply (S1)", () => {
    const custom_fields = JSON.parse(`${"[".repeat(20_000)}${"]".repeat(20_000)}`)
    const row = parseRow(processing, { id: "a", custom_fields, job: { name: "Dev" } })
    assert.deepStrictEqual(row, {
      unreadable: "nested deeper than 100 levels",
      text: '{"id":"a","job":{"name":"Dev"}}'
    })
  })
})

describe("a row", () => {
  it("is quarantined with its text if it has no id, or one that a database cannot store (S1)", () => {
    for (const id of [undefined, 7, "", "a\0b", "a\ud800", "\udc00b", "é".repeat(501)]) {
      const row = parseRow(plain, { id, name: "n" })
      assert("unreadable" in row)
      assert.strictEqual(row.text, JSON.stringify({ id, name: "n" }))
    }
  })

  it("is deleted if remote_deleted_at has any value, and not if it is empty in any spelling (S1)", () => {
    const deleted = (at: unknown) => {
      const row = parseRow(plain, { id: "a", name: "n", remote_deleted_at: at })
      assert("id" in row)
      return observe(plain, row).deleted
    }
    assert.deepStrictEqual(["2026-03-01T12:00:00Z", "yesterday", 1772366400, true].map(deleted), [
      true,
      true,
      true,
      true
    ])
    assert.deepStrictEqual([null, undefined, "", false, 0].map(deleted), [false, false, false, false, false])
  })

  it("with an unstorable text in another property is published unchanged, and that text is not stored separately", () => {
    for (const text of ["n\0", "n\ud800"]) {
      const row = parseRow(plain, { id: "a", remote_id: text, changed_at: text, name: text })
      assert("id" in row)
      const { changedAt, content, remoteId } = observe(plain, row)
      assert.deepStrictEqual([remoteId, changedAt, content["name"]], [null, null, text])
    }
  })
})
