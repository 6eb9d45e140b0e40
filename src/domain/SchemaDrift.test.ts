import { assert, describe, it } from "@effect/vitest"
import { modelSchemas } from "../api/ModelSchemas.ts"
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
})
