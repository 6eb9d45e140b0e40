import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { DatabaseSync } from "node:sqlite"
import { defineList, withLists } from "../../domain/DefinedList.ts"
import { columnLayout, openTables } from "./RecordTables.ts"

const integration = "workday:acme"
const model = "hris.site"
const codes = ["007", { value: "007" }, true]
const schemas = {
  Json: Schema.Json,
  Finite: Schema.Finite,
  Int: Schema.Int,
  Boolean: Schema.Boolean,
  String: Schema.String
}

/** Exports records with these codes. Another call makes the table again, unless its columns have the same types. */
const exported = (database: DatabaseSync, code: keyof typeof schemas) => {
  const list = defineList(model, { path: "/hris/sites", schema: Schema.Struct({ code: schemas[code] }) })
  const tables = openTables(database, withLists([list]), columnLayout)
  tables.tableOf(model)
  const isKept = tables.streams.size > 0
  if (!isKept) {
    for (const [index, code] of codes.entries()) {
      tables.write(model, { integration, id: String(index), generation: 1, version: 1, after: { code } })
    }
    tables.hold({ integration, model, generation: 1 })
  }
  tables.commit("p", 0)
  const rows = database.prepare("SELECT code, unknown_fields FROM hris_site ORDER BY id").all()
  return { isKept, rows: rows.map(({ code, unknown_fields }) => code ?? JSON.parse(String(unknown_fields)).code) }
}

describe("the tables of an export", () => {
  it("are kept as long as each column has the same type, and are made again if one has another type", () => {
    for (const first of Object.keys(schemas) as ReadonlyArray<keyof typeof schemas>) {
      for (const second of Object.keys(schemas) as ReadonlyArray<keyof typeof schemas>) {
        const database = new DatabaseSync(":memory:")
        exported(database, first)
        const { isKept, rows } = exported(database, second)
        assert.strictEqual(isKept, first === second, `${first}, then ${second}`)
        const text = second === "Json" ? (value: unknown) => JSON.stringify(value) : (value: unknown) => value
        assert.deepStrictEqual(rows, [text(codes[0]), text(codes[1]), second === "Boolean" ? 1 : text(codes[2])])
      }
    }
  })
})
