/** Tests for due times and circuits of a store that processes with different clocks share. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import type { AttemptOutcome } from "../../src/store/DeliveryClaims.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { dead, deliveryTests, operatorAction, placesOf, retry, setup } from "./DeliveryRig.ts"

/** The time of the first process; the others' clocks are half a minute away. */
const ours = 1_000_000
const skews = [-30_000, 30_000]

/** Needs a store whose clock is not that of the process. It takes real time, so the test allows ten seconds for each step. */
export const clockSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`deliveries of processes with different clocks (${name})`, () => {
    const test = deliveryTests(layer)
    const rig = Effect.gen(function*() {
      yield* TestClock.setTime(ours)
      const all = yield* setup([])
      const dispatch = (keys: ReadonlyArray<string>, dueAt: number) =>
        all.dispatch(all.owner, keys.map((key, index) => ({ ...all.made(key, index + 1), dueAt })), keys.length)
      return {
        ...all,
        dispatch,
        settleAndClaim: (...outcomes: ReadonlyArray<AttemptOutcome>) => all.claimWith({}, ...outcomes)
      }
    })
    for (const skew of skews) {
      const ahead = `(a clock that is ${skew / 1000} s ahead)`

      test(
        `start when they are created, in a process with another clock (W4) ${ahead}`,
        rig,
        function*({ deliveries, dispatch, settleAndClaim }) {
          yield* dispatch(["a"], ours)
          yield* TestClock.setTime(ours + skew)
          assert.deepStrictEqual((yield* deliveries.backlog).map(({ due, later }) => [due, later]), [[1, 0]])
          assert.deepStrictEqual(placesOf((yield* settleAndClaim()).claimed), ["a1"])
        }
      )

      test(
        `wait as long for their next attempt as the process meant that set the time (W4) ${ahead}`,
        rig,
        function*({ deliveries, dispatch, settleAndClaim }) {
          yield* dispatch(["a", "b"], ours)
          const { claimed } = yield* settleAndClaim()
          const [a = 0, b = 0] = claimed.map(({ id }) => id)
          yield* settleAndClaim(retry(a, ours + 20_000), dead(b))
          yield* deliveries.redrive([b], { dueAt: ours + 25_000, fresh: null }, operatorAction)
          yield* TestClock.setTime(ours + skew)
          const { claimed: early, next } = yield* settleAndClaim()
          assert.deepStrictEqual(early, [])
          const wait = (next ?? 0) - (ours + skew)
          assert.isTrue(wait > 10_000 && wait <= 20_100, `${wait} ms`)
        }
      )

      test(
        `find a circuit open as long as it was opened for (W4) ${ahead}`,
        rig,
        function*({ deliveries, dispatch, key, settleAndClaim }) {
          yield* dispatch("abcdefghij".split(""), ours)
          const { claimed } = yield* settleAndClaim()
          yield* settleAndClaim(...claimed.map(({ id, orderingKey }): AttemptOutcome => (
            { ...retry(id, ours), result: { handler: key, failed: orderingKey } }
          )))
          yield* TestClock.setTime(ours + skew)
          assert.deepStrictEqual((yield* settleAndClaim()).claimed, [])
          const [handler] = yield* deliveries.handlers
          const left = (handler?.circuit.openUntil ?? 0) - (ours + skew)
          assert.isTrue(left > 20_000 && left <= 30_100, `${left} ms`)
        }
      )
    }
  })
