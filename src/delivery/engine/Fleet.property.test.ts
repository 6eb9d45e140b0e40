import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { violations } from "../../../test/support/delivery/RestartEffects.ts"
import { run } from "../../../test/support/delivery/Restarts.ts"
import { seeds } from "../../../test/support/Runs.ts"

const fleet = { processes: 3, moveChance: 0.02, freezeChance: 0.06, slowChance: 0.1 }

describe("plugins in several processes between which shards move", () => {
  for (const seed of seeds(1, [4, 2, 1])) {
    it.effect(`deliveries are settled or parked in order, each effect once, seed ${seed} (X16, I10, L4, L5, L7)`, () =>
      Effect.gen(function*() {
        const size = { seed, records: 8, events: 40, crashChance: 0.002, resolvesOutcomes: true }
        const result = yield* Effect.scoped(run({ ...size, fleet }))
        assert.deepStrictEqual(violations(result), [])
        assert.isAbove(result.moves, 100)
        assert.isAbove(result.freezes, 0)
        assert.isAbove(result.slow, 0)
      }))
  }
})
