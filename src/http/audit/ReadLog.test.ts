import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { TestClock } from "effect/testing"
import { integrationOf } from "../../../test/conformance/StoreSamples.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import { type Actor, CurrentActor } from "../../store/Operators.ts"
import { incompatible, Store, type StoreError } from "../../store/Store.ts"
import { ReadLog } from "./ReadLog.ts"

const route = "/v1/events"
const acme = { integration: "greenhouse:acme", model: "ats.tag" }

const connected = integrationOf(acme.integration, { declared: true })

const as = (actor: string, address = "192.0.2.1") =>
  Effect.provideService(CurrentActor, { actor, address } satisfies Actor)

/** A store whose `recordRead` first runs `before`. */
const storeWith = (before: Effect.Effect<void, StoreError>) =>
  Layer.effect(
    Store,
    Effect.gen(function*() {
      const store = yield* Store
      yield* store.saveIntegration(yield* store.takeOwnership("capture"), connected, null)
      return { ...store, recordRead: (read) => Effect.andThen(before, store.recordRead(read)) }
    })
  ).pipe(Layer.provide(MemoryStore.layer()))

const withLog =
  (before: Effect.Effect<void, StoreError> = Effect.void) => <A, E>(test: Effect.Effect<A, E, ReadLog | Store>) =>
    Effect.provide(test, ReadLog.layer.pipe(Layer.provideMerge(storeWith(before))))

/** `route · target · actor · address`, the oldest first. */
const stored = Effect.gen(function*() {
  const { auditedReads } = yield* Store
  return (yield* auditedReads(1000)).toReversed().map((read) =>
    `${read.route} · ${read.target} · ${read.actor} · ${read.address}`
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
  it.effect("is in the store before it is answered, once in each hour", () =>
    Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      yield* TestClock.adjust("10 seconds")
      yield* noteRead(route, acme).pipe(as("read token"))
      const line = `${route} · greenhouse:acme/ats.tag · read token · 192.0.2.1`
      assert.deepStrictEqual(yield* stored, [line])
      yield* TestClock.adjust("10 seconds")
      yield* noteRead(route, acme).pipe(as("read token"), times(41))
      const reads = yield* (yield* Store).auditedReads(2)
      assert.deepStrictEqual(reads.map(({ firstAt, period }) => [period, firstAt]), [[0, 10_000]])
      yield* TestClock.adjust("1 hour")
      yield* noteRead(route, acme).pipe(as("read token"))
      assert.deepStrictEqual(yield* stored, [line, line])
    }).pipe(withLog()))

  it.effect("has an entry for each route, target, actor and address", () =>
    Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      yield* noteRead(route, acme).pipe(as("read token"))
      yield* noteRead("/v1/records", acme).pipe(as("read token"))
      yield* noteRead(route, {}).pipe(as("read token"))
      yield* noteRead(route, acme).pipe(as("session"))
      yield* noteRead(route, acme).pipe(as("session", "192.0.2.2"))
      assert.sameMembers([...yield* stored], [
        "/v1/events · greenhouse:acme/ats.tag · read token · 192.0.2.1",
        "/v1/records · greenhouse:acme/ats.tag · read token · 192.0.2.1",
        "/v1/events · * · read token · 192.0.2.1",
        "/v1/events · greenhouse:acme/ats.tag · session · 192.0.2.1",
        "/v1/events · greenhouse:acme/ats.tag · session · 192.0.2.2"
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

  it.effect("is answered after a second if the store hangs, and is in the log of the process once", () => {
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
      yield* noteRead(route, acme).pipe(as("session"), times(2))
      assert.deepStrictEqual(lines, [[
        "the store did not take an entry of the audit log in time: keep this line with the audit log",
        { route, target: "greenhouse:acme/ats.tag", actor: "session", address: "192.0.2.1" }
      ]])
      assert.deepStrictEqual(yield* stored, [])
      yield* Deferred.succeed(works, undefined)
      yield* until(Effect.map(stored, ({ length }) => length === 1))
    }).pipe(withLog(hanging), Effect.provide(Logger.layer([logger])))
  })

  it.effect("is in the log of the process at once if the store refuses its entry, and in the store in the next hour", () => {
    const lines: Array<unknown> = []
    const logger = Logger.make(({ message }) => void lines.push(message))
    let works = false
    const refusing = Effect.suspend(() => works ? Effect.void : Effect.fail(incompatible("no")))
    return Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      yield* noteRead(route, acme).pipe(as("session"), times(4))
      assert.lengthOf(lines, 1)
      works = true
      yield* TestClock.adjust("1 hour")
      yield* noteRead(route, acme).pipe(as("session"))
      assert.lengthOf(lines, 1)
      assert.deepStrictEqual(yield* stored, [`${route} · greenhouse:acme/ats.tag · session · 192.0.2.1`])
    }).pipe(withLog(refusing), Effect.provide(Logger.layer([logger])))
  })

  it.effect("from one of too many addresses is recorded without the address", () =>
    Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      for (let index = 0; index < 600; index++) yield* noteRead(route, acme).pipe(as("session", String(index)))
      yield* noteRead(route, acme).pipe(as("session", "7"))
      const lines = yield* stored
      assert.lengthOf(lines, 501)
      assert.strictEqual(lines.at(-1), `${route} · * · session · several`)
    }).pipe(withLog()))

  it.effect("is recorded with its address in an hour after one with too many addresses", () =>
    Effect.gen(function*() {
      const { noteRead } = yield* ReadLog
      for (let index = 0; index < 500; index++) yield* noteRead(route, acme).pipe(as("session", String(index)))
      yield* TestClock.adjust("1 hour")
      yield* noteRead(route, acme).pipe(as("session", "192.0.2.1"))
      assert.strictEqual(
        (yield* stored).at(-1),
        `${route} · greenhouse:acme/ats.tag · session · 192.0.2.1`
      )
    }).pipe(withLog()))
})
