/** Tests for the circuits of handlers, which every store must pass; needs a new store for each test. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { deliveryScopeOf, shardOf } from "../../src/domain/Shard.ts"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import type { AttemptOutcome, Claimed, ClaimRequest } from "../../src/store/DeliveryClaims.ts"
import type { Owner } from "../../src/store/State.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { deliveryTests, operatorAction, placesOf, retry, settled, setup } from "./DeliveryRig.ts"

const other = "lever:beta"
const letters = "abcdefghijklmnopqrst".split("")

export const circuitSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`the circuits of handlers in a store (${name})`, () => {
    const test = deliveryTests(layer)

    /** Two processes: the deliveries of the first twenty letters are in a shard of the first one, as many others in one of the second. */
    const twoProcesses = Effect.gen(function*() {
      const rig = yield* setup(letters)
      const { deliveries, dispatch, key, made, owner, owners } = rig
      const others = letters.map((letter, index) => ({ ...made(letter.toUpperCase(), index + 21), integration: other }))
      yield* dispatch(owner, others, 40)
      const second = owners.filter(({ scope }) => scope === deliveryScopeOf(shardOf(other)))
      const first = owners.filter((one) => !second.includes(one))
      const want: ClaimRequest = { ...rig.want, concurrency: 4, most: 4 }
      const settleAndClaim = (of: ReadonlyArray<Owner>, outcomes: ReadonlyArray<AttemptOutcome>, most = 4) =>
        deliveries.settleAndClaim(of, outcomes, most === 0 ? [] : [{ ...want, most }])
      const failed = ({ id, orderingKey }: Claimed): AttemptOutcome => (
        { ...retry(id, 1_000_000), result: { handler: key, failed: orderingKey } }
      )
      const succeeded = ({ id }: Claimed): AttemptOutcome => (
        { ...settled(id), result: { handler: key, failed: null } }
      )
      /** Claims deliveries one after another; each fails. */
      const fail = Effect.fnUntraced(function*(of: ReadonlyArray<Owner>, count: number) {
        for (let time = 0; time < count; time++) {
          const { claimed } = yield* settleAndClaim(of, [], 1)
          yield* settleAndClaim(of, claimed.map(failed), 0)
        }
      })
      const circuit = Effect.map(deliveries.handlers, ([state]) => state!.circuit)
      return { ...rig, first, second, settleAndClaim, failed, succeeded, fail, circuit }
    })

    test(
      "open when deliveries of ten records in a row have failed, in all processes together",
      twoProcesses,
      function*({ circuit, fail, first, second, settleAndClaim }) {
        yield* fail(first, 6)
        yield* fail(second, 3)
        assert.strictEqual((yield* circuit).openUntil, null)
        yield* fail(second, 1)
        assert.deepStrictEqual(yield* circuit, {
          failed: ["a", "b", "c", "d", "e", "f", "A", "B", "C", "D"],
          openings: 1,
          openUntil: 30_000
        })
        for (const process of [first, second]) {
          const { circuits, claimed, next } = yield* settleAndClaim(process, [])
          assert.deepStrictEqual([claimed, next, [...circuits.values()][0]?.openUntil], [[], 1_000, 30_000])
        }
        yield* TestClock.adjust("29900 millis")
        assert.strictEqual((yield* settleAndClaim(first, [])).next, 30_000)
      }
    )

    test(
      "stay closed if a delivery in between succeeds in another process, and count a record once",
      twoProcesses,
      function*({ circuit, fail, failed, first, second, settleAndClaim, succeeded }) {
        yield* fail(first, 6)
        const { claimed: [one] } = yield* settleAndClaim(second, [], 1)
        yield* settleAndClaim(second, [succeeded(one!)], 0)
        assert.deepStrictEqual(yield* circuit, { failed: [], openings: 0, openUntil: null })
        yield* fail(second, 6)
        const { claimed: [again] } = yield* settleAndClaim(first, [], 1)
        for (let time = 0; time < 10; time++) yield* settleAndClaim(first, [failed(again!)], 0)
        assert.strictEqual((yield* circuit).failed.length, 7)
      }
    )

    test(
      "permit one trial in all processes together once their open time is over, and close with its success",
      twoProcesses,
      function*({ circuit, fail, failed, first, second, settleAndClaim, succeeded }) {
        yield* fail(first, 5)
        yield* fail(second, 5)
        yield* TestClock.adjust("30 seconds")
        const trial = yield* settleAndClaim(first, [])
        assert.deepStrictEqual(placesOf(trial.claimed), ["f6"])
        for (const process of [first, second]) {
          const { claimed, next } = yield* settleAndClaim(process, [])
          assert.deepStrictEqual([claimed, next], [[], 30_250])
        }
        const again = yield* settleAndClaim(first, trial.claimed.map(failed))
        assert.deepStrictEqual([again.claimed, (yield* circuit).openUntil], [[], 90_000])
        yield* TestClock.adjust("1 minute")
        const { claimed } = yield* settleAndClaim(second, [])
        assert.deepStrictEqual(placesOf(claimed), ["F26"])
        yield* settleAndClaim(second, claimed.map(succeeded), 0)
        assert.strictEqual((yield* settleAndClaim(first, [])).claimed.length, 4)
      }
    )

    test(
      "do not count attempts that were running when they opened as trials",
      twoProcesses,
      function*({ circuit, fail, failed, first, second, settleAndClaim }) {
        const { claimed } = yield* settleAndClaim(first, [], 3)
        yield* fail(second, 10)
        yield* settleAndClaim(first, [failed(claimed[0]!)], 0)
        assert.strictEqual((yield* circuit).openUntil, 30_000)
        yield* TestClock.adjust("30 seconds")
        assert.deepStrictEqual((yield* settleAndClaim(second, [])).claimed, [])
      }
    )

    test(
      "permit another trial after the process of a trial was killed, when its shard has the next owner (X9, X16)",
      twoProcesses,
      function*({ circuit, deliveries, fail, failed, first, second, settleAndClaim, store }) {
        yield* fail(first, 5)
        yield* fail(second, 5)
        yield* TestClock.adjust("30 seconds")
        const { claimed: [trial] } = yield* settleAndClaim(first, [])
        const heirs = [...(yield* store.takeOwnerships([deliveryScopeOf(shardOf("greenhouse:acme"))])).values()]
        assert.deepStrictEqual((yield* settleAndClaim(second, [])).claimed, [])
        yield* deliveries.recoverShards(heirs)
        // the process was only frozen: it has no effect
        yield* settleAndClaim(first, [failed(trial!)], 0)
        assert.strictEqual((yield* circuit).openUntil, 30_000)
        assert.deepStrictEqual(placesOf((yield* settleAndClaim(second, [])).claimed), ["F26"])
        assert.deepStrictEqual((yield* settleAndClaim(heirs, [])).claimed, [])
      }
    )

    test(
      "may be tried at once by an operator: its failure opens them for longer, its success closes them",
      twoProcesses,
      function*({ circuit, deliveries, fail, failed, first, second, settleAndClaim, store, succeeded }) {
        const handler = (yield* deliveries.handlers)[0]!
        const tryNow = deliveries.tryCircuit(handler, operatorAction)
        assert.isFalse(yield* tryNow)
        assert.deepStrictEqual(yield* store.auditLog(10), [])
        yield* fail(first, 10)
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual((yield* settleAndClaim(second, [])).claimed, [])
        assert.isTrue(yield* tryNow)
        const { claimed: trial } = yield* settleAndClaim(second, [])
        assert.strictEqual(trial.length, 1)
        yield* settleAndClaim(second, trial.map(failed), 0)
        assert.strictEqual((yield* circuit).openUntil, 61_000)
        assert.isTrue(yield* tryNow)
        const { claimed: again } = yield* settleAndClaim(second, [])
        yield* settleAndClaim(second, again.map(succeeded), 0)
        assert.isNull((yield* circuit).openUntil)
        assert.lengthOf(yield* store.auditLog(10), 2)
      }
    )

    test(
      "may be tried at once when a process begins to create deliveries, and outlast the process",
      twoProcesses,
      function*({ circuit, fail, first, open, owner, settleAndClaim }) {
        yield* fail(first, 10)
        yield* TestClock.adjust("1 second")
        yield* open(owner)
        assert.strictEqual((yield* circuit).openUntil, 1_000)
        assert.strictEqual((yield* settleAndClaim(first, [])).claimed.length, 1)
      }
    )

    test("permit one batch as a trial", twoProcesses, function*({ deliveries, fail, first, second, want }) {
      yield* fail(first, 10)
      yield* TestClock.adjust("30 seconds")
      const batches = { ...want, size: 3, most: 4, concurrency: 4 }
      const { claimed } = yield* deliveries.settleAndClaim(second, [], [batches])
      assert.deepStrictEqual(placesOf(claimed), ["A21", "B22", "C23"])
      assert.deepStrictEqual((yield* deliveries.settleAndClaim(first, [], [batches])).claimed, [])
    })
  })
