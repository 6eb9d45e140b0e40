import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { RunError } from "../../../src/capture/read/Pages.ts"
import { sweep } from "../../../src/capture/read/Sweep.ts"
import type { Source } from "../../../src/source/Source.ts"
import type { Store } from "../../../src/store/Store.ts"
import { confirmInterval, type Rig, scenario } from "./Rig.ts"

/** One page of a sweep, or one confirm. */
const turn = ({ stream }: Rig) => sweep(stream, { confirmInterval, shouldYield: Effect.succeed(true) })

/** Turns until one fails, at most `most` of them. */
const turnsUntilFailure = Effect.fnUntraced(function*(
  rig: Rig,
  most: number
): Effect.fn.Return<{ readonly turns: number; readonly error: RunError | null }, never, Source | Store> {
  for (let turns = 1; turns <= most; turns++) {
    yield* rig.wait("1 minute")
    const error = yield* Effect.match(turn(rig), { onFailure: (error) => error, onSuccess: () => null })
    if (error !== null) return { turns, error }
  }
  return { turns: most, error: null }
})

describe("A sweep that is read in turns", () => {
  it.effect("P4: a list that leads in a circle aborts it, although each turn reads less than the circle", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      for (const id of ["a", "b", "c", "d", "e"]) yield* rig.put({ id })
      yield* rig.sweep
      rig.api.pageSize = 1
      rig.api.intercept = (_, answer) => Effect.succeed({ ...answer, next: answer.next ?? "1" })
      const { error, turns } = yield* turnsUntilFailure(rig, 50)
      assert.include(String(error), "a cursor already read")
      assert.isAtMost(turns, 15)
      assert.isNull((yield* rig.state).sweep)
      rig.api.intercept = (_, answer) => Effect.succeed(answer)
      yield* rig.sweep
      assert.strictEqual((yield* rig.state).lastSweep?.pages, 5)
    })))

  it.effect("P4: a list that never ends aborts it, although each turn reads few pages", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a" })
      yield* rig.sweep
      let count = 0
      rig.api.intercept = (_, answer) => Effect.succeed({ ...answer, results: [], next: `c${count++}` })
      const { error } = yield* turnsUntilFailure(rig, 150)
      assert.include(String(error), "nothing new")
    })))

  it.effect("C6: what its last page shows that polls did not counts, although it gives way before its end", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      for (const id of ["a", "b", "c", "gone"]) yield* rig.put({ id, title: "x" })
      yield* rig.sweep
      rig.api.intercept = (request, answer) =>
        Effect.succeed(request.updatedAfter === null ? answer : { ...answer, results: [], next: null })
      yield* rig.poll
      yield* rig.wait("1 hour")
      yield* rig.put({ id: "a", title: "y" })
      yield* rig.wait("1 hour")
      yield* rig.poll
      rig.api.vanish("gone")
      assert.isFalse(yield* turn(rig))
      assert.isTrue(yield* turn(rig))
      assert.strictEqual((yield* rig.state).pollsReturn, "nothing")
    })))
})
