import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { live, violations } from "../../property/delivery/Lives.ts"

describe("ten thousand events through five plugins", () => {
  it.effect(
    "X16, L4, L5, L7: every delivery settled or parked, order kept, each effect once, every unknown outcome told",
    () =>
      Effect.gen(function*() {
        const lived = yield* live({ seed: 1, records: 600, events: 10_000, deadly: 0.0004 })
        assert.deepStrictEqual(violations(lived), [])
        assert.isAbove(lived.deaths, 20)
        assert.isAbove(lived.letters.length, 20)
      }),
    { timeout: 180_000 }
  )
})
