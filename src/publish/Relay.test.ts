import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as TestClock from "effect/testing/TestClock"
import { append } from "../../test/integration/publish/Log.ts"
import * as MemorySink from "../../test/support/publish/MemorySink.ts"
import { expected, ids, once, publishingThrough, start, whileTimePasses } from "../../test/support/publish/Relaying.ts"
import * as MemoryStore from "../../test/support/store/MemoryStore.ts"
import type { LogEntry } from "../domain/ChangeEvent.ts"
import { missingKeys, Store } from "../store/Store.ts"
import { Refused, Unreachable } from "./Sink.ts"

const store = MemoryStore.layer()

const unreachable = new Unreachable({ message: "connect ECONNREFUSED", cause: null })

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
      yield* append(25, "event", false, { after: JSON.stringify("x".repeat(450_000)) })
      yield* append(1, "event", false, { after: JSON.stringify("x".repeat(5_000_000)) })
      yield* append(600)
      const relay = yield* start(broker, {
        sink: publishingThrough((batch, send) => {
          batches.push(batch)
          return send
        })
      })
      yield* relay.awaitPosition(626)
      assert.deepStrictEqual(ids(broker), expected(1, 626))
      for (const batch of batches) {
        const content = batch.reduce((sum, { after, before }) => sum + (after?.length ?? 0) + (before?.length ?? 0), 0)
        if (batch.length > 1) assert.isAtMost(content, 2_000_000)
      }
      assert.isBelow(batches.length, 30)
    }).pipe(Effect.provide(store)))

  it.effect("a defect stops the relay with its kind and place, without its values, and is tried again after five minutes (I11)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      let isDefect = true
      yield* append(3)
      const relay = yield* start(broker, {
        sink: publishingThrough((_, send) =>
          isDefect ? Effect.die(new TypeError("no topic for jane@example.com")) : send
        )
      })
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
      const relay = yield* start(broker, {
        sink: publishingThrough((_, send) => Effect.andThen(Deferred.await(secondRead), send)),
        store: ({ readLog }) => ({
          readLog: (query) =>
            Effect.tap(readLog(query), query.after === 500 ? Deferred.succeed(secondRead, undefined) : Effect.void)
        })
      })
      yield* relay.awaitPosition(1203)
      assert.deepStrictEqual(ids(broker), expected(1, 1203))
    }).pipe(Effect.provide(store)))

  it.effect("waits while this process lacks an encryption key of the store, and does not call the store damaged", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      let isMissing = true
      yield* append(20)
      const relay = yield* start(broker, {
        store: ({ readLog }) => ({
          readLog: (query) => isMissing ? Effect.fail(missingKeys(["k1"])) : readLog(query)
        })
      })
      const { reason } = yield* once(relay, "waiting")
      assert.strictEqual(reason?.message, "this process lacks an encryption key of the store")
      assert.include(reason?.hint, "the key k1")
      isMissing = false
      yield* whileTimePasses(relay.awaitPosition(20))
      assert.deepStrictEqual(ids(broker), expected(1, 20))
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

  it.effect("no event is published twice, and the place of each is known, if responses are lost after the sink's commit (X4)", () =>
    Effect.gen(function*() {
      const broker = new MemorySink.MemoryBroker()
      const { placeOf } = yield* Store
      broker.lostResponses = 3
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
      assert.deepStrictEqual(ids(broker), [...expected(1, 600), ...expected(604, 1203)])
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
})
