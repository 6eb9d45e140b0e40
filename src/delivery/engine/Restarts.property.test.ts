import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { violations } from "../../../test/support/delivery/RestartEffects.ts"
import { run } from "../../../test/support/delivery/Restarts.ts"
import { seeds } from "../../../test/support/Runs.ts"

describe("plugins in a process that crashes", () => {
  for (const seed of seeds(3, [1, 2, 3, 4, 5, 6])) {
    it.effect(`deliveries are settled or parked in order, each effect once, seed ${seed} (X16, L4, L5, L7)`, () =>
      Effect.gen(function*() {
        const result = yield* run({ seed, records: 10, events: 100, crashChance: 0.004 })
        assert.deepStrictEqual(violations(result), [])
        assert.isAbove(result.crashes, 0)
      }))
  }

  it.effect("every effect happens exactly once if an operator resolves all unknown outcomes (L5)", () =>
    Effect.gen(function*() {
      let resolved = 0
      for (const seed of seeds(2, [1000, 1001, 1012, 1017])) {
        const result = yield* Effect.scoped(
          run({ seed, records: 10, events: 100, crashChance: 0.01, resolvesOutcomes: true })
        )
        assert.deepStrictEqual(violations(result), [], `seed ${seed}`)
        assert.deepStrictEqual(result.letters.filter(({ failure }) => failure.message !== "poison"), [], `seed ${seed}`)
        resolved += result.resolved
      }
      assert.isAbove(resolved, 0)
    }))
})
