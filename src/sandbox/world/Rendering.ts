/**
 * A record as the API shows it: properties that are stored, properties that are drawn from the record's salt, and
 * other records, embedded with their current content.
 *
 * Invariants
 * 1. Every property of the specification's "Resources and their fields" is present, in every record.
 *
 * Gotchas
 * - Deleted entries disappear from arrays. A deleted record in a single link (a candidate, a review cycle) is still embedded.
 */
import { type IncrementalModel } from "../../api/Lists.ts"
import { type Fields, isLive, iso, type Json, type Row, type WorldModel } from "./Records.ts"
import * as SampleData from "./SampleData.ts"
import { generateAnswers } from "./ScreeningQuestions.ts"
import { idOf, SeededRandom } from "./SeededRandom.ts"

type Rendered = { readonly [key: string]: Json }

const isoOrNull = (at: number | null): string | null => at === null ? null : iso(at)
const text = (value: Json | undefined): string => typeof value === "string" ? value : ""

const idFields = (row: Row) => ({ id: row.id, remote_id: row.remoteId })
/** Stored properties; null if the record does not have them. */
const stored = (row: Row, ...names: ReadonlyArray<string>): Rendered => {
  const values: Fields = {}
  for (const name of names) values[name] = row.fields[name] ?? null
  return values
}
/** The ids of the records linked at these paths: `<path>_id`. */
const linkedIds = (row: Row, ...paths: ReadonlyArray<string>): Rendered => {
  const ids: Fields = {}
  for (const path of paths) ids[`${path}_id`] = row.one[path]?.id ?? null
  return ids
}
const noCustomFields = { custom_fields: null, integration_fields: [] }
const nameFields = (row: Row) => ({ ...idFields(row), ...stored(row, "name") })
const changeFields = (row: Row) => ({ changed_at: iso(row.changedAt), remote_deleted_at: isoOrNull(row.deletedAt) })
const remoteTimes = (row: Row) => ({
  remote_created_at: iso(row.createdAt),
  remote_updated_at: iso(row.remoteUpdatedAt)
})
const one = (row: Row, path: string, show: (linked: Row) => Rendered): Json => {
  const linked = row.one[path]
  return linked ? show(linked) : null
}
const entries = (row: Row, path: string, show: (entry: Row) => Rendered): ReadonlyArray<Rendered> =>
  (row.many[path] ?? []).filter(isLive).map(show)

const location = (random: SeededRandom): Rendered => {
  const place = random.pick(SampleData.places)
  const street = `${place.street} ${random.int(1, 180)}`
  return {
    city: place.city,
    country: place.country,
    raw: `${street}, ${place.zip} ${place.city}, ${place.country}`,
    state: place.state,
    street_1: street,
    street_2: random.boolean(0.2) ? `Floor ${random.int(1, 9)}` : null,
    zip_code: place.zip
  }
}
const handle = (row: Row): string =>
  `${text(row.fields["first_name"])}.${text(row.fields["last_name"])}`.toLowerCase().replaceAll(/[^a-z.]/g, "")

const emails = (row: Row): ReadonlyArray<Rendered> => [
  { email_address: `${handle(row)}${row.serial}@mail.example`, type: "PRIVATE" }
]

const stage = (row: Row): Rendered => ({
  ...nameFields(row),
  status: "ACTIVE",
  ...noCustomFields,
  index: row.fields["index"] ?? 0
})

/** The e-mail addresses of a candidate; two candidates with the same address are the same person. */
export const emailsOf = (row: Row): ReadonlyArray<string> => {
  const known = row.fields["email_addresses"] ?? emails(row)
  return (known as ReadonlyArray<Rendered>).map(({ email_address }) => text(email_address))
}

const candidate = (row: Row): Rendered => {
  const random = new SeededRandom(row.salt)
  return {
    ...idFields(row),
    first_name: null,
    last_name: null,
    company: random.pick(SampleData.companies),
    title: random.pick(SampleData.titles),
    confidential: random.boolean(0.05),
    source: random.pick(SampleData.sources),
    phone_numbers: [{ phone_number: `+49 30 555${random.int(10_000, 99_999)}`, type: "HOME" }],
    email_addresses: emails(row),
    social_media: random.boolean(0.5)
      ? [{ link: `https://videos.example/@${handle(row)}`, type: "YOUTUBE", username: handle(row) }]
      : [],
    location: location(random),
    custom_fields: random.boolean(0.5)
      ? { notice_period_weeks: random.int(2, 12), relocates: random.boolean(0.4) }
      : null,
    integration_fields: [],
    remote_url: `https://ats.example/candidates/${row.remoteId}`,
    remote_data: { id: row.remoteId, gdpr_consent: random.boolean(0.9), locale: "en" },
    ...row.fields,
    ...remoteTimes(row),
    ...changeFields(row),
    tags: entries(row, "tags", nameFields)
  }
}

const interview = (row: Row): Rendered => ({
  ...idFields(row),
  ...stored(row, "title", "starting_at", "ending_at"),
  location: row.fields["location"] ?? location(new SeededRandom(row.salt)),
  canceled: row.fields["canceled"] ?? false
})

const application = (row: Row): Rendered => {
  const random = new SeededRandom(row.salt)
  return {
    ...idFields(row),
    outcome: "PENDING",
    rejection_reason_name: null,
    rejected_at: null,
    screening_question_answers: generateAnswers(row.serial, random),
    custom_fields: { expected_salary: random.int(40, 120) * 1000, source_campaign: random.pick(["spring", "autumn"]) },
    integration_fields: [],
    remote_url: `https://ats.example/applications/${row.remoteId}`,
    remote_data: { id: row.remoteId, pipeline: random.int(1, 4), credited_to: random.pick(SampleData.sources) },
    ...row.fields,
    ...linkedIds(row, "current_stage", "job", "candidate"),
    ...changeFields(row),
    ...remoteTimes(row),
    candidate: one(row, "candidate", candidate),
    current_stage: one(row, "current_stage", stage),
    job: one(row, "job", nameFields),
    interviews: entries(row, "interviews", interview),
    offers: entries(row, "offers", (offer) => ({ ...idFields(offer), ...stored(offer, "status") }))
  }
}

const offer = (row: Row): Rendered => {
  const random = new SeededRandom(row.salt)
  return {
    ...idFields(row),
    status: null,
    employment_start_date: iso(row.createdAt + random.int(20, 120) * 86_400_000),
    custom_fields: random.boolean(0.5) ? { signing_bonus: random.int(0, 10) * 500 } : null,
    integration_fields: [],
    remote_data: { id: row.remoteId, template: `T-${random.int(1, 9)}` },
    ...row.fields,
    ...linkedIds(row, "application"),
    ...changeFields(row),
    ...remoteTimes(row),
    application: one(row, "application", (application) => ({
      candidate: one(application, "candidate", (candidate) => ({
        ...idFields(candidate),
        ...stored(candidate, "first_name", "last_name"),
        email_addresses: candidate.fields["email_addresses"] ?? emails(candidate)
      })),
      job: one(application, "job", nameFields)
    }))
  }
}

const scorecard = (row: Row): Rendered => ({
  ...idFields(row),
  responses: [],
  remote_data: { id: row.remoteId, form: "standard" },
  ...row.fields,
  ...linkedIds(row, "candidate", "application", "interview", "author"),
  ...remoteTimes(row),
  ...changeFields(row),
  author: one(row, "author", (author) => ({
    ...idFields(author),
    ...stored(author, "first_name", "last_name"),
    email: `${handle(author)}@work.example`
  }))
})

export const workEmailOf = (row: Row): string => text(row.fields["work_email"]) || `${handle(row)}@work.example`

const employee = (row: Row): Rendered => ({
  ...idFields(row),
  ...stored(row, "first_name", "last_name"),
  display_full_name: `${text(row.fields["first_name"])} ${text(row.fields["last_name"])}`,
  work_email: workEmailOf(row),
  remote_deleted_at: isoOrNull(row.deletedAt)
})

const payslip = (row: Row): Rendered => ({
  ...idFields(row),
  totals: null,
  remote_data: { id: row.remoteId, batch: row.salt % 1000 },
  ...row.fields,
  ...changeFields(row),
  employee: one(row, "employee", employee),
  pay_run: one(row, "pay_run", (run) => ({
    ...idFields(run),
    ...stored(run, "start_date", "end_date"),
    ...linkedIds(run, "legal_entity")
  })),
  line_items: entries(row, "line_items", (item) => ({ ...idFields(item), ...item.fields }))
})

const renderGeneric = (row: Row): Rendered => ({
  ...idFields(row),
  remote_data: { id: row.remoteId, revision: row.salt % 100 },
  ...row.fields,
  ...changeFields(row)
})

const performanceReview = (row: Row): Rendered => ({
  ...renderGeneric(row),
  reviewee: one(row, "reviewee", employee),
  reviewer: one(row, "reviewer", employee),
  review_cycle: one(row, "review_cycle", renderGeneric)
})

const scale = (row: Row): Rendered => ({ ...idFields(row), ...row.fields })

const skill = (row: Row): Rendered => ({
  ...noCustomFields,
  ...renderGeneric(row),
  remote_created_at: iso(row.createdAt),
  ...linkedIds(row, "proficiency_scale"),
  proficiency_scale: one(row, "proficiency_scale", scale)
})

const expectation = (row: Row): Rendered => ({
  ...linkedIds(row, "skill"),
  skill: one(row, "skill", (skill) => ({
    ...nameFields(skill),
    proficiency_scale: one(skill, "proficiency_scale", scale)
  })),
  ...stored(row, "expected_proficiency")
})

const staffingEntity = (row: Row): Rendered => {
  const random = new SeededRandom(row.salt)
  const sort = random.pick([["Vollzeit", "FULL_TIME"], ["Teilzeit", "PART_TIME"], ["Praktikum", "INTERNSHIP"]] as const)
  return {
    ...idFields(row),
    employment_types: [{ remote_label: sort[0], unified_type: sort[1] }],
    remote_url: `https://hris.example/openings/${row.remoteId}`,
    custom_fields: { cost_code: `C-${random.int(100, 999)}` },
    integration_fields: [],
    remote_data: { id: row.remoteId, approvals: random.int(0, 3) },
    ...row.fields,
    ...linkedIds(row, "parent"),
    ...remoteTimes(row),
    ...changeFields(row),
    locations: entries(row, "locations", (place) => ({ ...nameFields(place), type: "OFFICE" })),
    legal_entities: entries(row, "legal_entities", nameFields),
    groups: entries(row, "groups", (group) => ({ ...nameFields(group), ...stored(group, "type") })),
    skills: (row.many["skills"] ?? [])
      .filter((entry) => isLive(entry) && (!entry.one["skill"] || isLive(entry.one["skill"])))
      .map(expectation)
  }
}

/** An expectation as the write that changes it returns it, outside its staffing entity. */
export const renderExpectation = (staffingEntity: Row, row: Row): Rendered => ({
  id: row.id,
  staffing_entity_id: staffingEntity.id,
  ...linkedIds(row, "skill"),
  ...stored(row, "expected_proficiency"),
  ...changeFields(row)
})

/** The rating provider of the account's settings. */
const ratingProvider = idOf(0, "", "hris.rating_provider", 1)

const skillRating = (row: Row): Rendered => ({
  ...renderGeneric(row),
  ...linkedIds(row, "employee", "skill"),
  rating_provider_id: ratingProvider,
  ...noCustomFields
})

/** An attachment in the response of an application's attachments; the file's address depends on the request's host. */
export const renderAttachment = (row: Row, dataUrl: string): Rendered => ({
  ...idFields(row),
  ...stored(row, "type"),
  data_url: dataUrl,
  ...stored(row, "file_name", "content_type"),
  ...remoteTimes(row)
})

const assessmentPackage = (row: Row): Rendered => ({ id: row.id, ...row.fields, updated_at: iso(row.changedAt) })

/** Providers are not records: they never change. */
const providers = SampleData.companies.slice(0, 5).map((name, i) => ({
  id: idOf(0, "", "lms.provider", i + 1),
  remote_id: `P${i + 1}`,
  name
}))

const course = (row: Row): Rendered => {
  const marks = {
    remote_created_at: iso(row.createdAt),
    ...changeFields(row),
    remote_data: null,
    ...noCustomFields
  }
  const provider = providers[row.salt % providers.length] as (typeof providers)[number]
  return {
    ...idFields(row),
    provider_id: provider.id,
    origin_id: `origin-${row.salt % 1000}`,
    ...marks,
    provider,
    revisions: [{
      id: idOf(row.salt, "", "lms.revision", row.serial),
      remote_id: `${row.remoteId}-1`,
      course_id: row.id,
      title: row.fields["name"] ?? null,
      description: "A short introduction.",
      remote_url: `https://lms.example/courses/${row.remoteId}`,
      status: row.fields["status"] ?? null,
      ...marks,
      skill_assignments: entries(row, "skills", (skill) => ({ skill: nameFields(skill) }))
    }]
  }
}

/** A record that a write creates and no list shows, with the ids of the records it belongs to. */
const renderWritten = (row: Row): Rendered => ({
  ...renderGeneric(row),
  ...linkedIds(row, ...Object.keys(row.one)),
  ...remoteTimes(row)
})

const legalEntity = (row: Row): Rendered => ({ address: location(new SeededRandom(row.salt)), ...renderGeneric(row) })
const absenceType = (row: Row): Rendered => ({ ...noCustomFields, ...renderGeneric(row) })

const renderers:
  & Record<IncrementalModel, (row: Row) => Rendered>
  & Partial<Record<WorldModel, (row: Row) => Rendered>> = {
    "ats.application": application,
    "ats.scorecard": scorecard,
    "ats.offer": offer,
    "ats.tag": renderGeneric,
    "hris.payslip": payslip,
    "hris.performance_review": performanceReview,
    "hris.performance_review_cycle": renderGeneric,
    "hris.staffing_entity": staffingEntity,
    "hris.legal_entity": legalEntity,
    "hris.skill": skill,
    "hris.absence_type": absenceType,
    "hris.rating": skillRating,
    "hris.document": renderWritten,
    "ats.attachment": renderWritten,
    "ats.result_link": renderWritten,
    "assessment.package": assessmentPackage,
    "lms.course": course
  }

/** The record as the API shows it; if the API never shows the model alone, only the record's properties. */
export const render = (row: Row): Rendered => (renderers[row.model] ?? renderGeneric)(row)

/** Own properties of this model that a test may set. */
export const ownProperties = (row: Row): ReadonlyArray<string> => {
  const linked = new Set<string>([...Object.keys(row.one), ...Object.keys(row.many)])
  const kept = new Set(["id", "remote_id", "changed_at", "remote_created_at", "remote_updated_at", "remote_deleted_at"])
  return Object.keys({ ...render(row), ...row.fields } satisfies Fields).filter((name) =>
    !kept.has(name) && !linked.has(name) && !linked.has(name.replace(/_id$/, ""))
  )
}
