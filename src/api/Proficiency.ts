/**
 * Skill proficiency: scales, ratings of employees, expectations of staffing entities, and the check against a scale.
 *
 * Source: docs/contract.md, "HRIS" and "Writes".
 *
 * Gotchas
 * - Responses contain a proficiency as an object, requests as a bare number or option id; both forms are accepted.
 * - If a scale leaves something open (an unknown type, no bounds, no options), only the API checks it.
 */
import * as Schema from "effect/Schema"
import {
  changeMetadata,
  customFields,
  json,
  listOf,
  namedReference,
  nullish,
  number,
  oneOf,
  openEnum,
  recordIds,
  reference,
  text
} from "./Fields.ts"

/** The fields depend on `type`: NUMERIC has `min`, `max`, `step` (null: continuous), SINGLE_SELECT has `ordered_options`. */
export const ProficiencyScale = Schema.Struct({
  ...reference,
  type: oneOf("NUMERIC", "SINGLE_SELECT"),
  min: number,
  max: number,
  step: number,
  ordered_options: listOf(namedReference)
})
export type ProficiencyScale = typeof ProficiencyScale.Type

/** A number on a numeric scale, an option id of a single-select scale, or the object form of responses. */
export const Proficiency = Schema.Union([
  Schema.Finite,
  Schema.String,
  Schema.Struct({ type: Schema.Literal("NUMERIC"), value: Schema.Finite }),
  Schema.Struct({ type: Schema.Literal("SINGLE_SELECT"), selected_option_id: Schema.String })
])
export type Proficiency = typeof Proficiency.Type

/** Assigns a skill to an employee, or replaces the earlier rating of the same source. */
export const RateSkill = Schema.Struct({
  employee_id: Schema.String,
  skill_id: Schema.String,
  rating: nullish(Schema.Struct({ rating_source: openEnum("EXTERNAL", "SELF"), proficiency: nullish(Proficiency) }))
}).annotate({ identifier: "RateSkill" })

export const SkillProficiencyRating = Schema.Struct({
  ...recordIds,
  employee_id: text,
  skill_id: text,
  /** `{type, value}` or `{type, selected_option_id}`, depending on the skill's scale. */
  proficiency: json,
  rating_source: oneOf("EXTERNAL", "SELF"),
  rating_provider_id: text,
  ...changeMetadata,
  ...customFields
}).annotate({ identifier: "SkillProficiencyRating" })

/** Attaches a skill to a staffing entity, with an expectation if one is given, or updates the existing expectation. */
export const ExpectSkill = Schema.Struct({
  skill_id: Schema.String,
  expected_proficiency: Schema.optionalKey(Proficiency)
}).annotate({ identifier: "ExpectSkill" })

export const SkillExpectation = Schema.Struct({
  id: Schema.String,
  staffing_entity_id: text,
  skill_id: text,
  expected_proficiency: json,
  changed_at: changeMetadata.changed_at,
  remote_deleted_at: changeMetadata.remote_deleted_at
}).annotate({ identifier: "SkillExpectation" })

// ---- check --------------------------------------------------------------------------------------------------------

/** The bare number or option id. */
export const proficiencyValue = (proficiency: Proficiency): number | string => {
  if (typeof proficiency !== "object") return proficiency
  return proficiency.type === "NUMERIC" ? proficiency.value : proficiency.selected_option_id
}

/** Decimal steps have no exact binary form (0.1 · 3 ≠ 0.3), so a difference within the rounding error is accepted. */
const isAligned = (value: number, min: number, step: number): boolean => {
  const nearest = min + Math.round((value - min) / step) * step
  const rounding = 4 * Number.EPSILON * Math.max(Math.abs(value), Math.abs(min), Math.abs(value - min))
  return Math.abs(nearest - value) <= rounding
}

const checkNumber = ({ max, min, step }: ProficiencyScale, value: number | string): string | null => {
  if (typeof value !== "number" || !Number.isFinite(value)) return "must be a number, because the scale is numeric"
  if (min != null && value < min) return `must be at least ${min}`
  if (max != null && value > max) return `must be at most ${max}`
  if (step == null || step <= 0 || isAligned(value, min ?? 0, step)) return null
  return `must be ${min ?? 0} plus a multiple of ${step}`
}

const checkOption = ({ ordered_options }: ProficiencyScale, value: number | string): string | null => {
  if (typeof value !== "string") return "must be the id of an option, because the scale is a choice"
  if (ordered_options == null || ordered_options.some(({ id }) => id === value)) return null
  const ids = ordered_options.map(({ id }) => id).filter((id) => id != null)
  return `must be the id of one of the scale's options: ${ids.join(", ")}`
}

/** Describes why the scale does not allow this proficiency; null if it does. The text never repeats the value. */
export const checkProficiency = (scale: ProficiencyScale, proficiency: Proficiency): string | null => {
  const value = proficiencyValue(proficiency)
  if (scale.type === "NUMERIC") return checkNumber(scale, value)
  if (scale.type === "SINGLE_SELECT") return checkOption(scale, value)
  return null
}
