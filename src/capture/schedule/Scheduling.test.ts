import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import { TestClock } from "effect/testing"
import { integration, running, stateOf } from "../../../test/support/capture/Capturing.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import { Forbidden, NotReady, Transient, Unsupported } from "../../source/Source.ts"
import type { ListedHold } from "../../store/Records.ts"
import { Store } from "../../store/Store.ts"
import { Capture } from "./Capture.ts"

const broken = Scripted.refuse(new Transient({ code: null, message: "502" }))

/** Capture runs again, after its run was interrupted. */
const runAgain = Effect.gen(function*() {
  yield* Effect.forkChild((yield* Capture).run)
  yield* TestClock.adjust("1 second")
})

describe("Capture, when several things happen to a stream", () => {
  for (
    const [blocked, reason, time] of [
      ["unsupported", new Unsupported({ code: "X", message: "m" }), "25 hours"],
      ["not_ready", new NotReady({ code: "X", message: "m" }), "1 hour"]
    ] as const
  ) {
    it.effect(`a ${blocked} stream whose probe fails with another error is retried at the rate of a failing stream (C1)`, () =>
      running(["ats.application"], function*(api) {
        api.intercept = () => Scripted.refuse(reason)
        yield* TestClock.adjust("2 minutes")
        const before = api.requests.length
        const since = () => api.requests.length - before
        api.intercept = () => since() > 100 ? Effect.never : broken
        yield* TestClock.adjust(time)
        assert.isAtLeast(since(), 3)
        assert.isAtMost(since(), 15)
        assert.strictEqual((yield* stateOf("ats.application")).blocked?.reason, blocked)
      }))
  }

  it.effect("an approved hold of one stream does not wait for a run of another stream (D6, R3)", () =>
    running(["ats.application", "ats.tag"], function*(api) {
      yield* TestClock.adjust("5 minutes")
      for (const id of ["a", "b"]) api.flag(start + 5 * 60_000, id)
      yield* TestClock.adjust("2 minutes")
      const store = yield* Store
      const holds = yield* store.holds({ limit: 10 })
      assert.strictEqual(holds.length, 2)
      api.intercept = (request, answer) => request.model === "ats.application" ? Effect.never : answer
      yield* TestClock.adjust("2 minutes")
      const approve = ({ id }: ListedHold) =>
        store.decide(id, { state: "approving", release: { origin: null, silent: false } }, start)
      yield* Effect.forEach(holds.filter(({ model }) => model === "ats.application"), approve)
      yield* TestClock.adjust("1 second")
      yield* Effect.forEach(holds.filter(({ model }) => model === "ats.tag"), approve)
      yield* TestClock.adjust("1 second")
      const events = yield* store.readLog({ after: 0, limit: 100, models: ["ats.tag"] })
      assert.deepStrictEqual(events.map(({ kind }) => kind), ["created", "created", "deleted", "deleted"])
    }))

  it.effect("`once` does not read a paused stream until it is resumed", () =>
    running(["ats.application"], function*(api) {
      const capture = yield* Capture
      const key = { integration, model: "ats.application" } as const
      yield* capture.execute(key, { kind: "pause" })
      yield* TestClock.adjust("5 minutes")
      const before = api.requests.length
      assert.deepStrictEqual(yield* capture.once, [])
      assert.strictEqual(api.requests.length, before)
      yield* capture.execute(key, { kind: "resume" })
      yield* capture.once
      assert.isAbove(api.requests.length, before)
    }))

  it.effect("a sweep yields to polls that are due and continues after them", () =>
    running(["ats.application"], function*(api) {
      for (let i = 0; i < 20; i++) api.put(start, { id: `r${i}`, title: "z" })
      yield* TestClock.adjust("5 hours")
      api.pageSize = 1
      const before = api.requests.length
      api.intercept = (_, answer) => Effect.delay(Effect.succeed(answer), "20 seconds")
      yield* TestClock.adjust("2 hours")
      const kinds = api.requests.slice(before).map((request) => request.updatedAfter === null ? "s" : "p").join("")
      assert.match(kinds, /s+p+s+p+s/)
    }))

  it.effect("a sweep ends, and its deletes are published, while each poll takes longer than the interval (R5)", () => {
    let isSlow = false
    const slow = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
      Effect.suspend(() => isSlow ? Effect.delay(effect, "25 seconds") : effect)
    return running(["ats.application"], function*(api) {
      for (let i = 0; i < 20; i++) api.put(start, { id: `r${i}`, title: "z" })
      yield* TestClock.adjust("5 hours")
      isSlow = true
      api.pageSize = 4
      api.vanish("r7")
      const before = api.requests.length
      yield* TestClock.adjust("3 hours")
      isSlow = false
      const events = yield* (yield* Store).readLog({ after: 0, limit: 100 })
      assert.deepStrictEqual(events.flatMap(({ id, kind }) => kind === "deleted" ? [id] : []), ["r7"])
      const { lastPoll, lastSweep } = yield* stateOf("ats.application")
      // six pages and two confirmations, with three statements each
      assert.isAtMost(lastSweep!.endedAt - lastSweep!.startedAt, 15 * 60_000)
      assert.isAtMost(start + 8 * 3_600_000 - lastPoll!.endedAt, 5 * 60_000)
      const polls = api.requests.slice(before).filter(({ updatedAfter }) => updatedAfter !== null)
      assert.isAtLeast(polls.length, 60)
    }, (store) => ({
      stream: (key) => slow(store.stream(key)),
      transact: (...args) => slow(store.transact(...args)),
      replaceQuietState: () => Effect.succeed(false)
    }))
  })

  it.effect("a stream that was not read for longer than the API remembers deletes is swept before it is polled (W11)", () =>
    running(["ats.application"], function*(api, fiber) {
      yield* TestClock.adjust("5 minutes")
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("15 days")
      const before = api.requests.length
      yield* runAgain
      assert.isNull(api.requests[before]!.updatedAfter)
    }))

  it.effect("a sweep that was left open before such a pause starts again, because records it had read may be gone (W11)", () =>
    running(["ats.application"], function*(api, fiber) {
      yield* TestClock.adjust("5 minutes")
      api.pageSize = 1
      api.intercept = (request, answer) =>
        request.cursor === null
          ? answer
          : Scripted.refuse(new Transient({ code: null, message: "502" }))
      const capture = yield* Capture
      yield* capture.execute({ integration, model: "ats.application" }, { kind: "sweep" })
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual((yield* stateOf("ats.application")).sweep?.cursor, "1")
      yield* Fiber.interrupt(fiber)
      yield* TestClock.adjust("15 days")
      api.vanish("a")
      api.intercept = (_, answer) => answer
      const before = api.requests.length
      yield* Effect.forkChild(capture.run)
      yield* TestClock.adjust("1 minute")
      const { cursor, updatedAfter } = api.requests.slice(before).find(({ ids }) => ids === null)!
      assert.deepStrictEqual([updatedAfter, cursor], [null, null])
      const store = yield* Store
      const pending = yield* store.pendingRows({ limit: 10 })
      assert.deepStrictEqual(pending.map(({ id, status }) => [id, status]), [["a", "absent"]])
    }))

  it.effect("sweeps continue, end and find changes while polls always fail (I1)", () =>
    running(["ats.application"], function*(api) {
      yield* TestClock.adjust("5 minutes")
      api.pageSize = 1
      api.intercept = (request, answer) =>
        request.updatedAfter === null && request.ids === null
          ? Effect.delay(Effect.succeed(answer), "40 seconds")
          : Scripted.refuse(new Transient({ code: null, message: "500" }))
      const store = yield* Store
      for (const title of ["new", "newer"]) {
        const before = yield* stateOf("ats.application")
        api.put(start + Duration.toMillis("1 hour"), { id: "a", title })
        yield* TestClock.adjust("7 hours")
        const events = (yield* store.readLog({ after: 0, limit: 10 })).filter(({ id }) => id === "a")
        assert.strictEqual(JSON.parse(events.at(-1)!.after!).title, title)
        const after = yield* stateOf("ats.application")
        assert.isAbove(after.lastSweep!.endedAt, before.lastSweep!.endedAt)
        assert.strictEqual(after.watermark, before.watermark)
      }
    }))

  it.effect("polls run on schedule while a page of the sweep always fails, and the sweep continues once the page can be read (R3)", () =>
    running(["ats.application"], function*(api) {
      yield* TestClock.adjust("5 hours")
      api.pageSize = 1
      api.intercept = (request, answer) => request.updatedAfter === null && request.cursor !== null ? broken : answer
      yield* TestClock.adjust("2 hours")
      const before = api.requests.length
      yield* TestClock.adjust("1 hour")
      const { polls = [], sweeps = [] } = Object.groupBy(
        api.requests.slice(before),
        ({ updatedAfter }) => updatedAfter === null ? "sweeps" : "polls"
      )
      assert.isAtLeast(polls.length, 50)
      assert.isAtLeast(sweeps.length, 10)
      assert.isAtMost(sweeps.length, 2 * polls.length)
      api.intercept = (_, answer) => answer
      yield* TestClock.adjust("5 minutes")
      assert.isNull((yield* stateOf("ats.application")).sweep)
    }))

  it.effect("a sweep whose confirmations always fail ends when the next sweep is due, infers no deletes and publishes its changes (D12)", () =>
    running(["ats.application"], function*(api) {
      api.put(start, { id: "gone", title: "z" })
      yield* TestClock.adjust("5 hours")
      api.intercept = (request, answer) => request.ids === null ? answer : broken
      api.vanish("gone")
      // a change that only a sweep finds, and that is released at the end of a run
      api.put(start, { id: "a", title: null, name: "n" }, { silent: true })
      yield* TestClock.adjust("5 hours")
      const store = yield* Store
      const changes = () =>
        Effect.map(store.readLog({ after: 3, limit: 10 }), (all) => all.map(({ id, kind }) => `${id} ${kind}`))
      assert.deepStrictEqual(yield* changes(), [])
      yield* TestClock.adjust("6 hours")
      assert.deepStrictEqual(yield* changes(), ["a updated"])
      assert.deepStrictEqual((yield* store.pendingRows({ limit: 10 })).map(({ id, status }) => `${id} ${status}`), [])
      api.intercept = (_, answer) => answer
      yield* TestClock.adjust("8 hours")
      assert.deepStrictEqual(yield* changes(), ["a updated", "gone deleted"])
    }))

  it.effect("polls run while a page of the mandatory sweep after a long pause fails, and the sweep stays open (W11)", () =>
    running(["ats.application"], function*(api, started) {
      yield* TestClock.adjust("5 minutes")
      yield* Fiber.interrupt(started)
      yield* TestClock.adjust("15 days")
      api.pageSize = 1
      api.intercept = (request, answer) => request.updatedAfter === null && request.cursor !== null ? broken : answer
      const before = api.requests.length
      yield* runAgain
      yield* TestClock.adjust("1 hour")
      const since = api.requests.slice(before)
      assert.isNull(since[0]!.updatedAfter)
      assert.isAtLeast(since.filter(({ updatedAfter }) => updatedAfter !== null).length, 50)
      assert.isAbove((yield* stateOf("ats.application")).sweep!.startedAt, start + 15 * 86_400_000)
    }))

  it.effect("a poll that an operator requests while a run fails does not wait for the backoff", () =>
    running(["ats.application"], function*(api) {
      yield* TestClock.adjust("5 minutes")
      const answered = yield* Latch.make()
      api.intercept = () => Effect.andThen(answered.await, broken)
      yield* TestClock.adjust("2 minutes")
      const before = api.requests.length
      api.intercept = (_, answer) => answer
      yield* (yield* Capture).execute({ integration, model: "ats.application" }, { kind: "poll" })
      yield* answered.open
      yield* TestClock.adjust("1 second")
      assert.isAbove(api.requests.length, before)
    }))

  it.effect("the mandatory sweep after a long pause is not repeated at once if its first page fails (W11)", () =>
    running(["ats.application"], function*(api, started) {
      yield* TestClock.adjust("5 minutes")
      yield* Fiber.interrupt(started)
      yield* TestClock.adjust("15 days")
      const before = api.requests.length
      const since = () => api.requests.length - before
      api.intercept = () => since() > 10 ? Effect.never : broken
      yield* runAgain
      yield* TestClock.adjust("50 seconds")
      assert.strictEqual(since(), 1)
    }))

  it.effect("streams are polled and swept at once after our clock was set back, and then on schedule (W4)", () =>
    running(["ats.application"], function*(api, started) {
      yield* TestClock.adjust("7 hours")
      yield* Fiber.interrupt(started)
      api.skew = 7 * 3_600_000
      yield* TestClock.setTime(start)
      const before = api.requests.length
      yield* runAgain
      yield* TestClock.adjust("10 minutes")
      const since = api.requests.slice(before)
      const polls = since.filter((request) => request.updatedAfter !== null).length
      assert.isAtLeast(polls, 9)
      assert.isAtMost(polls, 12)
      assert.strictEqual(since.length - polls, 1)
    }))

  for (
    const [how, reason] of [
      ["failed", new Transient({ code: null, message: "502" })],
      ["was blocked", new Forbidden({ code: null, message: "403" })]
    ] as const
  ) {
    it.effect(`a stream that ${how} before our clock was set back is read again without extra delay (W4)`, () =>
      running(["ats.application"], function*(api, started) {
        yield* TestClock.adjust("7 hours")
        api.intercept = () => Scripted.refuse(reason)
        yield* TestClock.adjust("2 minutes")
        yield* Fiber.interrupt(started)
        api.intercept = (_, answer) => answer
        api.skew = 7 * 3_600_000
        yield* TestClock.setTime(start)
        const before = api.requests.length
        yield* runAgain
        yield* TestClock.adjust("20 minutes")
        assert.isAtLeast(api.requests.length - before, 5)
      }))
  }
})
