import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { entries } from "../../test/integration/publish/Entries.ts"
import { append } from "../../test/integration/publish/Log.ts"
import * as MemorySink from "../../test/support/publish/MemorySink.ts"
import * as MemoryStore from "../../test/support/store/MemoryStore.ts"
import { chainOf, genesis, type LogEntry, partitionKey } from "../domain/ChangeEvent.ts"
import { Placement } from "../fleet/Placement.ts"
import { Store, type StoreError } from "../store/Store.ts"
import { Relay, type RelayStatus } from "./Relay.ts"
import * as Retention from "./Retention.ts"
import { checkpointOf, Refused, Sink, type SinkError, Unreachable } from "./Sink.ts"

const unreachable = new Unreachable({ message: "connect ECONNREFUSED", cause: null })

/** Starts a relay from the current store to `broker`; closing its scope ends it. */
const start = Effect.fnUntraced(function*(
  broker: MemorySink.MemoryBroker,
  relay: Layer.Layer<Relay, never, Sink | Store> = Relay.layer
) {
  const store = yield* Store
  const scope = yield* Scope.fork(yield* Effect.scope)
  const context = yield* Layer.buildWithScope(
    Layer.fresh(relay).pipe(Layer.provide(MemorySink.layer(broker)), Layer.provide(Layer.succeed(Store, store))),
    scope
  )
  return { ...Context.get(context, Relay), end: Scope.close(scope, Exit.void) }
})

const ids = (broker: MemorySink.MemoryBroker) => broker.events.map((event) => event.eventId)
const expected = (first: number, last: number, mark = "event") =>
  Array.from({ length: last - first + 1 }, (_, index) => `${mark}-${first + index}`)

const store = MemoryStore.layer()
/** Runs the effect and advances virtual time, second by second, until the effect ends. */
const whileTimePasses = Effect.fnUntraced(function*<A, E>(effect: Effect.Effect<A, E>) {
  const fiber = yield* Effect.forkChild(effect)
  while (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
  return yield* Fiber.join(fiber)
})

/** Waits until the relay is in `state`; returns its status. */
const once = (relay: Relay["Service"], state: RelayStatus["state"]) =>
  whileTimePasses(
    Effect.repeat(relay.status, { until: (status) => status.state === state, schedule: Schedule.spaced("1 second") })
  )

/** Advances time until retention has emptied the log. */
const pruneAll = Effect.fnUntraced(function*(readers: ReadonlyArray<string>) {
  yield* TestClock.adjust("30 days")
  const store = yield* Store
  yield* Layer.build(Retention.layer({ retention: Duration.days(7), readers }))
  yield* whileTimePasses(
    Effect.repeat(store.logRange, { until: ({ oldest }) => oldest > 1, schedule: Schedule.spaced("1 second") })
  )
})

/** Starts a relay whose batches go through `publish` to `broker`, with a changed store. */
const startThrough = Effect.fnUntraced(function*(
  broker: MemorySink.MemoryBroker,
  publish: <A>(batch: ReadonlyArray<LogEntry>, send: Effect.Effect<A, SinkError>) => Effect.Effect<A, SinkError>,
  change: (store: Store["Service"]) => Partial<Store["Service"]> = () => ({})
) {
  const store = yield* Store
  const through = Layer.effect(
    Sink,
    Effect.map(Sink, (sink) =>
      Sink.of({
        ...sink,
        publish: (identity, batch, checkpoint) => publish(batch, sink.publish(identity, batch, checkpoint))
      }))
  )
  const context = yield* Layer.build(
    Layer.fresh(Relay.layer).pipe(
      Layer.provide(through),
      Layer.provide(MemorySink.layer(broker)),
      Layer.provide(Layer.succeed(Store, { ...store, ...change(store) }))
    )
  )
  return Context.get(context, Relay)
})

describe("Relay", () => {
  it.effect("all events of the log are published in order, including events appended later (I5)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      yield* append(1203)
      const relay = yield* start(broker)
      yield* relay.awaitPosition(1203)
      yield* append(7)
      yield* relay.awaitPosition(1210)
      assert.deepStrictEqual(ids(broker), expected(1, 1210))
      assert.strictEqual(yield* (yield* Store).readerPosition("relay"), 1210)
      assert.deepStrictEqual(yield* relay.status, {
        position: 1210,
        progressPosition: 1210,
        state: "running",
        reason: null
      })
    }).pipe(Effect.provide(store)))

  it.effect("a batch is bounded by the size of its events, and an event of any size is published", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const batches: Array<ReadonlyArray<LogEntry>> = []
      yield* append(25, "event", false, { after: JSON.stringify("x".repeat(900_000)) })
      yield* append(1, "event", false, { after: JSON.stringify("x".repeat(5_000_000)) })
      yield* append(600)
      const relay = yield* startThrough(broker, (batch, send) => {
        batches.push(batch)
        return send
      })
      yield* relay.awaitPosition(626)
      assert.deepStrictEqual(ids(broker), expected(1, 626))
      for (const batch of batches) {
        const content = batch.reduce((sum, { after, before }) => sum + (after?.length ?? 0) + (before?.length ?? 0), 0)
        if (batch.length > 1) assert.isBelow(content, 4_000_001)
      }
      assert.isBelow(batches.length, 30)
    }).pipe(Effect.provide(store)))

  it.effect("a defect stops the relay with its kind and place, without its values, and is tried again after five minutes (I11)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      let isDefect = true
      yield* append(3)
      const relay = yield* startThrough(
        broker,
        (_, send) => isDefect ? Effect.die(new TypeError("no topic for jane@example.com")) : send
      )
      const { reason } = yield* once(relay, "stopped")
      assert.match(reason?.message ?? "", /^an unexpected error: TypeError at Relay\.test\.ts:\d+:\d+$/)
      isDefect = false
      yield* TestClock.adjust("5 minutes")
      yield* once(relay, "running")
      assert.deepStrictEqual(ids(broker), expected(1, 3))
    }).pipe(Effect.provide(store)))

  it.effect("the next batch is read while a batch is sent", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const secondRead = yield* Deferred.make<void>()
      yield* append(1203)
      const relay = yield* startThrough(
        broker,
        (_, send) => Effect.andThen(Deferred.await(secondRead), send),
        (store) => ({
          readLog: (query) =>
            Effect.tap(
              store.readLog(query),
              query.after === 500 ? Deferred.succeed(secondRead, undefined) : Effect.void
            )
        })
      )
      yield* relay.awaitPosition(1203)
      assert.deepStrictEqual(ids(broker), expected(1, 1203))
    }).pipe(Effect.provide(store)))

  it.effect("a batch that was read before another copy replaced the store is not published (X18)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      let isReplaced = false
      const secondRead = yield* Deferred.make<void>()
      yield* append(1203)
      const relay = yield* startThrough(
        broker,
        (_, send) =>
          Deferred.await(secondRead).pipe(
            Effect.andThen(send),
            Effect.tap(() => Effect.sync(() => isReplaced = true))
          ),
        (store) => ({
          readLog: (query) => store.readLog(query),
          chains: (positions) =>
            Effect.map(store.chains(positions), (found) => {
              if (!isReplaced && positions.includes(1000)) Deferred.doneUnsafe(secondRead, Effect.void)
              return isReplaced
                ? { ...found, chains: found.chains.map((chain) => chain === null ? null : `other ${chain}`) }
                : found
            })
        })
      )
      const stopped = yield* once(relay, "stopped")
      assert.include(stopped.reason?.message ?? "", "at position 500 the log has another event")
      assert.deepStrictEqual(ids(broker), expected(1, 500))
    }).pipe(Effect.provide(store)))

  it.effect("while the sink is unavailable the position stays, and all events are published once it is back (X10)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const relay = yield* start(broker)
      yield* append(20)
      yield* relay.awaitPosition(20)
      broker.failure = unreachable
      yield* append(30)
      const waiting = yield* once(relay, "waiting")
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(waiting.position, 20)
      assert.strictEqual(waiting.reason?.message, unreachable.message)
      broker.failure = null
      yield* whileTimePasses(relay.awaitPosition(50))
      assert.deepStrictEqual(ids(broker), expected(1, 50))
      assert.isNull((yield* relay.status).reason)
    }).pipe(Effect.provide(store)))

  it.effect("an outage is logged once when it starts and once when it ends (X10)", () => {
    const lines: Array<string> = []
    const logger = Logger.make(({ message }) => lines.push(String(message)))
    return Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      broker.failure = unreachable
      const relay = yield* start(broker)
      yield* append(5)
      yield* once(relay, "waiting")
      yield* TestClock.adjust("60 minutes")
      broker.failure = null
      yield* whileTimePasses(relay.awaitPosition(5))
      assert.deepStrictEqual(lines.map((line) => line.split(":")[0]), ["publishing waits", "publishing again"])
    }).pipe(Effect.provide(store), Effect.provide(Logger.layer([logger])))
  })

  it.effect("no event is published twice when a response is lost after the sink's commit (X4)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      broker.lostResponses = 3
      yield* append(1800)
      const relay = yield* start(broker)
      yield* whileTimePasses(relay.awaitPosition(1800))
      assert.deepStrictEqual(ids(broker), expected(1, 1800))
    }).pipe(Effect.provide(store)))

  it.effect("the place of each event is known, even if the response was lost after the sink's commit (X4)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const { placeOf } = yield* Store
      broker.lostResponses = 2
      yield* append(600)
      yield* append(3, "silent", true)
      yield* append(600)
      const relay = yield* start(broker)
      yield* whileTimePasses(relay.awaitPosition(1203))
      const places = yield* Effect.forEach([1, 500, 501, 600, 601, 603, 604, 1203, 1204], placeOf)
      assert.deepStrictEqual(
        places.map((place) => place?.offset ?? null),
        [0, 499, 500, 599, null, null, 600, 1199, null]
      )
      assert.deepStrictEqual(places[0]?.topic, MemorySink.topic)
    }).pipe(Effect.provide(store)))

  it.effect("silent rows are skipped, and the next relay resumes after them (X14)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const store = yield* Store
      yield* append(20, "silent", true)
      const first = yield* start(broker)
      yield* first.awaitPosition(20)
      assert.deepStrictEqual(broker.published.get(store.identity.store), {
        ...store.identity,
        position: 20,
        chain: (yield* store.chains([])).chain
      })
      yield* append(10)
      yield* append(1000, "silent", true)
      yield* first.awaitPosition(1030)
      yield* first.end
      assert.strictEqual(yield* store.readerPosition("relay"), 1030)
      yield* append(5)
      const second = yield* start(broker)
      yield* second.awaitPosition(1035)
      assert.deepStrictEqual(ids(broker), [...expected(21, 30), ...expected(1031, 1035)])
    }).pipe(Effect.provide(store)))

  it.effect.each([
    { name: "is unchanged", emptied: false },
    { name: "was emptied", emptied: true }
  ])(
    "the relay stops if the log was pruned beyond the sink's position, and the sink $name (I1)",
    ({ emptied }) =>
      Effect.gen(function*() {
        const broker = new MemorySink.MemoryBroker()
        const store = yield* Store
        yield* append(5)
        const first = yield* start(broker)
        yield* first.awaitPosition(5)
        yield* first.end
        yield* append(9)
        // No reader needs them, so 6 to 9 are deleted; 5 is the latest row of its record and stays.
        yield* store.prune({ before: Number.MAX_SAFE_INTEGER, upTo: 9 })
        if (emptied) broker.published.clear()
        const status = yield* once(yield* start(broker), "stopped")
        assert.include(status.reason?.message, "6 to 9")
        assert.include(status.reason?.hint, "rollcall store adopt")
        assert.strictEqual(broker.events.length, 5)
      }).pipe(Effect.provide(store))
  )

  it.effect("a sink that is ahead of the log stops the relay, and the hint names the remedy (X14)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const { identity } = yield* Store
      broker.published.set(identity.store, { ...identity, ...checkpointOf(entries(1, 30))! })
      yield* append(20)
      const relay = yield* start(broker)
      const stopped = yield* once(relay, "stopped")
      yield* TestClock.adjust("60 minutes")
      assert.include(stopped.reason?.hint, "rollcall store adopt")
      assert.deepStrictEqual(broker.events, [])
    }).pipe(Effect.provide(store)))

  /** Makes the broker look as if another store had published to it. */
  const publishOther = (broker: MemorySink.MemoryBroker, generation: number) => {
    broker.published.set("another", { store: "another", generation, ...checkpointOf(entries(1, 3))! })
  }

  it.effect("a store that was adopted while empty may publish after another store (X14)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      publishOther(broker, 1)
      const made = yield* Store
      const relay = yield* Effect.provideService(
        start(broker),
        Store,
        Store.of({ ...made, identity: { ...made.identity, generation: 2 } })
      )
      yield* append(10)
      yield* relay.awaitPosition(10)
      assert.deepStrictEqual(ids(broker), expected(1, 10))
    }).pipe(Effect.provide(store)))

  it.effect("records of streams that a store adopted while empty does not know yet are removed from the sink (X14, world 124)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      publishOther(broker, 1)
      const record = { integration: "workday:acme", model: "hris.skill", id: "gone" } as const
      broker.state.set(partitionKey(record), record)
      const made = yield* Store
      const adopted = Store.of({ ...made, identity: { ...made.identity, generation: 2 } })
      assert.deepStrictEqual(yield* made.streams, [])
      yield* once(yield* Effect.provideService(start(broker), Store, adopted), "running")
      assert.deepStrictEqual([...broker.state.keys()], [])
    }).pipe(Effect.provide(store)))

  it.effect("a store of a later generation that published elsewhere does not publish after another store (X14)", () =>
    Effect.gen(function*() {
      const [mine, broker] = [new MemorySink.MemoryBroker(), new MemorySink.MemoryBroker()]
      publishOther(broker, 1)
      const made = yield* Store
      const adopted = Store.of({ ...made, identity: { ...made.identity, generation: 2 } })
      yield* append(10)
      const first = yield* Effect.provideService(start(mine), Store, adopted)
      yield* first.awaitPosition(10)
      yield* first.end
      const stopped = yield* once(yield* Effect.provideService(start(broker), Store, adopted), "stopped")
      assert.include(
        stopped.reason?.message,
        "this store published up to position 10, but not to these topics: store another published to them last"
      )
      assert.include(stopped.reason?.hint, "rollcall store adopt")
      assert.deepStrictEqual(broker.events, [])
    }).pipe(Effect.provide(store)))

  it.effect("an adopted store that published elsewhere does not resume where it published in an earlier generation (X14)", () =>
    Effect.gen(function*() {
      const [former, latter] = [new MemorySink.MemoryBroker(), new MemorySink.MemoryBroker()]
      const made = yield* Store
      yield* append(5)
      const first = yield* start(former)
      yield* first.awaitPosition(5)
      yield* first.end
      yield* made.raiseGeneration([yield* made.takeOwnership("capture")], 2)
      const adopted = Store.of({ ...made, identity: { ...made.identity, generation: 2 } })
      yield* append(5, "adopted")
      const second = yield* Effect.provideService(start(latter), Store, adopted)
      yield* second.awaitPosition(10)
      yield* second.end
      assert.deepStrictEqual(ids(latter), expected(6, 10, "adopted"))
      const stopped = yield* once(yield* Effect.provideService(start(former), Store, adopted), "stopped")
      assert.include(
        stopped.reason?.message,
        "this store published up to position 10, but not to these topics: it last published to them in generation 1"
      )
      assert.include(stopped.reason?.hint, "rollcall store adopt")
      assert.deepStrictEqual(ids(former), expected(1, 5))
    }).pipe(Effect.provide(store)))

  it.effect("a store that has published and whose log was pruned since does not resume on an empty sink (X14)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const store = yield* Store
      yield* append(10)
      const first = yield* start(broker)
      yield* first.awaitPosition(10)
      yield* first.end
      yield* store.prune({ before: Number.MAX_SAFE_INTEGER, upTo: 10 })
      assert.strictEqual((yield* store.logRange).oldest, 11)
      const stopped = yield* once(yield* start(new MemorySink.MemoryBroker()), "stopped")
      assert.include(stopped.reason?.message, "they hold no published position")
    }).pipe(Effect.provide(store)))

  it.effect("another event at the sink's position stops the relay (X18)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const { identity } = yield* Store
      broker.published.set(identity.store, { ...identity, ...checkpointOf(entries(1, 10))! })
      yield* append(20, "restored")
      const relay = yield* start(broker)
      const stopped = yield* once(relay, "stopped")
      yield* TestClock.adjust("60 minutes")
      assert.include(stopped.reason?.message, "another event")
      assert.deepStrictEqual(broker.events, [])
    }).pipe(Effect.provide(store)))

  it.effect("the same event at the sink's position stops the relay if the events before it differ (X18)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const { identity } = yield* Store
      const chain = entries(1, 20).reduce(
        (chain, { eventId, position }) => chainOf(chain, position === 7 ? "lost" : eventId),
        genesis
      )
      broker.published.set(identity.store, { ...identity, position: 20, chain })
      yield* append(20)
      const relay = yield* start(broker)
      assert.include((yield* once(relay, "stopped")).reason?.message, "other events before it")
      assert.deepStrictEqual(broker.events, [])
    }).pipe(Effect.provide(store)))

  it.effect("a log without a saved position resumes after the sink's position if the chain proves the same events (X18)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const { identity, readerPosition } = yield* Store
      broker.published.set(identity.store, { ...identity, ...checkpointOf(entries(11, 20))! })
      yield* append(25)
      const relay = yield* start(broker)
      yield* relay.awaitPosition(25)
      assert.deepStrictEqual(ids(broker), expected(21, 25))
      assert.strictEqual(yield* readerPosition("relay"), 25)
    }).pipe(Effect.provide(store)))

  it.effect("the checkpoint advances with each batch, even if the responses of several batches are lost (X4)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const relay = yield* start(broker)
      for (let count = 5; count <= 50; count += 5) {
        broker.lostResponses = count % 10 === 0 ? 1 : 0
        yield* append(5)
        yield* whileTimePasses(relay.awaitPosition(count))
      }
      assert.deepStrictEqual(ids(broker), expected(1, 50))
    }).pipe(Effect.provide(store)))

  describe("with a database that is replaced while it runs", () => {
    /** A store that reads from `current`: first one that has published, then the copy that replaces it. */
    const replaceable = Effect.gen(function*() {
      const first = yield* Store
      let current = first
      const now = <A, E>(use: (store: Store["Service"]) => Effect.Effect<A, E>) => Effect.suspend(() => use(current))
      const store: Store["Service"] = {
        ...first,
        streams: now(({ streams }) => streams),
        streamsAtPosition: now(({ streamsAtPosition }) => streamsAtPosition),
        logRange: now(({ logRange }) => logRange),
        chains: (positions) => now(({ chains }) => chains(positions)),
        readLog: (query) => now(({ readLog }) => readLog(query)),
        awaitLog: (after) => now(({ awaitLog }) => awaitLog(after)),
        readerPosition: (reader) => now(({ readerPosition }) => readerPosition(reader)),
        saveReaderPosition: (...args) => now(({ saveReaderPosition }) => saveReaderPosition(...args))
      }
      const replaceWith = Effect.fnUntraced(function*(fill: Effect.Effect<void, StoreError, Store>) {
        const other = Context.get(yield* Layer.build(Layer.fresh(MemoryStore.layer())), Store)
        yield* Effect.provideService(fill, Store, other)
        // The copy has the same owner.
        yield* other.takeOwnership("relay")
        current = other
      })
      return { store, replaceWith }
    })

    it.effect.each([
      { id: "X14", name: "a copy without some published events", copy: append(17), message: "ends at 17" },
      {
        id: "X18",
        name: "a copy that has grown beyond the position with other events",
        copy: Effect.andThen(append(17), append(10, "other")),
        message: "another event"
      }
    ])(
      "$name stops the relay, which publishes neither its events nor its progress ($id)",
      ({ copy, message }) =>
        Effect.gen(function*() {
          const broker = new MemorySink.MemoryBroker()
          const { replaceWith, store } = yield* replaceable
          const relay = yield* Effect.provideService(start(broker), Store, store)
          yield* append(20)
          yield* relay.awaitPosition(20)
          const progressBefore = new Map(broker.progress)
          yield* replaceWith(copy)
          const stopped = yield* once(relay, "stopped")
          yield* TestClock.adjust("60 minutes")
          assert.include(stopped.reason?.message, message)
          assert.include(stopped.reason?.hint, "rollcall store adopt")
          assert.deepStrictEqual(ids(broker), expected(1, 20))
          assert.deepStrictEqual(broker.progress, progressBefore)
        }).pipe(Effect.provide(store))
    )

    it.effect.each([
      {
        name: "other events",
        copy: append(10, "other"),
        published: [...expected(1, 20), ...expected(21, 30, "other")]
      },
      { name: "no events", copy: Effect.void, published: expected(1, 20) }
    ])(
      "publishes the events of a copy that replaces the store between reading and comparing: $name (X14)",
      ({ copy, published }) =>
        Effect.gen(function*() {
          const broker = new MemorySink.MemoryBroker()
          const { replaceWith, store } = yield* replaceable
          const scope = yield* Effect.scope
          let isRead = false
          const replacing: Store["Service"] = {
            ...store,
            readLog: (query) =>
              Effect.tap(store.readLog(query), (rows) =>
                isRead || rows.length === 0 || query.after < 20
                  ? Effect.void
                  : Effect.suspend(() => {
                    isRead = true
                    return Scope.provide(replaceWith(Effect.andThen(append(20), copy)), scope)
                  }))
          }
          const relay = yield* Effect.provideService(start(broker), Store, replacing)
          yield* append(20)
          yield* relay.awaitPosition(20)
          yield* append(10)
          yield* whileTimePasses(Effect.andThen(Effect.sleep("10 seconds"), relay.status))
          assert.isTrue(isRead)
          assert.deepStrictEqual(ids(broker), published)
          assert.isNull((yield* relay.status).reason)
        }).pipe(Effect.provide(Layer.fresh(Layer.orDie(MemoryStore.layer()))))
    )

    it.effect("continues automatically with a copy that has the same events", () =>
      Effect.gen(function*() {
        const broker = new MemorySink.MemoryBroker()
        const { replaceWith, store } = yield* replaceable
        const relay = yield* Effect.provideService(start(broker), Store, store)
        yield* append(20)
        yield* relay.awaitPosition(20)
        yield* replaceWith(append(23))
        yield* whileTimePasses(relay.awaitPosition(23))
        assert.deepStrictEqual(ids(broker), expected(1, 23))
      }).pipe(Effect.provide(store)))
  })

  it.effect("a sink of a later generation stops the relay (X14)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const { identity } = yield* Store
      broker.published.set(identity.store, { store: identity.store, generation: 2, ...checkpointOf(entries(1, 10))! })
      yield* append(20)
      const relay = yield* start(broker)
      yield* once(relay, "stopped")
      yield* TestClock.adjust("60 minutes")
      assert.deepStrictEqual(broker.events, [])
    }).pipe(Effect.provide(store)))

  it.effect("a sink that lost its checkpoint stops the relay (X14)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      yield* append(20)
      const first = yield* start(broker)
      yield* first.awaitPosition(20)
      yield* first.end
      const emptied = new MemorySink.MemoryBroker()
      const relay = yield* start(emptied)
      yield* once(relay, "stopped")
      yield* TestClock.adjust("60 minutes")
      assert.deepStrictEqual(emptied.events, [])
    }).pipe(Effect.provide(store)))

  it.effect("a log that retention has emptied is not treated as a restored one (X14)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      yield* append(20)
      const first = yield* start(broker)
      yield* first.awaitPosition(20)
      yield* first.end
      yield* pruneAll(["relay"])
      const relay = yield* start(broker)
      yield* append(10)
      yield* whileTimePasses(relay.awaitPosition(30))
      assert.deepStrictEqual(ids(broker), expected(1, 30))
    }).pipe(Effect.provide(store)))

  it.effect("a sink that refuses the relay is found out although there is nothing to publish", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      broker.failure = new Refused({ message: "authentication failed", hint: "check the login." })
      const { reason, state } = yield* (yield* start(broker)).awaitPosition(0)
      assert.strictEqual(state, "stopped")
      assert.strictEqual(reason?.message, "authentication failed")
    }).pipe(Effect.provide(store)))

  it.effect("a sink that stays unavailable is awaited for as long as the caller wants", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      broker.failure = unreachable
      const relay = yield* start(broker)
      const begun = yield* Clock.currentTimeMillis
      const { state } = yield* whileTimePasses(relay.awaitPosition(0, "1 minute"))
      assert.strictEqual(state, "waiting")
      assert.isAtLeast((yield* Clock.currentTimeMillis) - begun, 60_000)
      const patient = yield* Effect.forkChild(relay.awaitPosition(0))
      yield* TestClock.adjust("10 minutes")
      assert.isUndefined(patient.pollUnsafe())
      broker.failure = null
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* Fiber.join(patient)).state, "running")
    }).pipe(Effect.provide(store)))

  it.effect("no relay waits for events that retention deleted before the first publication", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      yield* append(20)
      yield* pruneAll([])
      for (let starts = 0; starts < 2; starts++) {
        const relay = yield* start(broker)
        yield* whileTimePasses(Effect.timeout(relay.awaitPosition(20), "1 minute"))
        assert.strictEqual((yield* relay.status).position, 20)
        assert.strictEqual(yield* (yield* Store).readerPosition("relay"), 20)
        yield* relay.end
      }
      yield* append(10)
      yield* whileTimePasses((yield* start(broker)).awaitPosition(30))
      assert.deepStrictEqual(ids(broker), expected(21, 30))
    }).pipe(Effect.provide(store)))

  it.effect("a relay whose store was taken over by another one stops, and does not take ownership again (I10)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const old = yield* start(broker)
      yield* append(10)
      yield* old.awaitPosition(10)
      const next = yield* start(broker)
      yield* next.awaitPosition(10)
      yield* append(10)
      yield* next.awaitPosition(20)
      yield* once(old, "stopped")
      yield* TestClock.adjust("60 minutes")
      assert.strictEqual((yield* old.status).state, "stopped")
      assert.strictEqual((yield* next.status).state, "running")
      assert.deepStrictEqual(ids(broker), expected(1, 20))
    }).pipe(Effect.provide(store)))

  it.effect("a relay that was replaced before it opened the sink publishes nothing, not even the first batch (I10)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      yield* append(10)
      const relay = yield* startThrough(broker, (_, send) => send, ({ takeOwnership }) => ({
        takeOwnership: (scope) => Effect.tap(takeOwnership(scope), () => takeOwnership(scope))
      }))
      yield* once(relay, "stopped")
      assert.deepStrictEqual(ids(broker), [])
    }).pipe(Effect.provide(store)))

  it.effect("a relay of a fleet that was replaced but not moved takes ownership again after ten seconds (I10)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const relay = yield* start(broker, Layer.provide(Relay.placedLayer({ retakes: true }), Placement.local))
      yield* append(10)
      yield* relay.awaitPosition(10)
      yield* (yield* Store).takeOwnership("relay")
      yield* append(10)
      yield* once(relay, "stopped")
      yield* whileTimePasses(
        relay.awaitPosition(20).pipe(Effect.repeat({
          until: ({ state }) => state === "running",
          schedule: Schedule.spaced("1 second")
        }))
      )
      assert.deepStrictEqual(ids(broker), expected(1, 20))
    }).pipe(Effect.provide(store)))

  it.effect("a relay that is fenced by the sink but still owns the store opens the sink again (X15)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const relay = yield* start(broker)
      yield* append(10)
      yield* relay.awaitPosition(10)
      broker.openCount = 99
      yield* append(10)
      yield* whileTimePasses(relay.awaitPosition(20))
      assert.deepStrictEqual(ids(broker), expected(1, 20))
    }).pipe(Effect.provide(store)))

  it.effect("a sink that refuses stops the relay with the sink's hint, and the relay retries after minutes", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      broker.failure = new Refused({ message: "not authorized", hint: "give permission." })
      yield* append(10)
      const relay = yield* start(broker)
      const stopped = yield* once(relay, "stopped")
      assert.strictEqual(stopped.reason?.hint, "give permission.")
      broker.failure = null
      yield* once(relay, "running")
      assert.deepStrictEqual(yield* relay.status, {
        position: 10,
        progressPosition: 10,
        state: "running",
        reason: null
      })
    }).pipe(Effect.provide(store)))

  describe("shutdown", () => {
    /** Starts a relay that is blocked in its first batch until `release`. */
    const stuck = Effect.fnUntraced(function*(broker: MemorySink.MemoryBroker) {
      const store = yield* Store
      const entered = yield* Deferred.make<void>()
      const release = yield* Deferred.make<void>()
      const slow = Layer.effect(
        Sink,
        Effect.map(Sink, (sink) =>
          Sink.of({
            ...sink,
            publish: (identity, batch, checkpoint) =>
              Deferred.succeed(entered, undefined).pipe(
                Effect.andThen(Deferred.await(release)),
                Effect.andThen(sink.publish(identity, batch, checkpoint))
              )
          }))
      ).pipe(Layer.provide(MemorySink.layer(broker)))
      const scope = yield* Scope.make()
      yield* append(10)
      yield* Layer.buildWithScope(
        Layer.fresh(Relay.layer).pipe(Layer.provide(slow), Layer.provide(Layer.succeed(Store, store))),
        scope
      )
      yield* Deferred.await(entered)
      return { release: Deferred.succeed(release, undefined), end: Scope.close(scope, Exit.void) }
    })

    it.effect("a batch in progress is completed on shutdown", () =>
      Effect.gen(function*() {
        const broker = new MemorySink.MemoryBroker()
        const relay = yield* stuck(broker)
        const ended = yield* Effect.forkChild(relay.end)
        yield* TestClock.adjust("1 second")
        yield* relay.release
        yield* Fiber.join(ended)
        assert.deepStrictEqual(ids(broker), expected(1, 10))
        assert.strictEqual(yield* (yield* Store).readerPosition("relay"), 10)
      }).pipe(Effect.provide(store)))

    it.effect("a sink that hangs delays the shutdown only briefly, and no event is lost (X10)", () =>
      Effect.gen(function*() {
        const broker = new MemorySink.MemoryBroker()
        const relay = yield* stuck(broker)
        const from = yield* Clock.currentTimeMillis
        yield* whileTimePasses(relay.end)
        assert.isAtMost((yield* Clock.currentTimeMillis) - from, 2_000)
        assert.deepStrictEqual(ids(broker), [])
        const next = yield* start(broker)
        yield* next.awaitPosition(10)
        assert.deepStrictEqual(ids(broker), expected(1, 10))
      }).pipe(Effect.provide(store)))
  })
})
