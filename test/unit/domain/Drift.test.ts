import { assert, describe, it } from "@effect/vitest"
import { findSchemaDrift } from "../../../src/domain/SchemaDrift.ts"

describe("schema drift", () => {
  it("S1: is told by model and path, each once, and repeats no value", () => {
    const interview = { id: "i", title: { secret: "Ada" } }
    const record = { id: "a", outcome: 7, candidate: { first_name: ["Ada"] }, interviews: [interview, interview] }
    assert.deepStrictEqual([...findSchemaDrift("ats.application", record)].sort(), [
      "/candidate/first_name",
      "/interviews/*/title",
      "/outcome"
    ])
  })

  it("S1: unknown values of an enumeration, new fields and missing ones are none", () => {
    assert.deepStrictEqual(findSchemaDrift("ats.application", { id: "a", outcome: "NEW", later: { x: 1 } }), [])
    assert.deepStrictEqual(findSchemaDrift("assessment.package", { id: "p", name: "n" }), [])
  })
})
