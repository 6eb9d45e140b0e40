import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as TestClock from "effect/testing/TestClock"
import { entries } from "../../test/integration/publish/Entries.ts"
import { append } from "../../test/integration/publish/Log.ts"
import * as MemorySink from "../../test/support/publish/MemorySink.ts"
import { expected, ids, once, start, whileTimePasses } from "../../test/support/publish/Relaying.ts"
import * as MemoryStore from "../../test/support/store/MemoryStore.ts"
import { chainOf, genesis, partitionKey } from "../domain/ChangeEvent.ts"
import { Store } from "../store/Store.ts"
import * as Retention from "./Retention.ts"
import { checkpointOf } from "./Sink.ts"

const store = MemoryStore.layer()

/** Advances time until retention has emptied the log. */
const pruneAll = Effect.fnUntraced(function*(readers: ReadonlyArray<string>) {
  yield* TestClock.adjust("30 days")
  const store = yield* Store
  yield* Layer.build(Retention.layer({ retention: Duration.days(7), readers }))
  yield* whileTimePasses(
    Effect.repeat(store.logRange, { until: ({ oldest }) => oldest > 1, schedule: Schedule.spaced("1 second") })
  )
})

/** A relay publishes everything up to `position` to `broker`, and ends. */
const publish = Effect.fnUntraced(function*(broker: MemorySink.MemoryBroker, position: number) {
  const relay = yield* start(broker)
  yield* relay.awaitPosition(position)
  yield* relay.end
})

describe("where the relay resumes", () => {
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
        yield* publish(broker, 5)
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

  it.effect.each([
    { name: "is ahead of the log (X14)", sink: checkpointOf(entries(1, 30)), mark: "event", message: "ends at 20" },
    {
      name: "has another event at its position (X18)",
      sink: checkpointOf(entries(1, 10)),
      mark: "restored",
      message: "another event"
    },
    {
      name: "has other events before the same event (X18)",
      sink: {
        position: 20,
        chain: entries(1, 20).reduce(
          (chain, { eventId, position }) => chainOf(chain, position === 7 ? "lost" : eventId),
          genesis
        )
      },
      mark: "event",
      message: "other events before it"
    },
    {
      name: "has a later generation (X14)",
      sink: { generation: 2, ...checkpointOf(entries(1, 10))! },
      mark: "event",
      message: "the sink holds generation 2"
    }
  ])("the relay stops for good if the sink $name", ({ mark, message, sink }) =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const { identity } = yield* Store
      broker.published.set(identity.store, { ...identity, ...sink! })
      yield* append(20, mark)
      const relay = yield* start(broker)
      const stopped = yield* once(relay, "stopped")
      assert.include(stopped.reason?.message, message)
      assert.include(stopped.reason?.hint, "rollcall store adopt")
      yield* TestClock.adjust("60 minutes")
      assert.strictEqual((yield* relay.status).state, "stopped")
      assert.deepStrictEqual(broker.events, [])
    }).pipe(Effect.provide(store)))

  it.effect.each([
    { name: "", pruned: false, message: "but the sink has no published position" },
    { name: ", and the log was pruned since", pruned: true, message: "they hold no published position" }
  ])(
    "the relay stops for good if the sink lost its checkpoint$name (X14)",
    ({ message, pruned }) =>
      Effect.gen(function*() {
        const { logRange, prune } = yield* Store
        yield* append(10)
        yield* publish(new MemorySink.MemoryBroker(), 10)
        if (pruned) yield* prune({ before: Number.MAX_SAFE_INTEGER, upTo: 10 })
        assert.strictEqual((yield* logRange).oldest, pruned ? 11 : 1)
        const emptied = new MemorySink.MemoryBroker()
        const relay = yield* start(emptied)
        assert.include((yield* once(relay, "stopped")).reason?.message, message)
        yield* TestClock.adjust("60 minutes")
        assert.strictEqual((yield* relay.status).state, "stopped")
        assert.deepStrictEqual(emptied.events, [])
      }).pipe(Effect.provide(store))
  )

  /** A broker to which another store has published. */
  const ofAnother = () => {
    const broker = new MemorySink.MemoryBroker()
    broker.published.set("another", { store: "another", generation: 1, ...checkpointOf(entries(1, 3))! })
    return broker
  }
  /** Runs the effect with the store in its second generation. */
  const adopted = <A, E, R>(effect: Effect.Effect<A, E, R | Store>) =>
    Effect.flatMap(
      Store,
      (made) =>
        Effect.provideService(effect, Store, Store.of({ ...made, identity: { ...made.identity, generation: 2 } }))
    )

  it.effect("a store that was adopted while empty may publish after another store (X14)", () =>
    Effect.gen(function*() {
      const broker = ofAnother()
      const relay = yield* adopted(start(broker))
      yield* append(10)
      yield* relay.awaitPosition(10)
      assert.deepStrictEqual(ids(broker), expected(1, 10))
    }).pipe(Effect.provide(store)))

  it.effect("records of streams that a store adopted while empty does not know yet are removed from the sink (X14, world 124)", () =>
    Effect.gen(function*() {
      const broker = ofAnother()
      const record = { integration: "workday:acme", model: "hris.skill", id: "gone" } as const
      broker.state.set(partitionKey(record), record)
      assert.deepStrictEqual(yield* (yield* Store).streams, [])
      yield* once(yield* adopted(start(broker)), "running")
      assert.deepStrictEqual([...broker.state.keys()], [])
    }).pipe(Effect.provide(store)))

  it.effect("a store of a later generation that published elsewhere does not publish after another store (X14)", () =>
    Effect.gen(function*() {
      const broker = ofAnother()
      yield* append(10)
      yield* adopted(publish(new MemorySink.MemoryBroker(), 10))
      const stopped = yield* once(yield* adopted(start(broker)), "stopped")
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
      yield* publish(former, 5)
      yield* made.raiseGeneration([yield* made.takeOwnership("capture")], 2)
      yield* append(5, "adopted")
      yield* adopted(publish(latter, 10))
      assert.deepStrictEqual(ids(latter), expected(6, 10, "adopted"))
      const stopped = yield* once(yield* adopted(start(former)), "stopped")
      assert.include(
        stopped.reason?.message,
        "this store published up to position 10, but not to these topics: it last published to them in generation 1"
      )
      assert.include(stopped.reason?.hint, "rollcall store adopt")
      assert.deepStrictEqual(ids(former), expected(1, 5))
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

  it.effect("a log that retention has emptied is not treated as a restored one (X14)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      yield* append(20)
      yield* publish(broker, 20)
      yield* pruneAll(["relay"])
      const relay = yield* start(broker)
      yield* append(10)
      yield* whileTimePasses(relay.awaitPosition(30))
      assert.deepStrictEqual(ids(broker), expected(1, 30))
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
})
