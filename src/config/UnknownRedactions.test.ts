import { assert, describe, it } from "@effect/vitest"
import { modelNames } from "../domain/Model.ts"
import { findUnknownRedactions } from "./UnknownRedactions.ts"

const found = (model: typeof modelNames[number], ...pointers: ReadonlyArray<string>) =>
  findUnknownRedactions({ file: { name: "rollcall.config.ts", value: {} } }, {
    [model]: { remoteData: "drop", redact: Object.fromEntries(pointers.map((pointer) => [pointer, "drop"])) }
  })

describe("a redaction rule", () => {
  it.each(
    [
      ["ats.tag", "/nam", "/name"],
      ["ats.application", "/candidate/frist_name", "/candidate/first_name"],
      ["ats.application", "/first_name", "/candidate/first_name"],
      ["ats.application", "/candidate/email_addresses/email", "/candidate/email_addresses/email_address"],
      ["ats.application", "/candidat/first_name", "/candidate"],
      ["ats.candidate", "/phone_number", "/phone_numbers"],
      ["hris.payslip", "/employe/last_name", "/employee"],
      ["assessment.package", "/descripton", "/description"]
    ] as const
  )("of %s at %s that names no known field is reported with %s", (model, pointer, meant) => {
    const [fault, ...others] = found(model, pointer)
    assert.deepStrictEqual(others, [])
    assert.strictEqual(fault?.where, `rollcall.config.ts, models["${model}"].redact["${pointer}"]`)
    assert.match(fault?.message ?? "", /names no field/)
    const [, first] = /Did you mean (\S+?)(\?| or)/.exec(fault?.hint ?? "") ?? []
    assert.strictEqual(first, meant)
  })

  it("of a known field, or below a value of free form, is not reported", () => {
    assert.deepStrictEqual(
      found(
        "ats.application",
        "/candidate",
        "/candidate/phone_numbers/phone_number",
        "/candidate/custom_fields/birthday",
        "/custom_fields/anything/below",
        "/candidate/integration_fields/value",
        "/remote_data/person/name",
        "/screening_question_answers/answer/content"
      ),
      []
    )
    assert.deepStrictEqual(found("ats.candidate", "/location/city", "/first_name"), [])
  })

  it("is not quoted if it may be a secret (I11)", () => {
    const secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
    const [fault] = found("ats.tag", `/${secret}`)
    assert.strictEqual(
      fault?.where,
      `rollcall.config.ts, models["ats.tag"].redact["(${secret.length + 1} characters)"]`
    )
    assert.notInclude(JSON.stringify(fault), secret)
  })

  it("is reported for each model", () => {
    for (const model of modelNames) assert.strictEqual(found(model, "/no_such_field_at_all").length, 1, model)
  })
})
