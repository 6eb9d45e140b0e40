import { assert, describe, it } from "@effect/vitest"
import { scanValue } from "./JsonScan.ts"
import { observe, parseRow, quarantineHash } from "./Observation.ts"
import * as Processing from "./Processing.ts"
import { RawRow } from "./RawRow.ts"

const processing = Processing.make("ats.application", {
  remoteData: "drop",
  redact: { "/candidate/last_name": "drop" },
  key: ""
})

const plain = Processing.defaultProcessing("ats.tag")

describe("a quarantined row", () => {
  it("contains no dropped or redacted properties (S1)", () => {
    const row = parseRow(
      processing,
      RawRow.of({ candidate: { last_name: "Lovelace", title: "x" }, remote_data: { of: "Ada" } })
    )
    assert.deepStrictEqual(row, { unreadable: "no string id", text: '{"candidate":{"title":"x"},"remote_data":null}' })
  })

  it("that is not an object keeps nothing if the model is redacted (S1, I11)", () => {
    for (const value of ["Ada Lovelace", ["Ada", { candidate: { last_name: "Lovelace" } }], 7]) {
      assert.deepStrictEqual(parseRow(processing, RawRow.of(value)), { unreadable: "not an object", text: "[]" })
      assert.deepStrictEqual(parseRow(plain, RawRow.of(value)), {
        unreadable: "not an object",
        text: JSON.stringify(value)
      })
    }
  })

  it("is the same row if only volatile properties move, and another row if content differs (S1)", () => {
    const hashOf = (row: object) => {
      const parsed = parseRow(processing, RawRow.of(row))
      assert("unreadable" in parsed)
      return quarantineHash(processing, parsed.text)
    }
    const row = {
      id: 7,
      title: "x",
      changed_at: "2026-01-01T00:00:00Z",
      candidate: { id: "c", remote_updated_at: "1" }
    }
    const later = { ...row, changed_at: "2026-01-02T00:00:00Z", candidate: { id: "c", remote_updated_at: "2" } }
    assert.strictEqual(hashOf(later), hashOf(row))
    assert.notStrictEqual(hashOf({ ...later, title: "y" }), hashOf(row))
  })

  it("has nesting as its reason, and keeps the properties that are not nested too deeply (S1)", () => {
    const nested = `${"[".repeat(20_000)}${"]".repeat(20_000)}`
    const bytes = Buffer.from(`{"id":"a","custom_fields":${nested},"job":{"name":"Dev"}}`)
    const row = parseRow(processing, new RawRow(bytes, scanValue(bytes, 0)!))
    assert.deepStrictEqual(row, {
      unreadable: "nested deeper than 100 levels",
      text: '{"id":"a","job":{"name":"Dev"}}'
    })
  })
})

describe("a row", () => {
  it("is quarantined with its text if it has no id, or one that a database cannot store (S1)", () => {
    for (const id of [undefined, 7, "", "a\0b", "a\ud800", "\udc00b", "é".repeat(501)]) {
      const row = parseRow(plain, RawRow.of({ id, name: "n" }))
      assert("unreadable" in row)
      assert.strictEqual(row.text, JSON.stringify({ id, name: "n" }))
    }
  })

  it("publishes a redacted remote id nowhere, and a hash of its text that cannot be guessed without the key (I11)", () => {
    const by = (how: "drop" | "hash", key: string) => {
      const redacting = Processing.make("ats.tag", { remoteData: "drop", redact: { "/remote_id": how }, key })
      const row = parseRow(redacting, RawRow.of({ id: "a", remote_id: "ada@example.com" }))
      assert("id" in row)
      return observe(redacting, row)
    }
    assert.isNull(by("drop", "k").remoteId)
    assert.strictEqual(by("hash", "k").remoteId, by("hash", "k").content["remote_id"])
    assert.match(by("hash", "k").remoteId ?? "", /^redacted:/)
    assert.notStrictEqual(by("hash", "k").textHash, by("hash", "other").textHash)
  })

  it("is deleted if remote_deleted_at has any value, and not if it is empty in any spelling (S1)", () => {
    const deleted = (at: unknown) => {
      const row = parseRow(plain, RawRow.of({ id: "a", name: "n", remote_deleted_at: at }))
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
      const row = parseRow(plain, RawRow.of({ id: "a", remote_id: text, changed_at: text, name: text }))
      assert("id" in row)
      const { changedAt, content, remoteId } = observe(plain, row)
      assert.deepStrictEqual([remoteId, changedAt, content["name"]], [null, null, text])
    }
  })
})
