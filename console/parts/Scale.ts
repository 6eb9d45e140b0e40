/**
 * The units of the vertical axis of a plot: its steps, and the texts of its ticks and values.
 *
 * Invariants
 * 1. The text of a tick is its exact value, so no two ticks have the same text
 */
import { duration, number, rate } from "../Format.ts"

export interface Scale {
  /** The distances that two ticks may have, ascending. */
  readonly steps: ReadonlyArray<number>
  /** The text of a multiple of `step`. */
  readonly tick: (value: number, step: number) => string
  /** The text of any value. */
  readonly format: (value: number) => string
}

const decades = (from: number, to: number): ReadonlyArray<number> =>
  Array.from({ length: to - from + 1 }, (_, index) => from + index)
    .flatMap((exponent) => [1, 2, 5].map((digit) => Number(`${digit}e${exponent}`)))

export const counts: Scale = { steps: decades(0, 12), tick: number, format: number }

export const rates: Scale = {
  steps: decades(-3, 12),
  tick: (value) => value.toLocaleString("en-US", { maximumFractionDigits: 3 }),
  format: rate
}

const [minute, hour, day] = [60, 3_600, 86_400]
const units = [[day, "d"], [hour, "h"], [minute, "min"], [1, "s"]] as const

/** In seconds. All ticks of an axis have the same unit. */
export const durations: Scale = {
  steps: [
    1,
    2,
    5,
    10,
    15,
    30,
    ...[1, 2, 5, 10, 15, 30].map((count) => count * minute),
    ...[1, 2, 3, 6, 12].map((count) => count * hour),
    ...decades(0, 5).map((count) => count * day)
  ],
  tick: (value, step) => {
    const [size, unit] = units.find(([size]) => step % size === 0) ?? [1, "s"]
    return `${number(value / size)} ${unit}`
  },
  format: duration
}
