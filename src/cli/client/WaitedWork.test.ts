import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { TestClock } from "effect/testing"
import { stripVTControlCharacters } from "node:util"
import { streamView } from "../../../test/support/http/StreamViews.ts"
import { type DeliveryProgress, rangesOf } from "../../domain/DeliveryProgress.ts"
import type { ForgottenView } from "../../http/contract/ForgetApi.ts"
import type { StreamView } from "../../http/contract/StreamApi.ts"
import { ApiClientError } from "./ApiClient.ts"
import { deliveryWork, progressOf, removalWork, streamWork, type WaitedCommand } from "./WaitedWork.ts"
import { waitFor, type Work } from "./Waiting.ts"

/** Waits for work that is in these states, one per second. The last one stays. */
const waiting = Effect.fnUntraced(function*<V>(
  work: Work<V>,
  states: ReadonlyArray<V | ApiClientError>,
  timeout?: Duration.Input
) {
  const shown: Array<string> = []
  let reads = 0
  const read = Effect.suspend(() => {
    const state = states[Math.min(reads++, states.length - 1)]!
    return state instanceof ApiClientError ? Effect.fail(state) : Effect.succeed(state)
  })
  const whole = Option.map(Option.fromUndefinedOr(timeout), Duration.fromInputUnsafe)
  const fiber = yield* Effect.forkChild(
    Effect.result(waitFor(work, {
      read,
      show: (text) => Effect.sync(() => void shown.push(stripVTControlCharacters(text))),
      limit: Option.map(whole, (whole) => ({ whole, left: whole }))
    })),
    { startImmediately: true }
  )
  yield* TestClock.adjust("10 minutes")
  const result = yield* Fiber.join(fiber)
  assert.strictEqual(shown.pop(), "", "the progress is removed")
  return { shown, reads, failure: result._tag === "Failure" ? result.failure : null }
})

const before = "2026-03-01T11:59:59.000Z"
const accepted = "2026-03-01T12:00:00.000Z"
const after = "2026-03-01T12:00:01.000Z"

const unreachable = new ApiClientError({ reason: "unreachable", message: "no Rollcall process answers", hint: "" })

describe("a command of a stream", () => {
  const view = (part: Partial<StreamView>) =>
    streamView("greenhouse:acme", "ats.tag", { last_poll_started_at: before, last_sweep_started_at: before, ...part })
  const commanded = (
    command: WaitedCommand,
    states: ReadonlyArray<Partial<StreamView> | ApiClientError>,
    timeout?: Duration.Input
  ) =>
    waiting(
      streamWork(command, { stream: "greenhouse:acme/ats.tag", accepted_at: accepted }),
      states.map((state) => state instanceof ApiClientError ? state : view(state)),
      timeout
    )
  const sweeping = {
    kind: "sweep",
    pass: 1,
    records: 10,
    pages: 1,
    started_at: accepted,
    records_per_second: 5,
    seconds_left: 2
  } as const
  const swept = { last_sweep_started_at: after }

  it.effect.each(
    [
      ["a poll that started after it has ended, not one that was running", "poll", [
        {},
        { last_poll_started_at: "2026-03-01T11:59:59.999Z" },
        { last_poll_started_at: accepted }
      ]],
      ["a list that always comes whole was read after it", "poll", [
        { model: "assessment.package", last_poll_started_at: null },
        { model: "assessment.package", last_poll_started_at: null, ...swept }
      ]],
      ["the last pass of a sweep has ended", "sweep", [
        { progress: sweeping },
        { ...swept, sweep_repeats: true },
        { ...swept, sweep_repeats: true, progress: { ...sweeping, pass: 2 } },
        swept
      ]],
      ["a backfill is live again", "backfill", [{ phase: "backfilling", ...swept }, swept]]
    ] as const
  )("is done when %s", ([, command, states]) =>
    Effect.gen(function*() {
      const { failure, reads, shown } = yield* commanded(command, states)
      assert.deepStrictEqual([failure, reads], [null, states.length])
      if (command !== "sweep") return
      assert.match(shown[0]!, /sweep: 10 read, 5\/s, 2 s left/)
      assert.match(shown.join(), /sweep \(pass 2\)/)
    }))

  it.effect("is given up with the cause if the stream is blocked or paused meanwhile", () =>
    Effect.gen(function*() {
      const blocked = { reason: "inactive", message: "reconnect it", since: after }
      assert.match(
        (yield* commanded("sweep", [{}, { blocked }])).failure?.message ?? "",
        /^the sweep of greenhouse:acme\/ats\.tag is not done: the stream is blocked \(inactive\): reconnect it$/
      )
      const { failure } = yield* commanded("sweep", [{ paused: true }])
      assert.match(failure?.message ?? "", /an operator has paused the stream$/)
    }))

  it.effect("is waited for while the stream fails, and the failure is shown", () =>
    Effect.gen(function*() {
      const failing = { count: 2, message: "status 500", since: after }
      const { failure, shown } = yield* commanded("sweep", [{ failing }, swept])
      assert.isNull(failure)
      assert.match(shown.join(), /failed 2 times: status 500/)
    }))

  it.effect("is waited for during a restart of the process, but not if it does not answer for a minute", () =>
    Effect.gen(function*() {
      const restart = Array.from({ length: 50 }, () => unreachable)
      assert.isNull((yield* commanded("sweep", [{}, ...restart, swept])).failure)
      assert.match((yield* commanded("sweep", [{}, unreachable])).failure?.message ?? "", /no Rollcall process answers/)
      const refused = new ApiClientError({ reason: "refused", message: "stream unknown", hint: "" })
      assert.deepInclude(yield* commanded("sweep", [refused]), { failure: refused, reads: 1 })
    }))

  it.effect("continues after the timeout, which ends only the wait", () =>
    Effect.gen(function*() {
      const { failure, reads } = yield* commanded("backfill", [{ phase: "backfilling" }], "1 minute")
      assert.strictEqual(reads, 60)
      assert.strictEqual(failure?.message, "the backfill of greenhouse:acme/ats.tag was not done within 1m")
    }))
})

describe("deliveries that are sent again", () => {
  const sent = (
    states: ReadonlyArray<DeliveryProgress>,
    {
      count = 4,
      seconds = 0,
      kind = "redrive" as "redrive" | "replay",
      timeout = undefined as Duration.Input | undefined
    } = {}
  ) =>
    Effect.flatMap(
      Clock.currentTimeMillis,
      (now) =>
        waiting(
          deliveryWork({ kind, ranges: [{ first: 1, last: count }], sentAt: 0, dueAt: now + seconds * 1_000 }),
          states,
          timeout
        )
    )

  it.effect("have a time left that counts from the command, which may have taken long", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("10 seconds")
      const { shown } = yield* sent([{ done: 50, open: 50, dead: 0 }, { done: 100, open: 0, dead: 0 }], { count: 100 })
      assert.match(shown[0] ?? "", /10 s left/)
    }))

  it.effect("are waited for until none is open, with the share, the failures and the time left", () =>
    Effect.gen(function*() {
      const states = [{ done: 0, open: 4, dead: 0 }, { done: 1, open: 2, dead: 1 }, { done: 3, open: 0, dead: 1 }]
      const { failure, shown } = yield* sent(states)
      assert.deepStrictEqual([failure, shown.length], [null, 2])
      assert.match(shown[1] ?? "", /^redrive .* 50 % {2}2 of 4 deliveries {2}2\/s {2}1 s left, 1 failed again$/)
      assert.match((yield* sent(states, { kind: "replay" })).shown[1] ?? "", /^replay .* 2 of 4 .* left, 1 failed$/)
    }))

  it.effect("are not done before the last of them is due if they are spread", () =>
    Effect.gen(function*() {
      const states = [{ done: 1, open: 1, dead: 0 }, { done: 2, open: 0, dead: 0 }]
      assert.match((yield* sent(states, { count: 2, seconds: 600 })).shown[0] ?? "", / {2}10 min 0 s left$/)
    }))

  it.effect("continue after the timeout", () =>
    Effect.gen(function*() {
      const { failure } = yield* sent([{ done: 0, open: 1, dead: 0 }], { count: 1, timeout: "5 seconds" })
      assert.strictEqual(failure?.message, "the redrive of 1 delivery was not done within 5s")
      assert.include(failure?.hint, "It continues")
    }))

  it.effect("are counted by a thousand ranges at a time, and added up", () =>
    Effect.gen(function*() {
      const sizes: Array<number> = []
      const ranges = rangesOf(Array.from({ length: 2_300 }, (_, index) => 2 * index))
      const all = yield* progressOf(ranges, (some) => {
        sizes.push(some.length)
        return Effect.succeed({ done: some.length - 2, open: 1, dead: 1 })
      })
      assert.deepStrictEqual([sizes, all], [[1_000, 1_000, 300], { done: 2_294, open: 3, dead: 3 }])
    }))
})

describe("the removal of a record", () => {
  type State = Pick<ForgottenView, "state" | "progress">
  const erasing = (done?: number, total = 100): State => ({
    state: "erasing",
    progress: done === undefined ? null : { done, total }
  })
  const forgotten: State = { state: "forgotten", progress: null }
  const removed = (
    states: ReadonlyArray<State | ApiClientError>,
    searchSeconds: number | null = null,
    timeout?: Duration.Input
  ) => Effect.flatMap(Clock.currentTimeMillis, (now) => waiting(removalWork(now, searchSeconds), states, timeout))

  it.effect("has a rate that counts only records that were changed since the wait began", () =>
    Effect.gen(function*() {
      const { shown } = yield* removed([erasing(50), erasing(55), forgotten])
      assert.match(shown[0] ?? "", /50 of 100 records .* starting$/)
      assert.match(shown[1] ?? "", /55 of 100 records {2}5\/s {2}9 s left$/)
    }))

  it.effect("shows the search of the log, the records that are changed, and the wait for handlers", () =>
    Effect.gen(function*() {
      const states = [erasing(), erasing(), erasing(0), erasing(25), erasing(100), forgotten]
      const { failure, shown } = yield* removed(states, 5)
      assert.isNull(failure)
      assert.deepStrictEqual(shown.slice(0, 2), [
        "searching the log for 0 s, about 5 s left",
        "searching the log for 1 s, about 4 s left"
      ])
      assert.match(shown[2] ?? "", /^forget .* 0 % {2}0 of 100 records .* starting$/)
      assert.match(shown[3] ?? "", /^forget .* 25 % {2}25 of 100 records {2}25\/s {2}3 s left$/)
      assert.deepStrictEqual(shown.slice(4), ["removed from 100 records; removing the rest"])
    }))

  it.effect("goes on while the process is restarted or its database is down, also with the records of the next search", () =>
    Effect.gen(function*() {
      const interrupted = new ApiClientError({ reason: "interrupted", message: "the connection ended", hint: "" })
      const unavailable = new ApiClientError({ reason: "refused", status: 503, message: "HTTP 503", hint: "" })
      const states = [erasing(50), interrupted, unavailable, erasing(), erasing(0, 50), forgotten]
      const { failure, shown } = yield* removed(states)
      assert.isNull(failure)
      assert.strictEqual(shown[1], "the connection ended; still trying")
      assert.strictEqual(shown[3], "searching the log for 3 s")
    }))

  it.effect("continues after the timeout", () =>
    Effect.gen(function*() {
      const { failure } = yield* removed([erasing(1)], null, "5 seconds")
      assert.strictEqual(failure?.message, "the removal of this record was not done within 5s")
      assert.include(failure?.hint, "It continues")
    }))
})
