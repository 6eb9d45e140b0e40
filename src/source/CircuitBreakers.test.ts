import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as CircuitBreakers from "./CircuitBreakers.ts"
import { RateLimited, Rejected, SourceError, Transient, Unreadable } from "./Source.ts"

const detail = { code: null, message: "status 502 with an HTML page" }
const fails = (reason: SourceError["reason"]) => Effect.fail(new SourceError({ reason }))
const broken = fails(new Transient(detail))

const circuits = Effect.map(CircuitBreakers.make({ firstPause: Duration.seconds(10) }), ({ guard }) => {
  let sentCount = 0
  const send = <A>(request: Effect.Effect<A, SourceError>, integration = "a:1") =>
    Effect.sync(() => sentCount++).pipe(Effect.andThen(request), guard(integration), Effect.result)
  const sendMany = <A>(request: Effect.Effect<A, SourceError>, count: number) =>
    Effect.forEach(Array.from({ length: count }), () => send(request))
  /** Whether a request would be sent now. */
  const sends = (request: Effect.Effect<unknown, SourceError>, integration?: string) =>
    Effect.suspend(() => {
      const before = sentCount
      return Effect.map(send(request, integration), () => sentCount > before)
    })
  return { send, sendMany, sends }
})

describe("CircuitBreakers", () => {
  it.effect("after ten failures in a row no request of the integration is sent, and other integrations continue (R3)", () =>
    Effect.gen(function*() {
      const { send, sendMany, sends } = yield* circuits
      yield* sendMany(broken, 9)
      assert.isTrue(yield* sends(broken))
      assert.isFalse(yield* sends(Effect.void))
      assert.isTrue(yield* sends(Effect.void, "b:2"))
      const rejected = yield* Effect.flip(Effect.fromResult(yield* send(Effect.void)))
      assert.deepInclude(rejected, {
        _tag: "CircuitOpen",
        message: "circuit open after 10 failures in a row; last failure: status 502 with an HTML page",
        // as the error of each failed request says it, so that these streams and those have one cause
        failure: new SourceError({ reason: new Transient(detail) }).message
      })
    }))

  it.effect("the message of an open circuit stays the same while the pause runs, while a probe is in flight, and after further failures", () =>
    Effect.gen(function*() {
      const { send, sendMany } = yield* circuits
      const message = Effect.flatMap(
        send(Effect.void),
        (result) => Effect.map(Effect.flip(Effect.fromResult(result)), ({ message }) => message)
      )
      yield* sendMany(broken, 10)
      const first = yield* message
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual(yield* message, first)
      yield* TestClock.adjust("7 seconds")
      const end = yield* Deferred.make<void>()
      const probe = yield* Effect.forkChild(send(Effect.andThen(Deferred.await(end), broken)), {
        startImmediately: true
      })
      assert.strictEqual(yield* message, first)
      yield* Deferred.succeed(end, undefined)
      yield* Fiber.join(probe)
      assert.strictEqual(yield* message, first)
    }))

  it.effect("a success, or an error response that is not a failure, resets the failure count", () =>
    Effect.gen(function*() {
      const { sendMany, sends } = yield* circuits
      for (const answer of [Effect.void, fails(new Rejected(detail))]) {
        yield* sendMany(fails(new Unreadable(detail)), 9)
        yield* sendMany(answer, 1)
      }
      yield* sendMany(broken, 9)
      assert.isTrue(yield* sends(Effect.void))
    }))

  it.effect("rate-limit responses and interruptions do not change the failure count (R1)", () =>
    Effect.gen(function*() {
      const { sendMany, sends } = yield* circuits
      yield* sendMany(fails(new RateLimited({ ...detail, retryAfter: null })), 20)
      assert.isTrue(yield* sends(broken))
      yield* sendMany(broken, 8)
      yield* sendMany(fails(new RateLimited({ ...detail, retryAfter: null })), 1)
      yield* sendMany(broken, 1)
      assert.isFalse(yield* sends(Effect.void))
    }))

  it.effect("after the pause a single probe request is sent, and its success closes the circuit", () =>
    Effect.gen(function*() {
      const { send, sendMany, sends } = yield* circuits
      yield* sendMany(broken, 10)
      yield* TestClock.adjust("10 seconds")
      const end = yield* Deferred.make<void>()
      const probe = yield* Effect.forkChild(send(Deferred.await(end)), { startImmediately: true })
      assert.isFalse(yield* sends(Effect.void))
      yield* Deferred.succeed(end, undefined)
      yield* Fiber.join(probe)
      yield* sendMany(broken, 9)
      assert.isTrue(yield* sends(Effect.void))
    }))

  it.effect("after an interrupted probe the next request becomes the probe", () =>
    Effect.gen(function*() {
      const { send, sendMany, sends } = yield* circuits
      yield* sendMany(broken, 10)
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.interrupt(yield* Effect.forkChild(send(Effect.never), { startImmediately: true }))
      assert.isTrue(yield* sends(Effect.void))
    }))

  it.effect("the pause doubles with every failed probe, up to a minute", () =>
    Effect.gen(function*() {
      const { sendMany, sends } = yield* circuits
      yield* sendMany(broken, 10)
      for (const seconds of [10, 20, 40, 60, 60]) {
        yield* TestClock.adjust(Duration.seconds(seconds - 1))
        assert.isFalse(yield* sends(broken))
        yield* TestClock.adjust("1 second")
        assert.isTrue(yield* sends(broken))
      }
    }))

  it.effect("a request sent before the circuit opened does not prolong the pause when it fails later", () =>
    Effect.gen(function*() {
      const { send, sendMany, sends } = yield* circuits
      const end = yield* Deferred.make<void>()
      const late = yield* Effect.forkChild(send(Effect.andThen(Deferred.await(end), broken)), {
        startImmediately: true
      })
      yield* sendMany(broken, 10)
      yield* TestClock.adjust("9 seconds")
      yield* Deferred.succeed(end, undefined)
      yield* Fiber.join(late)
      yield* TestClock.adjust("1 second")
      assert.isTrue(yield* sends(Effect.void))
    }))

  it.effect("a wall clock that is set back by a day does not keep a circuit open (W4)", () =>
    Effect.gen(function*() {
      const { sendMany, sends } = yield* circuits
      const day = 24 * 60 * 60 * 1000
      yield* TestClock.setTime(2 * day)
      yield* sendMany(broken, 10)
      yield* TestClock.adjust("10 seconds")
      yield* TestClock.setTime(day)
      assert.isTrue(yield* sends(Effect.void))
    }))
})
