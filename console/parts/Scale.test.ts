import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { counts, durations, rates } from "./Scale.ts"

const scales = { counts, rates, durations }
const sizes: Readonly<Record<string, number>> = { s: 1, min: 60, h: 3_600, d: 86_400 }

/** The value that a person reads. */
const read = (text: string): number => {
  const [digits = "", unit] = text.split(" ")
  return Number(digits.replaceAll(",", "")) * (unit === undefined ? 1 : sizes[unit] ?? Number.NaN)
}

const whole = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

describe.each(Object.entries(scales))("a plot of %s", (_, { steps, tick }) => {
  it.prop(
    "has ticks whose texts are their exact values",
    [whole(steps.length - 1), whole(100_000)],
    ([index, multiple]) => {
      const step = steps[index] ?? Number.NaN
      const value = Number((step * multiple).toFixed(3))
      assert.strictEqual(read(tick(value, step)), value)
    }
  )

  it("has steps that are close enough for three ticks or more on every axis", () => {
    for (const [index, step] of steps.entries()) {
      const before = steps[index - 1]
      if (before !== undefined) assert.isTrue(step > before && step <= before * 2.5, `${before} and ${step}`)
    }
  })
})
