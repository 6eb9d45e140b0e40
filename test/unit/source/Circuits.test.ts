import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as CircuitBreakers from "../../../src/source/CircuitBreakers.ts"
import { RateLimited, Rejected, SourceError, Transient, Unreadable } from "../../../src/source/Source.ts"

const detail = { code: null, message: "status 502 with an HTML page" }
const fails = (reason: SourceError["reason"]) => Effect.fail(new SourceError({ reason }))
const broken = fails(new Transient(detail))

const circuits = Effect.map(CircuitBreakers.make({ firstPause: Duration.seconds(10) }), ({ guard }) => {
  let asked = 0
  const ask = <A>(request: Effect.Effect<A, SourceError>, integration = "a:1") =>
    Effect.sync(() => asked++).pipe(Effect.andThen(request), guard(integration), Effect.result)
  const askMany = <A>(request: Effect.Effect<A, SourceError>, count: number) =>
    Effect.forEach(Array.from({ length: count }), () => ask(request))
  /** Whether a request would be sent now. */
  const sends = (request: Effect.Effect<unknown, SourceError>, integration?: string) =>
    Effect.suspend(() => {
      const before = asked
      return Effect.map(ask(request, integration), () => asked > before)
    })
  return { ask, askMany, sends }
})

describe("CircuitBreakers", () => {
  it.effect("R3: after ten failures in a row an integration is asked nothing, and no other is held back", () =>
    Effect.gen(function*() {
      const { ask, askMany, sends } = yield* circuits
      yield* askMany(broken, 9)
      assert.isTrue(yield* sends(broken))
      assert.isFalse(yield* sends(Effect.void))
      assert.isTrue(yield* sends(Effect.void, "b:2"))
      const refused = yield* Effect.flip(Effect.fromResult(yield* ask(Effect.void)))
      assert.deepInclude(refused, {
        _tag: "CircuitOpen",
        message: "left alone after 10 failures in a row, it is tried again in 10s; status 502 with an HTML page"
      })
    }))

  it.effect("an answer ends the row: a success, or a refusal that is not a failure", () =>
    Effect.gen(function*() {
      const { askMany, sends } = yield* circuits
      for (const answer of [Effect.void, fails(new Rejected(detail))]) {
        yield* askMany(fails(new Unreadable(detail)), 9)
        yield* askMany(answer, 1)
      }
      yield* askMany(broken, 9)
      assert.isTrue(yield* sends(Effect.void))
    }))

  it.effect("R1: refusals for the rate limit and interruptions say nothing", () =>
    Effect.gen(function*() {
      const { askMany, sends } = yield* circuits
      yield* askMany(fails(new RateLimited({ ...detail, retryAfter: null })), 20)
      assert.isTrue(yield* sends(broken))
      yield* askMany(broken, 8)
      yield* askMany(fails(new RateLimited({ ...detail, retryAfter: null })), 1)
      yield* askMany(broken, 1)
      assert.isFalse(yield* sends(Effect.void))
    }))

  it.effect("then one request finds out, alone; its success closes the circuit", () =>
    Effect.gen(function*() {
      const { ask, askMany, sends } = yield* circuits
      yield* askMany(broken, 10)
      yield* TestClock.adjust("10 seconds")
      const end = yield* Deferred.make<void>()
      const trial = yield* Effect.forkChild(ask(Deferred.await(end)), { startImmediately: true })
      assert.isFalse(yield* sends(Effect.void))
      yield* Deferred.succeed(end, undefined)
      yield* Fiber.join(trial)
      yield* askMany(broken, 9)
      assert.isTrue(yield* sends(Effect.void))
    }))

  it.effect("a trial that is interrupted makes room for the next one", () =>
    Effect.gen(function*() {
      const { ask, askMany, sends } = yield* circuits
      yield* askMany(broken, 10)
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.interrupt(yield* Effect.forkChild(ask(Effect.never), { startImmediately: true }))
      assert.isTrue(yield* sends(Effect.void))
    }))

  it.effect("with every failed trial the pause doubles, up to a minute", () =>
    Effect.gen(function*() {
      const { askMany, sends } = yield* circuits
      yield* askMany(broken, 10)
      for (const seconds of [10, 20, 40, 60, 60]) {
        yield* TestClock.adjust(Duration.seconds(seconds - 1))
        assert.isFalse(yield* sends(broken))
        yield* TestClock.adjust("1 second")
        assert.isTrue(yield* sends(broken))
      }
    }))

  it.effect("what left before the circuit opened and fails late does not prolong the pause", () =>
    Effect.gen(function*() {
      const { ask, askMany, sends } = yield* circuits
      const end = yield* Deferred.make<void>()
      const late = yield* Effect.forkChild(ask(Effect.andThen(Deferred.await(end), broken)), { startImmediately: true })
      yield* askMany(broken, 10)
      yield* TestClock.adjust("9 seconds")
      yield* Deferred.succeed(end, undefined)
      yield* Fiber.join(late)
      yield* TestClock.adjust("1 second")
      assert.isTrue(yield* sends(Effect.void))
    }))

  it.effect("W4: a wall clock that is set back a day keeps no circuit open", () =>
    Effect.gen(function*() {
      const { askMany, sends } = yield* circuits
      const day = 24 * 60 * 60 * 1000
      yield* TestClock.setTime(2 * day)
      yield* askMany(broken, 10)
      yield* TestClock.adjust("10 seconds")
      yield* TestClock.setTime(day)
      assert.isTrue(yield* sends(Effect.void))
    }))
})
