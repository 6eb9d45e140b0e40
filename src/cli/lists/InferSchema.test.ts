import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { runs } from "../../../test/support/Runs.ts"
import type { JsonObject } from "../../domain/Canonical.ts"
import { defineList, entryOf } from "../../domain/DefinedList.ts"
import { findSchemaDrift } from "../../domain/SchemaDrift.ts"
import { inferReferences } from "./InferReferences.ts"
import { inferFields, schemaText } from "./InferSchema.ts"

const textFor = (records: ReadonlyArray<JsonObject>) => schemaText(inferFields(records), "", true)
/** The lines of the fields. */
const linesFor = (...records: ReadonlyArray<JsonObject>) =>
  textFor(records).split("\n").slice(1, -1).map((line) => line.trim().replace(/,$/, ""))

describe("the inferred schema", () => {
  it("has a type for each field that always has values of one type, and Json for every other field", () => {
    assert.deepStrictEqual(
      linesFor(
        {
          id: "1",
          age: 3,
          active: true,
          mixed: "x",
          hired_at: "2026-01-01T00:00:00.000Z",
          day: "2026-01-01",
          none: null
        },
        { id: "2", age: 2.5, active: false, mixed: 1, hired_at: "2026-01-01T01:00:00+01:00", day: "x", none: null }
      ),
      [
        "id: Schema.String",
        "age: Schema.Finite",
        "active: Schema.Boolean",
        "mixed: Schema.Json",
        "hired_at: time",
        "day: Schema.String",
        "none: Schema.Json"
      ]
    )
  })

  it("is nullable where null was found or the field was absent, and optional inside an object only", () => {
    assert.deepStrictEqual(
      linesFor(
        { id: "1", name: null, title: "a", pay: { id: "p", value: 1, currency: "EUR" }, left_at: null },
        { id: "2", name: "b", pay: { id: "q", value: null }, left_at: null }
      ),
      [
        "id: Schema.String",
        "name: Schema.NullOr(Schema.String)",
        "title: Schema.NullOr(Schema.String)",
        "pay: Schema.Struct({",
        "id: Schema.String",
        "value: Schema.NullOr(Schema.Finite)",
        "currency: Schema.optionalKey(Schema.NullOr(Schema.String))",
        "})",
        "left_at: Schema.NullOr(time)"
      ]
    )
  })

  it("has structs for the members of arrays, three levels deep, and Json below and for arrays of arrays", () => {
    const lines = linesFor({
      id: "1",
      empty: [],
      table: [["a"]],
      names: ["a", null],
      a: [{ id: "a", b: { id: "b", c: { id: "c", d: { id: "d" } } } }]
    })
    assert.deepStrictEqual(lines, [
      "id: Schema.String",
      "empty: Schema.Array(Schema.Json)",
      "table: Schema.Array(Schema.Json)",
      "names: Schema.Array(Schema.NullOr(Schema.String))",
      "a: Schema.Array(Schema.Struct({",
      "id: Schema.String",
      "b: Schema.Struct({",
      "id: Schema.String",
      "c: Schema.Struct({",
      "id: Schema.String",
      "d: Schema.Json",
      "})",
      "})",
      "}))"
    ])
  })

  it("does not name properties that may be data (I11)", () => {
    const text = textFor([
      {
        id: "1",
        "ada@example.com": 1,
        q20260101: 1,
        custom_fields: { shoe_size: 41, id: "1" },
        remote_data: { id: "1", secret: 1 },
        approvals: { ada: true, id: "1" },
        only: { grace: true },
        mixed: { name: 1, "O'Neill": 1 }
      },
      { id: "2", approvals: { bob: true, id: "2" }, mixed: { name: 2, "O'Neill": 1 } },
      { id: "3", approvals: { eve: true, id: "2" } }
    ])
    assert.strictEqual(
      text,
      "Schema.Struct({\n  id: Schema.String,\n" +
        ["custom_fields", "remote_data", "approvals", "only", "mixed"].map((name) => `  ${name}: Schema.Json`).join(
          ",\n"
        ) +
        "\n})"
    )
  })
})

const names = [
  "id",
  "a",
  "b",
  "manager",
  "custom_fields",
  "at_at",
  "constructor",
  "__proto__",
  "§x",
  "Ö",
  "y20261",
  "time",
  "z-"
]
const Key = Schema.Literals(names)
const Leaf = Schema.Union([
  Schema.Null,
  Schema.Boolean,
  Schema.Literals([0, -1.5, 9_007_199_254_740_991]),
  Schema.Literals(["§", "§ada", "2026-01-01T00:00:00.000Z", "2026-13-45T99:00:00Z"])
])
const nest = (inner: Schema.Codec<unknown>): Schema.Codec<unknown> =>
  Schema.Union([
    Leaf,
    Schema.Array(inner).check(Schema.isMaxLength(3)),
    Schema.Record(Key, Schema.optionalKey(inner)),
    Schema.Struct({ id: Schema.Literals(["p", "q"]), a: inner, b: Schema.optionalKey(inner) })
  ])
const Record = Schema.Record(Key, Schema.optionalKey(nest(nest(nest(nest(Leaf))))))
const Records = Schema.Array(Record).check(Schema.isMinLength(1), Schema.isMaxLength(6))

describe("the inferred schema of random records", () => {
  it.prop(
    "is TypeScript, decodes each of the records, and contains no value",
    [Records],
    ([sample]) => {
      const records = sample.map((record, index): JsonObject =>
        JSON.parse(JSON.stringify({ ...record, id: `§${index}` }))
      )
      const text = textFor(records)
      assert.notInclude(text, "§")
      assert.notInclude(text, "2026")
      const schema = new Function("Schema", "time", `return ${text}`)(Schema, Schema.String)
      const entry = entryOf(defineList("hris.employee", { path: "/hris/employees", schema }))
      for (const record of records) assert.deepStrictEqual(findSchemaDrift(entry.schema, record), [], text)
    },
    { arbitrary: { runs: runs(200) } }
  )
})

describe("the inferred references", () => {
  const referencesOf = (...records: ReadonlyArray<JsonObject>) =>
    inferReferences(inferFields(records), records, "employee")

  it("are the nested records that appear more than once, with the properties that are equal in all copies", () => {
    const team = { id: "t", remote_id: "r", name: "Sales", changed_at: "2026-01-01T00:00:00Z", raw: {} }
    assert.deepStrictEqual(
      referencesOf(
        { id: "1", team, member: [{ group: { ...team, id: "g", role: "lead" } }], badge: { id: "b1", name: "x" } },
        { id: "2", team, member: [{ group: { ...team, id: "g", role: "none" } }], badge: { id: "b2", name: "x" } }
      ),
      [{ path: "team", kind: "team", shared: ["name"] }, { path: "member.group", kind: "group", shared: ["name"] }]
    )
  })

  it("have the kind of the list itself, or of an earlier path, if they share ids and properties", () => {
    assert.deepStrictEqual(
      referencesOf(
        {
          id: "1",
          name: "Ada",
          manager: { id: "2", name: "Bob" },
          office: { id: "o", city: "Rome" },
          home: { id: "o", city: "Rome" }
        },
        { id: "2", name: "Bob", manager: null, office: { id: "o", city: "Rome" }, home: { id: "h", city: "Bari" } }
      ),
      [
        { path: "manager", kind: "employee", shared: ["name"] },
        { path: "office", kind: "office", shared: ["city"] },
        { path: "home", kind: "office", shared: ["city"] }
      ]
    )
  })
})
