/** Which events a replay takes whose range is given by times. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import { make } from "../../../test/support/delivery/Rig.ts"
import { formatTime } from "../../domain/Watermark.ts"
import * as Plugin from "../../plugin/Plugin.ts"

const handler = "ats.application.created"
const hour = 3_600_000

describe("a replay by times", () => {
  it.effect("takes the events that were written to the log in that time, although a hold was released meanwhile (C3)", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const { plugins } = yield* rig.start([Plugin.make("p").on(handler, {}, () => Effect.void)])
      // the changes at the positions 3 to 7 were held
      for (
        const [at, detectedAt] of [[1, 1], [10, 10], ...Array.from({ length: 5 }, () => [11, 2]), [12, 12]] as const
      ) {
        yield* TestClock.setTime(at * hour)
        yield* rig.append("a", { detectedAt: detectedAt * hour })
      }
      const replay = Effect.fnUntraced(function*(range: { readonly from?: number; readonly to?: number }) {
        const times = Object.fromEntries(Object.entries(range).map(([name, at]) => [name, formatTime(at * hour)]))
        const { from, to } = yield* plugins.replay({ plugin: "p", handler, fresh: false, ...times })
        return [from, to]
      })
      assert.deepStrictEqual(yield* replay({ from: 10 }), [2, 8])
      assert.deepStrictEqual(yield* replay({ from: 2, to: 11 }), [2, 2])
      assert.deepStrictEqual(yield* replay({ to: 12 }), [1, 7])
      assert.deepStrictEqual(yield* replay({ from: 11.5 }), [8, 8])
    }).pipe(Effect.scoped))
})
