import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { type IncrementalModel, incrementalModels } from "../../../src/api/Lists.ts"
import { recordSchemas } from "../../../src/api/Records.ts"

const at = "2024-05-01T10:00:00.000Z"
const marks = { changed_at: at, remote_deleted_at: at, remote_data: { raw: [1, "two", null] } }
const remoteTimes = { remote_created_at: at, remote_updated_at: at }
const customised = { custom_fields: { shoe_size: 43 }, integration_fields: [{ key: "a", value: 1 }] }
const place = {
  city: "Bern",
  country: "CH",
  raw: "Bern, CH",
  state: "BE",
  street_1: "Marktgasse 1",
  street_2: null,
  zip_code: "3011"
}
const money = { currency: "CHF", value: 12.5 }
const named = { id: "n1", remote_id: "rn1", name: "Named" }
const identity = { id: "r1", remote_id: "rr1" }
const person = {
  id: "p1",
  remote_id: "rp1",
  first_name: "Ada",
  last_name: "L.",
  display_full_name: "Ada L.",
  work_email: "ada@example.org",
  remote_deleted_at: at
}
const email = { email_address: "ada@example.org", type: "PRIVATE" }
const cycle = { name: "2024", review_period_start_date: at, ...marks }
const scale = { id: "s1", remote_id: "rs1", type: "NUMERIC", min: 0, max: 5, step: 1, ordered_options: [named] }

/** Every field that the specification names, none of them null. */
const examples: Record<IncrementalModel, Record<string, unknown>> = {
  "ats.application": {
    ...identity,
    outcome: "PENDING",
    rejection_reason_name: "none",
    rejected_at: at,
    current_stage_id: "st1",
    job_id: "j1",
    candidate_id: "c1",
    screening_question_answers: [
      { answer: { choice: "yes" }, question: { remote_id: "q1", title: "Visa?", type: "SINGLE_SELECT" } }
    ],
    ...customised,
    remote_url: "https://example.org/a/1",
    ...remoteTimes,
    ...marks,
    candidate: {
      id: "c1",
      remote_id: "rc1",
      first_name: "Ada",
      last_name: "L.",
      company: "Engines",
      title: "Countess",
      confidential: false,
      source: "Referral",
      phone_numbers: [{ phone_number: "+41 31 000 00 00", type: "HOME" }],
      email_addresses: [email],
      social_media: [{ link: "https://example.org", type: "YOUTUBE", username: "ada" }],
      location: place,
      ...customised,
      remote_url: "https://example.org/c/1",
      ...remoteTimes,
      ...marks,
      tags: [named]
    },
    current_stage: { ...named, status: "ACTIVE", ...customised, index: 2 },
    job: named,
    interviews: [
      {
        id: "i1",
        remote_id: "ri1",
        title: "First",
        starting_at: at,
        ending_at: at,
        location: place,
        canceled: false
      }
    ],
    offers: [{ id: "o1", remote_id: "ro1", status: "ACCEPTED" }]
  },
  "ats.scorecard": {
    ...identity,
    candidate_id: "c1",
    application_id: "a1",
    interview_id: "i1",
    author_id: "u1",
    responses: [
      {
        answer: { label: "Good", remote_id: "1" },
        description: "How?",
        label: "Overall",
        remote_id: "q",
        required: true,
        type: "SINGLE_SELECT",
        options: [{ label: "Good", remote_id: "1" }]
      },
      { answer: [{ label: "A", remote_id: "1" }], label: "Skills", type: "MULTI_SELECT" },
      { answer: "fine", label: "Text", type: "TEXT" },
      { answer: true, label: "Hire?", type: "BOOLEAN" },
      { answer: 4.5, label: "Score", type: "NUMBER" },
      { answer: "2024-05-01", label: "Day", type: "DATE" },
      { answer: null, label: "Empty", type: "TEXT" }
    ],
    ...remoteTimes,
    ...marks,
    author: { id: "u1", remote_id: "ru1", first_name: "Bo", last_name: "M.", email: "bo@example.org" }
  },
  "ats.offer": {
    ...identity,
    status: "SENT",
    employment_start_date: at,
    application_id: "a1",
    ...customised,
    ...remoteTimes,
    ...marks,
    application: {
      candidate: { id: "c1", remote_id: "rc1", first_name: "Ada", last_name: "L.", email_addresses: [email] },
      job: named
    }
  },
  "ats.tag": { ...identity, name: "urgent", ...marks },
  "hris.payslip": {
    ...identity,
    ...marks,
    totals: { gross_pay: money, net_pay: money, paid_amount: money },
    employee: person,
    pay_run: { id: "pr1", remote_id: "rpr1", start_date: "2024-05-01", end_date: "2024-05-31", legal_entity_id: "le1" },
    line_items: [{ ...named, amount: money }]
  },
  "hris.performance_review": {
    ...identity,
    type: "MANAGER",
    summary_comment: "Good work.",
    summary_rating: { type: "SINGLE_SELECT", ordered_options: ["low", "high"], value: "high" },
    ...marks,
    reviewee: person,
    reviewer: person,
    review_cycle: { id: "rc1", remote_id: "rrc1", ...cycle }
  },
  "hris.performance_review_cycle": { ...identity, ...cycle },
  "hris.staffing_entity": {
    ...identity,
    name: "Engineer",
    model_type: "REQUISITION",
    description: "Builds.",
    status: "OPEN_LIMITED",
    employment_types: [{ remote_label: "Permanent", unified_type: "FULL_TIME" }],
    number_of_openings: 2,
    parent_id: "pos1",
    remote_url: "https://example.org/s/1",
    ...remoteTimes,
    ...marks,
    ...customised,
    locations: [{ ...named, type: "OFFICE" }],
    legal_entities: [named],
    groups: [{ ...named, type: "TEAM" }],
    skills: [{ skill_id: "sk1", skill: { ...named, proficiency_scale: scale }, expected_proficiency: 3 }]
  },
  "hris.legal_entity": { ...identity, name: "Engines Ltd", address: place, ...marks },
  "hris.skill": {
    ...identity,
    name: "Weaving",
    proficiency_scale_id: "s1",
    remote_created_at: at,
    ...marks,
    ...customised,
    proficiency_scale: { ...scale, type: "SINGLE_SELECT" }
  },
  "hris.absence_type": {
    ...identity,
    name: "Holiday",
    unit: "DAYS",
    half_days_supported: true,
    exact_times_supported: false,
    ...customised,
    ...marks
  }
}

type Edit = (value: unknown) => unknown

/** Applies `edit` to every value below the record, the innermost first; the record's own `id` stays. */
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

describe.each(incrementalModels)("the schema of %s", (model) => {
  const decode = Schema.decodeUnknownSync(recordSchemas[model])
  const example = examples[model]

  it("knows every field of a full record", () => {
    assert.deepStrictEqual<unknown>(decode(example), example)
  })

  it("reads a record of which only the id is left", () => {
    const nulls = edited(example, () => null)
    assert.deepStrictEqual<unknown>(decode(nulls), nulls)
    assert.deepStrictEqual<unknown>(decode({ id: "r1" }), { id: "r1" })
  })

  it("reads null in every nested place", () => {
    const nulls = edited(example, (value) => typeof value === "object" ? value : null)
    assert.deepStrictEqual<unknown>(decode(nulls), nulls)
  })

  it("S1: keeps an unknown value of an enumeration", () => {
    const unknown = edited(example, (value) => isEnumeration(value) ? "SOMETHING_NEW" : value)
    assert.deepStrictEqual<unknown>(decode(unknown), unknown)
  })

  it("S1: a new field is no fault, anywhere", () => {
    const wider = edited(
      { ...example, new_field: 1 },
      (value) =>
        typeof value === "object" && value !== null && !Array.isArray(value) ? { ...value, new_field: [1] } : value
    )
    assert.strictEqual(decode(wider).id, "r1")
  })

  it("S1: demands a string as id", () => {
    const refuses = (record: unknown) =>
      assert.strictEqual(Schema.decodeUnknownOption(recordSchemas[model])(record)._tag, "None")
    refuses({ ...example, id: null })
    refuses({ ...example, id: 7 })
    refuses({ remote_id: "rr1" })
    refuses(null)
  })
})
