import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { violations } from "../../support/delivery/RestartEffects.ts"
import { run } from "../../support/delivery/Restarts.ts"

describe("ten thousand events through five plugins", () => {
  it.effect(
    "every delivery is settled or parked in order, with each effect once or reported as unknown (X16, L4, L5, L7)",
    () =>
      Effect.gen(function*() {
        const result = yield* run({ seed: 1, records: 600, events: 10_000, crashChance: 0.0004 })
        assert.deepStrictEqual(violations(result), [])
        assert.isAbove(result.crashes, 20)
        assert.isAbove(result.letters.length, 20)
      })
  )
})
