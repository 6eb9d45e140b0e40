import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { TestClock } from "effect/testing"
import { ApiClientError } from "./ApiClient.ts"
import { awaitCommand, type WaitedCommand, type WaitedView } from "./StreamWait.ts"

const before = "2026-03-01T11:59:59.000Z"
const accepted = "2026-03-01T12:00:00.000Z"
const after = "2026-03-01T12:00:01.000Z"

const idle: WaitedView = {
  stream: "greenhouse:acme/ats.tag",
  model: "ats.tag",
  phase: "live",
  paused: false,
  blocked: null,
  failing: null,
  progress: null,
  records_live: 20,
  last_poll_started_at: before,
  last_sweep_started_at: before,
  sweep_repeats: false
}

/** Waits for a command while the stream goes through these states, one per second. The last one stays. */
const waiting = (
  command: WaitedCommand,
  states: ReadonlyArray<Partial<WaitedView> | ApiClientError>,
  timeout = Option.none<Duration.Duration>()
) =>
  Effect.gen(function*() {
    const shown: Array<string> = []
    let reads = 0
    const read = Effect.suspend(() => {
      const state = states[Math.min(reads++, states.length - 1)] ?? {}
      return state instanceof ApiClientError ? Effect.fail(state) : Effect.succeed({ ...idle, ...state })
    })
    const show = (text: string) => Effect.sync(() => void shown.push(text))
    const fiber = yield* Effect.forkChild(
      Effect.result(
        awaitCommand(command, { ...idle, accepted_at: accepted }, {
          read,
          show,
          limit: Option.map(timeout, (whole) => ({ whole, left: whole }))
        })
      ),
      { startImmediately: true }
    )
    return { fiber, shown, reads: () => reads }
  })

const resultOf = Effect.fnUntraced(function*(
  command: WaitedCommand,
  ...states: ReadonlyArray<Partial<WaitedView> | ApiClientError>
) {
  const { fiber, reads } = yield* waiting(command, states)
  yield* TestClock.adjust("10 minutes")
  const result = yield* Fiber.join(fiber)
  return { reads: reads(), tag: result._tag, message: result._tag === "Failure" ? result.failure.message : "" }
})

const sweeping = {
  kind: "sweep",
  pass: 1,
  records: 10,
  pages: 1,
  started_at: accepted,
  records_per_second: 5,
  seconds_left: 2
} as const
const unreachable = new ApiClientError({ reason: "unreachable", message: "no Rollcall process answers", hint: "" })

describe("waiting for a stream command", () => {
  it.effect("a poll is done when a poll that started after the command has ended, not one that was running", () =>
    Effect.gen(function*() {
      const running = { last_poll_started_at: "2026-03-01T11:59:59.999Z" }
      const done = { last_poll_started_at: accepted }
      assert.deepInclude(yield* resultOf("poll", {}, running, running, done), { tag: "Success", reads: 4 })
    }))

  it.effect("a poll of a list that always comes whole is done when it was read after the command", () =>
    Effect.gen(function*() {
      const whole = { model: "assessment.package", last_poll_started_at: null } as const
      const done = { ...whole, last_sweep_started_at: after }
      assert.deepInclude(yield* resultOf("poll", whole, done), { tag: "Success", reads: 2 })
    }))

  it.effect("a sweep is done after its last pass, and shows its progress", () =>
    Effect.gen(function*() {
      const { fiber, shown } = yield* waiting("sweep", [
        { progress: sweeping },
        { last_sweep_started_at: after, sweep_repeats: true },
        { last_sweep_started_at: after, sweep_repeats: true, progress: { ...sweeping, pass: 2 } },
        { last_sweep_started_at: after }
      ])
      yield* TestClock.adjust("2 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "Success")
      assert.match(shown[0]!, /sweep: 10 read, 5\/s, 2 s left/)
      assert.match(shown.join(), /sweep \(pass 2\)/)
    }))

  it.effect("a backfill is done when the stream is live again", () =>
    Effect.gen(function*() {
      const backfilling = { phase: "backfilling", last_sweep_started_at: after } as const
      assert.deepInclude(
        yield* resultOf("backfill", backfilling, backfilling, { last_sweep_started_at: after }),
        { tag: "Success", reads: 3 }
      )
    }))

  it.effect("a stream that is blocked or paused meanwhile ends the wait with the cause", () =>
    Effect.gen(function*() {
      const blocked = { reason: "inactive", message: "reconnect it", since: after }
      assert.match(
        (yield* resultOf("sweep", {}, { blocked })).message,
        /^the sweep of greenhouse:acme\/ats\.tag is not done: the stream is blocked \(inactive\): reconnect it$/
      )
      assert.match((yield* resultOf("sweep", { paused: true })).message, /an operator has paused the stream$/)
    }))

  it.effect("a failing stream is tried again, and its failure is shown", () =>
    Effect.gen(function*() {
      const failing = { count: 2, message: "status 500", since: after }
      const { fiber, shown } = yield* waiting("sweep", [{ failing }, { last_sweep_started_at: after }])
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(fiber))._tag, "Success")
      assert.match(shown.join(), /failed 2 times: status 500/)
    }))

  it.effect("a restart of the process does not end the wait, a process that does not answer for a minute does", () =>
    Effect.gen(function*() {
      const done = { last_sweep_started_at: after }
      const restart = Array.from({ length: 50 }, () => unreachable)
      assert.strictEqual((yield* resultOf("sweep", {}, ...restart, done)).tag, "Success")
      assert.match((yield* resultOf("sweep", {}, unreachable)).message, /no Rollcall process answers/)
      const refused = new ApiClientError({ reason: "refused", message: "stream unknown", hint: "" })
      assert.deepInclude(yield* resultOf("sweep", refused), { tag: "Failure", message: "stream unknown", reads: 1 })
    }))

  it.effect("a process that accepts requests and answers none ends the wait after a minute, not after sixty requests", () =>
    Effect.gen(function*() {
      const unresponsive = new ApiClientError({
        reason: "unresponsive",
        message: "accepts but does not answer",
        hint: ""
      })
      const wait = awaitCommand("sweep", { ...idle, accepted_at: accepted }, {
        read: Effect.delay(Effect.fail(unresponsive), "30 seconds"),
        show: () => Effect.void,
        limit: Option.none()
      })
      const fiber = yield* Effect.forkChild(Effect.flip(wait), { startImmediately: true })
      yield* TestClock.adjust("59 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("3 seconds")
      assert.strictEqual(yield* Fiber.join(fiber), unresponsive)
    }))

  it.effect("a timeout ends the wait, not the command", () =>
    Effect.gen(function*() {
      const { fiber } = yield* waiting("backfill", [{ phase: "backfilling" }], Option.some(Duration.minutes(1)))
      yield* TestClock.adjust("59 seconds")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 second")
      const result = yield* Fiber.join(fiber)
      assert.match(
        result._tag === "Failure" ? result.failure.message : "",
        /^the backfill of greenhouse:acme\/ats\.tag was not done within 1m$/
      )
    }))
})
