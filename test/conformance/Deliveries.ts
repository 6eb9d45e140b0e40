/** Tests for deliveries that every store must pass; needs a layer that creates a new store for each test. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { deliveryScopeOf, deliveryScopes, shardOf } from "../../src/domain/Shard.ts"
import type { FencingToken, StepKey } from "../../src/store/AttemptJournal.ts"
import { Deliveries } from "../../src/store/Deliveries.ts"
import {
  type ConfiguredHandler,
  deliveryReader,
  type FailedAttempt,
  type Failure,
  type NewDelivery
} from "../../src/store/Delivery.ts"
import type { Claimed, ClaimRequest } from "../../src/store/DeliveryClaims.ts"
import type { Owner } from "../../src/store/State.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { begin, changeOf, created, eventOf, ids, reasonOf, tags } from "./StoreSamples.ts"

const handler = (name: string, details: Partial<ConfiguredHandler> = {}): ConfiguredHandler => ({
  plugin: "p",
  handler: name,
  from: "oldest",
  skipsDeadLetters: false,
  scheduled: false,
  ...details
})
const failure: Failure = { reason: "Transient", message: "not yet", refusal: null, faults: [], at: 1 }
export const failedAttempt: FailedAttempt = { number: 1, startedAt: 0, failure, requests: [] }
export const operatorAction = { at: 0, command: "test", target: "", detail: "" }

/** One handler, and a delivery for each ordering key, with positions 1, 2, 3 … */
export const setup = Effect.fnUntraced(
  function*(orderingKeys: ReadonlyArray<string>, details: Partial<ConfiguredHandler> = {}) {
    const { change, head, store, write } = yield* begin
    const deliveries = yield* Deliveries
    const owner = yield* store.takeOwnership("delivery")
    const owners = [...(yield* store.takeOwnerships(deliveryScopes)).values()]
    /** Registers the handler and takes the shards, as a process does that starts. */
    const open = (owner: Owner) =>
      Effect.tap(deliveries.registerHandlers(owner, [handler("h", details)]), deliveries.recoverShards(owners))
    const [state] = yield* open(owner)
    const key = state?.key ?? 0
    const made = (orderingKey: string, position: number): NewDelivery => ({
      handler: key,
      integration: "greenhouse:acme",
      orderingKey,
      subject: { _tag: "Event", position },
      dueAt: 0,
      dead: null,
      fresh: null
    })
    const dispatch = (owner: Owner, some: ReadonlyArray<NewDelivery>, position: number) =>
      deliveries.dispatch(owner, { deliveries: some, handlers: [key], position })
    yield* dispatch(owner, orderingKeys.map((orderingKey, index) => made(orderingKey, index + 1)), orderingKeys.length)
    const want: ClaimRequest = { handler: key, most: 100, size: null, excludedIntegrations: [], maxLead: 1_000_000 }
    const claim = Effect.map(deliveries.settleAndClaim(owners, [], [want]), ({ claimed }) => claimed)
    const settle = (some: ReadonlyArray<Claimed>) =>
      deliveries.settleAndClaim(owners, [{ _tag: "Settled", deliveries: some.map(({ id }) => id) }], [])
    return { store, deliveries, owner, owners, open, key, made, dispatch, want, claim, settle, change, head, write }
  }
)

export const placesOf = (claimed: ReadonlyArray<Claimed>) =>
  claimed.map(({ orderingKey, subject }) => `${orderingKey}${subject._tag === "Event" ? subject.position : ""}`)
export const fenceOf = (
  owners: ReadonlyArray<Owner>,
  { claim, id, integration }: Pick<Claimed, "claim" | "id" | "integration">
): FencingToken => ({
  owner: owners.find(({ scope }) => scope === deliveryScopeOf(shardOf(integration)))!,
  delivery: id,
  claim
})

export const deliverySuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`deliveries of a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store | Deliveries>) =>
      it.effect(title, () => Effect.provide(body, layer))

    test(
      "with one ordering key are claimed in order, one at a time, while others are created and settled (I5)",
      Effect.gen(function*() {
        const { claim, dispatch, made, owner, settle } = yield* setup(["a", "b", "a", "a"])
        const first = yield* claim
        assert.deepStrictEqual(placesOf(first), ["a1", "b2"])
        yield* dispatch(owner, [made("b", 5)], 5)
        assert.deepStrictEqual(placesOf(yield* claim), [])
        yield* settle(first)
        const second = yield* claim
        assert.deepStrictEqual(placesOf(second), ["a3", "b5"])
        yield* settle(second)
        assert.deepStrictEqual(placesOf(yield* claim), ["a4"])
      })
    )

    test(
      "are committed with the positions of their handlers and of the reader, or not at all (I2)",
      Effect.gen(function*() {
        const { deliveries, dispatch, made, owner, store } = yield* setup(["a"])
        assert.deepStrictEqual((yield* deliveries.handlers).map(({ position }) => position), [1])
        assert.strictEqual(yield* store.readerPosition(deliveryReader), 1)
        yield* store.takeOwnership("delivery")
        assert.strictEqual(reasonOf(yield* Effect.exit(dispatch(owner, [made("b", 2)], 2))), "Fenced")
        assert.deepStrictEqual((yield* deliveries.handlers).map(({ position }) => position), [1])
        assert.strictEqual((yield* deliveries.backlog)[0]?.due, 1)
      })
    )

    test(
      "reject an owner that was replaced: it cannot settle, claim, begin or check (I10, X16)",
      Effect.gen(function*() {
        const { claim, deliveries, key, owners, store, want } = yield* setup(["a"])
        const [claimed] = yield* claim
        if (claimed === undefined) return assert.fail("nothing claimed")
        const fence = fenceOf(owners, claimed)
        const step: StepKey = { handler: key, dedupKeys: ["e1"], step: "s", keepForever: false }
        yield* deliveries.check(fence)
        yield* store.takeOwnerships(deliveryScopes)
        const intent = { ...step, integration: "greenhouse:acme", write: null, allowRepeat: false }
        for (const refused of [deliveries.check(fence), deliveries.begin(fence, intent)]) {
          assert.strictEqual(reasonOf(yield* Effect.exit(refused)), "Fenced")
        }
        const settled = { _tag: "Settled", deliveries: [claimed.id] } as const
        const refused = yield* deliveries.settleAndClaim(owners, [settled], [want])
        assert.deepStrictEqual(refused, {
          claimed: [],
          next: null,
          isolatedDue: false,
          lost: owners,
          circuits: new Map()
        })
        assert.deepStrictEqual(yield* deliveries.recoverShards(owners), owners)
        assert.strictEqual((yield* deliveries.backlog)[0]?.running, 1)
      })
    )

    test(
      "are claimed only by the owner of their shard, and by all owners together up to the concurrency (I10)",
      Effect.gen(function*() {
        const { deliveries, dispatch, made, open, owner, owners, want } = yield* setup(["a", "b"])
        const others = ["c", "d", "e"].map((key, index) => ({ ...made(key, index + 3), integration: "lever:beta" }))
        yield* dispatch(owner, others, 5)
        const ownerOf = (integration: string) =>
          owners.filter(({ scope }) => scope === deliveryScopeOf(shardOf(integration)))
        const [acme, beta] = [ownerOf("greenhouse:acme"), ownerOf("lever:beta")]
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
        const [acmeShard, betaShard] = [shardOf("greenhouse:acme"), shardOf("lever:beta")]
        assert.deepStrictEqual(yield* shardsOf(acme), [acmeShard, acmeShard])
        assert.deepStrictEqual(yield* shardsOf(beta), [betaShard, betaShard, betaShard])
        yield* deliveries.recoverShards(beta)
        assert.deepStrictEqual((yield* claim(beta, 9)).places, ["c3", "d4", "e5"])
        yield* open(owner)
        // the last free slot is left to the earliest delivery for a moment
        yield* TestClock.adjust("3 seconds")
        const [first, second] = shardOf("greenhouse:acme") < shardOf("lever:beta") ? [acme, beta] : [beta, acme]
        assert.deepStrictEqual((yield* claim(second, 1)).places, [])
        assert.strictEqual((yield* claim(first, 1)).places.length, 1)
      })
    )

    test(
      "let only their latest claim begin steps and check (X16)",
      Effect.gen(function*() {
        const { claim, deliveries, key, open, owner, owners } = yield* setup(["a"])
        const [old] = yield* claim
        yield* open(owner)
        const [latest] = yield* claim
        if (old === undefined || latest === undefined) return assert.fail("nothing claimed")
        assert.deepStrictEqual([old.claim, latest.claim], [1, 2])
        const step: StepKey = { handler: key, dedupKeys: ["e1"], step: "s", keepForever: false }
        const intent = { ...step, integration: "greenhouse:acme", write: null, allowRepeat: false }
        assert.strictEqual(reasonOf(yield* Effect.exit(deliveries.check(fenceOf(owners, old)))), "Fenced")
        assert.strictEqual(reasonOf(yield* Effect.exit(deliveries.begin(fenceOf(owners, old), intent))), "Fenced")
        assert.deepStrictEqual(yield* deliveries.begin(fenceOf(owners, latest), intent), { _tag: "Begun" })
        // a result of the old attempt does not complete the step of the latest one
        yield* deliveries.finish(fenceOf(owners, old), step, "1")
        yield* deliveries.withdraw(fenceOf(owners, old), step)
        assert.deepStrictEqual((yield* deliveries.begin(fenceOf(owners, latest), intent))._tag, "Unknown")
        yield* deliveries.finish(fenceOf(owners, latest), step, "2")
        assert.deepStrictEqual(yield* deliveries.begin(fenceOf(owners, latest), intent), { _tag: "Done", result: "2" })
      })
    )

    for (const skipsDeadLetters of [false, true]) {
      test(
        skipsDeadLetters
          ? "continue past a dead one if their handler skips dead letters (L4)"
          : "wait behind a dead one until it is discarded (L4)",
        Effect.gen(function*() {
          const { claim, deliveries, owners } = yield* setup(["a", "a"], { skipsDeadLetters })
          const [first] = yield* claim
          const dead = { _tag: "Dead", deliveries: [first?.id ?? 0], attempts: 1, failedAttempt } as const
          yield* deliveries.settleAndClaim(owners, [dead], [])
          assert.deepStrictEqual(placesOf(yield* claim), skipsDeadLetters ? ["a2"] : [])
          assert.deepStrictEqual((yield* deliveries.deadLetters({ limit: 10 })).map(({ parked }) => parked), [
            skipsDeadLetters ? 0 : 1
          ])
          assert.strictEqual(yield* deliveries.discard([first?.id ?? 0], operatorAction), 1)
          assert.deepStrictEqual(placesOf(yield* claim), skipsDeadLetters ? [] : ["a2"])
        })
      )
    }

    test(
      "are claimed again only when they are due, and the store returns that time",
      Effect.gen(function*() {
        const { claim, deliveries, owners, want } = yield* setup(["a"])
        const [first] = yield* claim
        const again = {
          _tag: "Retry",
          deliveries: [first?.id ?? 0],
          dueAt: 60_000,
          attempts: 1,
          failedAttempt
        } as const
        const { claimed, next } = yield* deliveries.settleAndClaim(owners, [again], [want])
        assert.deepStrictEqual([placesOf(claimed), next], [[], 60_000])
      })
    )

    test(
      "that wait for stopped writes are due as soon as writes are resumed, before or after their attempt ends",
      Effect.gen(function*() {
        const { claim, deliveries, owners, want } = yield* setup(["a", "b"])
        const patient = { ...want, maxLead: 1e16 }
        const switchWrites = (on: boolean) => deliveries.setSwitch({ _tag: "Writes" }, on, operatorAction)
        const [first, second] = yield* claim
        const far = { dueAt: 1e15, attempts: 0, failedAttempt }
        const again = (id: number | undefined, stopped: boolean) =>
          ({ _tag: "Retry", deliveries: [id ?? 0], ...far, stopped }) as const
        yield* switchWrites(false)
        yield* deliveries.settleAndClaim(owners, [again(first?.id, true), again(second?.id, false)], [])
        assert.deepStrictEqual(placesOf((yield* deliveries.settleAndClaim(owners, [], [patient])).claimed), [])
        yield* switchWrites(true)
        const resumed = yield* deliveries.settleAndClaim(owners, [], [patient])
        assert.deepStrictEqual(placesOf(resumed.claimed), ["a1"])
        // the write was refused before writes were resumed, and the attempt was settled after that
        const { claimed } = yield* deliveries.settleAndClaim(owners, [again(first?.id, true)], [patient])
        assert.deepStrictEqual(placesOf(claimed), ["a1"])
        // it was claimed again since, so it waits only for its due time
        yield* switchWrites(false)
        yield* deliveries.settleAndClaim(owners, [again(first?.id, true)], [])
        yield* deliveries.settleAndClaim(owners, [], [want])
        yield* deliveries.settleAndClaim(owners, [again(first?.id, false)], [])
        yield* switchWrites(true)
        const left = yield* deliveries.settleAndClaim(owners, [], [patient])
        assert.deepStrictEqual(placesOf(left.claimed), [])
      })
    )

    test(
      "keep their event and the record's previous event in the log until they are settled",
      Effect.gen(function*() {
        const { change, claim, deliveries, dispatch, made, owner, settle, store, write } = yield* setup([])
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
      })
    )

    test(
      "keep these rows in the log while the store is adopted, and afterwards until they are settled (X11)",
      Effect.gen(function*() {
        const { change, claim, deliveries, dispatch, head, made, owner, settle, store, write } = yield* setup([])
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
      })
    )

    test(
      "keep content that its source erased until they are settled (D11)",
      Effect.gen(function*() {
        const { change, claim, deliveries, dispatch, head, made, owner, settle, store, write } = yield* setup(
          []
        )
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
      })
    )

    test(
      "are settled hundreds at a time, and each releases only its own ordering key",
      Effect.gen(function*() {
        const orderingKeys = ids(600)
        const { claim, deliveries, settle, owners, want } = yield* setup([...orderingKeys, ...orderingKeys])
        const first = yield* Effect.map(
          deliveries.settleAndClaim(owners, [], [{ ...want, most: 600 }]),
          ({ claimed }) => claimed
        )
        assert.strictEqual(first.length, 600)
        yield* settle(first.slice(0, 300))
        const second = yield* claim
        assert.deepStrictEqual(
          second.map(({ orderingKey }) => orderingKey),
          first.slice(0, 100).map(({ orderingKey }) => orderingKey)
        )
      })
    )
  })
