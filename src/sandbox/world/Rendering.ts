/**
 * A record as the API shows it. The contract's schema says which properties it has. Each is taken from the first of these that has it:
 * the stored properties, the linked records (embedded with their current content), the properties drawn from the record's salt, and
 * what all records have.
 *
 * Gotchas
 * - Deleted entries disappear from arrays. A deleted record in a single link (a candidate, a review cycle) is still embedded.
 */
import * as Record from "effect/Record"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import { Attachment } from "../../api/Attachments.ts"
import { Course } from "../../api/Courses.ts"
import { changeMetadata, fieldsOf, recordIds, remoteTimes } from "../../api/Fields.ts"
import { modelSchemas } from "../../api/ModelSchemas.ts"
import { SkillExpectation, SkillProficiencyRating } from "../../api/Proficiency.ts"
import { type Fields, isLive, iso, type Json, type Row, type WorldModel } from "./Records.ts"
import * as SampleData from "./SampleData.ts"
import { generateAnswers } from "./ScreeningQuestions.ts"
import { idOf, SeededRandom } from "./SeededRandom.ts"

export type Rendered = { readonly [key: string]: Json }

// ---- properties that are not stored -------------------------------------------------------------------------------

const text = (value: Json | undefined): string => typeof value === "string" ? value : ""

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

/** The e-mail addresses of a candidate; two candidates with the same address are the same person. */
export const emailsOf = (row: Row): ReadonlyArray<string> => {
  const known = row.fields["email_addresses"] ?? emails(row)
  return (known as ReadonlyArray<Rendered>).map(({ email_address }) => text(email_address))
}

export const workEmailOf = (row: Row): string => text(row.fields["work_email"]) || `${handle(row)}@work.example`

/** Providers are not records: they never change. */
const providers = SampleData.companies.slice(0, 5).map((name, i) => ({
  id: idOf(0, "", "lms.provider", i + 1),
  remote_id: `P${i + 1}`,
  name
}))

/** The properties that are drawn from a record's salt, so that they take no memory. */
const drawn: Partial<Record<WorldModel, (row: Row, random: SeededRandom) => Fields>> = {
  "ats.application": (row, random) => ({
    screening_question_answers: generateAnswers(row.serial, random),
    custom_fields: { expected_salary: random.int(40, 120) * 1000, source_campaign: random.pick(["spring", "autumn"]) },
    remote_url: `https://ats.example/applications/${row.remoteId}`
  }),
  "ats.candidate": (row, random) => ({
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
    remote_url: `https://ats.example/candidates/${row.remoteId}`
  }),
  "ats.interview": (_, random) => ({ location: location(random) }),
  "ats.offer": (row, random) => ({
    employment_start_date: iso(row.createdAt + random.int(20, 120) * 86_400_000),
    custom_fields: random.boolean(0.5) ? { signing_bonus: random.int(0, 10) * 500 } : null
  }),
  "ats.stage": () => ({ status: "ACTIVE" }),
  "ats.user": (row) => ({ email: `${handle(row)}@work.example` }),
  "hris.employee": (row) => ({
    display_full_name: `${text(row.fields["first_name"])} ${text(row.fields["last_name"])}`,
    work_email: workEmailOf(row)
  }),
  "hris.legal_entity": (_, random) => ({ address: location(random) }),
  "hris.location": () => ({ type: "OFFICE" }),
  "hris.rating": () => ({ rating_provider_id: idOf(0, "", "hris.rating_provider", 1) }),
  "hris.staffing_entity": (row, random) => ({
    employment_types: [random.pick(SampleData.employmentTypes)],
    remote_url: `https://hris.example/openings/${row.remoteId}`,
    custom_fields: { cost_code: `C-${random.int(100, 999)}` }
  }),
  "lms.course": (row) => {
    const provider = providers[row.salt % providers.length] as (typeof providers)[number]
    return {
      provider_id: provider.id,
      origin_id: `origin-${row.salt % 1000}`,
      provider,
      revisions: [{
        ...Record.map(common, (property) => property(row)),
        id: idOf(row.salt, "", "lms.revision", row.serial),
        remote_id: `${row.remoteId}-1`,
        course_id: row.id,
        title: row.fields["name"] ?? null,
        description: "A short introduction.",
        remote_url: `https://lms.example/courses/${row.remoteId}`,
        status: row.fields["status"] ?? null,
        skill_assignments: (row.many["skills"] ?? []).filter(isLive).map((skill) => ({
          skill: { id: skill.id, remote_id: skill.remoteId, name: skill.fields["name"] ?? null }
        }))
      }]
    }
  }
}

/** The properties that every record may have. */
const common = {
  id: (row) => row.id,
  remote_id: (row) => row.remoteId,
  changed_at: (row) => iso(row.changedAt),
  remote_deleted_at: (row) => row.deletedAt === null ? null : iso(row.deletedAt),
  remote_created_at: (row) => iso(row.createdAt),
  custom_fields: () => null,
  integration_fields: () => [],
  remote_data: (row) => ({ id: row.remoteId, revision: row.salt % 100 })
} satisfies Record<string, (row: Row) => Json>

const metadata: Readonly<Record<string, (row: Row) => Json>> = {
  ...common,
  remote_updated_at: (row) => iso(row.remoteUpdatedAt),
  updated_at: (row) => iso(row.changedAt)
}

// ---- rendering ----------------------------------------------------------------------------------------------------

/** The properties of a record, each with the properties of the records that are embedded there. */
type Plan = ReadonlyMap<string, Plan>

const planOf = (ast: SchemaAST.AST): Plan =>
  new Map([...fieldsOf(ast) ?? []].map(([name, inner]) => [name, planOf(inner)]))

const plans: Partial<Record<WorldModel, Plan>> = Record.map(
  {
    ...modelSchemas,
    "lms.course": Course,
    "hris.rating": SkillProficiencyRating
  } satisfies Partial<Record<WorldModel, Schema.Top>>,
  ({ ast }) => planOf(ast)
)
const attachmentPlan = planOf(Attachment.ast)
const expectationPlan = planOf(SkillExpectation.ast)

/** An expectation disappears with the skill that it expects. */
const isShown = (entry: Row): boolean => {
  const skill = entry.model === "hris.expectation" ? entry.one["skill"] : null
  return isLive(entry) && (!skill || isLive(skill))
}

const renderAs = (row: Row, plan: Plan): Rendered => {
  const others = drawn[row.model]?.(row, new SeededRandom(row.salt)) ?? {}
  const valueOf = (name: string, embedded: Plan): Json | undefined => {
    if (name in row.fields) return row.fields[name]
    if (name in row.many) return row.many[name]?.filter(isShown).map((entry) => renderAs(entry, embedded))
    const linked = row.one[name]
    if (linked !== undefined) return linked && renderAs(linked, embedded)
    const referenced = name.endsWith("_id") ? row.one[name.slice(0, -"_id".length)] : undefined
    if (referenced !== undefined) return referenced && referenced.id
    return name in others ? others[name] : metadata[name]?.(row)
  }
  const values = [...plan].map(([name, embedded]) => [name, valueOf(name, embedded)] as const)
  // the type of a scale decides which properties it has
  const shown = row.model === "hris.proficiency_scale" ? values.filter(([, value]) => value !== undefined) : values
  return Object.fromEntries(shown.map(([name, value]) => [name, value ?? null]))
}

const unlistedPlan = planOf(Schema.Struct({ ...recordIds, ...changeMetadata, ...remoteTimes }).ast)

/** The record as the API shows it. If no response has the model: what is stored, and the ids of linked records. */
export const render = (row: Row): Rendered => {
  const plan = plans[row.model]
  if (plan !== undefined) return renderAs(row, plan)
  const ids = Object.entries(row.one).map(([path, linked]) => [`${path}_id`, linked?.id ?? null] as const)
  return { ...renderAs(row, unlistedPlan), ...row.fields, ...Object.fromEntries(ids) }
}

/** An attachment in the response of an application's attachments; the file's address depends on the request's host. */
export const renderAttachment = (row: Row, dataUrl: string): Rendered => ({
  ...renderAs(row, attachmentPlan),
  data_url: dataUrl
})

/** An expectation as the write that changes it returns it, outside its staffing entity. */
export const renderExpectation = (staffingEntity: Row, row: Row): Rendered => ({
  ...renderAs(row, expectationPlan),
  staffing_entity_id: staffingEntity.id
})

/** Own properties of this model that a test may set. */
export const ownProperties = (row: Row): ReadonlyArray<string> => {
  const linked = new Set<string>([...Object.keys(row.one), ...Object.keys(row.many)])
  const kept = new Set(["id", "remote_id", "changed_at", "remote_created_at", "remote_updated_at", "remote_deleted_at"])
  return Object.keys({ ...render(row), ...row.fields }).filter((name) =>
    !kept.has(name) && !linked.has(name) && !linked.has(name.replace(/_id$/, ""))
  )
}
