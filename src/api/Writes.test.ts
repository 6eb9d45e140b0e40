import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { form, readExamples, writeExamples } from "../../test/support/api/Examples.ts"
import { AddCandidateAttachment, AttachmentUploads, largestBodyBytes, UploadDocument } from "./Attachments.ts"
import { EmployeeForm } from "./Forms.ts"
import { incrementalModels, lists } from "./Lists.ts"
import { ToolCategory, ToolList } from "./Tools.ts"
import { type WriteBody, type WriteData, type WriteName, writeNames, writes, writeSchemas } from "./Writes.ts"

const accepts = (schema: Schema.Codec<unknown, unknown>) => (value: unknown) =>
  Schema.decodeUnknownOption(schema)(value)._tag === "Some"

const messageOf = (schema: Schema.Codec<unknown, unknown>, value: unknown): string => {
  const exit = Schema.decodeUnknownExit(schema)(value)
  return exit._tag === "Failure" ? String(exit.cause) : assert.fail("it was accepted")
}

describe("the table of writes", () => {
  it("has the twelve writes, by category (U16)", () => {
    const by = (category: string) => writeNames.filter((name) => writes[name].category === category)
    assert.deepStrictEqual([by("ats"), by("hris"), by("assessment"), by("lms")].map(({ length }) => length), [
      6,
      4,
      1,
      1
    ])
    for (const name of writeNames) assert.isTrue(writes[name].path.startsWith(`/${writes[name].category}/`), name)
  })

  it("has the resolution policy `safe` only for writes whose repetition changes nothing (U16)", () => {
    const by = (repeat: string) => writeNames.filter((name) => writes[name].resolutionPolicy === repeat)
    assert.deepStrictEqual(by("safe"), ["rateSkill", "expectSkill", "replacePackages", "deactivateCourse"])
    assert.deepStrictEqual(by("look"), ["addTag", "removeTag", "updateInterview"])
    assert.deepStrictEqual(by("find"), ["createApplication"])
    assert.deepStrictEqual(by("never"), ["addResultLink", "addCandidateAttachment", "createEmployee", "uploadDocument"])
  })

  it("names an existing path in `visibleIn` for every write with the policy `look` or `find` (U16)", () => {
    for (const name of writeNames) {
      const { resolutionPolicy, visibleIn } = writes[name]
      if (resolutionPolicy === "look" || resolutionPolicy === "find") assert.isNotNull(visibleIn, name)
      if (visibleIn === null || visibleIn.path === "") continue
      const model = incrementalModels.find((model) => model === visibleIn.model) ?? assert.fail(visibleIn.model)
      assert.property(lists[model].propagation, visibleIn.path)
    }
  })

  it("has a parameter for every name in a path, and no other (U16)", () => {
    for (const name of writeNames) {
      const names = [...writes[name].path.matchAll(/\{(\w+)\}/g)].map((match) => match[1])
      assert.deepStrictEqual(Object.keys(writeSchemas[name].params), names)
    }
  })

  it("provides the types of bodies and responses (U16)", () => {
    expectTypeOf<WriteBody<"addTag">>().toEqualTypeOf<{ readonly tag: { readonly name: string } }>()
    expectTypeOf<WriteData<"createEmployee">["id"]>().toEqualTypeOf<string | null>()
  })
})

/** Paths of the required fields; all other fields of the example may be absent or null. */
const required: Readonly<Record<WriteName, ReadonlyArray<string>>> = {
  createApplication: ["candidate", "candidate.first_name", "candidate.last_name", "candidate.email_address"],
  addResultLink: ["label", "url"],
  addTag: ["tag", "tag.name"],
  removeTag: ["tag", "tag.name"],
  updateInterview: ["interview_id"],
  addCandidateAttachment: [
    "attachment",
    "attachment.name",
    "attachment.content_type",
    "attachment.data",
    "attachment.type"
  ],
  createEmployee: ["properties"],
  uploadDocument: ["category_id", "document", "document.name", "document.content_type", "document.data"],
  rateSkill: ["employee_id", "skill_id", "rating.rating_source"],
  expectSkill: ["skill_id"],
  replacePackages: ["packages"],
  deactivateCourse: []
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Copies of the body, each without one field of the body or of a nested object. */
const lacking = (body: unknown, depth = 2, prefix = ""): ReadonlyArray<readonly [path: string, body: unknown]> => {
  if (!isRecord(body) || depth === 0) return []
  return Object.entries(body).flatMap(([key, value]) => {
    const { [key]: _, ...rest } = body
    const inside = lacking(value, depth - 1, `${prefix}${key}.`)
    return [
      [prefix + key, rest] as const,
      ...inside.map(([path, smaller]) => [path, { ...body, [key]: smaller }] as const)
    ]
  })
}

describe.each(writeNames)("the body of %s", (name) => {
  const fits = accepts(writeSchemas[name].body)
  const example = writeExamples[name].body

  it("accepts the full example unchanged (U17)", () => {
    assert.deepStrictEqual<unknown>(Schema.decodeUnknownSync(writeSchemas[name].body)(example), example)
  })

  it("may omit every field that is not required (U17)", () => {
    const requiredPaths = lacking(example).filter(([, body]) => !fits(body)).map(([path]) => path)
    assert.deepStrictEqual(requiredPaths.filter((path) => !path.startsWith("properties.")), required[name])
  })

  it("is an object (U17)", () => {
    for (const wrong of [null, "x", 7, [], [example]]) assert.isFalse(fits(wrong))
  })

  it("may have additional fields (U17)", () => {
    assert.isTrue(fits({ ...example, new_field: [1] }))
  })
})

describe("the bodies of individual writes", () => {
  it("a multi-select answer is an array of option ids, another answer a string, a number, a truth value or a file (U24)", () => {
    const fits = (answer: unknown) =>
      accepts(writeSchemas.createApplication.body)({
        ...writeExamples.createApplication.body,
        screening_question_answers: [{ question_id: "q1", answer }]
      })
    const file = { name: "a.txt", content_type: "text/plain", data: "QQ==" }
    for (const right of ["yes", "", ["op1"], ["op1", "op2"], [], 7, true, file]) assert.isTrue(fits(right))
    for (const wrong of [null, [7], [["op1"]], { choice: "yes" }]) assert.isFalse(fits(wrong))
  })

  it("an unknown value of an enumeration is accepted (S1)", () => {
    const { body } = writeExamples.createApplication
    assert.isTrue(
      accepts(writeSchemas.createApplication.body)({ ...body, candidate: { ...body.candidate, gender: "X" } })
    )
  })

  it("an application's day of availability is a day that exists, as YYYY-MM-DD or as a time (U17)", () => {
    const { body } = writeExamples.createApplication
    const fits = (availability_date: unknown) =>
      accepts(writeSchemas.createApplication.body)({ ...body, candidate: { ...body.candidate, availability_date } })
    for (const right of ["2024-05-01", "2024-02-29T12:34:56.789Z", "2024-05-01T00:00:00+02:00"]) {
      assert.isTrue(fits(right))
    }
    const wrongs = [
      "01.05.2024",
      "2024-5-1",
      20240501,
      "2023-02-29",
      "2024-13-01",
      "2023-02-29T00:00:00Z",
      "2024-05-01T25:00:00Z",
      "2024-05-01T00:00:00"
    ]
    for (const wrong of wrongs) {
      assert.isFalse(fits(wrong))
    }
  })

  it("an expectation may be absent but not null (U25)", () => {
    const fits = accepts(writeSchemas.expectSkill.body)
    for (const expected_proficiency of [3, "op1", { type: "NUMERIC", value: 3 }]) {
      assert.isTrue(fits({ skill_id: "s", expected_proficiency }))
    }
    assert.isTrue(fits({ skill_id: "s" }))
    assert.isFalse(fits({ skill_id: "s", expected_proficiency: null }))
    assert.isFalse(fits({ skill_id: "s", expected_proficiency: true }))
  })

  it("the full list of packages may be empty (U17)", () => {
    assert.isTrue(accepts(writeSchemas.replacePackages.body)({ packages: [] }))
  })
})

describe("uploads", () => {
  const document = writeExamples.uploadDocument.body
  const withData = (data: string) => ({ ...document, document: { ...document.document, data } })
  const fits = accepts(UploadDocument)

  it("must be base64 with padding (U23)", () => {
    for (const data of ["", "QQ==", "QUI=", "QUJD", "+/+/"]) assert.isTrue(fits(withData(data)), data)
    for (const data of ["Q", "QQ", "QQ=", "QUJ", "QUJD\n", "QU JD", "Q===", "_-_-", "data:;base64,QUJD", "QQ==QQ=="]) {
      assert.isFalse(fits(withData(data)), data)
    }
  })

  it("of the largest size are checked completely without overflowing the stack (U23)", () => {
    assert.isTrue(fits(withData("A".repeat(largestBodyBytes))))
    assert.isFalse(fits(withData(`${"A".repeat(largestBodyBytes - 1)}!`)))
    assert.isFalse(fits(withData("A".repeat(largestBodyBytes + 4))))
  })

  it("in one body have a common size limit (U23)", () => {
    const half = { name: "a", content_type: "text/plain", type: "CV", data: "A".repeat(largestBodyBytes / 2) }
    assert.isTrue(accepts(AttachmentUploads)([half, half]))
    assert.isFalse(accepts(AttachmentUploads)([half, half, { ...half, data: "QUJD" }]))
  })

  it("are not quoted in any message (I11)", () => {
    const secret = "bXkgc2VjcmV0IGZpbGU"
    assert.notInclude(messageOf(UploadDocument, withData(secret)), secret)
    const attachment = { ...document.document, data: secret, type: "CV" }
    assert.notInclude(messageOf(AddCandidateAttachment, { attachment }), secret)
  })
})

describe("the other reads", () => {
  it("tools may have every field or only the id (U18)", () => {
    const decode = Schema.decodeUnknownSync(ToolList)
    assert.deepStrictEqual<unknown>(decode(readExamples.tools), readExamples.tools)
    assert.deepStrictEqual<unknown>(decode({ tools: [{ id: "t" }] }), { tools: [{ id: "t" }] })
  })

  it("there are four categories of tools (U7)", () => {
    const fits = accepts(ToolCategory)
    for (const right of ["hris", "ats", "assessment", "lms"]) assert.isTrue(fits(right))
    for (const wrong of ["crm", "ATS", "", "ats "]) assert.isFalse(fits(wrong))
  })

  it("a form contains fields of six types, nested to any depth (U19)", () => {
    const decode = Schema.decodeUnknownSync(EmployeeForm)
    assert.deepStrictEqual<unknown>(decode(form), form)
    const deep = Array.from({ length: 50 }).reduce(
      (inner: object, _, depth) =>
        depth % 2 === 0 ? { type: "array", item_type: inner } : { type: "object", properties: { inner } },
      { type: "text", max_length: 3 }
    )
    assert.deepStrictEqual<unknown>(decode({ properties: { deep } }), { properties: { deep } })
  })

  it("a field of an unknown type is kept, and a field of a known type with invalid bounds is rejected (U19)", () => {
    const odd = { properties: { odd: { type: "signature", label: "Sign" } } }
    assert.deepStrictEqual<unknown>(Schema.decodeUnknownSync(EmployeeForm)(odd), odd)
    assert.isFalse(accepts(EmployeeForm)({ properties: { first: { type: "text", min_length: "3" } } }))
    assert.isFalse(accepts(EmployeeForm)({ properties: { first: { label: "no type" } } }))
  })
})
