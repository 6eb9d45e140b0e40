import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import { hours, minutes } from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as TestClock from "effect/testing/TestClock"
import { created, employees, stateOf, tags } from "../../test/conformance/StoreSamples.ts"
import * as MemorySink from "../../test/support/publish/MemorySink.ts"
import * as Relaying from "../../test/support/publish/Relaying.ts"
import * as MemoryStore from "../../test/support/store/MemoryStore.ts"
import { executeCommand } from "../capture/schedule/StreamCommands.ts"
import type { Stream } from "../capture/Stream.ts"
import * as Guard from "../domain/Guard.ts"
import * as Processing from "../domain/Processing.ts"
import type { StreamState } from "../store/State.ts"
import { Store } from "../store/Store.ts"
import { type StreamProgress, Unreachable } from "./Sink.ts"

const overlap = 300_000

/** Prepares a log; returns a function that commits records and the time up to which their stream is then complete. */
const begin = Effect.fnUntraced(function*(states: Partial<StreamState> = { backfilledAt: 1 }) {
  const store = yield* Store
  yield* store.ensureStreams([
    stateOf(tags, { overlap, phase: "live", ...states }),
    stateOf(employees, { overlap, phase: "live", ...states })
  ])
  const owner = yield* store.takeOwnership("capture")
  let records = 0
  return (key: typeof tags, count: number, completeTo: number) =>
    store.transact(owner, key, (tx) =>
      Effect.gen(function*() {
        yield* tx.saveState({ ...tx.state, previousWatermark: completeTo + overlap, watermark: completeTo + overlap })
        yield* tx.write(Array.from({ length: count }, () => created(`r${records++}`)))
      }))
})

/** Starts a relay; records its reports, each with the number of events that the broker had at that moment. */
const start = Effect.fnUntraced(function*(broker: MemorySink.MemoryBroker) {
  const reports: Array<StreamProgress & { readonly published: number }> = []
  const relay = yield* Relaying.start(broker, {
    sink: (sink) => ({
      publishProgress: (identity, streams) =>
        Effect.gen(function*() {
          yield* sink.publishProgress(identity, streams)
          for (const stream of streams) reports.push({ ...stream, published: broker.events.length })
        })
    })
  })
  return { reports, relay }
})

const store = MemoryStore.layer()
const seconds = (count: number) => Effect.repeat(TestClock.adjust("1 second"), { times: count - 1 })
const brief = (report: StreamProgress) => `${report.model} ${report.completeTo} at ${report.position}`

describe("progress", () => {
  it.effect("reports how far every stream is complete after the log's events of that moment are published", () =>
    Effect.gen(function*() {
      const commit = yield* begin()
      yield* commit(tags, 3, 1000)
      const { relay, reports } = yield* start(new MemorySink.MemoryBroker())
      yield* relay.awaitPosition(3)
      assert.deepStrictEqual(reports.map(brief), ["ats.tag 1000 at 3"])
      yield* commit(employees, 0, 2000)
      yield* seconds(30)
      assert.deepStrictEqual(reports.map(brief).slice(1), ["hris.employee 2000 at 3"])
    }).pipe(Effect.scoped, Effect.provide(store)))

  it.effect("is published, when a caller waits for it, although no event is new", () =>
    Effect.gen(function*() {
      const commit = yield* begin()
      yield* commit(tags, 3, 1000)
      const { relay, reports } = yield* start(new MemorySink.MemoryBroker())
      yield* relay.awaitPosition(3)
      yield* commit(employees, 0, 2000)
      yield* relay.awaitPosition(3)
      assert.deepStrictEqual(reports.map(brief), ["ats.tag 1000 at 3", "hris.employee 2000 at 3"])
    }).pipe(Effect.scoped, Effect.provide(store)))

  it.effect("never goes back, even if the stream was rewound (W15)", () =>
    Effect.gen(function*() {
      const hour = 3_600_000
      const stream: Omit<Stream, "owner"> = {
        key: { ...tags, model: "ats.tag" },
        settings: { ...tags, model: "ats.tag", account: "default", interval: minutes(1), sweepInterval: hours(6) },
        processing: Processing.defaultProcessing("ats.tag"),
        derivedProcessing: null,
        minOverlap: minutes(5),
        confirmInterval: minutes(10),
        guard: Guard.defaultThresholds
      }
      const commit = yield* begin()
      yield* commit(tags, 1, 100 * hour)
      const { relay, reports } = yield* start(new MemorySink.MemoryBroker())
      yield* relay.awaitPosition(1)
      yield* executeCommand({ ...stream, owner: yield* (yield* Store).takeOwnership("capture") }, {
        kind: "rewind",
        to: 10 * hour
      })
      yield* seconds(60)
      assert.deepStrictEqual(reports.map(({ completeTo }) => completeTo), [100 * hour])
    }).pipe(Effect.scoped, Effect.provide(store)))

  it.effect("reports a derived stream as complete as its source after the derived stream's backfill", () =>
    Effect.gen(function*() {
      const store = yield* Store
      const applications = { ...tags, model: "ats.application" } as const
      const candidates = { ...tags, model: "ats.candidate" } as const
      const complete = {
        overlap,
        phase: "live",
        backfilledAt: 1,
        previousWatermark: 1000 + overlap,
        watermark: 1000 + overlap
      } as const
      yield* store.ensureStreams([stateOf(applications, complete), stateOf(candidates)])
      const owner = yield* store.takeOwnership("capture")
      const { relay, reports } = yield* start(new MemorySink.MemoryBroker())
      yield* store.transact(owner, applications, (tx) => tx.write([created("a")]))
      yield* relay.awaitPosition(1)
      yield* seconds(11)
      assert.deepStrictEqual(reports.map(brief), ["ats.application 1000 at 1"])
      yield* store.transact(owner, candidates, (tx) => tx.saveState({ ...tx.state, backfilledAt: 2 }))
      yield* seconds(30)
      assert.deepStrictEqual(reports.map(brief).slice(1), ["ats.candidate 1000 at 1"])
      // the stream was a list before, and its progress must not go back
      yield* store.transact(owner, candidates, (tx) => tx.saveState({ ...tx.state, reportedTo: 1500 }))
      yield* seconds(30)
      assert.deepStrictEqual(reports.map(brief).slice(2), ["ats.candidate 1500 at 1"])
    }).pipe(Effect.scoped, Effect.provide(store)))

  it.effect("never exceeds the published events, however fast the log grows and whenever the sink fails", () =>
    Effect.gen(function*() {
      const commit = yield* begin()
      const broker = new MemorySink.MemoryBroker()
      /** Model and time up to which its stream is complete → position up to which events must be published for that. */
      const truth = new Map<string, number>()
      let position = 0
      const { relay, reports } = yield* start(broker)
      for (let round = 1; round <= 60; round++) {
        const key = round % 3 === 0 ? employees : tags
        yield* commit(key, 700, round)
        position += 700
        truth.set(`${key.model} ${round}`, position)
        if (round % 20 === 7) broker.failure = new Unreachable({ message: "unreachable", cause: null })
        if (round % 20 === 9) broker.failure = null
        if (round % 10 === 4) broker.lostResponses = 1
        yield* TestClock.adjust("700 millis")
      }
      yield* Relaying.whileTimePasses(relay.awaitPosition(position))
      for (const report of reports) {
        assert.isAtLeast(report.published, truth.get(`${report.model} ${report.completeTo}`)!, brief(report))
        assert.isAtLeast(report.published, report.position)
      }
      assert.isAbove(reports.length, 4)
      assert.deepStrictEqual(
        ["ats.tag", "hris.employee"].map((model) => reports.findLast((report) => report.model === model)?.completeTo),
        [59, 60]
      )
    }).pipe(Effect.scoped, Effect.provide(store)))

  it.effect("is reported even while the relay never catches up", () =>
    Effect.gen(function*() {
      const commit = yield* begin()
      yield* commit(tags, 1, 0)
      const { reports } = yield* start(new MemorySink.MemoryBroker())
      yield* Effect.forkChild(
        Effect.repeat(Effect.flatMap(Clock.currentTimeMillis, (now) => commit(tags, 120, now)), {
          schedule: Schedule.spaced("200 millis")
        })
      )
      yield* seconds(60)
      assert.isAtLeast(reports.length, 5)
    }).pipe(Effect.scoped, Effect.provide(store)))

  it.effect("is reported at most every ten seconds, only with the newest state, and not again while it is unchanged", () =>
    Effect.gen(function*() {
      const commit = yield* begin()
      const { reports } = yield* start(new MemorySink.MemoryBroker())
      for (let second = 1; second <= 100; second++) {
        yield* commit(tags, 1, second)
        yield* TestClock.adjust("1 second")
      }
      const count = reports.length
      assert.isAtMost(count, 11)
      for (const [index, report] of reports.entries()) {
        if (index > 0) assert.isAtLeast(report.at - reports[index - 1]!.at, 10_000)
      }
      yield* seconds(300)
      assert.isAtMost(reports.length, count + 1)
      assert.strictEqual(reports.at(-1)?.completeTo, 100)
    }).pipe(Effect.scoped, Effect.provide(store)))

  it.effect("is reported even after our clock was set back (W4)", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_000_000_000)
      const commit = yield* begin()
      yield* commit(tags, 3, 1000)
      const { relay, reports } = yield* start(new MemorySink.MemoryBroker())
      yield* relay.awaitPosition(3)
      // Virtual timers do not fire after the clock is set back; new events in the log wake the relay.
      yield* TestClock.setTime(500_000_000)
      yield* commit(tags, 1, 2000)
      yield* seconds(30)
      assert.deepStrictEqual(reports.map(brief), ["ats.tag 1000 at 3", "ats.tag 2000 at 4"])
    }).pipe(Effect.scoped, Effect.provide(store)))

  it.effect("is not reported before the stream's backfill is complete, nor for a retired stream", () =>
    Effect.gen(function*() {
      const commit = yield* begin({ backfilledAt: null })
      yield* commit(tags, 3, 1000)
      const { relay, reports } = yield* start(new MemorySink.MemoryBroker())
      yield* relay.awaitPosition(3)
      const store = yield* Store
      const owner = yield* store.takeOwnership("capture")
      yield* store.transact(owner, tags, (tx) => tx.saveState({ ...tx.state, backfilledAt: 1, retired: true }))
      yield* seconds(60)
      assert.deepStrictEqual(reports, [])
    }).pipe(Effect.scoped, Effect.provide(store)))

  it.effect("is not reported for a stream that was not published again since the store was adopted (X14)", () =>
    Effect.gen(function*() {
      const { identity } = yield* Store
      const commit = yield* begin({ backfilledAt: 1, generation: identity.generation - 1 })
      yield* commit(tags, 3, 1000)
      const { relay, reports } = yield* start(new MemorySink.MemoryBroker())
      yield* relay.awaitPosition(3)
      yield* seconds(60)
      assert.deepStrictEqual(reports, [])
    }).pipe(Effect.scoped, Effect.provide(store)))
})
