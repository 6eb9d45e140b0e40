/** Levels on a skill's scale, by a rating's place and by name. */
import { checkProficiency } from "#plugin"
import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import { levelAt, levelNamed } from "./Level.ts"

const stars = { type: "NUMERIC", min: 0, max: 5, step: 1 }
const percent = { type: "NUMERIC", min: 0, max: 100, step: null }
const words = {
  type: "SINGLE_SELECT",
  ordered_options: [{ id: "a", name: "Beginner" }, { id: "b", name: "Advanced" }, { id: "c", name: "Expert" }]
}

describe("levelAt", () => {
  const cases = [
    { scale: stars, levels: [0, 2, 3, 5] },
    { scale: percent, levels: [0, 100 / 3, 200 / 3, 100] },
    { scale: words, levels: ["a", "b", "b", "c"] },
    { scale: { type: "NUMERIC", min: 1, max: 2, step: 0.3 }, levels: [1, 1.3, 1.6, 1.9] }
  ]
  for (const { levels, scale } of cases) {
    it(`finds the levels of four ratings on ${JSON.stringify(scale)}`, () => {
      levels.forEach((level, place) => {
        const found = levelAt(scale, place, levels.length)
        if (typeof level === "number") assert.closeTo(Number(found), level, 1e-9)
        else assert.strictEqual(found, level)
      })
    })
  }

  it("returns null for a scale without bounds or options, and for fewer than two ratings", () => {
    assert.isNull(levelAt({ type: "NUMERIC", min: 1 }, 0, 4))
    assert.isNull(levelAt({ type: "SINGLE_SELECT", ordered_options: [] }, 1, 4))
    assert.isNull(levelAt({ type: "STARS" }, 1, 4))
    assert.isNull(levelAt(stars, 0, 1))
  })

  const bound = Schema.Finite.check(Schema.isBetween({ minimum: -1000, maximum: 1000 }))
  const length = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1000 }))
  const step = Schema.NullOr(Schema.Finite.check(Schema.isBetween({ minimum: 0.01, maximum: 300 })))
  const count = Schema.Int.check(Schema.isBetween({ minimum: 2, maximum: 9 }))

  it.prop(
    "returns a valid level for every numeric scale",
    { bound, length, step, count },
    ({ bound, count, length, step }) => {
      const scale = { type: "NUMERIC", min: bound, max: bound + length, step }
      for (let place = 0; place < count; place++) {
        const level = levelAt(scale, place, count)
        assert.isNotNull(level)
        assert.isNull(checkProficiency(scale, level ?? ""))
      }
    }
  )
})

describe("levelNamed", () => {
  it("returns a number on a numeric scale, and an option by id or name on a scale of options", () => {
    assert.strictEqual(levelNamed(stars, "4"), 4)
    assert.isNull(levelNamed(stars, "Expert"))
    assert.isNull(levelNamed(stars, " "))
    assert.strictEqual(levelNamed(words, "c"), "c")
    assert.strictEqual(levelNamed(words, "expert"), "c")
    assert.isNull(levelNamed(words, "4"))
  })
})
