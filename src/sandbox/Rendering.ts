/**
 * A record as the API shows it: hides which of its properties are stored, which are drawn from its salt, and which
 * are other records, embedded as they stand now.
 *
 * Invariants
 * 1. Every property of the specification's "Resources and their fields" is present, in every record.
 *
 * Gotchas
 * - Deleted and vanished entries drop out of arrays; a deleted record that stands alone (a candidate, a review cycle)
 *   is still shown where it is embedded.
 */
import { type IncrementalModel } from "../api/Lists.ts"
import { Chance, idOf } from "./Chance.ts"
import * as Lexicon from "./Lexicon.ts"
import { type Fields, isLive, type Json, type Row, type WorldModel } from "./Records.ts"
import { drawnAnswers } from "./Screening.ts"

type Shown = { readonly [key: string]: Json }

const iso = (at: number): string => new Date(at).toISOString()
const isoOrNull = (at: number | null): string | null => at === null ? null : iso(at)
const linkedId = (row: Row | null | undefined): string | null => row?.id ?? null
const text = (value: Json | undefined): string => typeof value === "string" ? value : ""

const ids = (row: Row) => ({ id: row.id, remote_id: row.remoteId })
const named = (row: Row) => ({ ...ids(row), name: row.fields["name"] ?? null })
const noticed = (row: Row) => ({ changed_at: iso(row.changedAt), remote_deleted_at: isoOrNull(row.deletedAt) })
const dated = (row: Row) => ({ remote_created_at: iso(row.createdAt), remote_updated_at: iso(row.updatedAt) })
const one = (row: Row, path: string, show: (linked: Row) => Shown): Json => {
  const linked = row.one[path]
  return linked ? show(linked) : null
}
const entries = (row: Row, path: string, show: (entry: Row) => Shown): ReadonlyArray<Shown> =>
  (row.many[path] ?? []).filter(isLive).map(show)

const location = (chance: Chance): Shown => {
  const place = chance.pick(Lexicon.places)
  const street = `${place.street} ${chance.int(1, 180)}`
  return {
    city: place.city,
    country: place.country,
    raw: `${street}, ${place.zip} ${place.city}, ${place.country}`,
    state: place.state,
    street_1: street,
    street_2: chance.happens(0.2) ? `Floor ${chance.int(1, 9)}` : null,
    zip_code: place.zip
  }
}
const handle = (row: Row): string =>
  `${text(row.fields["first_name"])}.${text(row.fields["last_name"])}`.toLowerCase().replaceAll(/[^a-z.]/g, "")

const emails = (row: Row): ReadonlyArray<Shown> => [
  { email_address: `${handle(row)}${row.serial}@mail.example`, type: "PRIVATE" }
]

const stage = (row: Row): Shown => ({
  ...named(row),
  status: "ACTIVE",
  custom_fields: null,
  integration_fields: [],
  index: row.fields["index"] ?? 0
})

const tag = (row: Row): Shown => named(row)

/** Where a candidate can be reached: by these, two candidates are found to be one person. */
export const emailsOf = (row: Row): ReadonlyArray<string> => {
  const known = row.fields["email_addresses"] ?? emails(row)
  return (known as ReadonlyArray<Shown>).map(({ email_address }) => text(email_address))
}

const candidate = (row: Row): Shown => {
  const chance = new Chance(row.salt)
  return {
    ...ids(row),
    first_name: null,
    last_name: null,
    company: chance.pick(Lexicon.companies),
    title: chance.pick(Lexicon.titles),
    confidential: chance.happens(0.05),
    source: chance.pick(Lexicon.sources),
    phone_numbers: [{ phone_number: `+49 30 555${chance.int(10_000, 99_999)}`, type: "HOME" }],
    email_addresses: emails(row),
    social_media: chance.happens(0.5)
      ? [{ link: `https://videos.example/@${handle(row)}`, type: "YOUTUBE", username: handle(row) }]
      : [],
    location: location(chance),
    custom_fields: chance.happens(0.5)
      ? { notice_period_weeks: chance.int(2, 12), relocates: chance.happens(0.4) }
      : null,
    integration_fields: [],
    remote_url: `https://ats.example/candidates/${row.remoteId}`,
    remote_data: { id: row.remoteId, gdpr_consent: chance.happens(0.9), locale: "en" },
    ...row.fields,
    ...dated(row),
    ...noticed(row),
    tags: entries(row, "tags", tag)
  }
}

const interview = (row: Row): Shown => {
  const chance = new Chance(row.salt)
  return {
    ...ids(row),
    title: row.fields["title"] ?? null,
    starting_at: row.fields["starting_at"] ?? null,
    ending_at: row.fields["ending_at"] ?? null,
    location: row.fields["location"] ?? location(chance),
    canceled: row.fields["canceled"] ?? false
  }
}

const application = (row: Row): Shown => {
  const chance = new Chance(row.salt)
  return {
    ...ids(row),
    outcome: "PENDING",
    rejection_reason_name: null,
    rejected_at: null,
    screening_question_answers: drawnAnswers(row.serial, chance),
    custom_fields: { expected_salary: chance.int(40, 120) * 1000, source_campaign: chance.pick(["spring", "autumn"]) },
    integration_fields: [],
    remote_url: `https://ats.example/applications/${row.remoteId}`,
    remote_data: { id: row.remoteId, pipeline: chance.int(1, 4), credited_to: chance.pick(Lexicon.sources) },
    ...row.fields,
    current_stage_id: linkedId(row.one["current_stage"]),
    job_id: linkedId(row.one["job"]),
    candidate_id: linkedId(row.one["candidate"]),
    ...noticed(row),
    ...dated(row),
    candidate: one(row, "candidate", candidate),
    current_stage: one(row, "current_stage", stage),
    job: one(row, "job", named),
    interviews: entries(row, "interviews", interview),
    offers: entries(row, "offers", (offer) => ({ ...ids(offer), status: offer.fields["status"] ?? null }))
  }
}

const offer = (row: Row): Shown => {
  const chance = new Chance(row.salt)
  return {
    ...ids(row),
    status: null,
    employment_start_date: iso(row.createdAt + chance.int(20, 120) * 86_400_000),
    custom_fields: chance.happens(0.5) ? { signing_bonus: chance.int(0, 10) * 500 } : null,
    integration_fields: [],
    remote_data: { id: row.remoteId, template: `T-${chance.int(1, 9)}` },
    ...row.fields,
    application_id: linkedId(row.one["application"]),
    ...noticed(row),
    ...dated(row),
    application: one(row, "application", (application) => ({
      candidate: one(application, "candidate", (candidate) => ({
        ...ids(candidate),
        first_name: candidate.fields["first_name"] ?? null,
        last_name: candidate.fields["last_name"] ?? null,
        email_addresses: candidate.fields["email_addresses"] ?? emails(candidate)
      })),
      job: one(application, "job", named)
    }))
  }
}

const scorecard = (row: Row): Shown => ({
  ...ids(row),
  responses: [],
  remote_data: { id: row.remoteId, form: "standard" },
  ...row.fields,
  candidate_id: linkedId(row.one["candidate"]),
  application_id: linkedId(row.one["application"]),
  interview_id: linkedId(row.one["interview"]),
  author_id: linkedId(row.one["author"]),
  ...dated(row),
  ...noticed(row),
  author: one(row, "author", (author) => ({
    ...ids(author),
    first_name: author.fields["first_name"] ?? null,
    last_name: author.fields["last_name"] ?? null,
    email: `${handle(author)}@work.example`
  }))
})

export const workEmailOf = (row: Row): string => text(row.fields["work_email"]) || `${handle(row)}@work.example`

const person = (row: Row): Shown => ({
  ...ids(row),
  first_name: row.fields["first_name"] ?? null,
  last_name: row.fields["last_name"] ?? null,
  display_full_name: `${text(row.fields["first_name"])} ${text(row.fields["last_name"])}`,
  work_email: workEmailOf(row),
  remote_deleted_at: isoOrNull(row.deletedAt)
})

const payslip = (row: Row): Shown => ({
  ...ids(row),
  totals: null,
  remote_data: { id: row.remoteId, batch: row.salt % 1000 },
  ...row.fields,
  ...noticed(row),
  employee: one(row, "employee", person),
  pay_run: one(row, "pay_run", (run) => ({
    ...ids(run),
    start_date: run.fields["start_date"] ?? null,
    end_date: run.fields["end_date"] ?? null,
    legal_entity_id: linkedId(run.one["legal_entity"])
  })),
  line_items: entries(row, "line_items", (item) => ({ ...ids(item), ...item.fields }))
})

const plain = (row: Row): Shown => ({
  ...ids(row),
  remote_data: { id: row.remoteId, revision: row.salt % 100 },
  ...row.fields,
  ...noticed(row)
})

const performanceReview = (row: Row): Shown => ({
  ...plain(row),
  reviewee: one(row, "reviewee", person),
  reviewer: one(row, "reviewer", person),
  review_cycle: one(row, "review_cycle", plain)
})

const scale = (row: Row): Shown => ({ ...ids(row), ...row.fields })

const skill = (row: Row): Shown => ({
  custom_fields: null,
  integration_fields: [],
  ...plain(row),
  remote_created_at: iso(row.createdAt),
  proficiency_scale_id: linkedId(row.one["proficiency_scale"]),
  proficiency_scale: one(row, "proficiency_scale", scale)
})

const expectation = (row: Row): Shown => ({
  skill_id: linkedId(row.one["skill"]),
  skill: one(row, "skill", (skill) => ({
    ...named(skill),
    proficiency_scale: one(skill, "proficiency_scale", scale)
  })),
  expected_proficiency: row.fields["expected_proficiency"] ?? null
})

const staffingEntity = (row: Row): Shown => {
  const chance = new Chance(row.salt)
  const sort = chance.pick([["Vollzeit", "FULL_TIME"], ["Teilzeit", "PART_TIME"], ["Praktikum", "INTERNSHIP"]] as const)
  return {
    ...ids(row),
    employment_types: [{ remote_label: sort[0], unified_type: sort[1] }],
    remote_url: `https://hris.example/openings/${row.remoteId}`,
    custom_fields: { cost_code: `C-${chance.int(100, 999)}` },
    integration_fields: [],
    remote_data: { id: row.remoteId, approvals: chance.int(0, 3) },
    ...row.fields,
    parent_id: linkedId(row.one["parent"]),
    ...dated(row),
    ...noticed(row),
    locations: entries(row, "locations", (place) => ({ ...named(place), type: "OFFICE" })),
    legal_entities: entries(row, "legal_entities", named),
    groups: entries(row, "groups", (group) => ({ ...named(group), type: group.fields["type"] ?? null })),
    skills: (row.many["skills"] ?? [])
      .filter((entry) => isLive(entry) && (!entry.one["skill"] || isLive(entry.one["skill"])))
      .map(expectation)
  }
}

/** An expectation as it is answered alone, not inside its staffing entity. */
export const expectationOf = (staffingEntity: Row, row: Row): Shown => ({
  id: row.id,
  staffing_entity_id: staffingEntity.id,
  skill_id: linkedId(row.one["skill"]),
  expected_proficiency: row.fields["expected_proficiency"] ?? null,
  ...noticed(row)
})

/** The one that the account's settings name. */
const ratingProvider = idOf(0, "", "hris.rating_provider", 1)

const skillRating = (row: Row): Shown => ({
  ...plain(row),
  employee_id: linkedId(row.one["employee"]),
  skill_id: linkedId(row.one["skill"]),
  rating_provider_id: ratingProvider,
  custom_fields: null,
  integration_fields: []
})

/** As an application's attachments are answered; the address of the file depends on who asks. */
export const attachmentOf = (row: Row, dataUrl: string): Shown => ({
  ...ids(row),
  type: row.fields["type"] ?? null,
  data_url: dataUrl,
  file_name: row.fields["file_name"] ?? null,
  content_type: row.fields["content_type"] ?? null,
  ...dated(row)
})

const assessmentPackage = (row: Row): Shown => ({ id: row.id, ...row.fields, updated_at: iso(row.changedAt) })

/** They are no records: nothing happens to them. */
const providers = Lexicon.companies.slice(0, 5).map((name, i) => ({
  id: idOf(0, "", "lms.provider", i + 1),
  remote_id: `P${i + 1}`,
  name
}))

const course = (row: Row): Shown => {
  const marks = {
    remote_created_at: iso(row.createdAt),
    ...noticed(row),
    remote_data: null,
    custom_fields: null,
    integration_fields: []
  }
  const provider = providers[row.salt % providers.length] as (typeof providers)[number]
  return {
    ...ids(row),
    provider_id: provider.id,
    origin_id: `origin-${row.salt % 1000}`,
    ...marks,
    provider,
    revisions: [{
      id: idOf(row.salt, "", "lms.revision", row.serial),
      remote_id: `${row.remoteId}-1`,
      course_id: row.id,
      title: row.fields["name"] ?? null,
      description: "What everybody should know about it.",
      remote_url: `https://lms.example/courses/${row.remoteId}`,
      status: row.fields["status"] ?? null,
      ...marks,
      skill_assignments: entries(row, "skills", (skill) => ({ skill: named(skill) }))
    }]
  }
}

/** What is written and no list shows, with what it belongs to. */
const written = (row: Row): Shown => ({
  ...plain(row),
  ...Object.fromEntries(Object.entries(row.one).map(([path, linked]) => [`${path}_id`, linkedId(linked)])),
  ...dated(row)
})

const legalEntity = (row: Row): Shown => ({ address: location(new Chance(row.salt)), ...plain(row) })
const absenceType = (row: Row): Shown => ({ custom_fields: null, integration_fields: [], ...plain(row) })

const shown: Record<IncrementalModel, (row: Row) => Shown> & Partial<Record<WorldModel, (row: Row) => Shown>> = {
  "ats.application": application,
  "ats.scorecard": scorecard,
  "ats.offer": offer,
  "ats.tag": plain,
  "hris.payslip": payslip,
  "hris.performance_review": performanceReview,
  "hris.performance_review_cycle": plain,
  "hris.staffing_entity": staffingEntity,
  "hris.legal_entity": legalEntity,
  "hris.skill": skill,
  "hris.absence_type": absenceType,
  "hris.rating": skillRating,
  "hris.document": written,
  "ats.attachment": written,
  "ats.result_link": written,
  "assessment.package": assessmentPackage,
  "lms.course": course
}

/** The record as the API shows it; what the API never shows alone, as its own properties. */
export const render = (row: Row): Shown => (shown[row.model] ?? plain)(row)

/** Own properties of this model that a test may set. */
export const ownProperties = (row: Row): ReadonlyArray<string> => {
  const linked = new Set<string>([...Object.keys(row.one), ...Object.keys(row.many)])
  const kept = new Set(["id", "remote_id", "changed_at", "remote_created_at", "remote_updated_at", "remote_deleted_at"])
  return Object.keys({ ...render(row), ...row.fields } satisfies Fields).filter((name) =>
    !kept.has(name) && !linked.has(name) && !linked.has(name.replace(/_id$/, ""))
  )
}
