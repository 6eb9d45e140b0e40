import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import { RequestBudget } from "./RequestBudget.ts"
import * as RequestScheduler from "./RequestScheduler.ts"
import type { Priority } from "./Source.ts"

const retryBase = Duration.seconds(1)
const scheduler = (concurrency = 1) =>
  RequestScheduler.make({ account: "default", concurrency, retryBase, timeout: Duration.minutes(1) }).pipe(
    Effect.provide(RequestBudget.local)
  )

/** Requests that record their start and run until `endNext` or `endAll` ends them. */
const harness = (of: RequestScheduler.RequestScheduler) => {
  const started: Array<string> = []
  const ends: Array<Deferred.Deferred<void>> = []
  const request = (name: string, priority: Priority, integration = `${name}:1`, forwarded = false) =>
    Effect.gen(function*() {
      started.push(name)
      const end = yield* Deferred.make<void>()
      ends.push(end)
      yield* Deferred.await(end)
    }).pipe(of.run(integration, priority, forwarded), Effect.forkChild({ startImmediately: true }))
  const endNext = Effect.suspend(() => {
    const end = ends.shift()
    return end === undefined ? Effect.void : Deferred.succeed(end, undefined)
  }).pipe(Effect.andThen(Effect.yieldNow))
  return { started, request, endNext, endAll: (count: number) => Effect.repeat(endNext, { times: count - 1 }) }
}

/** Starts a request now; returns the virtual time (ms) at which it is sent. */
const sentAt = (of: RequestScheduler.RequestScheduler, integration = "a:1") =>
  Clock.currentTimeMillis.pipe(of.run(integration, "poll"), Effect.forkChild({ startImmediately: true }))

describe("RequestScheduler", () => {
  it.effect("shows the requests in flight, those that also wait, and the pause of a process that has the whole budget", () =>
    Effect.gen(function*() {
      const requests = yield* scheduler(2)
      const { request } = harness(requests)
      for (const name of ["a", "b", "c"]) yield* request(name, "poll")
      assert.deepStrictEqual(yield* requests.usage, {
        limit: 2,
        taken: 2,
        wanted: 3,
        processes: null,
        pauseLeft: Duration.zero
      })
      yield* requests.pause(Duration.seconds(20))
      assert.strictEqual(Duration.toMillis((yield* requests.usage).pauseLeft), 20_000)
    }))

  it.effect("serves the most urgent priority first, whatever the order of arrival", () =>
    Effect.gen(function*() {
      const { endAll, request, started } = harness(yield* scheduler())
      yield* request("running", "backfill")
      for (const priority of ["backfill", "sweep", "refresh", "poll", "confirm", "write"] as const) {
        yield* request(priority, priority)
      }
      yield* endAll(7)
      assert.deepStrictEqual(started, ["running", "write", "confirm", "poll", "refresh", "sweep", "backfill"])
    }))

  it.effect("gives every tenth slot to the least urgent priority, so that it does not starve (N4)", () =>
    Effect.gen(function*() {
      const { endAll, request, started } = harness(yield* scheduler())
      for (let i = 0; i < 40; i++) yield* request("poll", "poll")
      for (let i = 0; i < 4; i++) yield* request("backfill", "backfill")
      yield* endAll(40)
      const turns = started.flatMap((name, index) => name === "backfill" ? [index + 1] : [])
      assert.deepStrictEqual(turns, [10, 20, 30, 40])
    }))

  it.effect("all priorities below the most urgent one share every tenth slot, so that none of them starves (N4)", () =>
    Effect.gen(function*() {
      const { endAll, request, started } = harness(yield* scheduler())
      for (let i = 0; i < 120; i++) yield* request("write", "write")
      for (const priority of ["poll", "sweep", "backfill"] as const) {
        for (let i = 0; i < 4; i++) yield* request(priority, priority)
      }
      yield* endAll(120)
      const reserved = started.slice(0, 120).flatMap((name, index) => name === "write" ? [] : [`${index + 1} ${name}`])
      assert.deepStrictEqual(
        reserved,
        [10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120].map((turn, index) =>
          `${turn} ${["poll", "sweep", "backfill"][index % 3]}`
        )
      )
    }))

  it.effect("a slow integration gets half of the slots, a second one a quarter, and others are served immediately (R3)", () =>
    Effect.gen(function*() {
      const { request, started } = harness(yield* scheduler(8))
      for (let i = 0; i < 20; i++) yield* request("slow", "write", "a:slow")
      assert.strictEqual(started.length, 4)
      for (let i = 0; i < 20; i++) yield* request("slow too", "write", "b:slow")
      assert.strictEqual(started.length, 6)
      yield* request("quick", "backfill", "c:quick")
      assert.strictEqual(started.at(-1), "quick")
    }))

  it.effect("the only integration is served even if there is only one slot (R3)", () =>
    Effect.gen(function*() {
      const { endAll, request, started } = harness(yield* scheduler(1))
      for (let i = 0; i < 5; i++) yield* request(`${i}`, "poll", "a:1")
      yield* endAll(5)
      assert.deepStrictEqual(started, ["0", "1", "2", "3", "4"])
    }))

  it.effect("serves integrations in rotation, however many requests one of them has (R3)", () =>
    Effect.gen(function*() {
      const { endAll, request, started } = harness(yield* scheduler())
      for (let i = 0; i < 6; i++) yield* request(`big${i}`, "poll", "a:big")
      yield* request("small0", "poll", "b:small")
      yield* request("small1", "poll", "b:small")
      yield* request("other0", "poll", "c:other")
      yield* endAll(9)
      assert.deepStrictEqual(started.slice(0, 7), ["big0", "big1", "small0", "other0", "big2", "small1", "big3"])
    }))

  it.effect("releases the slot when a waiting or running request fails, dies or is interrupted", () =>
    Effect.gen(function*() {
      const of = yield* scheduler()
      yield* Effect.exit(of.run("a:1", "poll")(Effect.fail("no")))
      yield* Effect.exit(of.run("a:1", "poll")(Effect.die("no")))
      const running = yield* Effect.forkChild(of.run("a:1", "poll")(Effect.never), { startImmediately: true })
      const waiting = yield* Effect.forkChild(of.run("a:1", "poll")(Effect.never), { startImmediately: true })
      yield* Fiber.interrupt(waiting)
      yield* Fiber.interrupt(running)
      assert.strictEqual(yield* of.run("a:1", "poll")(Effect.succeed("served")), "served")
    }))

  it.effect("a pause delays every integration of the account, and is never shortened (R1)", () =>
    Effect.gen(function*() {
      const of = yield* scheduler(4)
      yield* of.pause(Duration.seconds(30))
      yield* of.pause(Duration.seconds(5))
      const first = yield* sentAt(of, "a:1")
      const second = yield* sentAt(of, "b:2")
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual([yield* Fiber.join(first), yield* Fiber.join(second)], [30_000, 30_000])
    }))

  it.effect("a later rate-limit response lengthens the pause for requests that already wait (R1)", () =>
    Effect.gen(function*() {
      const of = yield* scheduler()
      yield* of.onRateLimited(Duration.seconds(10))
      const waiting = yield* sentAt(of)
      yield* TestClock.adjust("5 seconds")
      yield* of.onRateLimited(Duration.seconds(60))
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* Fiber.join(waiting), 65_000)
    }))

  it.effect("after a pause the most urgent request is served first, even if it arrived last (R1)", () =>
    Effect.gen(function*() {
      const of = yield* scheduler()
      const { endAll, request, started } = harness(of)
      yield* of.pause(Duration.seconds(10))
      yield* request("backfill", "backfill")
      yield* request("confirm", "confirm")
      yield* TestClock.adjust("10 seconds")
      yield* endAll(2)
      assert.deepStrictEqual(started, ["confirm", "backfill"])
    }))

  it.effect("a wall clock that is set back by a day does not restart a pause that is over (W4)", () =>
    Effect.gen(function*() {
      const of = yield* scheduler()
      const day = 24 * 60 * 60 * 1000
      yield* TestClock.setTime(2 * day)
      yield* of.pause(Duration.seconds(10))
      yield* TestClock.adjust("10 seconds")
      yield* TestClock.setTime(day)
      const after = yield* sentAt(of)
      yield* Effect.yieldNow
      assert.strictEqual(after.pollUnsafe()?._tag, "Success")
    }))

  it.live("a pause ends on a real clock, even if timers fire a little early (R1)", () =>
    Effect.gen(function*() {
      const of = yield* scheduler()
      for (let i = 0; i < 200; i++) {
        yield* of.pause(Duration.millis(0.3 + (i % 7) / 5))
        yield* of.run("a:1", "poll")(Effect.void)
      }
    }))

  it.effect("a request waits at most 15 minutes, however long a pause the API requests (R1)", () =>
    Effect.gen(function*() {
      const of = yield* scheduler()
      yield* of.onRateLimited(Duration.days(365))
      const waiting = yield* sentAt(of)
      yield* TestClock.adjust("1 day")
      assert.strictEqual(yield* Fiber.join(waiting), Duration.toMillis(RequestScheduler.maxPause))
    }))

  it.effect.each([{ named: null }, { named: Duration.zero }])(
    "rate-limit responses in a row without a wait double the pause, with jitter, up to a minute: case %# (R1)",
    ({ named }) =>
      Effect.gen(function*() {
        const of = yield* scheduler()
        for (let refusal = 0; refusal < 10; refusal++) {
          const before = yield* Clock.currentTimeMillis
          yield* of.onRateLimited(named)
          const waiting = yield* sentAtThenFails(of)
          yield* TestClock.adjust("2 minutes")
          const waited = (yield* Fiber.join(waiting)) - before
          const expected = Math.min(60_000, 1000 * 2 ** refusal)
          assert.isAtLeast(waited, Math.floor(0.8 * expected))
          assert.isAtMost(waited, 1.2 * expected)
        }
      })
  )

  it.effect("after a success the next rate-limit response starts with the shortest pause again (R1)", () =>
    Effect.gen(function*() {
      const of = yield* scheduler()
      for (let refusal = 0; refusal < 5; refusal++) {
        yield* of.onRateLimited(null)
        yield* TestClock.adjust("2 minutes")
      }
      yield* of.run("a:1", "poll")(Effect.void)
      const before = yield* Clock.currentTimeMillis
      yield* of.onRateLimited(null)
      const waiting = yield* sentAt(of)
      yield* TestClock.adjust("2 minutes")
      assert.isAtMost((yield* Fiber.join(waiting)) - before, 1200)
    }))

  it.effect("a rate-limit response during a pause that another process or a header caused requests the whole first pause (R1)", () =>
    Effect.gen(function*() {
      for (let time = 0; time < 20; time++) {
        const of = yield* scheduler()
        yield* of.pause(Duration.millis(10))
        const before = yield* Clock.currentTimeMillis
        yield* of.onRateLimited(null)
        const waiting = yield* sentAt(of)
        yield* TestClock.adjust("2 minutes")
        const waited = (yield* Fiber.join(waiting)) - before
        assert.isAtLeast(waited, 800)
        assert.isAtMost(waited, 1200)
      }
    }))

  it.effect("a burst of rate-limit responses halves the concurrency once, and successful requests restore it (R1)", () =>
    Effect.gen(function*() {
      const of = yield* scheduler(8)
      const { endAll, request, started } = harness(of)
      for (let i = 0; i < 40; i++) yield* request(`${i}`, "poll")
      assert.strictEqual(started.length, 8)
      for (let i = 0; i < 8; i++) yield* of.onRateLimited(Duration.seconds(1))
      yield* endAll(8)
      assert.strictEqual(started.length, 8)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(started.length - 8, 4)
      yield* endAll(5)
      assert.strictEqual(started.length - 8 - 5, 5)
      yield* endAll(27)
      assert.strictEqual(started.length, 40)
    }))

  const forwarded = (of: ReturnType<typeof harness>, count: number, integration = "a:1") =>
    Effect.forEach(Array.from({ length: count }), () => of.request("forwarded", "write", integration, true))

  it.effect("has at most 30 forwarded requests of an integration in flight, or as many as its responses allow", () =>
    Effect.gen(function*() {
      const of = yield* scheduler(1000)
      const at = harness(of)
      yield* forwarded(at, 40)
      assert.strictEqual(at.started.length, 30)
      yield* at.request("page", "poll", "a:1")
      yield* forwarded(at, 1, "b:2")
      assert.deepStrictEqual(at.started.slice(30), ["page", "forwarded"])
      yield* of.updateForwardedLimit("a:1", 50, 5)
      assert.strictEqual(at.started.length, 37)
    }))

  it.effect("leaves room for other clients of the integration, but keeps one forwarded request in flight", () =>
    Effect.gen(function*() {
      const of = yield* scheduler(1000)
      const at = harness(of)
      yield* forwarded(at, 3)
      yield* of.updateForwardedLimit("a:1", 30, 0)
      yield* forwarded(at, 3)
      assert.strictEqual(at.started.length, 3)
      yield* at.endNext
      assert.strictEqual(at.started.length, 4)
      yield* of.updateForwardedLimit("b:2", 30, 0)
      yield* forwarded(at, 2, "b:2")
      assert.strictEqual(at.started.length, 5)
    }))
})

/** Like `sentAt`, but the request fails, so that the count of rate-limit responses in a row is not reset. */
const sentAtThenFails = (of: RequestScheduler.RequestScheduler) =>
  Clock.currentTimeMillis.pipe(
    Effect.flatMap(Effect.fail),
    of.run("a:1", "poll"),
    Effect.catchTag("SlotWaitAborted", Effect.die),
    Effect.flip,
    Effect.forkChild({ startImmediately: true })
  )
