/** Integrations that are erased, and added again. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import { acme, startProcess } from "../../../test/support/capture/Capturing.ts"
import {
  allEvents,
  entries,
  erased,
  other,
  reasonOf,
  scenario,
  stateOf,
  streamOf
} from "../../../test/support/capture/Integrating.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import * as MemorySink from "../../../test/support/publish/MemorySink.ts"
import { received } from "../../../test/support/publish/Relaying.ts"
import { type LogEntry, partitionKey } from "../../domain/ChangeEvent.ts"
import { Unreachable } from "../../publish/Sink.ts"
import { relayReader } from "../../store/EventLog.ts"
import { Store, StoreError, Unavailable } from "../../store/Store.ts"
import * as StoreAdoption from "../rewrite/StoreAdoption.ts"

/** The records of a consumer that drops ids it has seen and orders by (generation, version). */
const consumed = (got: ReadonlyArray<LogEntry>): Readonly<Record<string, unknown>> => {
  const seen = new Set<string>()
  const newest = new Map<string, LogEntry>()
  for (const entry of got) {
    if (seen.has(entry.eventId)) continue
    seen.add(entry.eventId)
    const held = newest.get(partitionKey(entry))
    const isNewer = held === undefined || entry.generation > held.generation ||
      (entry.generation === held.generation && entry.version > held.version)
    if (isNewer) newest.set(partitionKey(entry), entry)
  }
  return Object.fromEntries(
    [...newest.values()].map((
      { after, id, generation }
    ) => [id, [generation, after === null ? null : JSON.parse(after).name]])
  )
}

/** A process adds `acme`, begins to erase it, and stops. */
const interruptedErasure = Effect.gen(function*() {
  const { add, remove, stop } = yield* startProcess({ readers: ["relay"] })
  yield* add(acme)
  yield* TestClock.adjust("1 minute")
  yield* remove(acme.id, "erase")
  yield* stop
})

describe("erasing an integration", () => {
  it.effect("an adoption publishes no record of an integration that is being erased, and a later add starts with unused versions (X11, X19)", () =>
    scenario(function*(api) {
      const readers = [relayReader]
      const first = yield* startProcess({ readers })
      yield* first.add(acme)
      yield* TestClock.adjust("1 second")
      yield* first.remove(acme.id, "erase")
      yield* first.stop
      const plan = yield* StoreAdoption.plan(0)
      assert.deepStrictEqual([plan.streams, plan.live], [0, 0])
      yield* StoreAdoption.adopt(plan, () => null)
      const store = yield* Store
      const reopened = { ...store, identity: { ...store.identity, generation: plan.to } }
      yield* Effect.gen(function*() {
        const got = yield* received(new MemorySink.MemoryBroker())
        const next = yield* startProcess({ readers })
        yield* erased(acme.id)
        yield* TestClock.adjust("1 minute")
        api.put(start + 60_000, { id: "a", name: "2" })
        yield* next.add(acme)
        yield* TestClock.adjust("2 seconds")
        const versions = got.map(({ generation, id, version }) => `${id} ${generation}.${version}`)
        assert.deepStrictEqual(versions, [`a ${plan.to}.1`, `b ${plan.to}.1`])
        assert.deepStrictEqual(consumed(got), { a: [plan.to, "2"], b: [plan.to, "1"] })
      }).pipe(Effect.provideService(Store, reopened))
    }))

  it.effect("an integration that is erased and added again starts a generation at version 1, and a consumer misses and mixes nothing (X19)", () =>
    scenario(function*(api) {
      const broker = new MemorySink.MemoryBroker()
      const got = yield* received(broker)
      const { add, remove } = yield* startProcess({ declared: [other], readers: ["relay"] })
      yield* add(acme)
      yield* TestClock.adjust("1 minute")
      broker.failure = new Unreachable({ message: "away", cause: null })
      api.put(start + 60_000, { id: "a", name: "2" })
      yield* TestClock.adjust("2 minutes")

      assert.strictEqual((yield* remove(acme.id, "erase")).state, "erasing")
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual(yield* reasonOf(add(acme)), "erasing")
      const unpublished = (yield* entries).filter((entry) => entry.integration === acme.id)
      assert.deepStrictEqual(unpublished.map((entry) => entry.version), [1, 1, 2], "is there for the relay")

      broker.failure = null
      yield* erased(acme.id)
      assert.isNull(yield* streamOf(acme.id))
      assert.isFalse((yield* entries).some((entry) => entry.integration === acme.id))
      const firstGeneration = got.filter((entry) => entry.integration === acme.id)
      assert.deepStrictEqual(consumed(firstGeneration), { a: [1, "2"], b: [1, "1"] })

      yield* add(acme)
      yield* TestClock.adjust("1 minute")
      const own = got.filter((entry) => entry.integration === acme.id)
      assert.deepStrictEqual(
        own.slice(firstGeneration.length).map((
          { before, id, kind, generation, version }
        ) => [id, kind, generation, version, before]),
        [["a", "created", 2, 1, null], ["b", "created", 2, 1, null]]
      )
      assert.deepStrictEqual(consumed(own), { a: [2, "2"], b: [2, "1"] })
      assert.isAbove(got.filter((entry) => entry.integration === other.id).length, 2, "others are as they were")
    }))

  it.effect("an erasure that a restart interrupts is resumed, and waits for a reader that only another process has", () =>
    scenario(function*() {
      const store = yield* Store
      yield* interruptedErasure
      yield* store.noteReaders(["relay"])
      yield* startProcess({ readers: [] })
      yield* TestClock.adjust("30 minutes")
      assert.strictEqual((yield* entries).length, 2)
      yield* store.saveReaderPosition(yield* store.takeOwnership("relay"), "relay", 2)
      yield* erased(acme.id)
      assert.deepStrictEqual(yield* entries, [])
    }))

  it.effect("an integration that is declared while it is being erased starts with a new backfill afterwards", () =>
    scenario(function*() {
      const store = yield* Store
      yield* interruptedErasure
      yield* startProcess({ readers: ["relay"], declared: [acme] })
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* stateOf(acme.id))?.state, "erasing")
      yield* store.saveReaderPosition(yield* store.takeOwnership("relay"), "relay", 2)
      yield* TestClock.adjust("1 minute")
      assert.deepInclude(yield* stateOf(acme.id), { state: "active", declared: true, generation: 2 })
      assert.deepStrictEqual(yield* allEvents, ["greenhouse:acme a 2.1", "greenhouse:acme b 2.1"])
    }))

  it.effect("an erasure that was committed begins although the store failed right afterwards (X10)", () =>
    scenario(function*() {
      const store = yield* Store
      const away = new StoreError({ reason: new Unavailable({ operation: "streamsOf", cause: null }) })
      let isAway = false
      const { add, remove } = yield* Effect.provideService(startProcess(), Store, {
        ...store,
        saveIntegration: (...saved) =>
          Effect.tap(store.saveIntegration(...saved), Effect.sync(() => isAway = saved[1].state === "erasing")),
        streamsOf: (id) => Effect.suspend(() => isAway ? Effect.fail(away) : store.streamsOf(id))
      })
      yield* add(acme)
      yield* TestClock.adjust("1 minute")
      yield* Effect.flip(remove(acme.id, "erase"))
      yield* TestClock.adjust("1 minute")
      isAway = false
      assert.strictEqual((yield* remove(acme.id, "erase")).state, "erasing")
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* stateOf(acme.id))?.state, "erased")
      assert.deepStrictEqual(yield* entries, [])
    }))

  it.effect("an erasure that was requested again while the store was unavailable runs once, and deletes nothing that is read after it (X19)", () =>
    scenario(function*() {
      const store = yield* Store
      const away = new StoreError({ reason: new Unavailable({ operation: "saveIntegration", cause: null }) })
      let isAway = false
      const unlessAway = <A>(effect: Effect.Effect<A, StoreError>) =>
        Effect.suspend(() => isAway ? Effect.fail(away) : effect)
      const { add, remove } = yield* Effect.provideService(startProcess({ readers: ["relay"] }), Store, {
        ...store,
        integrations: unlessAway(store.integrations),
        saveIntegration: (...saved) => unlessAway(store.saveIntegration(...saved))
      })
      yield* add(acme)
      yield* TestClock.adjust("1 minute")
      isAway = true
      yield* Effect.flip(remove(acme.id, "erase"))
      yield* TestClock.adjust("500 millis")
      isAway = false
      yield* remove(acme.id, "erase")
      yield* TestClock.adjust("1 minute")
      yield* store.saveReaderPosition(yield* store.takeOwnership("relay"), "relay", 2)
      yield* Effect.repeat(Effect.andThen(TestClock.adjust("100 millis"), stateOf(acme.id)), {
        until: (one) => one?.state === "erased"
      })
      yield* add(acme)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* stateOf(acme.id))?.state, "active")
      assert.deepStrictEqual(yield* allEvents, ["greenhouse:acme a 2.1", "greenhouse:acme b 2.1"])
    }))

  it.effect("an erasure that waits for a reader of another process is in the log, and ends an hour after the last process had the reader (X19)", () =>
    scenario(function*() {
      const store = yield* Store
      yield* store.noteReaders([relayReader])
      const { add, remove } = yield* startProcess()
      yield* add(acme)
      yield* TestClock.adjust("1 minute")
      const lines: Array<string> = []
      const logger = Logger.make(({ logLevel, message }) => void lines.push(`${logLevel} ${String(message)}`))
      yield* remove(acme.id, "erase").pipe(
        Effect.provide(Logger.layer([logger])),
        Effect.provideService(References.MinimumLogLevel, "Warn")
      )
      yield* TestClock.adjust("5 seconds")
      assert.deepStrictEqual(lines, [])
      yield* TestClock.adjust("50 minutes")
      assert.deepStrictEqual(lines, [
        "Warn an integration is not erased until Kafka and the plugins have read its events"
      ])
      assert.strictEqual((yield* stateOf(acme.id))?.state, "erasing")
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual((yield* stateOf(acme.id))?.state, "erased")
    }))
})
