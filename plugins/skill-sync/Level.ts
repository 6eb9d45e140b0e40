/**
 * Levels on a skill's proficiency scale.
 *
 * Invariants
 * 1. A computed level is valid on the scale: within its bounds and on a step, or one of its options
 */
import { checkProficiency, type ProficiencyScale } from "#plugin"

/** A number on a numeric scale, or the id of an option on a scale of options. */
export type Level = number | string

const optionsOf = ({ ordered_options }: ProficiencyScale) =>
  (ordered_options ?? []).flatMap(({ id, name }) => id == null ? [] : [{ id, name }])

/** The level that a configured text names on this scale: a number, or an option by id or name; null if it names none. */
export const levelNamed = (scale: ProficiencyScale, text: string): Level | null => {
  if (scale.type === "NUMERIC") {
    const value = text.trim() === "" ? Number.NaN : Number(text)
    return Number.isFinite(value) ? value : null
  }
  const lowerCaseText = text.toLowerCase()
  return optionsOf(scale).find(({ id, name }) => id === text || name?.toLowerCase() === lowerCaseText)?.id ?? null
}

const numberAt = (scale: ProficiencyScale, share: number): number | null => {
  const { max, min, step } = scale
  if (min == null || max == null || max < min) return null
  const length = max - min
  // a sum of decimals may exceed the maximum by a rounding error
  if (step == null || step <= 0) return Math.min(max, min + share * length)
  const onStep = (count: number) => Math.min(max, min + count * step)
  const wholeSteps = [Math.round(length / step), Math.floor(length / step)]
    .find((count) => checkProficiency(scale, onStep(count)) === null) ?? 0
  return onStep(Math.min(wholeSteps, Math.round(share * length / step)))
}

/**
 * Maps place `place` (from 0) of `count` ordered ratings to the same relative place on the scale. Null if the scale has no
 * bounds or options, or if `count` is less than 2.
 */
export const levelAt = (scale: ProficiencyScale, place: number, count: number): Level | null => {
  if (count < 2) return null
  const share = place / (count - 1)
  if (scale.type === "NUMERIC") return numberAt(scale, share)
  const options = optionsOf(scale)
  return options[Math.round(share * (options.length - 1))]?.id ?? null
}
