import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import { capturing, integration, running, stateOf } from "../../../test/support/capture/Capturing.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import * as MemoryStore from "../../../test/support/store/MemoryStore.ts"
import type { IncrementalModel } from "../../api/Lists.ts"
import { Forbidden, Inactive, NotReady, Transient, Unauthorized, Unsupported } from "../../source/Source.ts"
import { Store, StoreError, Unavailable } from "../../store/Store.ts"
import { takeStreams } from "../Stream.ts"
import { Capture } from "./Capture.ts"

describe("Capture", () => {
  it.effect("backfills, polls every interval and sweeps every sweep interval", () =>
    running(["ats.application"], function*(api) {
      assert.strictEqual((yield* stateOf("ats.application")).phase, "live")
      const before = api.requests.length
      yield* TestClock.adjust("10 minutes")
      const polls = api.requests.slice(before)
      assert.isTrue(polls.every((request) => request.updatedAfter !== null))
      assert.isAtLeast(polls.length, 9)
      assert.isAtMost(polls.length, 12)
      yield* TestClock.adjust("7 hours")
      assert.strictEqual(
        api.requests.filter((request) =>
          request.updatedAfter === null && request.cursor === null && request.ids === null
        ).length,
        2
      )
    }))

  it.effect("a broken integration is logged once, and once when it is read again, not for every stream", () => {
    const lines: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => {
      if (logLevel !== "Debug") lines.push(String(message))
    })
    const models = ["ats.application", "ats.tag", "ats.offer"] as const
    return Effect.gen(function*() {
      yield* TestClock.setTime(start)
      const api = Scripted.make()
      api.put(start, { id: "a", title: "x" })
      yield* Effect.gen(function*() {
        yield* Effect.forkChild((yield* Capture).run)
        yield* TestClock.adjust("5 minutes")
        lines.length = 0
        api.intercept = () => Scripted.refuse(new Inactive({ code: "X", message: "reconnect it" }))
        yield* TestClock.adjust("5 minutes")
        for (const model of models) assert.strictEqual((yield* stateOf(model)).blocked?.reason, "inactive")
        assert.deepStrictEqual(lines, ["stream blocked: inactive"])
        api.intercept = (_, answer) => answer
        yield* TestClock.adjust("1 hour")
        assert.deepStrictEqual(lines, ["stream blocked: inactive", "stream recovered"])
      }).pipe(
        Effect.provide(
          capturing(models).pipe(
            Layer.provideMerge(Layer.merge(Scripted.layer(api), MemoryStore.layer()))
          )
        )
      )
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.effect("a process that starts while an integration is broken logs that once, and one that starts afterwards logs its recovery once", () => {
    const lines: Array<string> = []
    const logger = Logger.make(({ logLevel, message }) => {
      if (logLevel === "Warn" || logLevel === "Info") lines.push(String(message))
    })
    const models = ["ats.application", "ats.tag", "ats.offer"] as const
    const failures = [
      new Inactive({ code: "X", message: "reconnect it" }),
      new Transient({ code: "X", message: "status 500" })
    ]
    const logged = (process: Effect.Effect<void, StoreError, Capture>) =>
      Effect.gen(function*() {
        lines.length = 0
        yield* process.pipe(Effect.provide(capturing(models)), Effect.scoped)
        return lines.filter((line) => /stream|run failed/.test(line))
      })
    const run = (duration: Duration.Input) =>
      Effect.gen(function*() {
        const running = yield* Effect.forkChild((yield* Capture).run)
        yield* TestClock.adjust(duration)
        yield* Fiber.interrupt(running)
      })
    return Effect.forEach(failures, (failure) => {
      const api = Scripted.make()
      api.put(start, { id: "a", title: "x" })
      return Effect.gen(function*() {
        yield* TestClock.setTime(start)
        yield* logged(run("5 minutes"))
        api.intercept = () => Scripted.refuse(failure)
        const cause = failure._tag === "Inactive" ? "stream blocked: inactive" : "run failed"
        assert.deepStrictEqual(yield* logged(run("5 minutes")), [cause])
        assert.deepStrictEqual(yield* logged(run("1 hour")), [cause])
        api.intercept = (_, answer) => answer
        assert.deepStrictEqual(yield* logged(run("1 hour")), ["stream recovered"])
        assert.deepStrictEqual(yield* logged(run("1 hour")), [])
      }).pipe(Effect.provide(Layer.merge(Scripted.layer(api), MemoryStore.layer())))
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  for (
    const [name, reason, after] of [
      ["unsupported", new Unsupported({ code: "X", message: "m" }), "1 day"],
      ["permission", new Forbidden({ code: "X", message: "m" }), "15 minutes"],
      ["key", new Unauthorized({ code: "X", message: "m" }), "5 minutes"],
      ["inactive", new Inactive({ code: "X", message: "m" }), "15 minutes"],
      ["not_ready", new NotReady({ code: "X", message: "m" }), "1 minute"]
    ] as const
  ) {
    it.effect(`a stream blocked by ${name} is probed after ${after}, infers no deletes, keeps its watermark and then continues (C1, C4, C5)`, () =>
      running(["ats.application"], function*(api) {
        yield* TestClock.adjust("5 minutes")
        const before = yield* stateOf("ats.application")
        api.intercept = () => Scripted.refuse(reason)
        yield* TestClock.adjust("2 minutes")
        const blocked = yield* stateOf("ats.application")
        assert.strictEqual(blocked.blocked?.reason, name)
        assert.isAtLeast(blocked.watermark!, before.watermark!)
        const requests = api.requests.length
        yield* TestClock.adjust(Duration.times(Duration.fromInputUnsafe(after), 3))
        assert.isAtMost(api.requests.length - requests, 4)
        assert.strictEqual((yield* stateOf("ats.application")).watermark, blocked.watermark)
        api.intercept = (_, answer) => answer
        yield* TestClock.adjust(Duration.times(Duration.fromInputUnsafe(after), 2))
        assert.isNull((yield* stateOf("ats.application")).blocked)
        const store = yield* Store
        assert.strictEqual((yield* store.readLog({ after: 0, limit: 10 })).length, 2)
        assert.deepStrictEqual(yield* store.pendingRows({ limit: 10 }), [])
      }))
  }

  it.effect("a blocked stream is probed at once after a restart, because the cause may have been repaired (C4)", () =>
    running(["ats.application"], function*(api, started) {
      api.intercept = () => Scripted.refuse(new Unauthorized({ code: "X", message: "m" }))
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual((yield* stateOf("ats.application")).blocked?.reason, "key")
      yield* Fiber.interrupt(started)
      api.intercept = (_, answer) => answer
      yield* Effect.gen(function*() {
        const capture = yield* Capture
        yield* Effect.forkChild(capture.run)
        yield* TestClock.adjust("1 second")
        assert.isNull((yield* stateOf("ats.application")).blocked)
      }).pipe(Effect.provide(Layer.fresh(capturing(["ats.application"]))))
    }))

  it.effect("a blocked stream is read normally after an operator's poll succeeds, without waiting for its probe (C1)", () =>
    running(["ats.application"], function*(api) {
      api.intercept = () => Scripted.refuse(new Unsupported({ code: "X", message: "m" }))
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual((yield* stateOf("ats.application")).blocked?.reason, "unsupported")
      api.intercept = (_, answer) => answer
      const capture = yield* Capture
      yield* capture.poll({ integration, model: "ats.application" })
      const before = api.requests.length
      yield* TestClock.adjust("10 minutes")
      assert.isAtLeast(api.requests.length - before, 9)
    }))

  it.effect("an API that ignores `updated_after` and returns the whole list is noticed, and polls run less often (W12)", () =>
    running(["ats.application"], function*(api) {
      for (let i = 0; i < 300; i++) api.put(start - 30 * 86_400_000, { id: `r${i}`, title: "z" })
      yield* TestClock.adjust("7 hours")
      assert.isUndefined((yield* stateOf("ats.application")).pollsReturn)
      const ignore = (ignored: boolean) => {
        for (const held of api.rows.values()) held.matchedAt = ignored ? Infinity : 0
      }
      const polls = Effect.fnUntraced(function*(time: Duration.Input) {
        const from = api.requests.length
        yield* TestClock.adjust(time)
        return api.requests.slice(from).filter((request) => request.updatedAfter !== null && request.cursor === null)
          .length
      })
      ignore(true)
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual((yield* stateOf("ats.application")).pollsReturn, "everything")
      assert.isAtMost(yield* polls("1 hour"), 7)
      const store = yield* Store
      assert.strictEqual((yield* store.logRange).newest, 302)
      ignore(false)
      yield* TestClock.adjust("12 minutes")
      assert.isUndefined((yield* stateOf("ats.application")).pollsReturn)
      assert.isAtLeast(yield* polls("1 hour"), 50)
    }))

  it.effect("polls that return [] although a sweep finds changes are noticed, and sweeps run more often until polls work (C6)", () =>
    running(["ats.application"], function*(api) {
      yield* TestClock.adjust("10 minutes")
      api.intercept = (request, answer) =>
        request.updatedAfter === null ? answer : { ...answer, results: [], next: null }
      api.put(start + 10 * 60_000, { id: "a", title: "late" })
      yield* TestClock.adjust("6 hours")
      assert.strictEqual((yield* stateOf("ats.application")).pollsReturn, "nothing")
      const store = yield* Store
      assert.strictEqual((yield* store.readLog({ after: 0, limit: 10 })).at(-1)!.origin, "sweep")
      const from = api.requests.length
      api.put(start + 6 * 3_600_000, { id: "b", title: "late" })
      yield* TestClock.adjust("3 hours")
      const sweeps = api.requests.slice(from).filter((request) => request.updatedAfter === null)
      assert.isAtLeast(sweeps.length, 2)
      api.intercept = (_, answer) => answer
      api.put(start + 9 * 3_600_000, { id: "a", title: "in time" })
      yield* TestClock.adjust("2 minutes")
      assert.isUndefined((yield* stateOf("ats.application")).pollsReturn)
    }))

  it.effect("a stream with unreadable rows is blocked with the reason and loses nothing, while other streams continue (S2)", () =>
    running(["ats.application", "ats.tag"], function*(api) {
      yield* TestClock.adjust("5 minutes")
      const before = yield* stateOf("ats.application")
      for (let i = 0; i < 20; i++) api.put(start + 5 * 60_000, { id: `r${i}`, title: "new" })
      api.intercept = (request, answer) =>
        request.model === "ats.tag"
          ? answer
          : { ...answer, results: answer.results.map((row) => ({ ...row as object, id: null })) }
      yield* TestClock.adjust("10 minutes")
      const blocked = yield* stateOf("ats.application")
      assert.strictEqual(blocked.blocked?.reason, "unreadable")
      assert.include(blocked.blocked?.message, "of 22 rows")
      assert.isAtMost(blocked.watermark! - before.watermark!, 2 * 60_000)
      assert.isNull((yield* stateOf("ats.tag")).blocked)
      assert.isAtLeast((yield* stateOf("ats.tag")).watermark! - before.watermark!, 8 * 60_000)
      api.intercept = (_, answer) => answer
      yield* TestClock.adjust("20 minutes")
      assert.isNull((yield* stateOf("ats.application")).blocked)
      const store = yield* Store
      const events = yield* store.readLog({ after: 0, limit: 100, models: ["ats.application"] })
      assert.strictEqual(events.length, 22)
    }))

  it.effect("a stream that fails or hangs never delays another stream (R3)", () =>
    running(["ats.application", "ats.offer", "ats.tag"], function*(api) {
      yield* TestClock.adjust("5 minutes")
      const before = yield* stateOf("ats.tag")
      api.intercept = (request, answer) =>
        request.model === "ats.offer"
          ? Scripted.refuse(new Transient({ code: null, message: "500" }))
          : request.model === "ats.application"
          ? Effect.never
          : answer
      yield* TestClock.adjust("10 minutes")
      assert.isAtLeast((yield* stateOf("ats.tag")).watermark! - before.watermark!, 8 * 60_000)
      assert.isAtLeast((yield* stateOf("ats.offer")).failing!.count, 3)
      assert.isNull((yield* stateOf("ats.offer")).blocked)
    }))

  it.effect("a second instance fences the first, whose next commit has no effect and stops it (X9)", () =>
    running(["ats.application"], function*(api, fiber) {
      const store = yield* Store
      yield* TestClock.adjust("5 minutes")
      yield* takeStreams
      const before = yield* stateOf("ats.application")
      api.put(start + 5 * 60_000, { id: "c", title: "z" })
      yield* TestClock.adjust("2 minutes")
      assert.strictEqual((yield* Effect.flip(Fiber.join(fiber))).reason._tag, "Fenced")
      assert.deepStrictEqual(yield* stateOf("ats.application"), before)
      assert.strictEqual((yield* store.logRange).newest, 2)
    }))

  it.effect("reading pauses while too many events are unpublished, and resumes when they are published (X10)", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(start)
      const api = Scripted.make()
      for (let i = 0; i < 20; i++) api.put(start, { id: `r${i}` })
      yield* Effect.gen(function*() {
        const store = yield* Store
        const capture = yield* Capture
        yield* Effect.forkChild(capture.run)
        yield* TestClock.adjust("10 minutes")
        const before = yield* stateOf("ats.application")
        assert.isNull(before.lastPoll)
        yield* store.saveReaderPosition(yield* store.takeOwnership("relay"), "relay", 20)
        yield* TestClock.adjust("10 minutes")
        assert.isAbove((yield* stateOf("ats.application")).watermark!, before.watermark!)
      }).pipe(
        Effect.provide(
          capturing(["ats.application"], { backpressure: { reader: "relay", limit: 10 } }).pipe(
            Layer.provideMerge(Layer.merge(Scripted.layer(api), MemoryStore.layer()))
          )
        )
      )
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None")))

  it.effect("nothing is read while the store is unavailable, and every change is published once afterwards (X10)", () => {
    const lines: Array<string> = []
    const logger = Logger.make(({ message }) => {
      lines.push(String(message))
    })
    return Effect.gen(function*() {
      yield* TestClock.setTime(start)
      const api = Scripted.make()
      for (const id of ["a", "b"]) api.put(start, { id, title: "x" })
      let away = false
      const gone = new StoreError({ reason: new Unavailable({ operation: "transact", cause: new Error("away") }) })
      const flaky = Layer.effect(
        Store,
        Effect.map(Store, (store) =>
          Store.of({
            ...store,
            transact: (owner, key, body) =>
              Effect.suspend(() => away ? Effect.fail(gone) : store.transact(owner, key, body))
          }))
      ).pipe(Layer.provide(MemoryStore.layer()))
      yield* Effect.gen(function*() {
        const store = yield* Store
        const capture = yield* Capture
        yield* Effect.forkChild(capture.run)
        yield* TestClock.adjust("5 minutes")
        const before = yield* stateOf("ats.application")
        away = true
        api.put(start + 5 * 60_000, { id: "c", title: "y" })
        yield* TestClock.adjust("10 minutes")
        assert.deepStrictEqual(yield* stateOf("ats.application"), before)
        away = false
        yield* TestClock.adjust("2 minutes")
        assert.isAbove((yield* stateOf("ats.application")).watermark!, before.watermark!)
        const log = (yield* store.readLog({ after: 0, limit: 9 })).filter((entry) => entry.model === "ats.application")
        assert.deepStrictEqual(log.map((entry) => entry.id), ["a", "b", "c"])
        // the store itself logs its outage
        assert.deepStrictEqual(lines.filter((line) => line.includes("store")), [])
      }).pipe(
        Effect.provide(
          capturing(["ats.application", "ats.tag"]).pipe(
            Layer.provideMerge(Layer.merge(Scripted.layer(api), flaky))
          )
        )
      )
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.effect("a stream that is no longer configured is retired, and continues where it stopped when it is configured again", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(start)
      const api = Scripted.make()
      api.put(start, { id: "a" })
      const once = (models: ReadonlyArray<IncrementalModel>) =>
        Effect.flatMap(Capture, (capture) => capture.once).pipe(Effect.provide(capturing(models)))
      yield* Effect.gen(function*() {
        yield* once(["ats.application", "ats.tag"])
        const before = yield* stateOf("ats.tag")
        yield* once(["ats.application"])
        assert.deepStrictEqual(yield* stateOf("ats.tag"), { ...before, retired: true })
        assert.isFalse((yield* stateOf("ats.application")).retired ?? false)
        yield* once(["ats.tag"])
        assert.isFalse((yield* stateOf("ats.tag")).retired)
        assert.strictEqual((yield* stateOf("ats.tag")).backfillStartedAt, before.backfillStartedAt)
      }).pipe(Effect.provide(Layer.merge(Scripted.layer(api), MemoryStore.layer())))
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None")))

  it.effect("`once` reads every stream and returns those that failed", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(start)
      const api = Scripted.make()
      api.put(start, { id: "a" })
      api.intercept = (request, answer) =>
        request.model === "ats.offer"
          ? Scripted.refuse(new Forbidden({ code: "INTEGRATION.PERMISSION_MISSING", message: "403" }))
          : answer
      const problems = yield* Effect.flatMap(Capture, (capture) => capture.once).pipe(
        Effect.provide(capturing(["ats.application", "ats.offer"])),
        Effect.provide(Layer.merge(Scripted.layer(api), MemoryStore.layer()))
      )
      assert.deepStrictEqual(problems.map((problem) => problem.model), ["ats.offer"])
      assert.include(problems[0]!.problem, "scope configuration")
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None")))
})
