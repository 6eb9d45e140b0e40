import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { live, violations } from "./Lives.ts"

describe("plugins in a process that dies", () => {
  for (let seed = 1; seed <= 6; seed++) {
    it.effect(`X16, L4, L5, L7: settle or park everything, in order, each effect once (seed ${seed})`, () =>
      Effect.gen(function*() {
        const lived = yield* live({ seed, records: 10, events: 100, deadly: 0.004 })
        assert.deepStrictEqual(violations(lived), [])
        assert.isAbove(lived.deaths, 0)
      }))
  }

  it.effect("L5: have each effect exactly once where somebody answers for what nobody knows", () =>
    Effect.gen(function*() {
      let answers = 0
      for (const seed of [1000, 1001, 1012, 1017]) {
        const lived = yield* Effect.scoped(live({ seed, records: 10, events: 100, deadly: 0.01, answered: true }))
        assert.deepStrictEqual(violations(lived), [], `seed ${seed}`)
        assert.deepStrictEqual(lived.letters.filter(({ failure }) => failure.message !== "poison"), [], `seed ${seed}`)
        answers += lived.answers
      }
      assert.isAbove(answers, 0)
    }))
})
