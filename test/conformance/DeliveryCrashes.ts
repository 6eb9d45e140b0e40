/** Tests for deliveries that were running when their process ended, which every store must pass; needs a new store for each test. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { deliveryScopeOf, shardOf } from "../../src/domain/Shard.ts"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import { isolateAfterCrashes } from "../../src/store/Delivery.ts"
import type { Claimed } from "../../src/store/DeliveryClaims.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { failedAttempt, placesOf, setup } from "./Deliveries.ts"

const crashesOf = (claimed: ReadonlyArray<Claimed>) =>
  claimed.map(({ crashes, orderingKey }) => `${orderingKey}${crashes}`)

export const deliveryCrashSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`deliveries that were running when a process ended, in a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store | Deliveries>) =>
      it.effect(title, () => Effect.provide(body, layer))

    const suspected = Effect.fnUntraced(function*(orderingKeys: ReadonlyArray<string>) {
      const rig = yield* setup(orderingKeys)
      const { claim, open, owner } = rig
      for (let time = 0; time < isolateAfterCrashes; time++) {
        yield* claim
        yield* open(owner)
      }
      return rig
    })

    test(
      "a claimed delivery counts once for each process that ended; a released, failed or unclaimed one does not count (L21)",
      Effect.gen(function*() {
        const { claim, deliveries, open, owner, owners, want } = yield* setup(["a", "b", "c", "d"])
        const { claimed: [a, b, c] } = yield* deliveries.settleAndClaim(owners, [], [{ ...want, most: 3 }])
        yield* deliveries.settleAndClaim(owners, [
          { _tag: "Released", deliveries: [b?.id ?? 0] },
          { _tag: "Retry", deliveries: [c?.id ?? 0], dueAt: 0, attempts: 1, failedAttempt }
        ], [])
        yield* open(owner)
        assert.strictEqual(a?.crashes, 0)
        assert.deepStrictEqual(crashesOf(yield* claim), ["a1", "b0", "c0", "d0"])
        yield* open(owner)
        assert.deepStrictEqual(crashesOf(yield* claim), ["a2", "b1", "c1", "d1"])
      })
    )

    test(
      "a claim counts as a crash, except in a shard that its own process takes again (L21)",
      Effect.gen(function*() {
        const { claim, deliveries, dispatch, made, owner, owners } = yield* setup(["a"])
        yield* dispatch(owner, [{ ...made("b", 2), integration: "lever:beta" }], 2)
        yield* claim
        const acme = owners.filter(({ scope }) => scope === deliveryScopeOf(shardOf("greenhouse:acme")))
        yield* deliveries.recoverShards(owners, acme)
        assert.deepStrictEqual(crashesOf(yield* claim), ["a0", "b1"])
        yield* deliveries.recoverShards(owners, owners)
        assert.deepStrictEqual(crashesOf(yield* claim), ["a0", "b1"])
        yield* deliveries.recoverShards(owners)
        assert.deepStrictEqual(crashesOf(yield* claim), ["a1", "b2"])
      })
    )

    test(
      "a delivery that blocked the process counts a crash in a shard that the process takes again, even if it is released (L21)",
      Effect.gen(function*() {
        const { claim, deliveries, owners } = yield* setup(["a", "b", "c"])
        const ids = (yield* claim).map(({ id }) => id)
        const [a = 0, b = 0] = ids
        yield* deliveries.settleAndClaim(owners, [{ _tag: "Released", deliveries: [a] }], [])
        yield* deliveries.recoverShards(owners, owners, [a, b])
        assert.deepStrictEqual(crashesOf(yield* claim), ["a1", "b1", "c0"])
      })
    )

    test(
      "while a delivery is suspect, only as many are claimed as can start at once (L21)",
      Effect.gen(function*() {
        const { claim, deliveries, open, owner, owners, settle, want } = yield* setup(["a", "b", "c"])
        const careful = { ...want, mostAfterCrash: 1 }
        const first = yield* deliveries.settleAndClaim(owners, [], [{ ...want, most: 1 }])
        assert.deepStrictEqual(placesOf(first.claimed), ["a1"])
        yield* open(owner)
        const second = yield* deliveries.settleAndClaim(owners, [], [careful])
        assert.deepStrictEqual(placesOf(second.claimed), ["a1"])
        assert.deepStrictEqual(
          (yield* deliveries.settleAndClaim(owners, [], [{ ...careful, mostAfterCrash: 0 }])).claimed,
          []
        )
        yield* settle(second.claimed)
        assert.deepStrictEqual(placesOf(yield* claim), ["b2", "c3"])
      })
    )

    test(
      "after three crashes a delivery is claimed only alone, and the store reports that it waits for that (L21)",
      Effect.gen(function*() {
        const { claim, deliveries, dispatch, made, owner, owners, settle, want } = yield* suspected(["a", "b"])
        yield* dispatch(owner, [made("c", 3)], 3)
        const usual = yield* deliveries.settleAndClaim(owners, [], [want])
        assert.deepStrictEqual([placesOf(usual.claimed), usual.isolatedDue], [["c3"], true])
        yield* settle(usual.claimed)
        const alone = { ...want, isolated: true }
        const first = yield* deliveries.settleAndClaim(owners, [], [alone, alone])
        assert.deepStrictEqual([crashesOf(first.claimed), first.isolatedDue], [["a3"], false])
        yield* settle(first.claimed)
        assert.isTrue((yield* deliveries.settleAndClaim(owners, [], [want])).isolatedDue)
        assert.deepStrictEqual(placesOf((yield* deliveries.settleAndClaim(owners, [], [alone])).claimed), ["b2"])
        assert.deepStrictEqual(yield* claim, [])
      })
    )

    test(
      "a suspect that waits for its next attempt is not due alone, and the store returns when it will be due (L21)",
      Effect.gen(function*() {
        const { deliveries, want, owners } = yield* suspected(["a"])
        const { claimed: [a] } = yield* deliveries.settleAndClaim(owners, [], [{ ...want, isolated: true }])
        const again = { _tag: "Retry", deliveries: [a?.id ?? 0], dueAt: 60_000, attempts: 1, failedAttempt } as const
        const { claimed, isolatedDue, next } = yield* deliveries.settleAndClaim(owners, [again], [want])
        assert.deepStrictEqual([claimed, isolatedDue, next], [[], false, 60_000])
      })
    )

    test(
      "a delivery that ended its process while alone is claimed first; after a redrive or a split it runs alone again (L21)",
      Effect.gen(function*() {
        const { claim, deliveries, open, owner, owners, want } = yield* suspected(["a"])
        yield* deliveries.settleAndClaim(owners, [], [{ ...want, isolated: true }])
        yield* open(owner)
        const given = yield* claim
        assert.deepStrictEqual(crashesOf(given), ["a4"])
        const ids = given.map(({ id }) => id)
        yield* deliveries.settleAndClaim(owners, [{ _tag: "Dead", deliveries: ids, attempts: 1, failedAttempt }], [])
        yield* deliveries.redrive(ids, { dueAt: 0, fresh: null }, { at: 0, command: "test", target: "", detail: "" })
        assert.deepStrictEqual(yield* claim, [])
        assert.deepStrictEqual(
          crashesOf((yield* deliveries.settleAndClaim(owners, [], [{ ...want, isolated: true }])).claimed),
          ["a3"]
        )
      })
    )

    test(
      "a batch is claimed alone as a whole, and so is each of its halves (L21, L7)",
      Effect.gen(function*() {
        const { deliveries, open, owner, owners, want } = yield* setup(["a", "b"])
        const batches = { ...want, size: 2, most: 4 }
        for (let time = 0; time < isolateAfterCrashes; time++) {
          yield* deliveries.settleAndClaim(owners, [], [batches])
          yield* open(owner)
        }
        const alone = { ...batches, isolated: true }
        assert.deepStrictEqual((yield* deliveries.settleAndClaim(owners, [], [batches])).claimed, [])
        assert.deepStrictEqual(crashesOf((yield* deliveries.settleAndClaim(owners, [], [alone])).claimed), ["a3", "b3"])
        yield* open(owner)
        const { claimed } = yield* deliveries.settleAndClaim(owners, [], [batches])
        assert.deepStrictEqual(crashesOf(claimed), ["a4", "b4"])
        const deliveriesOf = claimed.map(({ id }) => id)
        const batch = claimed[0]?.batch ?? ""
        yield* deliveries.settleAndClaim(owners, [{
          _tag: "Split",
          deliveries: deliveriesOf,
          batch,
          dueAt: 0,
          failedAttempt
        }], [])
        assert.deepStrictEqual((yield* deliveries.settleAndClaim(owners, [], [batches])).claimed, [])
        assert.deepStrictEqual(crashesOf((yield* deliveries.settleAndClaim(owners, [], [alone])).claimed), ["a3"])
      })
    )
  })
