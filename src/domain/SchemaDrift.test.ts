import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { modelSchemas } from "../api/ModelSchemas.ts"
import { defineList, entryOf } from "./DefinedList.ts"
import { findSchemaDrift } from "./SchemaDrift.ts"

describe("schema drift", () => {
  it("is reported by model and path, each once, without values (S1)", () => {
    const interview = { id: "i", title: { secret: "Ada" } }
    const record = { id: "a", outcome: 7, candidate: { first_name: ["Ada"] }, interviews: [interview, interview] }
    assert.deepStrictEqual([...findSchemaDrift(modelSchemas["ats.application"], record)].sort(), [
      "/candidate/first_name",
      "/interviews/*/title",
      "/outcome"
    ])
  })

  it("does not include unknown enumeration values, new fields or missing fields (S1)", () => {
    assert.deepStrictEqual(
      findSchemaDrift(modelSchemas["ats.application"], { id: "a", outcome: "NEW", later: { x: 1 } }),
      []
    )
    assert.deepStrictEqual(findSchemaDrift(modelSchemas["assessment.package"], { id: "p", name: "n" }), [])
  })

  it("does not name what a record has as property names, such as persons in a map (I11)", () => {
    const Person = Schema.Struct({ name: Schema.String, pair: Schema.Tuple([Schema.String]) })
    const { schema } = entryOf(defineList("hris.team", {
      path: "/hris/teams",
      schema: Schema.Struct({
        approvals: Schema.Record(Schema.String, Schema.Boolean),
        people: Schema.Array(Schema.NullOr(Schema.Record(Schema.String, Person))),
        lead: Schema.NullOr(Person)
      })
    }))
    const person = { name: 1, pair: [2] }
    const record = { id: "a", approvals: { Ada: 1, Eve: 2 }, people: [{ Ada: person }], lead: person }
    assert.sameMembers([...findSchemaDrift(schema, record)], [
      "/approvals/*",
      "/people/*/*/*",
      "/people/*/*/*/*",
      "/lead/name",
      "/lead/pair/*"
    ])
  })

  it("is the whole record if the schema of a list throws, so that the record is published nevertheless (S1)", () => {
    const fails = Schema.String.check(Schema.makeFilter((text) => new URL(text).host !== ""))
    const { schema } = entryOf(defineList("hris.team", { path: "/hris/teams", schema: Schema.Struct({ page: fails }) }))
    assert.deepStrictEqual(findSchemaDrift(schema, { id: "a", page: "Ada" }), ["/*"])
    assert.deepStrictEqual(findSchemaDrift(schema, { id: "a", page: "https://example.com" }), [])
  })
})
