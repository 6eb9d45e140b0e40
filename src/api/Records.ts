/**
 * Schemas of the records in the eleven lists, and of the candidate nested in applications.
 *
 * Source: docs/contract.md, "Resources and their fields".
 *
 * Invariants
 * 1. Decoding is lenient: the record's `id` must be a string, any other field may be null or absent
 * 2. Enumerations are open: an unknown value is kept and never fails a record   (S1)
 * 3. Fields that are not listed here are allowed but dropped; code that must keep them keeps the raw JSON
 */
import * as Schema from "effect/Schema"
import {
  boolean,
  changeMetadata,
  customFields,
  date,
  json,
  list,
  listOf,
  namedReference,
  nullish,
  number,
  object,
  oneOf,
  recordIds,
  reference,
  remoteTimes,
  text,
  timestamp
} from "./Fields.ts"
import type { IncrementalModel } from "./Lists.ts"
import { ProficiencyScale } from "./Proficiency.ts"

const money = object({ currency: text, value: number })
const placeFields = {
  city: text,
  country: text,
  raw: text,
  state: text,
  street_1: text,
  street_2: text,
  zip_code: text
}
const place = object(placeFields)
const emailAddresses = listOf({
  email_address: text,
  type: text
})
const personSummary = object({
  ...reference,
  first_name: text,
  last_name: text,
  display_full_name: text,
  work_email: text,
  remote_deleted_at: timestamp
})

// ---- recruiting ---------------------------------------------------------------------------------------------------

const candidateFields = {
  first_name: text,
  last_name: text,
  company: text,
  title: text,
  confidential: boolean,
  source: text,
  phone_numbers: listOf({ phone_number: text, type: text }),
  email_addresses: emailAddresses,
  social_media: listOf({ link: text, type: text, username: text }),
  location: place,
  ...customFields,
  remote_url: text,
  ...remoteTimes,
  ...changeMetadata,
  tags: listOf(namedReference)
}

/** Candidates are nested in their applications; the API has no list of candidates. */
export const Candidate = Schema.Struct({ ...recordIds, ...candidateFields }).annotate({ identifier: "Candidate" })

const offerStatus = oneOf("ACCEPTED", "DECLINED", "SENT", "APPROVED", "DRAFT", "ABANDONED")

/**
 * The fields of an answer depend on the question's type: `{content}`, `{choice}`, `{choices}`, `{checked}`, `{number}`,
 * `{date}`, `{raw}`.
 */
const screeningAnswers = listOf({
  answer: json,
  question: object({
    remote_id: text,
    title: text,
    type: oneOf("TEXT", "SINGLE_SELECT", "MULTI_SELECT", "BOOLEAN", "NUMBER", "DATE", "UNKNOWN")
  })
})

export const Application = Schema.Struct({
  ...recordIds,
  outcome: oneOf("PENDING", "HIRED", "DECLINED"),
  rejection_reason_name: text,
  rejected_at: timestamp,
  current_stage_id: text,
  job_id: text,
  candidate_id: text,
  screening_question_answers: screeningAnswers,
  ...customFields,
  remote_url: text,
  ...remoteTimes,
  ...changeMetadata,
  candidate: object({ ...reference, ...candidateFields }),
  current_stage: object({ ...namedReference, status: oneOf("ACTIVE", "INACTIVE"), ...customFields, index: number }),
  job: object(namedReference),
  interviews: listOf({
    ...reference,
    title: text,
    starting_at: timestamp,
    ending_at: timestamp,
    location: place,
    canceled: boolean
  }),
  offers: listOf({ ...reference, status: offerStatus })
}).annotate({ identifier: "Application" })

export const Scorecard = Schema.Struct({
  ...recordIds,
  candidate_id: text,
  application_id: text,
  interview_id: text,
  author_id: text,
  responses: listOf({
    /** `{label, remote_id}`, an array of those, a string, boolean, number or date, depending on `type`. */
    answer: json,
    description: text,
    label: text,
    remote_id: text,
    required: boolean,
    type: oneOf("SINGLE_SELECT", "MULTI_SELECT", "TEXT", "BOOLEAN", "NUMBER", "DATE"),
    options: listOf({ label: text, remote_id: text })
  }),
  ...remoteTimes,
  ...changeMetadata,
  author: object({ ...reference, first_name: text, last_name: text, email: text })
}).annotate({ identifier: "Scorecard" })

export const Offer = Schema.Struct({
  ...recordIds,
  status: offerStatus,
  employment_start_date: timestamp,
  application_id: text,
  ...customFields,
  ...remoteTimes,
  ...changeMetadata,
  application: object({
    candidate: object({ ...reference, first_name: text, last_name: text, email_addresses: emailAddresses }),
    job: object(namedReference)
  })
}).annotate({ identifier: "Offer" })

export const Tag = Schema.Struct({ ...recordIds, name: text, ...changeMetadata }).annotate({ identifier: "Tag" })

// ---- human resources ----------------------------------------------------------------------------------------------

export const Payslip = Schema.Struct({
  ...recordIds,
  ...changeMetadata,
  totals: object({ gross_pay: money, net_pay: money, paid_amount: money }),
  employee: personSummary,
  pay_run: object({ ...reference, start_date: date, end_date: date, legal_entity_id: text }),
  line_items: listOf({ ...namedReference, amount: money })
}).annotate({ identifier: "Payslip" })

const reviewCycleFields = { name: text, review_period_start_date: timestamp, ...changeMetadata }

export const PerformanceReviewCycle = Schema.Struct({ ...recordIds, ...reviewCycleFields }).annotate({
  identifier: "PerformanceReviewCycle"
})

export const PerformanceReview = Schema.Struct({
  ...recordIds,
  type: oneOf("MANAGER", "DIRECT_REPORT", "PEER", "SELF"),
  summary_comment: text,
  /** The value is an option of a SINGLE_SELECT rating, or a number from `min` to `max` of a NUMERIC one. */
  summary_rating: object({
    type: oneOf("SINGLE_SELECT", "NUMERIC"),
    ordered_options: list(Schema.String),
    min: number,
    max: number,
    value: nullish(Schema.Union([Schema.String, Schema.Finite]))
  }),
  ...changeMetadata,
  reviewee: personSummary,
  reviewer: personSummary,
  review_cycle: object({ ...reference, ...reviewCycleFields })
}).annotate({ identifier: "PerformanceReview" })

export const Skill = Schema.Struct({
  ...recordIds,
  name: text,
  proficiency_scale_id: text,
  remote_created_at: timestamp,
  ...changeMetadata,
  ...customFields,
  proficiency_scale: nullish(ProficiencyScale)
}).annotate({ identifier: "Skill" })

export const StaffingEntity = Schema.Struct({
  ...recordIds,
  name: text,
  model_type: oneOf("JOB", "POSITION", "REQUISITION"),
  description: text,
  status: oneOf("OPEN_LIMITED", "OPEN_UNLIMITED", "PENDING", "FROZEN", "FILLED", "CLOSED"),
  employment_types: listOf({
    remote_label: text,
    unified_type: oneOf(
      "FULL_TIME",
      "PART_TIME",
      "CONTRACT",
      "INTERNSHIP",
      "FREELANCE",
      "WORKING_STUDENT",
      "APPRENTICESHIP",
      "TRAINING"
    )
  }),
  number_of_openings: number,
  parent_id: text,
  remote_url: text,
  ...remoteTimes,
  ...changeMetadata,
  ...customFields,
  locations: listOf({ ...namedReference, type: oneOf("OFFICE") }),
  legal_entities: listOf(namedReference),
  groups: listOf({ ...namedReference, type: oneOf("DEPARTMENT", "TEAM", "COST_CENTER") }),
  skills: listOf({
    skill_id: text,
    skill: object({ ...namedReference, proficiency_scale: nullish(ProficiencyScale) }),
    /** A number, an option's id, or an object with either, depending on the skill's scale. */
    expected_proficiency: json
  })
}).annotate({ identifier: "StaffingEntity" })

export const LegalEntity = Schema.Struct({ ...recordIds, name: text, address: place, ...changeMetadata }).annotate({
  identifier: "LegalEntity"
})

export const AbsenceType = Schema.Struct({
  ...recordIds,
  name: text,
  unit: oneOf("HOURS", "DAYS"),
  half_days_supported: boolean,
  exact_times_supported: boolean,
  ...customFields,
  ...changeMetadata
}).annotate({ identifier: "AbsenceType" })

/** The record schema of each list. */
export const recordSchemas = {
  "ats.application": Application,
  "ats.scorecard": Scorecard,
  "ats.offer": Offer,
  "ats.tag": Tag,
  "hris.payslip": Payslip,
  "hris.performance_review": PerformanceReview,
  "hris.performance_review_cycle": PerformanceReviewCycle,
  "hris.staffing_entity": StaffingEntity,
  "hris.legal_entity": LegalEntity,
  "hris.skill": Skill,
  "hris.absence_type": AbsenceType
} as const satisfies Record<IncrementalModel, Schema.Codec<{ readonly id: string }, unknown>>
