import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { checkProficiency, ProficiencyScale } from "./Proficiency.ts"

const numeric = (scale: Partial<ProficiencyScale>): ProficiencyScale => ({ type: "NUMERIC", ...scale })
const choice: ProficiencyScale = {
  type: "SINGLE_SELECT",
  ordered_options: [{ id: "op1", name: "low" }, { id: "op2", name: "high" }, { name: "nameless" }]
}

describe("checkProficiency", () => {
  it("a number must be between min and max, both included (U22)", () => {
    const scale = numeric({ min: 1, max: 5, step: 1 })
    for (const value of [1, 3, 5]) assert.isNull(checkProficiency(scale, value))
    assert.strictEqual(checkProficiency(scale, 0), "must be at least 1")
    assert.strictEqual(checkProficiency(scale, 6), "must be at most 5")
  })

  it("a number must be on a step, counted from min (U22)", () => {
    const scale = numeric({ min: 0.5, max: 9.5, step: 3 })
    for (const value of [0.5, 3.5, 6.5, 9.5]) assert.isNull(checkProficiency(scale, value))
    for (const value of [1, 3, 6, 9]) {
      assert.strictEqual(checkProficiency(scale, value), "must be 0.5 plus a multiple of 3")
    }
  })

  it("decimal steps are accepted although their binary forms are not exact (U22)", () => {
    const tenths = numeric({ min: 0, max: 1, step: 0.1 })
    for (const value of [0.1, 0.2, 0.3, 0.6, 0.7, 0.8, 0.9, 1, 0.1 + 0.2]) {
      assert.isNull(checkProficiency(tenths, value), String(value))
    }
    for (const value of [0.05, 0.35, 0.3000001, 0.30000000000001]) {
      assert.isNotNull(checkProficiency(tenths, value), String(value))
    }
  })

  it("a scale without a step is continuous, and a scale without bounds is unlimited (U22)", () => {
    for (const step of [null, 0, -1]) assert.isNull(checkProficiency(numeric({ min: 0, max: 1, step }), 1 / 3))
    assert.isNull(checkProficiency(numeric({ min: 0, max: 1 }), 1 / 3))
    assert.isNull(checkProficiency(numeric({ min: null, max: null, step: null }), -1e9))
    assert.isNull(checkProficiency(numeric({ step: 2 }), -4))
    assert.isNotNull(checkProficiency(numeric({ step: 2 }), -3))
  })

  it("a numeric scale accepts only numbers (U22)", () => {
    const scale = numeric({ min: 0, max: 5, step: 1 })
    assert.isNull(checkProficiency(scale, { type: "NUMERIC", value: 3 }))
    for (const wrong of ["3", Number.NaN, Number.POSITIVE_INFINITY]) assert.isNotNull(checkProficiency(scale, wrong))
    assert.isNotNull(checkProficiency(scale, { type: "SINGLE_SELECT", selected_option_id: "3" }))
    assert.isNotNull(checkProficiency(scale, { type: "NUMERIC", value: 9 }))
    assert.isNotNull(checkProficiency(numeric({}), Number.NaN))
  })

  it("a choice accepts only the id of one of its options (U22)", () => {
    assert.isNull(checkProficiency(choice, "op2"))
    assert.isNull(checkProficiency(choice, { type: "SINGLE_SELECT", selected_option_id: "op1" }))
    for (const wrong of ["high", "op3", "", 1]) assert.isNotNull(checkProficiency(choice, wrong))
    assert.isNotNull(checkProficiency(choice, { type: "NUMERIC", value: 1 }))
    assert.strictEqual(checkProficiency(choice, "high"), "must be the id of one of the scale's options: op1, op2")
  })

  it("a value is not checked if the scale does not restrict it (U22)", () => {
    assert.isNull(checkProficiency({ type: "SINGLE_SELECT", ordered_options: null }, "op9"))
    assert.isNull(checkProficiency({ type: "STARS" }, 9))
    assert.isNull(checkProficiency({}, "op9"))
  })

  const whole = (minimum: number, maximum: number) =>
    Schema.Number.check(Schema.isInt(), Schema.isBetween({ minimum, maximum }))
  const decimals = whole(0, 6)
  // The properties generate whole numbers of units of 10^-d: these are exact, unlike the quotients under test.
  const units = {
    min: whole(-100_000, 100_000),
    step: whole(2, 5000),
    steps: whole(0, 10_000),
    decimals,
    off: whole(1, 4999)
  }

  it.effect.prop(
    "every multiple of a decimal step is aligned (U22)",
    units,
    ({ decimals, min, step, steps }) =>
      Effect.sync(() => {
        const of = (count: number) => count / 10 ** decimals
        const scale = numeric({ min: of(min), max: of(min + 10_000 * step), step: of(step) })
        assert.isNull(checkProficiency(scale, of(min + steps * step)))
      })
  )

  it.effect.prop(
    "no value between two steps is aligned (U22)",
    units,
    ({ decimals, min, off, step, steps }) =>
      Effect.sync(() => {
        const of = (count: number) => count / 10 ** decimals
        const scale = numeric({ min: of(min), max: of(min + 10_001 * step), step: of(step) })
        const between = min + steps * step + (off % (step - 1) + 1)
        assert.isNotNull(checkProficiency(scale, of(between)))
      })
  )

  it.effect.prop(
    "no value below min or above max is accepted (U22)",
    units,
    ({ decimals, min, step, steps }) =>
      Effect.sync(() => {
        const of = (count: number) => count / 10 ** decimals
        const scale = numeric({ min: of(min), max: of(min + steps * step), step: of(step) })
        assert.isNotNull(checkProficiency(scale, of(min - step)))
        assert.isNotNull(checkProficiency(scale, of(min + (steps + 1) * step)))
      })
  )
})
