import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { type Actor, CurrentActor } from "../../store/Actor.ts"
import type { IntegrationState } from "../../store/State.ts"
import { incompatible, Store, type StoreError } from "../../store/Store.ts"
import { ReadLog } from "./ReadLog.ts"

const route = "/v1/events"
const acme = { integration: "greenhouse:acme", model: "ats.tag" }

const connected: IntegrationState = {
  id: acme.integration,
  account: "default",
  models: "auto",
  interval: 60_000,
  sweepInterval: 60_000,
  backfill: "publish",
  declared: true,
  generation: 1,
  state: "active"
}

const as = (actor: string, address = "192.0.2.1") =>
  Effect.provideService(CurrentActor, { actor, address } satisfies Actor)

/** A store whose `recordReads` first runs `before`. */
const storeWith = (before: Effect.Effect<void, StoreError>) =>
  Layer.effect(
    Store,
    Effect.gen(function*() {
      const store = yield* Store
      yield* store.saveIntegration(yield* store.takeOwnership("capture"), connected, null)
      return { ...store, recordReads: (reads) => Effect.andThen(before, store.recordReads(reads)) }
    })
  ).pipe(Layer.provide(MemoryStore.layer()))

/** Closes the log in the end, which takes at most a second although the store may hang. */
const withLog =
  (before: Effect.Effect<void, StoreError> = Effect.void) => <A, E>(test: Effect.Effect<A, E, ReadLog | Store>) =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const services = yield* Layer.buildWithScope(ReadLog.layer.pipe(Layer.provideMerge(storeWith(before))), scope)
      const exit = yield* Effect.exit(Effect.provide(test, services))
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(closing)
      return yield* exit
    })

/** `route · target · actor · address: requests`, the oldest first. */
const stored = Effect.gen(function*() {
  const { auditedReads } = yield* Store
  return (yield* auditedReads(1000)).toReversed().map((read) =>
    `${read.route} · ${read.target} · ${read.actor} · ${read.address}: ${read.requests}`
  )
})

const times = (count: number) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.repeat(effect, { times: count - 1 })

/** Waits for work outside of virtual time: the store has a thread of its own. */
const until = <E, R>(condition: Effect.Effect<boolean, E, R>) =>
  Effect.gen(function*() {
    while (!(yield* condition)) yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
  })

describe("a read", () => {
  it.effect("is in the store before it is answered, and further reads of the hour are added within a minute", () =>
    Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      yield* noteRead(route, acme).pipe(as("read token"))
      const first = `${route} · greenhouse:acme/ats.tag · read token · 192.0.2.1`
      assert.deepStrictEqual(yield* stored, [`${first}: 1`])
      yield* TestClock.adjust("10 seconds")
      yield* noteRead(route, acme).pipe(as("read token"), times(41))
      assert.deepStrictEqual(yield* stored, [`${first}: 1`])
      yield* TestClock.adjust("1 minute")
      yield* until(Effect.map(stored, ([line]) => line === `${first}: 42`))
      const [read] = yield* (yield* Store).auditedReads(1)
      assert.deepStrictEqual([read?.period, read?.firstAt, read?.lastAt], [0, 0, 10_000])
      yield* TestClock.adjust("1 hour")
      yield* noteRead(route, acme).pipe(as("read token"))
      assert.deepStrictEqual(yield* stored, [`${first}: 42`, `${first}: 1`])
    }).pipe(withLog()))

  it.effect("has an entry for each route, target, actor and address", () =>
    Effect.gen(function*() {
      const { noteRead, noteRequest } = yield* ReadLog
      yield* noteRead(route, acme).pipe(as("read token"))
      yield* noteRead("/v1/records", acme).pipe(as("read token"))
      yield* noteRead(route, {}).pipe(as("read token"))
      yield* noteRead(route, acme).pipe(as("session"))
      yield* noteRead(route, acme).pipe(as("session", "192.0.2.2"))
      yield* as("session")(noteRequest)
      yield* until(Effect.map(stored, ({ length }) => length === 6))
      assert.sameMembers([...yield* stored], [
        "/v1/events · greenhouse:acme/ats.tag · read token · 192.0.2.1: 1",
        "/v1/records · greenhouse:acme/ats.tag · read token · 192.0.2.1: 1",
        "/v1/events · * · read token · 192.0.2.1: 1",
        "/v1/events · greenhouse:acme/ats.tag · session · 192.0.2.1: 1",
        "/v1/events · greenhouse:acme/ats.tag · session · 192.0.2.2: 1",
        "* · * · session · 192.0.2.1: 1"
      ])
    }).pipe(withLog()))

  it.effect("names its integration even if several reads come at once before the integrations are known", () =>
    Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      yield* Effect.forEach(["1", "2", "3"], (address) => as("session", address)(noteRead(route, acme)), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual((yield* stored).map((line) => line.split(" · ")[1]), [
        "greenhouse:acme/ats.tag",
        "greenhouse:acme/ats.tag",
        "greenhouse:acme/ats.tag"
      ])
    }).pipe(withLog()))

  it.effect("names an integration that was added after our clock was set back (W4)", () =>
    Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      const store = yield* Store
      yield* TestClock.setTime(Date.parse("2026-03-02T12:00:00Z"))
      yield* noteRead(route, acme).pipe(as("session"))
      const added = { ...connected, id: "lever:beta" }
      yield* store.saveIntegration(yield* store.takeOwnership("capture"), added, null)
      yield* TestClock.setTime(Date.parse("2026-03-02T11:00:00Z"))
      yield* TestClock.adjust("10 seconds")
      yield* noteRead(route, { ...acme, integration: added.id }).pipe(as("session"))
      assert.include((yield* stored).map((line) => line.split(" · ")[1]), "lever:beta/ats.tag")
    }).pipe(withLog()))

  it.effect("that names an unknown integration or model is recorded without that name", () =>
    Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      for (const named of [{ integration: "Jane Doe", model: "ats.tag" }, { ...acme, model: "Jane Doe" }]) {
        yield* noteRead(route, named).pipe(as("session"))
      }
      yield* noteRead(route, { integration: "Jane Doe" }).pipe(as("session"))
      assert.deepStrictEqual((yield* stored).map((line) => line.split(" · ")[1]), [
        "*/ats.tag",
        "greenhouse:acme/*",
        "*"
      ])
    }).pipe(withLog()))

  it.effect("waits a second for a store that hangs, is logged, and is recorded when the store works again", () => {
    const lines: Array<unknown> = []
    const logger = Logger.map(
      Logger.formatStructured,
      ({ annotations, message }) => void lines.push([message, annotations])
    )
    const works = Deferred.makeUnsafe<void>()
    let isWriting = false
    const hanging = Effect.suspend(() => {
      isWriting = true
      return Deferred.await(works)
    })
    return Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      const reading = yield* Effect.forkChild(as("session")(noteRead(route, acme)))
      yield* until(Effect.sync(() => isWriting))
      yield* TestClock.adjust("999 millis")
      assert.isUndefined(reading.pollUnsafe())
      yield* TestClock.adjust("1 milli")
      yield* Fiber.join(reading)
      assert.deepStrictEqual(lines, [[
        "reads are not in the audit log yet; the entry is written once the store is available",
        { route, target: "greenhouse:acme/ats.tag", actor: "session", address: "192.0.2.1" }
      ]])
      yield* noteRead(route, acme).pipe(as("session"), times(2))
      assert.deepStrictEqual(yield* stored, [])
      yield* Deferred.succeed(works, undefined)
      yield* TestClock.adjust("1 minute")
      yield* until(Effect.map(stored, ([line]) => line?.endsWith(": 3") === true))
      assert.lengthOf(lines, 1)
    }).pipe(withLog(hanging), Effect.provide(Logger.layer([logger])))
  })

  it.effect("is not counted twice or lost if the store refuses its entry at first", () => {
    let refusals = 2
    const refusing = Effect.suspend(() => refusals-- > 0 ? Effect.fail(incompatible("no")) : Effect.void)
    return Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      const line = `${route} · greenhouse:acme/ats.tag · session · 192.0.2.1`
      yield* noteRead(route, acme).pipe(as("session"))
      yield* TestClock.adjust("3 minutes")
      assert.deepStrictEqual(yield* stored, [`${line}: 1`])
      refusals = 2
      yield* noteRead(route, acme).pipe(as("session"), times(4))
      yield* TestClock.adjust("3 minutes")
      assert.deepStrictEqual(yield* stored, [`${line}: 5`])
    }).pipe(withLog(refusing), Effect.provide(Logger.layer([])))
  })

  it.effect("from one of too many addresses is recorded without the address, also while the store takes nothing", () => {
    let works = false
    const refusing = Effect.suspend(() => works ? Effect.void : Effect.fail(incompatible("no")))
    return Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      for (let hour = 0; hour < 3; hour++) {
        for (let index = 0; index < 400; index++) yield* noteRead(route, acme).pipe(as("session", `${hour}.${index}`))
        yield* TestClock.adjust("1 hour")
      }
      works = true
      yield* TestClock.adjust("1 minute")
      yield* until(Effect.map(stored, ({ length }) => length > 0))
      const lines = yield* stored
      assert.lengthOf(lines, 501)
      assert.strictEqual(lines.at(-1), `${route} · * · session · several: 700`)
    }).pipe(withLog(refusing), Effect.provide(Logger.layer([])))
  })

  it.effect("is recorded with its address in an hour after one with too many addresses", () =>
    Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      for (let index = 0; index < 500; index++) yield* noteRead(route, acme).pipe(as("session", String(index)))
      yield* TestClock.adjust("1 hour")
      yield* noteRead(route, acme).pipe(as("session", "192.0.2.1"))
      assert.strictEqual(
        (yield* stored).at(-1),
        `${route} · greenhouse:acme/ats.tag · session · 192.0.2.1: 1`
      )
    }).pipe(withLog()))

  it.effect("is recorded if its first write is refused late, when the entries of the next hour need room", () => {
    const refusal = Deferred.makeUnsafe<void, StoreError>()
    let isFirst = true
    const hanging = Effect.suspend(() => {
      if (!isFirst) return Effect.void
      isFirst = false
      return Deferred.await(refusal)
    })
    return Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      const read = (address: string) => Effect.forkChild(as("session", address)(noteRead(route, {})))
      const first = yield* read("192.0.2.1")
      yield* until(Effect.sync(() => !isFirst))
      yield* TestClock.adjust("1 hour")
      yield* Fiber.join(first)
      const others = yield* Effect.forEach(Array.from({ length: 501 }, (_, index) => String(index)), read)
      yield* Effect.yieldNow
      yield* Deferred.fail(refusal, incompatible("no"))
      yield* Effect.forEach(others, Fiber.join)
      assert.include(yield* stored, `${route} · * · session · 192.0.2.1: 1`)
    }).pipe(withLog(hanging), Effect.provide(Logger.layer([])))
  })

  it.effect("is recorded with its number when the server stops", () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const { noteRead } = Context.get(yield* Layer.buildWithScope(Layer.fresh(ReadLog.layer), scope), ReadLog)
      yield* noteRead(route, acme).pipe(as("session"), times(3))
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* stored, [`${route} · greenhouse:acme/ats.tag · session · 192.0.2.1: 3`])
    }).pipe(withLog()))
})

describe("a request", () => {
  it.effect("does not wait for a store that hangs", () =>
    Effect.gen(function*() {
      yield* as("session")((yield* ReadLog).noteRequest)
    }).pipe(withLog(Effect.never), Effect.provide(Logger.layer([]))))
})
