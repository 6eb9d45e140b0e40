import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { scenario, start } from "../../test/support/capture/Rig.ts"
import { Placement } from "../fleet/Placement.ts"
import { Damaged, Store, StoreError, Unavailable } from "../store/Store.ts"
import { StoreFault } from "../store/StoreFault.ts"
import * as Retention from "./Retention.ts"

const day = 86_400_000

/** Prunes a log of one record with three versions on three days; returns the numbers of rows that are kept. */
const kept = (readers: ReadonlyArray<string>, passed: number) =>
  scenario(Effect.fnUntraced(function*(rig) {
    const store = yield* Store
    yield* rig.put({ id: "a", title: "1" })
    yield* rig.sweep
    for (const title of ["2", "3"]) {
      yield* rig.wait("1 day")
      yield* rig.put({ id: "a", title })
      yield* rig.poll
    }
    yield* store.saveReaderPosition(rig.stream.owner, "relay", passed)
    yield* Layer.build(Retention.layer({ retention: Duration.days(7), readers }))
    const counts: Array<number> = []
    for (const days of [1, 5.5, 30]) {
      yield* TestClock.adjust(Duration.days(days))
      counts.push((yield* rig.events).length)
    }
    const { records } = yield* store.records(rig.stream.key, null, 10)
    assert.deepStrictEqual(records.map((record) => JSON.parse(record.content).title), ["3"])
    return counts
  }, Effect.scoped))

describe("Retention", () => {
  it.effect("rows older than the retention are deleted, and the record's content stays", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* kept([], 0), [3, 1, 0])
    }))

  it.effect("the rows that a reader has not read, and the last row that it has read, are kept", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* kept(["relay"], 2), [3, 2, 2])
    }))

  it.effect("a process without a reader keeps the log for that of another process, until none had it for the retention", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      const store = yield* Store
      const retention = Duration.days(7)
      yield* rig.put({ id: "a", title: "1" })
      yield* rig.sweep
      yield* rig.wait("1 day")
      yield* rig.put({ id: "a", title: "2" })
      yield* rig.poll
      const publishing = yield* Scope.make()
      yield* Layer.buildWithScope(
        Layer.provide(Retention.placedLayer({ retention, readers: ["relay"] }), Placement.layer),
        publishing
      )
      yield* Layer.build(Retention.layer({ retention, readers: [] }))
      yield* TestClock.adjust("30 days")
      assert.lengthOf(yield* rig.events, 2)
      yield* Scope.close(publishing, Exit.void)
      yield* TestClock.adjust("6 days")
      assert.lengthOf(yield* rig.events, 2)
      yield* TestClock.adjust("2 days")
      assert.lengthOf(yield* rig.events, 0)
      assert.strictEqual(yield* store.readerPosition("relay"), 0)
    }, Effect.scoped)))

  it.effect("where an event is in the sink is forgotten with its age, even if its row stays", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      const store = yield* Store
      yield* rig.put({ id: "a", title: "1" })
      yield* rig.sweep
      const at = yield* Clock.currentTimeMillis
      const places = [{ topic: "t", partition: 0, offset: 4, positions: [1] }]
      yield* store.saveReaderPosition(rig.stream.owner, "relay", 1, { at, places })
      yield* Layer.build(Retention.layer({ retention: Duration.days(7), readers: ["relay"] }))
      yield* TestClock.adjust("6 days")
      assert.strictEqual((yield* store.placeOf(1))?.offset, 4)
      yield* TestClock.adjust("2 days")
      assert.isNull(yield* store.placeOf(1))
      assert.lengthOf(yield* rig.events, 1)
    }, Effect.scoped)))

  it.effect("a failure is measured and logged once, tried again after five minutes, and over with the first success", () => {
    const logged: Array<string> = []
    const logger = Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])
    const failing = Effect.map(Metric.snapshot, (all) => {
      const found = all.find(({ id }) => id === "rollcall_retention_failing")
      return found?.type === "Gauge" ? Number(found.state.value) : null
    })
    return scenario(Effect.fnUntraced(function*() {
      const store = yield* Store
      const damaged = new Damaged({ message: "row 1" })
      let failure: StoreError["reason"] | null = damaged
      let isDefect = false
      const prune: typeof store.prune = (query) =>
        isDefect
          ? Effect.die(new TypeError("row 1"))
          : failure === null
          ? store.prune(query)
          : Effect.fail(new StoreError({ reason: failure }))
      const scope = yield* Scope.make()
      const retention = Retention.layer({ retention: Duration.days(7), readers: [] })
      yield* Layer.buildWithScope(Layer.provide(retention, Layer.succeed(Store)({ ...store, prune })), scope)
      yield* TestClock.adjust("12 minutes")
      assert.deepStrictEqual([yield* failing, logged], [1, ["log not pruned"]])
      failure = null
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(yield* failing, 0)
      failure = damaged
      yield* TestClock.adjust("50 minutes")
      assert.strictEqual(yield* failing, 0)
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual([yield* failing, logged.length], [1, 2])
      failure = null
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(yield* failing, 0)
      isDefect = true
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual([yield* failing, logged.length], [1, 3])
      isDefect = false
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual(yield* failing, 0)
      failure = new Unavailable({ operation: "prune", cause: new StoreFault("denied", "the store") })
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual([yield* failing, logged.length], [1, 3])
      // another process deletes the rows from now on
      yield* Scope.close(scope, Exit.void)
      assert.strictEqual(yield* failing, 0)
    })).pipe(Effect.provide(logger), Effect.provideService(Metric.MetricRegistry, new Map()))
  })

  it.effect("a read in the audit log is deleted after 90 days, whatever the retention of the log is", () =>
    scenario(Effect.fnUntraced(function*() {
      const store = yield* Store
      const period = yield* Clock.currentTimeMillis
      const read = { period, route: "/v1/events", target: "*", actor: "session", address: "192.0.2.1" }
      yield* store.recordRead({ ...read, firstAt: period })
      yield* Layer.build(Retention.layer({ retention: Duration.days(7), readers: [] }))
      yield* TestClock.adjust("90 days")
      assert.lengthOf(yield* store.auditedReads(10), 1)
      yield* TestClock.adjust("1 hour")
      assert.lengthOf(yield* store.auditedReads(10), 0)
    }, Effect.scoped)))

  it.effect("a quarantined row is counted while runs read it, even if changed_at moves, and deleted once it was not read for the retention (S1)", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      const store = yield* Store
      const quarantined = Effect.map(
        store.transact(rig.stream.owner, rig.stream.key, (tx) => tx.quarantined(null, 10)),
        (rows) => rows.map(({ content, occurrences }) => [JSON.parse(content).title, occurrences])
      )
      rig.api.intercept = (_, page) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          const nameless = ["x", ...now < start + 3 * day ? ["y", "y"] : []]
          const rows = nameless.map((title, index) => ({ title, changed_at: new Date(now + index).toISOString() }))
          return { ...page, results: [...page.results, ...rows] }
        })
      yield* rig.put({ id: "a", title: "1" })
      yield* Layer.build(Retention.layer({ retention: Duration.days(7), readers: [] }))
      for (let days = 0; days < 5; days++) {
        yield* rig.sweep
        yield* rig.wait("1 day")
      }
      assert.sameDeepMembers([...yield* quarantined], [["x", 5], ["y", 6]])
      yield* rig.wait("5 days")
      assert.deepStrictEqual(yield* quarantined, [["x", 5]])
      yield* rig.sweep
      yield* rig.wait("6 days")
      assert.deepStrictEqual(yield* quarantined, [["x", 6]])
      yield* rig.wait("2 days")
      assert.deepStrictEqual(yield* quarantined, [])
    }, Effect.scoped)))

  it.effect("erased rows are deleted after one day, once all readers have the delete event (D11)", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      const store = yield* Store
      const { owner } = rig.stream
      for (const id of ["a", "b", "c"]) yield* rig.put({ id, title: "x" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: null })
      yield* rig.poll
      yield* store.saveReaderPosition(owner, "relay", 3)
      yield* Layer.build(Retention.layer({ retention: Duration.days(30), readers: ["relay"] }))
      const remaining = Effect.map(rig.events, (entries) => entries.map(({ id, kind }) => `${id} ${kind}`))
      const others = ["b created", "c created", "a deleted"]
      yield* TestClock.adjust("2 days")
      assert.deepStrictEqual(yield* remaining, ["a created", ...others])
      yield* store.saveReaderPosition(owner, "relay", 4)
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(yield* remaining, others)

      yield* rig.put({ id: "b", title: null })
      yield* rig.poll
      yield* store.saveReaderPosition(owner, "relay", 5)
      yield* TestClock.adjust("23 hours")
      assert.strictEqual((yield* remaining).length, 4)
      yield* TestClock.adjust("2 hours")
      assert.deepStrictEqual(yield* remaining, ["c created", "a deleted", "b deleted"])
    }, Effect.scoped)))
})
