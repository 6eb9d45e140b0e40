/** Tests for batches, ticks, dead letters and switches that every store must pass; needs a new store for each test. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { rangesOf } from "../../src/domain/DeliveryProgress.ts"
import { Deliveries } from "../../src/store/Deliveries.ts"
import { deliveryReader, type Failure, type Tick, type TickSchedule } from "../../src/store/Delivery.ts"
import type { IntegrationState } from "../../src/store/State.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { failedAttempt, operatorAction, placesOf, setup } from "./Deliveries.ts"
import { created, integrationOf } from "./StoreSamples.ts"

const integration = "greenhouse:acme"

/** Longer than the times of the ticks, so that no clock seems to be set back. */
const interval = 1_000

/** The first check was at time 0, unless `details` contains another time. */
const ticking = (
  due: ReadonlyArray<Omit<Tick, "interval">>,
  details: Partial<TickSchedule> = {}
): TickSchedule => ({
  due: due.map((tick) => ({ ...tick, interval })),
  off: [],
  integrations: [integration],
  lastCheckedAt: 0,
  ...details
})

export const deliveryActSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`batches, ticks and dead letters of a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store | Deliveries>) =>
      it.effect(title, () => Effect.provide(body, layer))

    test(
      "a batch keeps its members over a takeover, and its two halves keep theirs (L7)",
      Effect.gen(function*() {
        const { deliveries, key, open, owner, owners } = yield* setup(["a", "b", "c", "d", "e"])
        const claim = Effect.map(
          deliveries.settleAndClaim(owners, [], [{
            handler: key,
            most: 1,
            size: 4,
            excludedIntegrations: [],
            maxLead: 1_000_000
          }]),
          ({ claimed }) => claimed
        )
        const whole = yield* claim
        assert.deepStrictEqual(placesOf(whole), ["a1", "b2", "c3", "d4"])
        yield* open(owner)
        assert.deepStrictEqual(placesOf(yield* claim), placesOf(whole))
        const batch = whole[0]?.batch ?? ""
        const halved = { _tag: "Split", batch, dueAt: 0, failedAttempt, deliveries: whole.map(({ id }) => id) } as const
        yield* deliveries.settleAndClaim(owners, [halved], [])
        const halves = [yield* claim, yield* claim]
        assert.deepStrictEqual(halves.map(placesOf).sort(), [["a1", "b2"], ["c3", "d4"]])
        assert.deepStrictEqual(placesOf(yield* claim), ["e5"])
      })
    )

    test(
      "a batch that is full is claimed before its time, however many other integrations have fewer deliveries that are due earlier",
      Effect.gen(function*() {
        const { deliveries, dispatch, key, made, owner, owners, want } = yield* setup([])
        const later = 500_000
        const few = Array.from({ length: 6 }, (_, index) => ({
          ...made(`few${index}`, index + 1),
          integration: `greenhouse:few${index}`,
          dueAt: later
        }))
        const full = [7, 8].map((position) => ({
          ...made("full", position),
          orderingKey: `f${position}`,
          dueAt: later + 1
        }))
        yield* dispatch(owner, [...few, ...full], 8)
        const claim = Effect.map(
          deliveries.settleAndClaim(owners, [], [{ ...want, handler: key, size: 2, most: 1 }]),
          ({ claimed }) => placesOf(claimed)
        )
        assert.deepStrictEqual([yield* claim, yield* claim], [["f77", "f88"], []])
      })
    )

    test(
      "events that are delivered again form a batch inside their last batch, without other events (L4)",
      Effect.gen(function*() {
        const { deliveries, dispatch, key, made, owner, owners, settle, want } = yield* setup(["a", "b", "c", "d"])
        const claim = (size: number) =>
          Effect.map(deliveries.settleAndClaim(owners, [], [{ ...want, size }]), ({ claimed }) => {
            const batches = Map.groupBy(claimed, ({ batch }) => batch)
            return { claimed, places: [...batches.values()].map(placesOf), names: [...batches.keys()].map(String) }
          })
        assert.deepStrictEqual(yield* deliveries.batches(key, [1, 2, 3, 4]), new Map())
        const first = yield* claim(2)
        assert.deepStrictEqual(first.places, [["a1", "b2"], ["c3", "d4"]])
        const [whole = "", other = ""] = first.names
        assert.deepStrictEqual(
          yield* deliveries.batches(key, [1, 2, 3, 4, 5]),
          new Map([[1, whole], [2, whole], [3, other], [4, other]])
        )
        const [a, b, ...rest] = first.claimed
        if (a === undefined || b === undefined) return assert.fail("nothing claimed")
        const halved = { _tag: "Split", batch: whole, dueAt: 0, failedAttempt, deliveries: [a.id, b.id] } as const
        yield* deliveries.settleAndClaim(owners, [halved], [])
        yield* settle(rest)
        yield* settle((yield* claim(2)).claimed)
        yield* dispatch(owner, [made("e", 5)], 5)
        yield* deliveries.replay(
          [made("b", 2), made("c", 3), { ...made("a", 1), fresh: "f" }, made("d", 4)],
          operatorAction
        )
        const again = yield* claim(9)
        assert.deepStrictEqual(again.places, [["e5"], ["b2"], ["c3", "d4"], ["a1"]])
        const [e5, b2, c3, a1] = again.claimed.filter(({ orderingKey }) => orderingKey !== "d")
        assert.deepStrictEqual(again.names, [
          `${e5?.id}`,
          `${whole}.1.r${b2?.id}`,
          `${other}.r${c3?.id}`,
          `${whole}.0.r${a1?.id}`
        ])
        yield* settle(again.claimed)
        const ids = yield* deliveries.replay([made("c", 3)], operatorAction)
        const third = yield* claim(9)
        assert.deepStrictEqual(third.claimed.map(({ id }) => id), ids)
        assert.deepStrictEqual(third.names, [`${other}.r${c3?.id}.r${third.claimed[0]?.id}`])
      })
    )

    test(
      "a dead letter of a batch that is delivered again gets a batch inside its last batch (L7)",
      Effect.gen(function*() {
        const { claim: claimed, deliveries, key, made, owners, settle, want } = yield* setup(["a"], {
          skipsDeadLetters: true
        })
        const claim = Effect.map(
          deliveries.settleAndClaim(owners, [], [{ ...want, size: 2 }]),
          ({ claimed: [one] }) => one ?? assert.fail("nothing claimed")
        )
        const first = yield* claim
        yield* deliveries.settleAndClaim(
          owners,
          [{ _tag: "Dead", deliveries: [first.id], attempts: 1, failedAttempt }],
          []
        )
        yield* deliveries.replay([made("a", 1)], operatorAction)
        const second = yield* claim
        assert.strictEqual(second.batch, `${first.batch}.r${second.id}`)
        yield* settle([second])
        yield* deliveries.redrive([first.id], { dueAt: 0, fresh: null }, operatorAction)
        const third = yield* claim
        assert.deepStrictEqual([third.id, third.batch], [first.id, `${second.batch}.r${first.id}`])
        assert.deepStrictEqual([...yield* deliveries.batches(key, [1])], [[1, third.batch]])
        assert.deepStrictEqual(yield* claimed, [])
      })
    )

    test(
      "a tick spans the log since the previous tick, and the next tick waits for it",
      Effect.gen(function*() {
        const { change, claim, deliveries, key, owner, settle } = yield* setup([])
        yield* TestClock.adjust("1 minute")
        const tick = (scheduledAt: number) =>
          deliveries.dispatchTicks(owner, ticking([{ handler: key, integration, scheduledAt }]))
        yield* tick(0)
        assert.deepStrictEqual(yield* claim, [])
        yield* change("r", "created")
        yield* tick(1)
        const [first] = yield* claim
        assert.deepStrictEqual(first?.subject, { _tag: "Tick", scheduledAt: 1, from: 0, to: 1 })
        yield* change("r", "updated")
        assert.strictEqual((yield* tick(2)).length, 1)
        yield* settle(first === undefined ? [] : [first])
        assert.deepStrictEqual(yield* tick(2), [])
        assert.deepStrictEqual((yield* claim)[0]?.subject, { _tag: "Tick", scheduledAt: 2, from: 1, to: 2 })
      })
    )

    test(
      "a tick is created although the last one lies more than an interval ahead, because the clock was set back (W4)",
      Effect.gen(function*() {
        const { change, claim, deliveries, key, owner, settle } = yield* setup([])
        yield* TestClock.adjust("1 minute")
        const tick = (scheduledAt: number) =>
          deliveries.dispatchTicks(owner, ticking([{ handler: key, integration, scheduledAt }]))
        yield* tick(0)
        yield* change("r", "created")
        yield* tick(3 * interval)
        yield* settle(yield* claim)
        yield* change("r", "updated")
        yield* tick(2 * interval)
        assert.deepStrictEqual(yield* claim, [])
        yield* tick(interval)
        const [again] = yield* claim
        assert.deepStrictEqual(again?.subject, { _tag: "Tick", scheduledAt: interval, from: 1, to: 2 })
      })
    )

    test(
      "a tick whose time comes again has a journal of its own although the tick before it is a dead letter without steps (W4)",
      Effect.gen(function*() {
        const { claim, deliveries, key, owner, owners, settle } = yield* setup([])
        yield* TestClock.adjust("1 minute")
        const tick = (scheduledAt: number) =>
          deliveries.dispatchTicks(owner, ticking([{ handler: key, integration, scheduledAt }]))
        yield* tick(0)
        yield* tick(interval)
        const [first] = yield* claim
        const dead = { _tag: "Dead", deliveries: [first?.id ?? 0], attempts: 1, failedAttempt } as const
        yield* deliveries.settleAndClaim(owners, [dead], [])
        yield* tick(3 * interval)
        yield* settle(yield* claim)
        yield* tick(interval)
        const [again] = yield* claim
        assert.deepStrictEqual([first?.fresh, again?.fresh], [null, "to-0"])
      })
    )

    test(
      "the first tick spans the log since its handler was registered, and is not delivered for a time before that (L8)",
      Effect.gen(function*() {
        const { change, claim, deliveries, key, open, owner } = yield* setup([], {
          from: "now",
          scheduled: true
        })
        yield* TestClock.adjust("1 minute")
        yield* change("r", "created")
        yield* open(owner)
        const due = (scheduledAt: number, lastCheckedAt: number) =>
          deliveries.dispatchTicks(owner, ticking([{ handler: key, integration, scheduledAt }], { lastCheckedAt }))
        yield* due(10, 15)
        assert.deepStrictEqual(yield* claim, [])
        yield* change("r", "updated")
        yield* due(20, 15)
        assert.deepStrictEqual((yield* claim)[0]?.subject, { _tag: "Tick", scheduledAt: 20, from: 0, to: 2 })
        const other = { handler: key, integration: "lever:beta", scheduledAt: 30 }
        yield* deliveries.dispatchTicks(
          owner,
          ticking([other], { integrations: [integration, "lever:beta"], lastCheckedAt: 25 })
        )
        assert.deepStrictEqual((yield* claim)[0]?.subject, { _tag: "Tick", scheduledAt: 30, from: 0, to: 2 })
      })
    )

    test(
      "a tick spans the time in which its integration was absent, but the log is not kept for that time (L8)",
      Effect.gen(function*() {
        const { change, claim, deliveries, key, owner, settle, store } = yield* setup([], { scheduled: true })
        yield* TestClock.adjust("1 minute")
        const tick = (scheduledAt: number) =>
          deliveries.dispatchTicks(owner, ticking([{ handler: key, integration, scheduledAt }]))
        yield* tick(1)
        yield* settle(yield* claim)
        yield* change("r", "created")
        yield* change("r", "updated")
        assert.strictEqual(yield* store.readerPosition(deliveryReader), 0)
        yield* deliveries.dispatchTicks(owner, ticking([], { integrations: ["lever:beta"] }))
        assert.strictEqual(yield* store.readerPosition(deliveryReader), 2)
        yield* deliveries.dispatchTicks(owner, ticking([], { integrations: [] }))
        yield* tick(2)
        assert.deepStrictEqual((yield* claim)[0]?.subject, { _tag: "Tick", scheduledAt: 2, from: 0, to: 2 })
      })
    )

    test(
      "a handler that is off has no tick and keeps no log; once it is on, its next tick spans only the log since then",
      Effect.gen(function*() {
        const { change, claim, deliveries, key, owner, settle, store } = yield* setup([], { scheduled: true })
        yield* TestClock.adjust("1 minute")
        const place = { handler: key, integration }
        const tick = (scheduledAt: number, details: Partial<TickSchedule> = {}) =>
          deliveries.dispatchTicks(owner, ticking([{ ...place, scheduledAt }], details))
        yield* change("r", "created")
        assert.strictEqual(yield* store.readerPosition(deliveryReader), 0)
        yield* deliveries.dispatchTicks(owner, ticking([], { off: [place] }))
        assert.strictEqual(yield* store.readerPosition(deliveryReader), 1)
        yield* change("r", "updated")
        yield* tick(10, { lastCheckedAt: 15 })
        assert.deepStrictEqual(yield* claim, [])
        yield* change("r", "updated")
        yield* tick(20, { lastCheckedAt: 15 })
        const [first] = yield* claim
        assert.deepStrictEqual(first?.subject, { _tag: "Tick", scheduledAt: 20, from: 2, to: 3 })
        yield* settle(first === undefined ? [] : [first])
        yield* deliveries.dispatchTicks(owner, ticking([], { off: [place] }))
        yield* change("r", "updated")
        assert.strictEqual(yield* store.readerPosition(deliveryReader), 3)
        yield* deliveries.dispatchTicks(owner, ticking([], { off: [place] }))
        assert.strictEqual(yield* store.readerPosition(deliveryReader), 4)
      })
    )

    test(
      "the log that a tick spans is kept until the tick is settled, however late that is (L8)",
      Effect.gen(function*() {
        const { change, claim, deliveries, key, owner, settle, store } = yield* setup([], { scheduled: true })
        const tick = (scheduledAt: number) =>
          deliveries.dispatchTicks(owner, ticking([{ handler: key, integration, scheduledAt }]))
        const kept = store.readerPosition(deliveryReader)
        yield* TestClock.adjust("1 minute")
        yield* change("r", "created")
        yield* tick(0)
        yield* change("r", "updated")
        yield* change("r", "updated")
        yield* tick(1)
        assert.strictEqual(yield* kept, 0)
        yield* settle(yield* claim)
        yield* tick(2)
        yield* settle(yield* claim)
        yield* tick(3)
        assert.strictEqual(yield* kept, 3)
      })
    )

    test(
      "a tick of a removed integration waits and keeps no log (L8)",
      Effect.gen(function*() {
        const { change, deliveries, key, owner, store } = yield* setup([], { scheduled: true })
        const other = "lever:beta"
        const tick = (scheduledAt: number) =>
          deliveries.dispatchTicks(owner, {
            ...ticking([integration, other].map((integration) => ({ handler: key, integration, scheduledAt }))),
            integrations: [integration, other]
          })
        yield* TestClock.adjust("1 minute")
        yield* change("r", "created")
        yield* tick(0)
        yield* change("r", "updated")
        yield* tick(1)
        const capture = yield* store.takeOwnership("capture")
        const become = (id: string, state: IntegrationState["state"]) =>
          store.saveIntegration(capture, integrationOf(id, { state }), null)
        yield* become(integration, "removed")
        // the other integration's tick spans everything since the handler was registered
        assert.strictEqual(yield* Effect.andThen(tick(1), store.readerPosition(deliveryReader)), 0)
        yield* become(other, "removed")
        assert.strictEqual(yield* Effect.andThen(tick(1), store.readerPosition(deliveryReader)), 2)
        assert.strictEqual((yield* deliveries.backlog).reduce((sum, { due }) => sum + due, 0), 2)
      })
    )

    test(
      "a tick that waits for the API keeps no log, and the backlog shows why it waits until it fails otherwise (L8)",
      Effect.gen(function*() {
        const { change, claim, deliveries, key, owner, owners, store } = yield* setup([], { scheduled: true })
        const tick = (scheduledAt: number) =>
          deliveries.dispatchTicks(owner, ticking([{ handler: key, integration, scheduledAt }]))
        const fail = Effect.fnUntraced(function*(number: number, reason: Failure["reason"]) {
          const [claimed] = yield* claim
          const failure = { ...failedAttempt.failure, reason }
          const retry = {
            _tag: "Retry",
            dueAt: 0,
            attempts: 0,
            failedAttempt: { ...failedAttempt, number, failure }
          } as const
          yield* deliveries.settleAndClaim(owners, [{ ...retry, deliveries: [claimed?.id ?? 0] }], [])
          yield* tick(2)
          return [(yield* deliveries.backlog)[0]?.blocked, yield* store.readerPosition(deliveryReader)]
        })
        yield* TestClock.adjust("1 minute")
        yield* change("r", "created")
        yield* tick(1)
        yield* change("r", "updated")
        assert.deepStrictEqual(yield* fail(1, "Blocked"), [failedAttempt.failure.message, 2])
        assert.deepStrictEqual(yield* fail(2, "Blocked"), [failedAttempt.failure.message, 2])
        assert.deepStrictEqual(yield* fail(3, "Transient"), [null, 0])
        const [last] = yield* claim
        yield* deliveries.settleAndClaim(
          owners,
          [{ _tag: "Dead", deliveries: [last?.id ?? 0], attempts: 1, failedAttempt: { ...failedAttempt, number: 4 } }],
          []
        )
        const detail = yield* deliveries.deadLetterDetail(last?.id ?? 0)
        assert.deepStrictEqual(detail?.failedAttempts.map(({ number }) => number), [2, 3, 4])
      })
    )

    test(
      "a dead letter shows its event and its attempts, is found by its properties, and is redriven in order",
      Effect.gen(function*() {
        const { claim, deliveries, dispatch, made, owner, owners, store, write } = yield* setup([])
        yield* write([created("r"), created("s")])
        yield* dispatch(owner, [made("r", 1), made("s", 2), made("r", 2)], 2)
        const claimed = yield* claim
        yield* deliveries.settleAndClaim(
          owners,
          claimed.map(({ id }) => ({ _tag: "Dead", deliveries: [id], attempts: 1, failedAttempt })),
          []
        )
        assert.deepStrictEqual(yield* deliveries.backlog, [
          {
            plugin: "p",
            handler: "h",
            integration,
            waiting: 1,
            due: 0,
            later: 0,
            running: 0,
            dead: 2,
            oldest: 0,
            blocked: null
          }
        ])
        const letters = yield* deliveries.deadLetters({
          plugin: "p",
          reason: "Transient",
          since: 1,
          until: 2,
          limit: 9
        })
        assert.deepStrictEqual(letters.map(({ event, parked }) => [event?.id, event?.version, parked]), [
          ["r", 1, 1],
          ["s", 1, 0]
        ])
        assert.deepStrictEqual(yield* deliveries.deadLetters({ reason: "Permanent", limit: 9 }), [])
        const detail = yield* deliveries.deadLetterDetail(claimed[0]?.id ?? 0)
        assert.deepStrictEqual(detail?.failedAttempts, [failedAttempt])
        const position = letters[0]?.subject._tag === "Event" ? letters[0].subject.position : 0
        const traces = yield* deliveries.traces(position)
        assert.deepStrictEqual(
          traces.map(({ dueAt, failedAttempts, id, plugin, state }) => [id, plugin, state, dueAt, failedAttempts]),
          [[letters[0]?.id ?? 0, "p", "dead", null, [failedAttempt]]]
        )
        assert.strictEqual(yield* deliveries.eventOf(letters[0]?.id ?? 0), position)
        assert.deepStrictEqual(yield* deliveries.traces(999), [])
        assert.isNull(yield* deliveries.eventOf(999))
        const count = yield* deliveries.redrive(
          claimed.map(({ id }) => id),
          { dueAt: 0, fresh: "again" },
          operatorAction
        )
        assert.strictEqual(count, 2)
        const again = yield* claim
        assert.deepStrictEqual(placesOf(again), ["r1", "s2"])
        assert.deepStrictEqual(again.map(({ attempts, fresh }) => [attempts, fresh]), [[0, "again"], [0, "again"]])
        yield* deliveries.replay([made("s", 1)], operatorAction)
        assert.deepStrictEqual(placesOf(yield* claim), [])
        assert.strictEqual((yield* deliveries.backlog)[0]?.waiting, 2)
        assert.strictEqual((yield* store.auditLog(9)).length, 2)
      })
    )

    test(
      "a dead letter that has died again since it was listed is neither redriven nor discarded (L4)",
      Effect.gen(function*() {
        const { claim, deliveries, owners } = yield* setup(["a", "b"])
        const die = (at: number) =>
          Effect.flatMap(claim, (claimed) =>
            deliveries.settleAndClaim(
              owners,
              claimed.map(({ id }) => ({
                _tag: "Dead",
                deliveries: [id],
                attempts: 1,
                failedAttempt: { ...failedAttempt, failure: { ...failedAttempt.failure, at } }
              })),
              []
            ))
        yield* die(1)
        const letters = yield* deliveries.deadLetters({ limit: 9 })
        const [first, second] = letters.map(({ id }) => id)
        if (first === undefined || second === undefined) return assert.fail("there are no dead letters")
        const died = new Map([[first, 1], [second, 1]])
        const how = { dueAt: 0, fresh: null }
        assert.strictEqual(yield* deliveries.redrive([first], how, operatorAction), 1)
        yield* die(2)
        assert.strictEqual(yield* deliveries.discard([first], operatorAction, died), 0)
        assert.strictEqual(yield* deliveries.redrive([first, second], { ...how, died }, operatorAction), 1)
        assert.deepStrictEqual((yield* deliveries.deadLetters({ limit: 9 })).map(({ id }) => id), [first])
      })
    )

    test(
      "deliveries count as open, dead or settled, a dead letter that was redriven as open (L4)",
      Effect.gen(function*() {
        const { claim, deliveries, owners } = yield* setup(["a", "b", "c"])
        const [first, second, third] = (yield* claim).map(({ id }) => id)
        if (first === undefined || second === undefined || third === undefined) return assert.fail("nothing is due")
        const all = rangesOf([first, second, third])
        assert.deepStrictEqual(yield* deliveries.progressOf(all), { done: 0, open: 3, dead: 0 })
        const settle = { _tag: "Settled", deliveries: [first] } as const
        const die = { _tag: "Dead", deliveries: [second, third], attempts: 1, failedAttempt } as const
        yield* deliveries.settleAndClaim(owners, [settle, die], [])
        assert.deepStrictEqual(yield* deliveries.progressOf(all), { done: 1, open: 0, dead: 2 })
        yield* deliveries.redrive([second], { dueAt: 0, fresh: null }, operatorAction)
        assert.deepStrictEqual(yield* deliveries.progressOf(all), { done: 1, open: 1, dead: 1 })
        const apart = [first, third].map((id) => ({ first: id, last: id }))
        assert.deepStrictEqual(yield* deliveries.progressOf(apart), { done: 1, open: 0, dead: 1 })
        const many = Array.from({ length: 2_000 }, (_, index) => ({ first: third + index, last: third + index }))
        assert.deepStrictEqual(yield* deliveries.progressOf(many), { done: 1_999, open: 0, dead: 1 })
        assert.deepStrictEqual(yield* deliveries.progressOf([]), { done: 0, open: 0, dead: 0 })
      })
    )

    test(
      "a switch stays off until it is switched on, however often it was switched off",
      Effect.gen(function*() {
        const deliveries = yield* Deliveries
        const welcome = { _tag: "Plugin", plugin: "welcome", integration } as const
        yield* deliveries.setSwitch(welcome, false, operatorAction)
        yield* deliveries.setSwitch(welcome, false, operatorAction)
        yield* deliveries.setSwitch({ _tag: "Writes" }, false, operatorAction)
        assert.deepStrictEqual(yield* deliveries.switchedOff, [{ _tag: "Writes" }, welcome])
        yield* deliveries.setSwitch({ _tag: "Writes" }, true, operatorAction)
        assert.deepStrictEqual(yield* deliveries.switchedOff, [welcome])
      })
    )

    test(
      "a delivery that is dispatched while its ordering key is being settled is not lost (I5)",
      Effect.gen(function*() {
        const { claim, dispatch, made, owner, settle } = yield* setup(["a"])
        let claimed = yield* claim
        for (let position = 2; position <= 40; position++) {
          yield* Effect.all([dispatch(owner, [made("a", position)], position), settle(claimed)], {
            concurrency: "unbounded"
          })
          claimed = yield* claim
          assert.deepStrictEqual(placesOf(claimed), [`a${position}`])
        }
      })
    )
  })
