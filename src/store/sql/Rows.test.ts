import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { stateOf } from "../../../test/conformance/StoreSamples.ts"
import { withTurns } from "../../../test/support/Turns.ts"
import { rowsPerStatement, toStates } from "./Rows.ts"

describe("the states of many streams", () => {
  it.effect("are parsed in parts, and other fibers run before each part (I9)", () =>
    Effect.gen(function*() {
      const states = Array.from(
        { length: 4 * rowsPerStatement },
        (_, index) => stateOf({ integration: `greenhouse:${index}`, model: "ats.tag" })
      )
      const rows = states.map((state, key) => ({
        key,
        integration: state.integration,
        model: state.model,
        state: JSON.stringify(state)
      }))
      const { result, turns } = yield* withTurns(toStates(rows))
      assert.deepStrictEqual(result, states)
      assert.strictEqual(turns, 4)
    }))
})
