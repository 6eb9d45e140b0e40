/**
 * How well someone masters a skill, or should: scales, ratings and expectations, and what a scale allows.
 *
 * Source: docs/contract.md, "Skills".
 *
 * Gotchas
 * - Answers carry a proficiency as an object, requests as a bare number or option id; both forms are understood.
 * - What a scale leaves open (an unknown type, no bounds, no options) is not checked here; the API has the last word.
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

/** `type` decides the shape: NUMERIC has `min`, `max`, `step` (null: continuous), SINGLE_SELECT has `ordered_options`. */
export const ProficiencyScale = Schema.Struct({
  ...reference,
  type: oneOf("NUMERIC", "SINGLE_SELECT"),
  min: number,
  max: number,
  step: number,
  ordered_options: listOf(namedReference)
})
export type ProficiencyScale = typeof ProficiencyScale.Type

/** A number on a numeric scale, the id of an option of a single-select scale, or the object that answers carry. */
export const Proficiency = Schema.Union([
  Schema.Finite,
  Schema.String,
  Schema.Struct({ type: Schema.Literal("NUMERIC"), value: Schema.Finite }),
  Schema.Struct({ type: Schema.Literal("SINGLE_SELECT"), selected_option_id: Schema.String })
])
export type Proficiency = typeof Proficiency.Type

/** Assigns a skill to an employee, or replaces the rating that the same source gave before. */
export const RateSkill = Schema.Struct({
  employee_id: Schema.String,
  skill_id: Schema.String,
  rating: nullish(Schema.Struct({ rating_source: openEnum("EXTERNAL", "SELF"), proficiency: nullish(Proficiency) }))
}).annotate({ identifier: "RateSkill" })
export type RateSkill = typeof RateSkill.Type

export const SkillProficiencyRating = Schema.Struct({
  ...recordIds,
  employee_id: text,
  skill_id: text,
  /** `{type, value}` or `{type, selected_option_id}`, by the skill's scale. */
  proficiency: json,
  rating_source: oneOf("EXTERNAL", "SELF"),
  rating_provider_id: text,
  ...changeMetadata,
  ...customFields
}).annotate({ identifier: "SkillProficiencyRating" })
export type SkillProficiencyRating = typeof SkillProficiencyRating.Type

/** Attaches a skill to a staffing entity, without an expectation if none is given, or updates the expectation in place. */
export const ExpectSkill = Schema.Struct({
  skill_id: Schema.String,
  expected_proficiency: Schema.optionalKey(Proficiency)
}).annotate({ identifier: "ExpectSkill" })
export type ExpectSkill = typeof ExpectSkill.Type

export const SkillExpectation = Schema.Struct({
  id: Schema.String,
  staffing_entity_id: text,
  skill_id: text,
  expected_proficiency: json,
  changed_at: changeMetadata.changed_at,
  remote_deleted_at: changeMetadata.remote_deleted_at
}).annotate({ identifier: "SkillExpectation" })
export type SkillExpectation = typeof SkillExpectation.Type

// ---- check --------------------------------------------------------------------------------------------------------

/** The bare number or option id. */
export const proficiencyValue = (proficiency: Proficiency): number | string => {
  if (typeof proficiency !== "object") return proficiency
  return proficiency.type === "NUMERIC" ? proficiency.value : proficiency.selected_option_id
}

/** Decimal steps have no exact binary form (0.1 · 3 ≠ 0.3): off by rounding is aligned, off by more is not. */
const isAligned = (value: number, min: number, step: number): boolean => {
  const nearest = min + Math.round((value - min) / step) * step
  const rounding = 4 * Number.EPSILON * Math.max(Math.abs(value), Math.abs(min), Math.abs(value - min))
  return Math.abs(nearest - value) <= rounding
}

const checkNumber = ({ max, min, step }: ProficiencyScale, value: number | string): string | null => {
  if (typeof value !== "number" || !Number.isFinite(value)) return "the scale is numeric: give a number"
  if (min != null && value < min) return `must be at least ${min}`
  if (max != null && value > max) return `must be at most ${max}`
  if (step == null || step <= 0 || isAligned(value, min ?? 0, step)) return null
  return `must lie on a step of ${step} from ${min ?? 0}`
}

const checkOption = ({ ordered_options }: ProficiencyScale, value: number | string): string | null => {
  if (typeof value !== "string") return "the scale is a choice: give the id of one of its options"
  if (ordered_options == null || ordered_options.some(({ id }) => id === value)) return null
  const ids = ordered_options.map(({ id }) => id).filter((id) => id != null)
  return `must be the id of one of the scale's options: ${ids.join(", ")}`
}

/** What is wrong with a proficiency on this scale, or null. The value itself is never repeated. */
export const checkProficiency = (scale: ProficiencyScale, proficiency: Proficiency): string | null => {
  const value = proficiencyValue(proficiency)
  if (scale.type === "NUMERIC") return checkNumber(scale, value)
  if (scale.type === "SINGLE_SELECT") return checkOption(scale, value)
  return null
}
