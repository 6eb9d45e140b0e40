/** SIGKILL right before or right after selected durable steps; `npm run kills -- --every-step` covers all steps. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Doom } from "./Doom.ts"
import { killAtStep, prepareScenario, scenarios } from "./Scenarios.ts"

const chosen: ReadonlyArray<
  readonly [ids: string, scenario: string, ...ReadonlyArray<readonly [Doom["side"], string, number]>]
> = [
  ["X1, X2", "backfill", ["before", "backfill", 1], ["after", "backfill", 1]],
  ["X3, X5, X6", "runs", ["before", "poll's end", 1], ["after", "sweep", 1], ["after", "confirm", 1]],
  ["X7", "approval of a hold", ["after", "decision", 1], ["before", "approval", 2], ["after", "approval", 2]],
  ["X8", "backfill", ["before", "migration", 1], ["after", "migration", 1]],
  ["X19", "erasure of an integration", ["after", "integration", 2], ["after", "erasure", 2]],
  ["X14", "adoption of a store", ["after", "adoption", 1], ["after", "adoption", 3]]
]

describe("SIGKILL at a durable step", () => {
  for (const [ids, name, ...dooms] of chosen) {
    it.live(
      `${name}: the next process finishes, the fold equals the world, no event is repeated or changed (${ids})`,
      () =>
        Effect.gen(function*() {
          const scenario = scenarios.find((scenario) => scenario.name === name)
          assert.isDefined(scenario)
          const prepared = yield* prepareScenario(scenario)
          for (const [side, of, n] of dooms) {
            const verdict = yield* killAtStep(prepared, { of, n, side, signal: "SIGKILL" })
            assert.strictEqual(verdict.diedAt, of, `${side} ${of} ${n} was not reached`)
            assert.deepStrictEqual(verdict.problems.slice(0, 5), [], `${side} ${of} ${n}`)
          }
        })
    )
  }
})
