/** When an outage of the store starts and ends, and how often it is logged. */
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { ConnectionError, SerializationError, SqlError, UnknownError } from "effect/sql/SqlError"
import { TestClock } from "effect/testing"
import { type FaultKind, StoreFault } from "../StoreFault.ts"
import * as Health from "./Health.ts"

const errorOf = (kind: FaultKind) => new SqlError({ reason: new UnknownError({ cause: new StoreFault(kind, "here") }) })

const observed = () => {
  const lines: Array<string> = []
  const health = Health.make("here")
  const layer = Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])
  const fails = (kind: FaultKind) => Effect.exit(health.observe(Effect.fail(errorOf(kind))))
  return { lines, health, layer, fails, answers: health.observe(Effect.void) }
}

const [unavailable, stillUnavailable, available] = [
  "store unavailable",
  "store still unavailable",
  "store available again"
]

describe("the health of a store", () => {
  it.effect("logs an outage once when it begins and once when it is over, however many statements fail", () => {
    const { answers, fails, health, layer, lines } = observed()
    return Effect.gen(function*() {
      yield* TestClock.adjust("1 minute")
      for (let times = 0; times < 100; times++) yield* fails("silent")
      yield* TestClock.adjust("1 minute")
      yield* fails("silent")
      assert.deepInclude(yield* health.outage, { message: "the database does not answer (here)", since: 60_000 })
      yield* answers
      yield* answers
      assert.isNull(yield* health.outage)
      assert.deepStrictEqual(lines, [unavailable, available])
    }).pipe(Effect.provide(layer))
  })

  it.effect("does not flap on a full disk: the outage continues while reads and small writes succeed, and ends once no statement fails", () => {
    const { answers, fails, health, layer, lines } = observed()
    return Effect.gen(function*() {
      for (let times = 0; times < 40; times++) {
        yield* fails("full")
        yield* answers
        yield* health.wrote
        yield* TestClock.adjust("250 millis")
      }
      yield* fails("full")
      assert.deepStrictEqual(lines, [unavailable])
      yield* TestClock.adjust("1 minute")
      yield* answers
      assert.isNotNull(yield* health.outage)
      yield* health.wrote
      assert.isNull(yield* health.outage)
      assert.deepStrictEqual(lines, [unavailable, available])
    }).pipe(Effect.provide(layer))
  })

  it.effect("logs each further cause of an outage once", () => {
    const { answers, fails, health, layer, lines } = observed()
    return Effect.gen(function*() {
      yield* fails("silent")
      for (let times = 0; times < 10; times++) {
        yield* fails("login")
        yield* fails("silent")
      }
      assert.deepStrictEqual(lines, [unavailable, stillUnavailable])
      yield* answers
      // other connections may still be refused
      assert.isNotNull(yield* health.outage)
      yield* TestClock.adjust("10 seconds")
      yield* answers
      assert.isNull(yield* health.outage)
      assert.deepStrictEqual(lines, [unavailable, stillUnavailable, available])
    }).pipe(Effect.provide(layer))
  })

  it.effect("keeps the cause of an outage if a connection is lost once meanwhile, and shows a loss that lasts", () => {
    const { fails, health, layer, lines } = observed()
    return Effect.gen(function*() {
      yield* fails("readOnly")
      yield* fails("lost")
      assert.include((yield* health.outage)?.message, "read-only")
      yield* TestClock.adjust("3 seconds")
      yield* fails("lost")
      assert.include((yield* health.outage)?.message, "was lost")
      assert.deepStrictEqual(lines, [unavailable, stillUnavailable])
    }).pipe(Effect.provide(layer))
  })

  it.effect("does not count a connection that is lost and replaced as an outage", () => {
    const { answers, fails, health, layer, lines } = observed()
    return Effect.gen(function*() {
      for (let times = 0; times < 20; times++) {
        yield* fails("lost")
        yield* TestClock.adjust("500 millis")
        yield* answers
        yield* TestClock.adjust("5 seconds")
      }
      assert.isNull(yield* health.outage)
      assert.deepStrictEqual(lines, [])
      yield* fails("unreachable")
      yield* TestClock.adjust("3 seconds")
      yield* fails("unreachable")
      assert.isNotNull(yield* health.outage)
      assert.deepStrictEqual(lines, [unavailable])
    }).pipe(Effect.provide(layer))
  })

  it.effect("counts conflicts and rejected values as answers", () => {
    const { health, layer, lines } = observed()
    return Effect.gen(function*() {
      const cause = new Error("conflict")
      for (const reason of [new SerializationError({ cause }), new ConnectionError({ cause })]) {
        yield* Effect.exit(health.observe(Effect.fail(new SqlError({ reason }))))
      }
      assert.isNull(yield* health.outage)
      assert.deepStrictEqual(lines, [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("reports a statement without an answer, with the time of the last answer, and logs it once", () => {
    const { answers, health, layer, lines } = observed()
    return Effect.gen(function*() {
      yield* Effect.forkChild(health.watch)
      const stuck = yield* Deferred.make<void>()
      yield* Effect.forkChild(health.observe(Deferred.await(stuck)))
      // this statement waits for a lock, while others are answered
      for (let times = 0; times < 10; times++) {
        yield* TestClock.adjust("2 seconds")
        yield* answers
      }
      assert.deepStrictEqual(lines, [])
      yield* TestClock.adjust("4 seconds")
      assert.isNull(yield* health.outage)
      yield* TestClock.adjust("2 seconds")
      assert.deepInclude(yield* health.outage, { since: 20_000 })
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(lines, [unavailable])
      yield* Deferred.succeed(stuck, undefined)
      yield* TestClock.adjust("1 second")
      assert.isNull(yield* health.outage)
      assert.deepStrictEqual(lines, [unavailable, available])
    }).pipe(Effect.provide(layer))
  })

  it.effect("begins an outage with the first statement without an answer, even if a connection that fails shows it first", () => {
    const { answers, health, layer } = observed()
    return Effect.gen(function*() {
      yield* TestClock.adjust("10 seconds")
      yield* answers
      yield* Effect.forkChild(health.observe(Effect.never))
      yield* TestClock.adjust("4 seconds")
      yield* health.failed(errorOf("silent"))
      assert.deepInclude(yield* health.outage, { since: 10_000 })
    }).pipe(Effect.provide(layer))
  })

  it.effect("treats a timeout while others are answered as a dead session, unless the next statement times out too", () => {
    const { answers, health, layer, lines } = observed()
    return Effect.gen(function*() {
      const slow = health.observe(Effect.andThen(Effect.sleep("20 seconds"), Effect.fail(errorOf("silent"))))
      const during = Effect.gen(function*() {
        for (let times = 0; times < 25; times++) {
          yield* answers
          yield* TestClock.adjust("1 second")
        }
        yield* answers
      })
      yield* Effect.forkChild(Effect.exit(slow))
      yield* Effect.forkChild(Effect.exit(slow))
      yield* during
      assert.deepStrictEqual(lines, [])
      for (let times = 0; times < 3; times++) {
        yield* Effect.forkChild(Effect.exit(slow))
        yield* during
      }
      assert.deepStrictEqual(lines, [unavailable])
      yield* TestClock.adjust("1 minute")
      yield* answers
      assert.deepStrictEqual(lines, [unavailable, available])
    }).pipe(Effect.provide(layer))
  })

  it.effect("measures outages correctly after the clock is set back (W4)", () => {
    const { answers, fails, health, layer, lines } = observed()
    return Effect.gen(function*() {
      yield* TestClock.setTime(10_000_000)
      yield* fails("full")
      yield* health.wrote
      yield* TestClock.setTime(1_000_000)
      for (let times = 0; times < 20; times++) {
        yield* TestClock.adjust("1 second")
        yield* answers
      }
      assert.deepStrictEqual(lines, [unavailable, available])
    }).pipe(Effect.provide(layer))
  })

  it.effect("reports neither a long statement nor an interrupted one", () => {
    const { health, layer, lines } = observed()
    return Effect.gen(function*() {
      yield* Effect.forkChild(health.watch)
      yield* Effect.forkChild(health.observe(Effect.never, true))
      yield* Effect.exit(Effect.timeoutOption(health.observe(Effect.interrupt), "1 second"))
      yield* TestClock.adjust("1 minute")
      assert.isNull(yield* health.outage)
      assert.deepStrictEqual(lines, [])
    }).pipe(Effect.provide(layer))
  })
})
