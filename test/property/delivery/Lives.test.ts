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
})
