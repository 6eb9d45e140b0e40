import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Rig, scenario } from "../../../test/support/capture/Rig.ts"
import { filled, vanished } from "../../../test/support/capture/Waves.ts"
import type { Source } from "../../source/Source.ts"
import type { Store } from "../../store/Store.ts"
import { sweep } from "../read/Sweep.ts"
import type { RunError } from "../Stream.ts"

/** Reads one page of a sweep, or runs one confirm. */
const part = ({ stream }: Rig) => sweep(stream, Effect.succeed(true))

/** Runs parts of the sweep until one fails, at most `most`. */
const partsUntilFailure = Effect.fnUntraced(function*(
  rig: Rig,
  most: number
): Effect.fn.Return<{ readonly parts: number; readonly error: RunError | null }, never, Source | Store> {
  for (let parts = 1; parts <= most; parts++) {
    yield* rig.wait("1 minute")
    const error = yield* Effect.match(part(rig), { onFailure: (error) => error, onSuccess: () => null })
    if (error !== null) return { parts, error }
  }
  return { parts: most, error: null }
})

describe("A sweep that is interrupted after each page", () => {
  it.effect("is aborted by a pagination loop, although each part is shorter than the loop (P4)", () =>
    scenario(function*(rig) {
      yield* rig.fill(...["a", "b", "c", "d", "e"].map((id) => ({ id })))
      rig.api.pageSize = 1
      rig.api.intercept = (_, answer) => ({ ...answer, next: answer.next ?? "1" })
      const { error, parts } = yield* partsUntilFailure(rig, 50)
      assert.include(String(error), "the cursor of an earlier page")
      assert.isAtMost(parts, 15)
      assert.isNull((yield* rig.state).sweep)
      rig.api.intercept = (_, answer) => answer
      yield* rig.sweep
      assert.strictEqual((yield* rig.state).lastSweep?.pages, 5)
    }))

  it.effect("is aborted by a list that never ends, although each part has few pages (P4)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a" })
      let count = 0
      rig.api.intercept = (_, answer) => ({ ...answer, results: [], next: `c${count++}` })
      const { error } = yield* partsUntilFailure(rig, 150)
      assert.include(String(error), "no new row")
    }))

  it.effect("counts changes missed by polls on its last page, although it yields before its end (C6)", () =>
    scenario(function*(rig) {
      yield* rig.fill(...["a", "b", "c", "gone"].map((id) => ({ id, title: "x" })))
      rig.api.intercept = (request, answer) =>
        request.updatedAfter === null ? answer : { ...answer, results: [], next: null }
      yield* rig.poll
      yield* rig.wait("1 hour")
      yield* rig.put({ id: "a", title: "y" })
      yield* rig.wait("1 hour")
      yield* rig.poll
      rig.api.vanish("gone")
      assert.isFalse(yield* part(rig))
      assert.isTrue(yield* part(rig))
      assert.strictEqual((yield* rig.state).pollsReturn, "nothing")
    }))

  it.effect("ends although each part confirms only some of the records whose delete is held (R5, D6)", () =>
    filled(560, function*(rig, ids) {
      const gone = ids.slice(20, 540)
      yield* vanished(rig, gone)
      assert.strictEqual((yield* rig.pending)[gone[0]!], "held")
      const before = rig.api.requests.length
      let parts = 1
      while (!(yield* part(rig)) && parts < 20) parts++
      // three confirmations, because a request has at most 250 ids
      assert.strictEqual(parts, rig.api.requests.slice(before).length)
      assert.deepStrictEqual(
        rig.api.requests.slice(before).flatMap(({ ids }) => ids ?? []).filter((id) => gone.includes(id)).sort(),
        gone
      )
      assert.isNull((yield* rig.state).sweep)
    }))
})
