/** Templates, and the answers to an employee form. */
import type { EmployeeForm, FormField } from "#plugin"
import { assert, describe, it } from "@effect/vitest"
import { fillForm, fillTemplate } from "./FormFilling.ts"

const text = (unified_key: string | null, required = false): FormField => ({ type: "text", unified_key, required })
const country: Extract<FormField, { readonly options?: unknown }> = {
  type: "single_select",
  unified_key: "home_address.country",
  required: true,
  options: { type: "inline", entries: [{ id: "o1", label: "Germany", unified_value: "DE", remote_id: "276" }] }
}
const address = (required: boolean): FormField => ({
  type: "object",
  required,
  properties: { street: text("home_address.street_1"), city: text("home_address.city", true), country }
})
const form = (properties: EmployeeForm["properties"]): EmployeeForm => ({ properties })

const application = {
  candidate: {
    first_name: "José María",
    last_name: "Groß-Łukasz",
    location: { street_1: "Torstrasse 1", city: "Berlin", country: "DE" },
    email_addresses: [{ email_address: "jose@mail.example" }],
    company: null
  },
  job: { name: "Nurse" },
  offer: { employment_start_date: "2026-04-01T00:00:00.000Z" },
  staffing_entity: { legal_entities: [{ id: "le1" }], locations: [{ id: "a" }, { id: "b" }] },
  custom_fields: { grade: 7, "a/b": "slash" }
}

describe("fillTemplate", () => {
  const cases: ReadonlyArray<readonly [text: string, value: unknown]> = [
    ["Nurse", "Nurse"],
    ["{/job/name}", "Nurse"],
    ["Head {/job/name}, {/custom_fields/grade}", "Head Nurse, 7"],
    ["{/custom_fields/grade}", 7],
    ["{/custom_fields/a~1b}", "slash"],
    [
      "{/candidate/first_name|handle}.{/candidate/last_name|handle}@acme.example",
      "jose-maria.gross-lukasz@acme.example"
    ],
    ["{/staffing_entity/legal_entities/only/id}", "le1"],
    ["{/candidate/email_addresses/0/email_address}", "jose@mail.example"]
  ]
  for (const [text, value] of cases) {
    it(`${text} becomes ${String(value)}`, () => assert.strictEqual(fillTemplate(text, application), value))
  }

  const nothing = [
    "{/candidate/company}",
    "works at {/candidate/company}",
    "{/candidate/nothing/at/all}",
    "{/staffing_entity/locations/only/id}",
    "{/candidate/constructor}"
  ]
  for (const text of nothing) {
    it(`${text} has no value`, () => assert.isUndefined(fillTemplate(text, application)))
  }

  it("placeholders in an inserted value are not replaced", () => {
    assert.strictEqual(fillTemplate("{/a} {/b}", { a: "{/b}", b: "x" }), "{/b} x")
  })
})

describe("fillForm", () => {
  it("a field is answered from the application by its unified key", () => {
    const answers = fillForm(
      form({
        given: text("first_name", true),
        start: { type: "date", unified_key: "start_date" },
        employer: text("legal_entity_id"),
        place: text("location_id"),
        home: address(false),
        mail: text("work_email", true)
      }),
      {},
      application
    )
    assert.deepStrictEqual(answers, {
      given: "José María",
      start: "2026-04-01",
      employer: "le1",
      home: { street: "Torstrasse 1", city: "Berlin", country: "o1" }
    })
  })

  it("a configured answer takes precedence, in nested objects and lists too", () => {
    const answers = fillForm(
      form({
        title: text("job_title"),
        hours: { type: "number" },
        shares: { type: "array", item_type: { type: "number" } },
        remote: { type: "checkbox" },
        perks: { type: "multi_select", options: country.options ?? null },
        contacts: { type: "array", item_type: { type: "object", properties: { name: text(null) } } },
        home: address(true)
      }),
      {
        title: "Senior {/job/name}",
        hours: "38.5",
        shares: "100",
        remote: "true",
        perks: "germany",
        contacts: { name: "{/job/name}" },
        home: { country: "germany" },
        unknown: "is in no field"
      },
      application
    )
    assert.deepStrictEqual(answers, {
      title: "Senior Nurse",
      hours: 38.5,
      shares: [100],
      remote: true,
      perks: ["o1"],
      contacts: [{ name: "Nurse" }],
      home: { street: "Torstrasse 1", city: "Berlin", country: "o1" }
    })
  })

  const elsewhere = { candidate: { location: { street_1: "Oudegracht 1", city: "Utrecht", country: "NL" } } }

  it("a default answer that does not fit and an incomplete optional object are left out", () => {
    const short: FormField = { type: "text", unified_key: "home_address.city", max_length: 3 }
    assert.deepStrictEqual(fillForm(form({ short, home: address(false) }), {}, elsewhere), {})
  })

  it("a value that does not fit is kept if it is required or configured, so that the check reports it", () => {
    const answers = fillForm(form({ home: address(true), grade: { type: "number" } }), { grade: "seven" }, elsewhere)
    assert.deepStrictEqual(answers, {
      home: { street: "Oudegracht 1", city: "Utrecht", country: "NL" },
      grade: "seven"
    })
  })
})
