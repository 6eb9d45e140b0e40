/** The attempts of a handler are counted, with its last failure. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { make, unavailable } from "../../../test/support/delivery/Rig.ts"
import * as Plugin from "../../plugin/Plugin.ts"
import type { AttemptCounts } from "../../store/Delivery.ts"
import * as CountedAttempts from "./CountedAttempts.ts"

const minutes = 60_000

describe("the attempts of a handler", () => {
  it.effect("are counted in the store within ten seconds, and its last failure stays after the delivery has succeeded", () =>
    Effect.gen(function*() {
      const rig = yield* make
      let fails = 2
      const plugin = Plugin.make("p").on(
        "ats.application.created",
        {},
        ({ recordId }) =>
          Effect.suspend(() =>
            recordId === "a1" && fails-- > 0
              ? new Plugin.Transient({ message: "the mail server does not answer" })
              : Effect.void
          )
      )
      const { delivery } = yield* rig.start([plugin])
      for (const id of ["a1", "a2", "a3"]) yield* rig.append(id)
      yield* rig.quiet(delivery)
      assert.deepStrictEqual(yield* rig.deliveries.attemptCounts("p", 0), [])
      yield* TestClock.adjust("10 seconds")
      yield* rig.empty
      // the attempts that ended after the first addition
      yield* TestClock.adjust("10 seconds")
      const counts = () => rig.deliveries.attemptCounts("p", 0)
      yield* rig.until(counts, ([one]) => one?.attempts === 5)
      const [{ failure, ...count } = assert.fail("nothing is counted")] = yield* counts()
      assert.deepStrictEqual(count, {
        handler: "ats.application.created",
        at: 0,
        attempts: 5,
        failed: 2,
        settled: 3
      })
      assert.deepInclude(failure, {
        reason: "Transient",
        message: "the mail server does not answer",
        integration: "greenhouse:acme"
      })
    }))

  it.effect("are added when the process stops, so that a restart loses none", () =>
    Effect.gen(function*() {
      const rig = yield* make
      const plugin = Plugin.make("p").on("ats.application.created", {}, () => Effect.void)
      const { delivery, stop } = yield* rig.start([plugin])
      yield* rig.append("a1")
      yield* rig.quiet(delivery)
      yield* rig.empty
      yield* stop
      assert.deepStrictEqual((yield* rig.deliveries.attemptCounts("p", 0)).map(({ attempts }) => attempts), [1])
    }))

  it.effect("are kept while the store does not answer, by the ten minutes in which they ended", () =>
    Effect.gen(function*() {
      const stored: Array<AttemptCounts & { readonly key: number }> = []
      let tries = 0
      let isDown = true
      const scope = yield* Scope.make()
      const { add } = yield* CountedAttempts.make({
        addAttempts: (counts) =>
          Effect.suspend(() => {
            tries++
            if (isDown) return Effect.fail(unavailable)
            stored.push(...counts)
            return Effect.void
          })
      }).pipe(Effect.provideService(Scope.Scope, scope))
      const failure = { reason: "Transient", refusal: null, faults: [], integration: "greenhouse:acme" } as const
      add(1, 9 * minutes, 0, { ...failure, message: "older", at: 9 * minutes })
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(tries, 1)
      add(1, 9 * minutes, 0, { ...failure, message: "newer", at: 9 * minutes + 1 })
      add(1, 10 * minutes, 3)
      isDown = false
      yield* TestClock.adjust("10 seconds")
      assert.deepStrictEqual(stored.map(({ failure, ...count }) => ({ ...count, message: failure?.message ?? null })), [
        { key: 1, at: 0, attempts: 2, failed: 2, settled: 0, message: "newer" },
        { key: 1, at: 10 * minutes, attempts: 1, failed: 0, settled: 3, message: null }
      ])
      // without attempts nothing is written
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(tries, 2)
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(tries, 2)
    }))
})
