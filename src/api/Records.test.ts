import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { listExamples, recordExamples } from "../../test/support/api/Examples.ts"
import { AssessmentPackage } from "./Assessment.ts"
import { Attachment } from "./Attachments.ts"
import { Course } from "./Courses.ts"
import { incrementalModels } from "./Lists.ts"
import { SkillExpectation, SkillProficiencyRating } from "./Proficiency.ts"
import { Candidate, recordSchemas } from "./Records.ts"

type Edit = (value: unknown) => unknown

/** Applies `edit` to every value inside the record, the innermost first; the record's own `id` is unchanged. */
const edited = (value: unknown, edit: Edit, top = true): unknown => {
  if (Array.isArray(value)) return value.map((item) => edited(item, edit, false))
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) =>
      top && key === "id" ? [key, item] : [key, edit(edited(item, edit, false))]
    )
  )
}

const isEnumeration = (value: unknown): boolean => typeof value === "string" && /^[A-Z_]+$/.test(value)

interface Case {
  readonly schema: Schema.Codec<{ readonly id: string }, unknown>
  readonly example: Readonly<Record<string, unknown>>
}

const cases: Readonly<Record<string, Case>> = {
  ...Object.fromEntries(
    incrementalModels.map((model) => [model, { schema: recordSchemas[model], example: listExamples[model] }])
  ),
  "a candidate": { schema: Candidate, example: recordExamples.candidate },
  "a course": { schema: Course, example: recordExamples.course },
  "a skill proficiency rating": { schema: SkillProficiencyRating, example: recordExamples.rating },
  "a skill expectation": { schema: SkillExpectation, example: recordExamples.expectation },
  "an attachment": { schema: Attachment, example: recordExamples.attachment },
  "an assessment package": { schema: AssessmentPackage, example: recordExamples.assessmentPackage }
}

describe.each(Object.entries(cases))("the schema of %s", (_, { example, schema }) => {
  const decode = Schema.decodeUnknownSync(schema)

  it("contains every field of a full record (U18)", () => {
    assert.deepStrictEqual<unknown>(decode(example), example)
  })

  it("decodes a record that has only an id (U18)", () => {
    const nulls = edited(example, () => null)
    assert.deepStrictEqual<unknown>(decode(nulls), nulls)
    assert.deepStrictEqual<unknown>(decode({ id: "x" }), { id: "x" })
  })

  it("decodes null for every nested field (U18)", () => {
    const nulls = edited(example, (value) => typeof value === "object" ? value : null)
    assert.deepStrictEqual<unknown>(decode(nulls), nulls)
  })

  it("keeps an unknown value of an enumeration (S1)", () => {
    const unknown = edited(example, (value) => isEnumeration(value) ? "SOMETHING_NEW" : value)
    assert.deepStrictEqual<unknown>(decode(unknown), unknown)
  })

  it("accepts a new field anywhere (S1)", () => {
    const wider = edited(
      { ...example, new_field: 1 },
      (value) =>
        typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value, new_field: [1] } : value
    )
    assert.strictEqual(decode(wider).id, example["id"])
  })

  it("requires a string as id (S1)", () => {
    const refuses = (record: unknown) => assert.strictEqual(Schema.decodeUnknownOption(schema)(record)._tag, "None")
    refuses({ ...example, id: null })
    refuses({ ...example, id: 7 })
    refuses({ remote_id: "rr1" })
    refuses(null)
  })
})
