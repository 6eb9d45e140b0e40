import { assert, describe, it } from "@effect/vitest"
import { readRow } from "../../../src/domain/Observation.ts"
import { make } from "../../../src/domain/Processing.ts"

const processing = make("ats.application", { remoteData: "drop", redact: { "/candidate/last_name": "drop" }, key: "" })

describe("a row that is set aside", () => {
  it("S1: keeps nothing that is dropped or redacted", () => {
    const row = readRow(processing, { candidate: { last_name: "Lovelace", title: "x" }, remote_data: { of: "Ada" } })
    assert.deepStrictEqual(row, { unreadable: "no string id", text: '{"candidate":{"title":"x"},"remote_data":null}' })
  })

  it("S1: says that it is nested too deep, and keeps the rest", () => {
    const custom_fields = JSON.parse(`${"[".repeat(20_000)}${"]".repeat(20_000)}`)
    const row = readRow(processing, { id: "a", custom_fields, job: { name: "Dev" } })
    assert.deepStrictEqual(row, {
      unreadable: "nested deeper than 100 levels",
      text: '{"id":"a","job":{"name":"Dev"}}'
    })
  })
})
