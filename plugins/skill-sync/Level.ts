/**
 * Where something stands on a skill's scale: hides the two kinds of scale.
 *
 * Invariants
 * 1. A level that is worked out lies on the scale: within its bounds, on a step, one of its options
 */
import { checkProficiency, type ProficiencyScale } from "#plugin"

/** A number on a numeric scale, the id of an option of the other kind. */
export type Level = number | string

const optionsOf = ({ ordered_options }: ProficiencyScale) =>
  (ordered_options ?? []).flatMap(({ id, name }) => id == null ? [] : [{ id, name }])

/** What a configured text says on this scale: a number, or an option by id or name; null: nothing. */
export const levelNamed = (scale: ProficiencyScale, text: string): Level | null => {
  if (scale.type === "NUMERIC") {
    const value = text.trim() === "" ? Number.NaN : Number(text)
    return Number.isFinite(value) ? value : null
  }
  const meant = text.toLowerCase()
  return optionsOf(scale).find(({ id, name }) => id === text || name?.toLowerCase() === meant)?.id ?? null
}

const numberAt = (scale: ProficiencyScale, share: number): number | null => {
  const { max, min, step } = scale
  if (min == null || max == null || max < min) return null
  const length = max - min
  // sums of decimals may pass the end by rounding
  if (step == null || step <= 0) return Math.min(max, min + share * length)
  const onStep = (count: number) => Math.min(max, min + count * step)
  const wholeSteps = [Math.round(length / step), Math.floor(length / step)]
    .find((count) => checkProficiency(scale, onStep(count)) === null) ?? 0
  return onStep(Math.min(wholeSteps, Math.round(share * length / step)))
}

/** As far up the scale as place `place` (from 0) is among `count` in order; null where the scale does not say. */
export const levelAt = (scale: ProficiencyScale, place: number, count: number): Level | null => {
  if (count < 2) return null
  const share = place / (count - 1)
  if (scale.type === "NUMERIC") return numberAt(scale, share)
  const options = optionsOf(scale)
  return options[Math.round(share * (options.length - 1))]?.id ?? null
}
