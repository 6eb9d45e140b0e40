import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import {
  AddCandidateAttachment,
  AttachmentUploads,
  largestBodyBytes,
  UploadDocument
} from "../../../src/api/Attachments.ts"
import { EmployeeForm } from "../../../src/api/Forms.ts"
import { incrementalModels, lists } from "../../../src/api/Lists.ts"
import { ToolCategory, ToolList } from "../../../src/api/Tools.ts"
import {
  type WriteBody,
  type WriteData,
  type WriteName,
  writeNames,
  writes,
  writeSchemas
} from "../../../src/api/Writes.ts"
import { form, readExamples, writeExamples } from "./Examples.ts"

const accepts = (schema: Schema.Codec<unknown, unknown>) => (value: unknown) =>
  Schema.decodeUnknownOption(schema)(value)._tag === "Some"

const messageOf = (schema: Schema.Codec<unknown, unknown>, value: unknown): string => {
  const exit = Schema.decodeUnknownExit(schema)(value)
  return exit._tag === "Failure" ? String(exit.cause) : assert.fail("it was accepted")
}

describe("the table of writes", () => {
  it("U16: has the twelve writes, by category", () => {
    const by = (category: string) => writeNames.filter((name) => writes[name].category === category)
    assert.deepStrictEqual([by("ats"), by("hris"), by("assessment"), by("lms")].map(({ length }) => length), [
      6,
      4,
      1,
      1
    ])
    for (const name of writeNames) assert.isTrue(writes[name].path.startsWith(`/${writes[name].category}/`), name)
  })

  it("U16: lets a write be sent again blindly only where a second one changes nothing", () => {
    const by = (repeat: string) => writeNames.filter((name) => writes[name].resendPolicy === repeat)
    assert.deepStrictEqual(by("safe"), ["rateSkill", "expectSkill", "replacePackages", "deactivateCourse"])
    assert.deepStrictEqual(by("look"), ["addTag", "removeTag", "updateInterview"])
    assert.deepStrictEqual(by("find"), ["createApplication"])
    assert.deepStrictEqual(by("never"), ["addResultLink", "addCandidateAttachment", "createEmployee", "uploadDocument"])
  })

  it("U16: names a place to look at for every write that must be looked for, and only places that exist", () => {
    for (const name of writeNames) {
      const { resendPolicy, visibleIn } = writes[name]
      if (resendPolicy === "look" || resendPolicy === "find") assert.isNotNull(visibleIn, name)
      if (visibleIn === null || visibleIn.path === "") continue
      const model = incrementalModels.find((model) => model === visibleIn.model) ?? assert.fail(visibleIn.model)
      assert.property(lists[model].propagation, visibleIn.path)
    }
  })

  it("U16: has a parameter for every name in a path, and no other", () => {
    for (const name of writeNames) {
      const names = [...writes[name].path.matchAll(/\{(\w+)\}/g)].map((match) => match[1])
      assert.deepStrictEqual(Object.keys(writeSchemas[name].params), names)
    }
  })

  it("U16: gives plugins the types of bodies and answers", () => {
    expectTypeOf<WriteBody<"addTag">>().toEqualTypeOf<{ readonly tag: { readonly name: string } }>()
    expectTypeOf<WriteData<"createEmployee">["id"]>().toEqualTypeOf<string>()
  })
})

/** Paths of what may not be missing; anything else in the example may be absent or null. */
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

/** Every copy of the body that lacks one field, of the top or of an object in it. */
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

  it("U17: takes the full example as it is", () => {
    assert.deepStrictEqual<unknown>(Schema.decodeUnknownSync(writeSchemas[name].body)(example), example)
  })

  it("U17: may lack anything but what the write would mean nothing without", () => {
    const demanded = lacking(example).filter(([, body]) => !fits(body)).map(([path]) => path)
    assert.deepStrictEqual(demanded.filter((path) => !path.startsWith("properties.")), required[name])
  })

  it("U17: is an object", () => {
    for (const wrong of [null, "x", 7, [], [example]]) assert.isFalse(fits(wrong))
  })

  it("U17: may have further fields", () => {
    assert.isTrue(fits({ ...example, new_field: [1] }))
  })
})

describe("bodies in particular", () => {
  it("U24: a multi-select answer is an array of option ids, any other a text", () => {
    const fits = (answer: unknown) =>
      accepts(writeSchemas.createApplication.body)({
        ...writeExamples.createApplication.body,
        screening_question_answers: [{ question_id: "q1", answer }]
      })
    for (const right of ["yes", "", ["op1"], ["op1", "op2"], []]) assert.isTrue(fits(right))
    for (const wrong of [7, true, null, [7], [["op1"]], { choice: "yes" }]) assert.isFalse(fits(wrong))
  })

  it("S1: a value of an enumeration that is not known yet is no fault", () => {
    const { body } = writeExamples.createApplication
    assert.isTrue(
      accepts(writeSchemas.createApplication.body)({ ...body, candidate: { ...body.candidate, gender: "X" } })
    )
  })

  it("U17: an application's day of availability is written YYYY-MM-DD, and there is such a day", () => {
    const { body } = writeExamples.createApplication
    const fits = (availability_date: unknown) =>
      accepts(writeSchemas.createApplication.body)({ ...body, candidate: { ...body.candidate, availability_date } })
    assert.isTrue(fits("2024-05-01"))
    for (const wrong of ["01.05.2024", "2024-05-01T00:00:00Z", "2024-5-1", 20240501, "2023-02-29", "2024-13-01"]) {
      assert.isFalse(fits(wrong))
    }
  })

  it("U25: an expectation may be left out, but not be null", () => {
    const fits = accepts(writeSchemas.expectSkill.body)
    for (const expected_proficiency of [3, "op1", { type: "NUMERIC", value: 3 }]) {
      assert.isTrue(fits({ skill_id: "s", expected_proficiency }))
    }
    assert.isTrue(fits({ skill_id: "s" }))
    assert.isFalse(fits({ skill_id: "s", expected_proficiency: null }))
    assert.isFalse(fits({ skill_id: "s", expected_proficiency: true }))
  })

  it("U17: the full list of packages may be empty", () => {
    assert.isTrue(accepts(writeSchemas.replacePackages.body)({ packages: [] }))
  })
})

describe("uploads", () => {
  const document = writeExamples.uploadDocument.body
  const withData = (data: string) => ({ ...document, document: { ...document.document, data } })
  const fits = accepts(UploadDocument)

  it("U23: are base64 with padding", () => {
    for (const data of ["", "QQ==", "QUI=", "QUJD", "+/+/"]) assert.isTrue(fits(withData(data)), data)
    for (const data of ["Q", "QQ", "QQ=", "QUJ", "QUJD\n", "QU JD", "Q===", "_-_-", "data:;base64,QUJD", "QQ==QQ=="]) {
      assert.isFalse(fits(withData(data)), data)
    }
  })

  it("U23: are checked to the last character of the largest, without overflowing the stack", () => {
    assert.isTrue(fits(withData("A".repeat(largestBodyBytes))))
    assert.isFalse(fits(withData(`${"A".repeat(largestBodyBytes - 1)}!`)))
    assert.isFalse(fits(withData("A".repeat(largestBodyBytes + 4))))
  })

  it("U23: of one body are bounded together", () => {
    const half = { name: "a", content_type: "text/plain", type: "CV", data: "A".repeat(largestBodyBytes / 2) }
    assert.isTrue(accepts(AttachmentUploads)([half, half]))
    assert.isFalse(accepts(AttachmentUploads)([half, half, { ...half, data: "QUJD" }]))
  })

  it("I11: no message repeats what a file holds", () => {
    const secret = "bXkgc2VjcmV0IGZpbGU"
    assert.notInclude(messageOf(UploadDocument, withData(secret)), secret)
    const attachment = { ...document.document, data: secret, type: "CV" }
    assert.notInclude(messageOf(AddCandidateAttachment, { attachment }), secret)
  })
})

describe("the other reads", () => {
  it("U18: tools come with every field, or with none but the id", () => {
    const decode = Schema.decodeUnknownSync(ToolList)
    assert.deepStrictEqual<unknown>(decode(readExamples.tools), readExamples.tools)
    assert.deepStrictEqual<unknown>(decode({ tools: [{ id: "t" }] }), { tools: [{ id: "t" }] })
  })

  it("U7: there are four categories of tools", () => {
    const fits = accepts(ToolCategory)
    for (const right of ["hris", "ats", "assessment", "lms"]) assert.isTrue(fits(right))
    for (const wrong of ["crm", "ATS", "", "ats "]) assert.isFalse(fits(wrong))
  })

  it("U19: a form holds fields of six types, in each other to any depth", () => {
    const decode = Schema.decodeUnknownSync(EmployeeForm)
    assert.deepStrictEqual<unknown>(decode(form), form)
    const deep = Array.from({ length: 50 }).reduce(
      (inner: object, _, depth) =>
        depth % 2 === 0 ? { type: "array", item_type: inner } : { type: "object", properties: { inner } },
      { type: "text", max_length: 3 }
    )
    assert.deepStrictEqual<unknown>(decode({ properties: { deep } }), { properties: { deep } })
  })

  it("U19: an unknown type of field is kept; a known one with wrong bounds is refused", () => {
    const odd = { properties: { odd: { type: "signature", label: "Sign" } } }
    assert.deepStrictEqual<unknown>(Schema.decodeUnknownSync(EmployeeForm)(odd), odd)
    assert.isFalse(accepts(EmployeeForm)({ properties: { first: { type: "text", min_length: "3" } } }))
    assert.isFalse(accepts(EmployeeForm)({ properties: { first: { label: "no type" } } }))
  })
})
