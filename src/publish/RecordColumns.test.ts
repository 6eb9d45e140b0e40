import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { runs } from "../../test/support/Runs.ts"
import { builtInModels } from "../domain/BuiltInModels.ts"
import { isObject, type JsonObject, type JsonValue } from "../domain/Canonical.ts"
import { recordEntryOf } from "../domain/Model.ts"
import { recordColumnsOf, rowOf } from "./RecordColumns.ts"

/** The content without null, which a row does not have. */
const withoutNull = (value: JsonValue, flat: boolean): JsonValue =>
  isObject(value)
    ? Object.fromEntries(
      Object.entries(value).flatMap(([name, inner]) => {
        if (inner === null) return []
        const left = flat ? withoutNull(inner, flat) : inner
        return isObject(left) && flat && Object.keys(left).length === 0 ? [] : [[name, left]]
      })
    )
    : value

/** Puts a row together again. */
const recordOf = ({ unknown, values }: ReturnType<typeof rowOf>): JsonObject => {
  const record: Record<string, JsonValue> = structuredClone(unknown ?? {}) as Record<string, JsonValue>
  for (const [name, value] of values) {
    const path = name.split(".")
    let at = record
    for (const part of path.slice(0, -1)) at = (at[part] ??= {}) as Record<string, JsonValue>
    at[path.at(-1)!] = value
  }
  return record
}

const Value = Schema.Union([
  Schema.Null,
  Schema.Literals(["text", "redacted:x", 3, 1.5, true]),
  Schema.Record(
    Schema.Literals(["first_name", "location", "__proto__"]),
    Schema.Union([Schema.Null, Schema.Literals(["a", 1])])
  )
])
const Other = Schema.Record(
  Schema.Literals([
    "unheard_of",
    "integration",
    "name",
    "Name",
    "remote_id",
    "changed_at",
    "candidate",
    "confidential"
  ]),
  Value
)

describe("the columns of", () => {
  for (const entry of builtInModels.entries) {
    it.prop(
      `${entry.model} hold every value of a record, also those that break the schema`,
      { known: entry.schema as Schema.Codec<JsonObject>, other: Other, flat: Schema.Boolean },
      ({ flat, known, other }) => {
        const record: JsonObject = JSON.parse(JSON.stringify({ ...known, ...other, id: "a" }))
        const row = rowOf(recordColumnsOf(entry, flat), record)
        assert.deepStrictEqual(withoutNull(recordOf(row), flat), withoutNull(record, flat))
      },
      { arbitrary: { runs: runs(25) } }
    )
  }

  it("have the types of the schema, and flat columns lead to the fields of nested objects", () => {
    const typesOf = (flat: boolean) =>
      Object.fromEntries(
        recordColumnsOf(recordEntryOf(builtInModels, "ats.application"), flat).columns.map((
          { name, type }
        ) => [name, type])
      )
    const { candidate, changed_at, id, interviews, outcome } = typesOf(false)
    assert.deepStrictEqual([id, outcome, changed_at, candidate, interviews], [
      "string",
      "string",
      "time",
      "json",
      "json"
    ])
    const flat = typesOf(true)
    assert.deepStrictEqual(
      [flat["candidate.confidential"], flat["current_stage.index"], flat["candidate.location.city"], flat["candidate"]],
      ["boolean", "double", "string", undefined]
    )
  })

  it("leave a hash, and a number with more digits than a double, in `unknown_fields`", () => {
    const columns = recordColumnsOf(recordEntryOf(builtInModels, "hris.staffing_entity"))
    const { unknown, values } = rowOf(columns, { id: "a", number_of_openings: "9007199254740993", name: "redacted:x" })
    assert.deepStrictEqual(unknown, { number_of_openings: "9007199254740993" })
    assert.strictEqual(values.get("name"), "redacted:x")
  })
})
