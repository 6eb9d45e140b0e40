/** Tests for deliveries that every store must pass; needs a layer that creates a new store for each test. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { deliveryScopeOf, deliveryScopes, shardOf } from "../../src/domain/Shard.ts"
import type { Deliveries } from "../../src/store/Deliveries.ts"
import { deliveryReader } from "../../src/store/Delivery.ts"
import type { AttemptOutcome } from "../../src/store/DeliveryClaims.ts"
import type { Owner } from "../../src/store/State.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { dead, deliveryTests, operatorAction, placesOf, retry, settled, setup } from "./DeliveryRig.ts"
import { changeOf, created, eventOf, ids, reasonOf, tags } from "./StoreSamples.ts"

const integration = "greenhouse:acme"

export const deliverySuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`deliveries of a store (${name})`, () => {
    const test = deliveryTests(layer)

    test(
      "with one ordering key are claimed in order, one at a time, while others are created and settled (I5)",
      setup(["a", "b", "a", "a"]),
      function*({ claim, dispatch, made, owner, settle }) {
        const first = yield* claim
        assert.deepStrictEqual(placesOf(first), ["a1", "b2"])
        yield* dispatch(owner, [made("b", 5)], 5)
        assert.deepStrictEqual(placesOf(yield* claim), [])
        yield* settle(first)
        const second = yield* claim
        assert.deepStrictEqual(placesOf(second), ["a3", "b5"])
        yield* settle(second)
        assert.deepStrictEqual(placesOf(yield* claim), ["a4"])
      }
    )

    test(
      "are committed with the positions of their handlers and of the reader, or not at all (I2)",
      setup(["a"]),
      function*({ deliveries, dispatch, made, owner, store }) {
        assert.deepStrictEqual((yield* deliveries.handlers).map(({ position }) => position), [1])
        assert.strictEqual(yield* store.readerPosition(deliveryReader), 1)
        yield* store.takeOwnership("delivery")
        assert.strictEqual(reasonOf(yield* Effect.exit(dispatch(owner, [made("b", 2)], 2))), "Fenced")
        assert.deepStrictEqual((yield* deliveries.handlers).map(({ position }) => position), [1])
        assert.strictEqual((yield* deliveries.backlog)[0]?.due, 1)
      }
    )

    test(
      "reject an owner that was replaced: it cannot settle, claim, begin or check (I10, X16)",
      setup(["a"]),
      function*({ claimOne, claimWith, deliveries, fence, owners, step, store }) {
        const claimed = yield* claimOne
        yield* deliveries.check(fence(claimed))
        yield* store.takeOwnerships(deliveryScopes)
        const intent = { ...step("e1"), integration, write: null, allowRepeat: false }
        for (const refused of [deliveries.check(fence(claimed)), deliveries.begin(fence(claimed), intent)]) {
          assert.strictEqual(reasonOf(yield* Effect.exit(refused)), "Fenced")
        }
        const nothing = { claimed: [], next: null, isolatedDue: false, circuits: new Map() }
        assert.deepStrictEqual(yield* claimWith({}, settled(claimed.id)), { ...nothing, lost: owners })
        assert.deepStrictEqual(yield* deliveries.recoverShards(owners), owners)
        assert.strictEqual((yield* deliveries.backlog)[0]?.running, 1)
      }
    )

    test(
      "are claimed only by the owner of their shard, and by all owners together up to the concurrency (I10)",
      setup(["a", "b"]),
      function*({ deliveries, dispatch, made, open, owner, owners, want }) {
        const others = ["c", "d", "e"].map((key, index) => ({ ...made(key, index + 3), integration: "lever:beta" }))
        yield* dispatch(owner, others, 5)
        const ownerOf = (of: string) => owners.filter(({ scope }) => scope === deliveryScopeOf(shardOf(of)))
        const [acme, beta] = [ownerOf(integration), ownerOf("lever:beta")]
        const claim = (of: ReadonlyArray<Owner>, concurrency: number, size: number | null = null) =>
          Effect.map(deliveries.settleAndClaim(of, [], [{ ...want, concurrency, size }]), ({ claimed, next }) => ({
            places: placesOf(claimed),
            next
          }))
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(yield* claim(acme, 1), { places: ["a1"], next: 1_250 })
        assert.deepStrictEqual(yield* claim(beta, 1), { places: [], next: 1_250 })
        assert.deepStrictEqual(yield* claim(beta, 2, 2), { places: ["c3", "d4"], next: 1_250 })
        assert.deepStrictEqual(yield* claim(acme, 2), { places: [], next: 1_250 })
        assert.deepStrictEqual(yield* claim([...acme, ...beta], 9), { places: ["b2", "e5"], next: null })
        const shardsOf = (of: ReadonlyArray<Owner>) =>
          Effect.map(deliveries.running(of), (running) => running.map(({ shard }) => shard))
        const [acmeShard, betaShard] = [shardOf(integration), shardOf("lever:beta")]
        assert.deepStrictEqual(yield* shardsOf(acme), [acmeShard, acmeShard])
        assert.deepStrictEqual(yield* shardsOf(beta), [betaShard, betaShard, betaShard])
        yield* deliveries.recoverShards(beta)
        assert.deepStrictEqual((yield* claim(beta, 9)).places, ["c3", "d4", "e5"])
        yield* open(owner)
        // the last free slot is left to the earliest delivery for a moment
        yield* TestClock.adjust("3 seconds")
        const [first, second] = shardOf(integration) < shardOf("lever:beta") ? [acme, beta] : [beta, acme]
        assert.deepStrictEqual((yield* claim(second, 1)).places, [])
        assert.strictEqual((yield* claim(first, 1)).places.length, 1)
      }
    )

    for (const skipsDeadLetters of [false, true]) {
      test(
        skipsDeadLetters
          ? "continue past a dead one if their handler skips dead letters (L4)"
          : "wait behind a dead one until it is discarded (L4)",
        setup(["a", "a"], { skipsDeadLetters }),
        function*({ claim, claimOne, deliveries, end }) {
          const { id } = yield* claimOne
          yield* end(dead(id))
          assert.deepStrictEqual(placesOf(yield* claim), skipsDeadLetters ? ["a2"] : [])
          const letters = yield* deliveries.deadLetters({ limit: 10 })
          assert.deepStrictEqual(letters.map(({ parked }) => parked), [skipsDeadLetters ? 0 : 1])
          assert.strictEqual(yield* deliveries.discard([id], operatorAction), 1)
          assert.deepStrictEqual(placesOf(yield* claim), skipsDeadLetters ? [] : ["a2"])
        }
      )
    }

    test(
      "are claimed again only when they are due, and the store returns that time",
      setup(["a"]),
      function*({ claimOne, claimWith }) {
        const { claimed, next } = yield* claimWith({}, retry((yield* claimOne).id, 60_000))
        assert.deepStrictEqual([placesOf(claimed), next], [[], 60_000])
      }
    )

    test(
      "that wait for stopped writes are due as soon as writes are resumed, before or after their attempt ends",
      setup(["a", "b"]),
      function*({ claim, claimWith, deliveries, end }) {
        const switchWrites = (on: boolean) => deliveries.setSwitch({ _tag: "Writes" }, on, operatorAction)
        const [a = 0, b = 0] = (yield* claim).map(({ id }) => id)
        const again = (id: number, stopped: boolean) => ({ ...retry(id, 1e15), stopped })
        const claimPatiently = (...outcomes: ReadonlyArray<AttemptOutcome>) =>
          Effect.map(claimWith({ maxLead: 1e16 }, ...outcomes), ({ claimed }) => placesOf(claimed))
        yield* switchWrites(false)
        yield* end(again(a, true), again(b, false))
        assert.deepStrictEqual(yield* claimPatiently(), [])
        yield* switchWrites(true)
        assert.deepStrictEqual(yield* claimPatiently(), ["a1"])
        // the write was refused before writes were resumed, and the attempt was settled after that
        assert.deepStrictEqual(yield* claimPatiently(again(a, true)), ["a1"])
        // it was claimed again since, so it waits only for its due time
        yield* switchWrites(false)
        yield* end(again(a, true))
        yield* claim
        yield* end(again(a, false))
        yield* switchWrites(true)
        assert.deepStrictEqual(yield* claimPatiently(), [])
      }
    )

    test(
      "keep their event and the record's previous event in the log until they are settled",
      setup([]),
      function*({ change, claim, deliveries, dispatch, made, owner, settle, store, write }) {
        yield* write([created("r")])
        for (let version = 2; version <= 4; version++) yield* change("r", "updated")
        yield* dispatch(owner, [made("r", 2)], 4)
        const pruned = store.prune({ before: Number.MAX_SAFE_INTEGER, upTo: 4 })
        const kept = Effect.map(deliveries.entries([1, 2, 3, 4]), (entries) => entries.map(({ position }) => position))
        yield* pruned
        assert.deepStrictEqual(yield* kept, [1, 2, 4])
        yield* settle(yield* claim)
        yield* pruned
        assert.deepStrictEqual(yield* kept, [4])
      }
    )

    test(
      "keep these rows in the log while the store is adopted, and afterwards until they are settled (X11)",
      setup([]),
      function*({ change, claim, deliveries, dispatch, head, made, owner, settle, store, write }) {
        yield* write([created("r"), created("s")])
        for (let version = 2; version <= 4; version++) yield* change("r", "updated")
        yield* dispatch(owner, [made("r", 3), made("r", 4)], 5)
        const records = (yield* Effect.forEach(["r", "s"], head)).map((head) => ({
          head: { ...head, version: 1, position: null },
          events: [eventOf(head.id, 1, "created", { generation: 2 })]
        }))
        const capture = yield* store.takeOwnership("capture")
        yield* store.raiseGeneration([capture], 2)
        yield* store.transact(capture, tags, (tx) => tx.write(records))
        yield* store.transact(capture, tags, (tx) => tx.retainOlderGenerationEvents(2))
        const dropped = yield* store.transact(capture, tags, (tx) => tx.deleteOlderGenerationEvents(2, 100))
        assert.strictEqual(dropped, 2)
        const kept = Effect.map(
          deliveries.entries([1, 2, 3, 4, 5, 6, 7]),
          (entries) => entries.map(({ before, position }) => `${position} ${before}`)
        )
        const versions = [1, 2].map((version) => JSON.stringify({ id: "r", version }))
        const current = ["6 null", "7 null"]
        assert.deepStrictEqual(yield* kept, ["1 null", `3 ${versions[0]}`, `4 ${versions[1]}`, ...current])
        const pruned = store.prune({ before: Number.MAX_SAFE_INTEGER, upTo: 7 })
        yield* settle(yield* claim)
        yield* pruned
        assert.deepStrictEqual(yield* kept, ["3 null", `4 ${versions[1]}`, ...current])
        yield* settle(yield* claim)
        yield* pruned
        assert.deepStrictEqual(yield* kept, current)
      }
    )

    test(
      "keep content that its source erased until they are settled (D11)",
      setup([]),
      function*({ change, claim, deliveries, dispatch, head, made, owner, settle, store, write }) {
        yield* write([created("r"), created("s")])
        yield* change("r", "updated")
        for (const id of ["r", "s"]) yield* write([{ ...changeOf(yield* head(id), "deleted"), erased: true }])
        yield* dispatch(owner, [made("r", 3)], 5)
        const dropped = store.purgeErased({ before: Number.MAX_SAFE_INTEGER, upTo: 5 })
        const contents = Effect.map(deliveries.entries([1, 2, 3]), (entries) => entries.map(({ after }) => after))
        assert.strictEqual(yield* dropped, 1)
        // rows without content are missing, so that no handler gets an event without the content that it had
        assert.deepStrictEqual(yield* contents, ['{"id":"r","version":1}', '{"id":"r","version":2}'])
        yield* settle(yield* claim)
        assert.strictEqual(yield* dropped, 1)
        assert.deepStrictEqual(yield* contents, [])
      }
    )

    test(
      "are settled hundreds at a time, and each releases only its own ordering key",
      setup([...ids(600), ...ids(600)]),
      function*({ claim, claimWith, settle }) {
        const { claimed: first } = yield* claimWith({ most: 600 })
        assert.strictEqual(first.length, 600)
        yield* settle(first.slice(0, 300))
        const keysOf = (claimed: typeof first) => claimed.map(({ orderingKey }) => orderingKey)
        assert.deepStrictEqual(keysOf(yield* claim), keysOf(first.slice(0, 100)))
      }
    )
  })
