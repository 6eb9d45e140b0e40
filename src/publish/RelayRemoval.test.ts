/** Content that is removed from the log while the relay has it in memory. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import { headsOf } from "../../test/conformance/StoreSamples.ts"
import { append, key } from "../../test/integration/publish/Log.ts"
import { owning } from "../../test/support/capture/Rig.ts"
import * as MemorySink from "../../test/support/publish/MemorySink.ts"
import { start, whileTimePasses } from "../../test/support/publish/Relaying.ts"
import { redactStored } from "../capture/rewrite/Redactor.ts"
import type { NewEvent } from "../domain/ChangeEvent.ts"
import * as Processing from "../domain/Processing.ts"
import { Deliveries } from "../store/Deliveries.ts"
import * as Sqlite from "../store/sqlite/Sqlite.ts"
import { Store, type StoreError } from "../store/Store.ts"

const store = Layer.fresh(Sqlite.layer({ file: ":memory:" }))
type Removal = Effect.Effect<unknown, StoreError, Store | Deliveries>

/** Deletes the record and empties its earlier rows, as forgetting does. */
const forget = (id: string): Removal =>
  Effect.gen(function*() {
    const store = yield* Store
    const deliveries = yield* Deliveries
    const owner = yield* store.takeOwnership("capture")
    yield* store.transact(owner, key, (tx) =>
      Effect.gen(function*() {
        const head = (yield* headsOf(tx, [id])).get(id)!
        const version = head.version + 1
        const deleted: NewEvent = {
          eventId: `forgotten-${id}`,
          id,
          remoteId: null,
          generation: 1,
          version,
          kind: "deleted",
          origin: "refresh",
          after: null,
          changes: "[]",
          transitions: "[]",
          reason: "forgotten",
          restored: false,
          changedAt: null,
          detectedAt: 0,
          cause: null
        }
        yield* tx.write([{ head: { ...head, version, live: false }, events: [deleted], wasLive: true, erased: true }])
      }))
    yield* deliveries.purgeForgotten(key, [id], { found: [], own: true })
  })

/** Redacts the name in everything that is stored. */
const redactNames: Removal = Effect.gen(function*() {
  const owner = yield* (yield* Store).takeOwnership("capture")
  const rules = Processing.make("ats.tag", { remoteData: "drop", redact: { "/name": "drop" }, key: "" })
  yield* redactStored(owning(owner), () => rules)
})

/** The actions of a test, each run the first time that the relay reaches the step. */
interface Steps {
  /** The rows of a batch were read. */
  readonly read?: Removal
  /** A batch is about to be sent. */
  readonly publish?: Removal
  /** The first batch is sent, and the second was read meanwhile. */
  readonly readAhead?: Removal
  /** A progress report is about to be sent. */
  readonly progress?: Removal
}

/** Publishes the log, and what the steps append to it, up to `position`; returns what the sink then has. */
const publishing = Effect.fnUntraced(function*(position: number, steps: Steps) {
  const broker = new MemorySink.MemoryBroker()
  const ports = yield* Effect.context<Store | Deliveries>()
  const pending = new Map(Object.entries(steps))
  const once = (step: keyof Steps) =>
    Effect.suspend(() => {
      const removal: Removal = pending.get(step) ?? Effect.void
      pending.delete(step)
      return Effect.asVoid(Effect.orDie(Effect.provideContext(removal, ports)))
    })
  const relay = yield* start(broker, {
    sink: (sink) => ({
      publish: (...batch) => Effect.andThen(once("publish"), sink.publish(...batch)),
      publishProgress: (...progress) => Effect.andThen(once("progress"), sink.publishProgress(...progress))
    }),
    store: (store) => ({
      readLog: (query) => Effect.tap(store.readLog(query), once("read")),
      chains: (positions) =>
        Effect.tap(store.chains(positions), positions.includes(700) ? once("readAhead") : Effect.void)
    })
  })
  // a request makes the relay read its report again, so that it would send it after the events that a step appends
  yield* TestClock.adjust("1 second")
  // the report of the first call may have been read before a step appended events
  yield* whileTimePasses(Effect.repeat(relay.awaitPosition(position), { times: 1 }))
  assert.isNull((yield* relay.status).reason)
  assert.isEmpty([...pending.keys()])
  return broker.events
})

const ofRecord = (id: string, events: MemorySink.MemoryBroker["events"]) =>
  events.filter((event) => event.key.endsWith(id)).map(({ kind }) => kind)

describe("content that is removed from the log", () => {
  it.effect("is not published from a batch that was read before, while the batch before it was sent (I11)", () =>
    Effect.gen(function*() {
      yield* append(700)
      const events = yield* publishing(701, { readAhead: forget("r3") })
      assert.deepStrictEqual(ofRecord("r3", events.slice(500)), ["deleted"])
      assert.strictEqual(events.length, 500 + 180 + 1)
    }).pipe(Effect.provide(store)))

  it.effect("is not published from a batch that was being read (I11)", () =>
    Effect.gen(function*() {
      yield* append(20)
      const events = yield* publishing(21, { read: forget("r3") })
      assert.deepStrictEqual(ofRecord("r3", events), ["deleted"])
      assert.strictEqual(events.length, 18 + 1)
    }).pipe(Effect.provide(store)))

  it.effect("is not published from a batch that was read before a progress report was sent (I11)", () =>
    Effect.gen(function*() {
      yield* append(20)
      const events = yield* publishing(31, { publish: append(10), progress: forget("r3") })
      assert.deepStrictEqual(ofRecord("r3", events), ["created", "updated", "deleted"])
      assert.strictEqual(events.length, 20 + 9 + 1)
    }).pipe(Effect.provide(store)))

  it.effect("is not published once the redaction of its stream is complete (I11)", () =>
    Effect.gen(function*() {
      yield* append(700)
      const events = yield* publishing(700, { readAhead: redactNames })
      assert.strictEqual(events.length, 700)
      assert.deepStrictEqual(events.slice(500).filter(({ after }) => after?.includes("Ada") === true), [])
    }).pipe(Effect.provide(store)))
})
