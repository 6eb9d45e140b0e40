/** What every store must do with batches, ticks, dead letters and switches; needs a fresh store for each test. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { Deliveries, reader } from "../../src/store/Deliveries.ts"
import type { IntegrationState } from "../../src/store/State.ts"
import type { Store, StoreError } from "../../src/store/Store.ts"
import { act, attempted, begun, placesOf } from "./Deliveries.ts"
import { created, integrationOf } from "./StoreSamples.ts"

const integration = "greenhouse:acme"

export const deliveryActSuite = (name: string, layer: Layer.Layer<Store | Deliveries, StoreError>) =>
  describe(`batches, ticks and dead letters of a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store | Deliveries>) =>
      it.effect(title, () => Effect.provide(body, layer))

    test(
      "L7: a batch keeps its members over a takeover, and is halved into two that keep theirs",
      Effect.gen(function*() {
        const { deliveries, key, open, owner } = yield* begun(["a", "b", "c", "d", "e"])
        const claim = Effect.map(
          deliveries.turn(owner, [], [{ handler: key, most: 1, size: 4, except: [], farthest: 1_000_000 }]),
          ({ claimed }) => claimed
        )
        const whole = yield* claim
        assert.deepStrictEqual(placesOf(whole), ["a1", "b2", "c3", "d4"])
        yield* open(owner)
        assert.deepStrictEqual(placesOf(yield* claim), placesOf(whole))
        const batch = whole[0]?.batch ?? ""
        const halved = { _tag: "Halved", batch, dueAt: 0, attempted, deliveries: whole.map(({ id }) => id) } as const
        yield* deliveries.turn(owner, [halved], [])
        const halves = [yield* claim, yield* claim]
        assert.deepStrictEqual(halves.map(placesOf).sort(), [["a1", "b2"], ["c3", "d4"]])
        assert.deepStrictEqual(placesOf(yield* claim), ["e5"])
      })
    )

    test(
      "a tick spans the log since the one before, and the next one waits for it",
      Effect.gen(function*() {
        const { change, claim, deliveries, key, owner, settle } = yield* begun([])
        yield* TestClock.adjust("1 minute")
        const tick = (scheduledAt: number) =>
          deliveries.tick(owner, [{ handler: key, integration, scheduledAt }], [integration])
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
        // what was forgotten begins anew
        yield* deliveries.tick(owner, [], [])
        yield* tick(3)
        assert.deepStrictEqual(yield* claim, [])
      })
    )

    test(
      "L8: the log that a tick spans is kept until it is settled, however late that is",
      Effect.gen(function*() {
        const { change, claim, deliveries, key, owner, settle, store } = yield* begun([], { regular: true })
        const tick = (scheduledAt: number) =>
          deliveries.tick(owner, [{ handler: key, integration, scheduledAt }], [integration])
        const kept = store.readerPosition(reader)
        yield* TestClock.adjust("1 minute")
        yield* change("r", "created")
        yield* tick(0)
        yield* change("r", "updated")
        yield* change("r", "updated")
        yield* tick(1)
        assert.strictEqual(yield* kept, 1)
        yield* settle(yield* claim)
        yield* tick(2)
        yield* settle(yield* claim)
        yield* tick(3)
        assert.strictEqual(yield* kept, 3)
      })
    )

    test(
      "L8: a tick of an integration that was removed waits and holds no log",
      Effect.gen(function*() {
        const { change, deliveries, key, owner, store } = yield* begun([], { regular: true })
        const other = "lever:beta"
        const tick = (scheduledAt: number) =>
          deliveries.tick(
            owner,
            [integration, other].map((integration) => ({ handler: key, integration, scheduledAt })),
            [integration, other]
          )
        yield* TestClock.adjust("1 minute")
        yield* change("r", "created")
        yield* tick(0)
        yield* change("r", "updated")
        yield* tick(1)
        const capture = yield* store.claim("capture")
        const become = (id: string, state: IntegrationState["state"]) =>
          store.saveIntegration(capture, integrationOf(id, { state }), null)
        yield* become(integration, "removed")
        assert.strictEqual(yield* Effect.andThen(tick(1), store.readerPosition(reader)), 1)
        yield* become(other, "removed")
        assert.strictEqual(yield* Effect.andThen(tick(1), store.readerPosition(reader)), 2)
        assert.strictEqual((yield* deliveries.backlog).reduce((sum, { due }) => sum + due, 0), 2)
      })
    )

    test(
      "a dead letter tells its event and its attempts, is found by what it is, and redriven in its order",
      Effect.gen(function*() {
        const { claim, deliveries, dispatch, made, owner, store, write } = yield* begun([])
        yield* write([created("r"), created("s")])
        yield* dispatch(owner, [made("r", 1), made("s", 2), made("r", 2)], 2)
        const claimed = yield* claim
        yield* deliveries.turn(
          owner,
          claimed.map(({ id }) => ({ _tag: "Dead", deliveries: [id], attempts: 1, attempted })),
          []
        )
        assert.deepStrictEqual(yield* deliveries.backlog, [
          { plugin: "p", handler: "h", integration, waiting: 1, due: 0, later: 0, running: 0, dead: 2, oldest: 0 }
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
        const story = yield* deliveries.story(claimed[0]?.id ?? 0)
        assert.deepStrictEqual(story?.attempted, [attempted])
        const count = yield* deliveries.redrive(claimed.map(({ id }) => id), { dueAt: 0, fresh: "again" }, act)
        assert.strictEqual(count, 2)
        const again = yield* claim
        assert.deepStrictEqual(placesOf(again), ["r1", "s2"])
        assert.deepStrictEqual(again.map(({ attempts, fresh }) => [attempts, fresh]), [[0, "again"], [0, "again"]])
        yield* deliveries.replay([made("s", 1)], act)
        assert.deepStrictEqual(placesOf(yield* claim), [])
        assert.strictEqual((yield* deliveries.backlog)[0]?.waiting, 2)
        assert.strictEqual((yield* store.audited(9)).length, 2)
      })
    )

    test(
      "switches are off until they are switched on, however often that is said",
      Effect.gen(function*() {
        const deliveries = yield* Deliveries
        const welcome = { _tag: "Plugin", plugin: "welcome", integration } as const
        yield* deliveries.set(welcome, false, act)
        yield* deliveries.set(welcome, false, act)
        yield* deliveries.set({ _tag: "Writes" }, false, act)
        assert.deepStrictEqual(yield* deliveries.switchedOff, [{ _tag: "Writes" }, welcome])
        yield* deliveries.set({ _tag: "Writes" }, true, act)
        assert.deepStrictEqual(yield* deliveries.switchedOff, [welcome])
      })
    )

    test(
      "I5: what is dispatched while its lane is being settled is delivered, not forgotten",
      Effect.gen(function*() {
        const { claim, dispatch, made, owner, settle } = yield* begun(["a"])
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
