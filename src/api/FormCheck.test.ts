import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { answers, form as fullForm } from "../../test/support/api/Examples.ts"
import { checkForm, type FormRule } from "./FormCheck.ts"
import { EmployeeForm, type FormField } from "./Forms.ts"

const form = Schema.decodeUnknownSync(EmployeeForm)(fullForm)
const of = (properties: Readonly<Record<string, FormField>>): EmployeeForm => ({ properties })

/** `path rule`, in the order of the form. */
const faults = (form: EmployeeForm, properties: Readonly<Record<string, unknown>>): ReadonlyArray<string> =>
  checkForm(form, properties).map(({ path, rule }) => `${path} ${rule}`)

const only = (field: FormField) => (value: unknown): ReadonlyArray<string> =>
  checkForm(of({ a: field }), { a: value }).map(({ message, rule }) => `${rule}: ${message}`)

describe("checkForm", () => {
  it("accepts answers that match the form (U20)", () => {
    assert.deepStrictEqual(checkForm(form, answers), [])
  })

  it("reports every violation with its path and the requirement (U20)", () => {
    const wrong = {
      first_name: "ada",
      start_date: "2023-02-29",
      hours: 41,
      address: { city: "", street: "Marktgasse" },
      lucky_numbers: [7, 10, "9", 1],
      contract: "Full time",
      shoe_size: 43
    }
    assert.deepStrictEqual(checkForm(form, wrong), [
      { path: "/first_name", rule: "pattern", message: "must match ^[A-Z]" },
      { path: "/start_date", rule: "type", message: "must be a day that exists, as YYYY-MM-DD" },
      { path: "/hours", rule: "bounds", message: "must be between 1 and 40" },
      { path: "/address/city", rule: "length", message: "must have between 1 and 20 characters, has 0" },
      { path: "/address/street", rule: "unknown", message: "is not a field of this form" },
      { path: "/lucky_numbers", rule: "items", message: "must have between 1 and 3 items, has 4" },
      { path: "/lucky_numbers/1", rule: "bounds", message: "must be between 0 and 9" },
      { path: "/lucky_numbers/2", rule: "type", message: "must be a number" },
      { path: "/contract", rule: "option", message: "must be the id of one of the 2 options" },
      { path: "/shoe_size", rule: "unknown", message: "is not a field of this form" }
    ])
  })

  it("demands required answers, except inside an optional object that is absent (U20)", () => {
    const city: FormField = { type: "text", required: true }
    const address: FormField = { type: "object", properties: { city } }
    assert.deepStrictEqual(faults(of({ address, city }), {}), ["/city required"])
    assert.deepStrictEqual(faults(of({ address, city }), { address: null, city: null }), ["/city required"])
    assert.deepStrictEqual(faults(of({ address }), { address: {} }), ["/address/city required"])
    assert.deepStrictEqual(faults(form, {}), Object.keys(form.properties).map((key) => `/${key} required`))
  })

  it("a required answer may be empty, falsy or zero if its bounds allow it (U20)", () => {
    assert.deepStrictEqual(only({ type: "text", required: true })(""), [])
    assert.deepStrictEqual(only({ type: "number", required: true })(0), [])
    assert.deepStrictEqual(only({ type: "array", required: true })([]), [])
  })

  it("counts characters, not UTF-16 code units, and includes both bounds (U20)", () => {
    const text = only({ type: "text", min_length: 2, max_length: 3 })
    for (const right of ["ab", "abc", "🙂🙂", "🙂🙂🙂"]) assert.deepStrictEqual(text(right), [], right)
    for (const wrong of ["a", "🙂", "abcd", "🙂🙂🙂🙂"]) assert.strictEqual(text(wrong).length, 1, wrong)
    assert.deepStrictEqual(only({ type: "text", min_length: 2 })("a"), [
      "length: must have at least 2 characters, has 1"
    ])
    assert.deepStrictEqual(only({ type: "text", max_length: 1 })("ab"), [
      "length: must have at most 1 characters, has 2"
    ])
  })

  it("an answer of another type is rejected, whatever it looks like (U20)", () => {
    const cases: ReadonlyArray<readonly [field: FormField, message: string, wrong: ReadonlyArray<unknown>]> = [
      [{ type: "number" }, "must be a number", ["1", Number.NaN, Number.POSITIVE_INFINITY, true]],
      [{ type: "date" }, "must be a day that exists, as YYYY-MM-DD", [
        "2024-01-01T00:00:00Z",
        "24-01-01",
        "",
        20240101
      ]],
      [{ type: "object", properties: {} }, "must be an object", ["x", 7, true, []]],
      [{ type: "array" }, "must be an array", ["x", 7, {}]],
      [{ type: "single_select" }, "must be the id of an option", [7, ["op1"], { id: "op1" }]],
      [{ type: "multi_select" }, "must be an array of ids of options", ["op1", 7, { id: "op1" }]],
      [{ type: "checkbox" }, "must be true or false", ["true", 1, []]]
    ]
    for (const [field, message, wrong] of cases) {
      for (const value of wrong) assert.deepStrictEqual(only(field)(value), [`type: ${message}`])
    }
  })

  it("answers named like built-in object properties are checked like others (U20)", () => {
    assert.deepStrictEqual(faults(of({}), JSON.parse('{"__proto__": 1, "constructor": 2}')), [
      "/__proto__ unknown",
      "/constructor unknown"
    ])
    assert.deepStrictEqual(faults(of({ toString: { type: "text", required: true } }), {}), ["/toString required"])
  })

  it("paths are JSON Pointers (U20)", () => {
    assert.deepStrictEqual(faults(of({}), { "a/b~c": 1 }), ["/a~1b~0c unknown"])
  })

  it("an answer is not checked if the form does not restrict it (U20)", () => {
    const { type } =
      Schema.decodeUnknownSync(EmployeeForm)({ properties: { a: { type: "signature" } } }).properties["a"] ??
        assert.fail()
    assert.deepStrictEqual(only({ type })({ any: ["thing"] }), [])
    assert.deepStrictEqual(only({ type: "single_select", options: { type: "remote" } })("op9"), [])
    assert.deepStrictEqual(only({ type: "object" })({ any: 1 }), [])
    assert.deepStrictEqual(only({ type: "array" })([1, "two"]), [])
  })

  it("a pattern that cannot be matched in linear time is reported, not ignored (U21)", () => {
    assert.deepStrictEqual(only({ type: "text", reg_exp: "^(?=.*\\d).+$" })("a1"), [
      "pattern_unsupported: the form's pattern cannot be matched in linear time: ^(?=.*\\d).+$"
    ])
  })

  it("checking a hostile pattern on every item of a long array ends quickly (U21)", () => {
    const item: FormField = { type: "text", reg_exp: "^(([a-z])+.)+[A-Z]([a-z])+$" }
    const before = process.threadCpuUsage()
    const found = checkForm(of({ a: { type: "array", item_type: item } }), {
      a: Array.from({ length: 200 }, () => "a".repeat(500))
    })
    assert.strictEqual(found.length, 200)
    assert.isBelow(process.threadCpuUsage(before).user, 5_000_000)
  })

  it("no violation repeats an answer (I11)", () => {
    const secret = "s3cret"
    const wrong = {
      first_name: secret,
      start_date: secret,
      hours: secret,
      address: secret,
      lucky_numbers: [secret],
      contract: secret,
      shoe_size: secret
    }
    const found = checkForm(form, wrong)
    assert.strictEqual(found.length, 7)
    assert.notInclude(JSON.stringify(found), secret)
  })
})

// ---- properties ---------------------------------------------------------------------------------------------------

/** A field, an answer that it accepts, and answers that it rejects, each with the one violation that it causes. */
interface Case {
  readonly field: FormField
  readonly right: unknown
  readonly wrong: ReadonlyArray<{ readonly value: unknown; readonly path: string; readonly rule: FormRule }>
}

const whole = (maximum: number) => Schema.Number.check(Schema.isInt(), Schema.isBetween({ minimum: 0, maximum }))
const Leaf = Schema.Struct({
  type: Schema.Literals(["text", "date", "number", "single_select"]),
  low: whole(5),
  span: whole(5),
  at: whole(5)
})

const leaf = ({ at, low, span, type }: typeof Leaf.Type): Case => {
  const within = low + at % (span + 1)
  const wrong = (rule: FormRule, ...values: ReadonlyArray<unknown>) =>
    values.map((value) => ({ value, path: "", rule }))
  const high = low + span
  switch (type) {
    case "text":
      return {
        field: { type, required: true, min_length: low, max_length: high, reg_exp: "^é*$" },
        right: "é".repeat(within),
        wrong: [
          ...wrong("length", "é".repeat(high + 1), ...(low > 0 ? ["é".repeat(low - 1)] : [])),
          ...(within > 0 ? wrong("pattern", "e".repeat(within)) : []),
          ...wrong("type", 7, {}, [])
        ]
      }
    case "date":
      return { field: { type, required: true }, right: "2024-02-29", wrong: wrong("type", "2023-02-29", 7) }
    case "number":
      return {
        field: { type, required: true, min: low, max: high },
        right: within,
        wrong: [...wrong("bounds", high + 0.5, low - 0.5), ...wrong("type", "1", [])]
      }
    case "single_select": {
      const entries = Array.from({ length: high + 1 }, (_, index) => ({ id: `op${index}`, label: `label ${index}` }))
      return {
        field: { type, required: true, options: { type: "inline", entries } },
        right: `op${within}`,
        wrong: [...wrong("option", `op${high + 1}`, `label ${within}`), ...wrong("type", 7, ["op0"])]
      }
    }
  }
}

const objectOf = (cases: ReadonlyArray<Case>): Case => {
  const named = cases.map((each, index) => [`k${index}`, each] as const)
  const right = Object.fromEntries(named.map(([key, each]) => [key, each.right]))
  return {
    field: {
      type: "object",
      required: true,
      properties: Object.fromEntries(named.map(([key, { field }]) => [key, field]))
    },
    right,
    wrong: [
      { value: { ...right, extra: 1 }, path: "/extra", rule: "unknown" },
      ...named.map(([key]) => ({ value: { ...right, [key]: null }, path: `/${key}`, rule: "required" as const })),
      ...named.flatMap(([key, each]) =>
        each.wrong.map(({ path, rule, value }) => ({ value: { ...right, [key]: value }, path: `/${key}${path}`, rule }))
      )
    ]
  }
}

const arrayOf = (item: Case, length: number): Case => {
  const right = Array.from({ length }, () => item.right)
  return {
    field: { type: "array", required: true, item_type: item.field, min_items: length, max_items: length },
    right,
    wrong: [
      { value: [...right, item.right], path: "", rule: "items" },
      { value: "x", path: "", rule: "type" },
      ...item.wrong.map(({ path, rule, value }) => ({
        value: right.with(-1, value),
        path: `/${length - 1}${path}`,
        rule
      }))
    ]
  }
}

const leaves = Arbitrary.map(Arbitrary.schema(Leaf), leaf)
const deeper = (inner: Arbitrary.Arbitrary<Case>): Arbitrary.Arbitrary<Case> =>
  Arbitrary.flatMap(Arbitrary.schema(Schema.Literals(["leaf", "object", "array"])), (kind) => {
    switch (kind) {
      case "leaf":
        return leaves
      case "object":
        return Arbitrary.map(Arbitrary.array(inner, { maxLength: 3 }), objectOf)
      case "array":
        return Arbitrary.map(
          Arbitrary.all([inner, Arbitrary.schema(whole(2))]),
          ([item, length]) => arrayOf(item, length + 1)
        )
    }
  })
const forms = Arbitrary.map(Arbitrary.array(deeper(deeper(leaves)), { maxLength: 4 }), objectOf)

const formOf = ({ field }: Case): EmployeeForm => {
  const properties = field.type === "object" && "properties" in field ? field.properties : null
  return { properties: properties ?? {} }
}
const asAnswers = (value: unknown) => value as Readonly<Record<string, unknown>>

describe("checkForm, for any form", () => {
  it.effect.prop(
    "accepts matching answers (U20)",
    [forms],
    ([each]) => Effect.sync(() => assert.deepStrictEqual(checkForm(formOf(each), asAnswers(each.right)), []))
  )

  it.effect.prop(
    "reports one wrong answer, wherever it is, and no other (U20)",
    [forms],
    ([each]) =>
      Effect.sync(() => {
        for (const { path, rule, value } of each.wrong) {
          assert.deepStrictEqual(faults(formOf(each), asAnswers(value)), [`${path} ${rule}`])
        }
      })
  )

  it.effect.prop(
    "the check handles any JSON without failing (U20)",
    [forms, Schema.Record(Schema.Literals(["k0", "k1", "k2", "__proto__", ""]), Schema.Json)],
    ([each, anything]) => Effect.sync(() => assert.isArray(checkForm(formOf(each), anything)))
  )
})
