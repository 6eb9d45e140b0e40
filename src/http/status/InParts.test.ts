import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { withTurns } from "../../../test/support/Turns.ts"
import { mapInParts, streamsAtATime } from "./InParts.ts"

describe("work in parts", () => {
  it.effect("has the same result as in one turn, and other fibers run before each part (I9)", () =>
    Effect.gen(function*() {
      for (const parts of [0, 1, 4]) {
        const numbers = Array.from({ length: parts * streamsAtATime }, (_, index) => index)
        const { result, turns } = yield* withTurns(mapInParts(numbers, (number) => 2 * number))
        assert.deepStrictEqual(result, numbers.map((number) => 2 * number))
        assert.strictEqual(turns, parts)
      }
    }))
})
