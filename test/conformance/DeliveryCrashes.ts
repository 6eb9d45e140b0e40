/** Tests for deliveries that were running when their process ended, which every store must pass; needs a new store for each test. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { deliveryScopeOf, shardOf } from "../../src/domain/Shard.ts"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import { isolateAfterCrashes } from "../../src/store/Delivery.ts"
import type { Claimed } from "../../src/store/DeliveryClaims.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { dead, deliveryTests, placesOf, retry, setup, split } from "./DeliveryRig.ts"

const crashesOf = (claimed: ReadonlyArray<Claimed>) =>
  claimed.map(({ crashes, orderingKey }) => `${orderingKey}${crashes}`)

export const deliveryCrashSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`deliveries that were running when a process ended, in a store (${name})`, () => {
    const test = deliveryTests(layer)

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
      setup(["a", "b", "c", "d"]),
      function*({ claim, claimWith, end, open, owner }) {
        const { claimed: [a, b, c] } = yield* claimWith({ most: 3 })
        yield* end({ _tag: "Released", deliveries: [b!.id] }, retry(c!.id))
        yield* open(owner)
        assert.strictEqual(a?.crashes, 0)
        assert.deepStrictEqual(crashesOf(yield* claim), ["a1", "b0", "c0", "d0"])
        yield* open(owner)
        assert.deepStrictEqual(crashesOf(yield* claim), ["a2", "b1", "c1", "d1"])
      }
    )

    test(
      "a claim counts as a crash, except in a shard that its own process takes again (L21)",
      setup(["a"]),
      function*({ claim, deliveries, dispatch, made, owner, owners }) {
        yield* dispatch(owner, [{ ...made("b", 2), integration: "lever:beta" }], 2)
        yield* claim
        const acme = owners.filter(({ scope }) => scope === deliveryScopeOf(shardOf("greenhouse:acme")))
        yield* deliveries.recoverShards(owners, acme)
        assert.deepStrictEqual(crashesOf(yield* claim), ["a0", "b1"])
        yield* deliveries.recoverShards(owners, owners)
        assert.deepStrictEqual(crashesOf(yield* claim), ["a0", "b1"])
        yield* deliveries.recoverShards(owners)
        assert.deepStrictEqual(crashesOf(yield* claim), ["a1", "b2"])
      }
    )

    test(
      "a delivery that blocked the process counts a crash in a shard that the process takes again, even if it is released (L21)",
      setup(["a", "b", "c"]),
      function*({ claim, deliveries, end, owners }) {
        const [a = 0, b = 0] = (yield* claim).map(({ id }) => id)
        yield* end({ _tag: "Released", deliveries: [a] })
        yield* deliveries.recoverShards(owners, owners, [a, b])
        assert.deepStrictEqual(crashesOf(yield* claim), ["a1", "b1", "c0"])
      }
    )

    test(
      "while a delivery is suspect, only as many are claimed as can start at once (L21)",
      setup(["a", "b", "c"]),
      function*({ claim, claimWith, open, owner, settle }) {
        const first = yield* claimWith({ most: 1 })
        assert.deepStrictEqual(placesOf(first.claimed), ["a1"])
        yield* open(owner)
        const second = yield* claimWith({ mostAfterCrash: 1 })
        assert.deepStrictEqual(placesOf(second.claimed), ["a1"])
        assert.deepStrictEqual((yield* claimWith({ mostAfterCrash: 0 })).claimed, [])
        yield* settle(second.claimed)
        assert.deepStrictEqual(placesOf(yield* claim), ["b2", "c3"])
      }
    )

    test(
      "after three crashes a delivery is claimed only alone, and the store reports that it waits for that (L21)",
      suspected(["a", "b"]),
      function*({ claim, claimWith, deliveries, dispatch, made, owner, owners, settle, want }) {
        yield* dispatch(owner, [made("c", 3)], 3)
        const usual = yield* claimWith()
        assert.deepStrictEqual([placesOf(usual.claimed), usual.isolatedDue], [["c3"], true])
        yield* settle(usual.claimed)
        const alone = { ...want, isolated: true }
        const first = yield* deliveries.settleAndClaim(owners, [], [alone, alone])
        assert.deepStrictEqual([crashesOf(first.claimed), first.isolatedDue], [["a3"], false])
        yield* settle(first.claimed)
        assert.isTrue((yield* claimWith()).isolatedDue)
        assert.deepStrictEqual(placesOf((yield* claimWith(alone)).claimed), ["b2"])
        assert.deepStrictEqual(yield* claim, [])
      }
    )

    test(
      "a suspect that waits for its next attempt is not due alone, and the store returns when it will be due (L21)",
      suspected(["a"]),
      function*({ claimWith }) {
        const { claimed: [a] } = yield* claimWith({ isolated: true })
        const { claimed, isolatedDue, next } = yield* claimWith({}, retry(a!.id, 60_000))
        assert.deepStrictEqual([claimed, isolatedDue, next], [[], false, 60_000])
      }
    )

    test(
      "a delivery that ended its process while alone is claimed first; after a redrive or a split it runs alone again (L21)",
      suspected(["a"]),
      function*({ claim, claimWith, end, open, owner, redrive }) {
        yield* claimWith({ isolated: true })
        yield* open(owner)
        const given = yield* claim
        assert.deepStrictEqual(crashesOf(given), ["a4"])
        const ids = given.map(({ id }) => id)
        yield* end(dead(...ids))
        yield* redrive(ids)
        assert.deepStrictEqual(yield* claim, [])
        assert.deepStrictEqual(crashesOf((yield* claimWith({ isolated: true })).claimed), ["a3"])
      }
    )

    test(
      "a batch is claimed alone as a whole, and so is each of its halves (L21, L7)",
      setup(["a", "b"]),
      function*({ claimWith, end, open, owner }) {
        const claim = (isolated: boolean) =>
          Effect.map(claimWith({ size: 2, most: 4, isolated }), ({ claimed }) => claimed)
        for (let time = 0; time < isolateAfterCrashes; time++) {
          yield* claim(false)
          yield* open(owner)
        }
        assert.deepStrictEqual(yield* claim(false), [])
        assert.deepStrictEqual(crashesOf(yield* claim(true)), ["a3", "b3"])
        yield* open(owner)
        const claimed = yield* claim(false)
        assert.deepStrictEqual(crashesOf(claimed), ["a4", "b4"])
        yield* end(split(claimed))
        assert.deepStrictEqual(yield* claim(false), [])
        assert.deepStrictEqual(crashesOf(yield* claim(true)), ["a3"])
      }
    )
  })
