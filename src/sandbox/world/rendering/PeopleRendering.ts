/** The records about employees: payslips, reviews, skills and staffing. */
import { isLive, iso, type Row } from "../Records.ts"
import { idOf, SeededRandom } from "../SeededRandom.ts"
import {
  changeFields,
  entries,
  handle,
  idFields,
  isoOrNull,
  linkedIds,
  location,
  nameFields,
  noCustomFields,
  one,
  remoteTimes,
  type Rendered,
  renderGeneric,
  renderWritten,
  stored,
  text
} from "./RenderedFields.ts"

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

const legalEntity = (row: Row): Rendered => ({ address: location(new SeededRandom(row.salt)), ...renderGeneric(row) })
const absenceType = (row: Row): Rendered => ({ ...noCustomFields, ...renderGeneric(row) })

export const peopleRenderers = {
  "hris.payslip": payslip,
  "hris.performance_review": performanceReview,
  "hris.performance_review_cycle": renderGeneric,
  "hris.staffing_entity": staffingEntity,
  "hris.legal_entity": legalEntity,
  "hris.skill": skill,
  "hris.absence_type": absenceType,
  "hris.rating": skillRating,
  "hris.document": renderWritten
}
