import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { TestClock } from "effect/testing"
import type { IncrementalModel } from "../../../src/api/Lists.ts"
import { Capture, type CaptureOptions, layer } from "../../../src/capture/Capture.ts"
import type { Act } from "../../../src/capture/Operation.ts"
import type { StreamSettings } from "../../../src/capture/StreamState.ts"
import {
  Inactive,
  KeyRefused,
  NotReady,
  type PageRequest,
  PermissionMissing,
  Source,
  type SourceError,
  Transient,
  Unsupported
} from "../../../src/source/Source.ts"
import * as Sqlite from "../../../src/store/Sqlite.ts"
import { Store, StoreError, Unavailable } from "../../../src/store/Store.ts"
import { start } from "./Rig.ts"
import * as Scripted from "./ScriptedApi.ts"

const integration = "greenhouse:acme"
const settings: CaptureOptions = { overlapMin: Duration.minutes(5), confirmInterval: Duration.minutes(10) }

const streamsOf = (models: ReadonlyArray<IncrementalModel>): ReadonlyArray<StreamSettings> =>
  models.map((model) => ({
    integration,
    model,
    account: "default",
    interval: Duration.minutes(1),
    sweepInterval: Duration.hours(6)
  }))

/** Capture that is assigned these models. */
const capturing = (models: ReadonlyArray<IncrementalModel>, more: Partial<CaptureOptions> = {}) =>
  Layer.effectDiscard(Effect.flatMap(Capture, (capture) => capture.assign(integration, streamsOf(models)))).pipe(
    Layer.provideMerge(layer({ ...settings, ...more }))
  )

const running = <A, E>(
  models: ReadonlyArray<IncrementalModel>,
  test: (
    api: Scripted.ScriptedApi,
    started: Fiber.Fiber<never, StoreError>
  ) => Effect.Effect<A, E, Capture | Store | Source>
) => {
  const api = Scripted.make()
  const infrastructure = Layer.merge(Scripted.layer(api), Sqlite.layer({ file: ":memory:" }))
  return Effect.gen(function*() {
    yield* TestClock.setTime(start)
    api.put(start, { id: "a", title: "x" })
    api.put(start, { id: "b", title: "y" })
    return yield* Effect.gen(function*() {
      const capture = yield* Capture
      const fiber = yield* Effect.forkChild(capture.run)
      yield* TestClock.adjust("1 second")
      return yield* test(api, fiber)
    }).pipe(Effect.provide(capturing(models).pipe(Layer.provideMerge(infrastructure))))
  }).pipe(Effect.provideService(References.MinimumLogLevel, "None"))
}

const stateOf = (model: IncrementalModel) =>
  Effect.flatMap(Store, (store) => Effect.map(store.stream({ integration, model }), (state) => state!))

describe("Capture", () => {
  it.effect("backfills, polls every interval and sweeps every sweep interval", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
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
      })
    ))

  for (
    const [name, reason, after] of [
      ["unsupported", new Unsupported({ code: "X", message: "m" }), "1 day"],
      ["permission", new PermissionMissing({ code: "X", message: "m" }), "15 minutes"],
      ["key", new KeyRefused({ code: "X", message: "m" }), "5 minutes"],
      ["inactive", new Inactive({ code: "X", message: "m" }), "15 minutes"],
      ["not_ready", new NotReady({ code: "X", message: "m" }), "1 minute"]
    ] as const
  ) {
    it.effect(`C1, C4, C5: ${name} blocks the stream: probed after ${after}, no deletes, the watermark stays, then it goes on`, () =>
      running(
        ["ats.application"],
        Effect.fnUntraced(function*(api) {
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
          api.intercept = (_, answer) => Effect.succeed(answer)
          yield* TestClock.adjust(Duration.times(Duration.fromInputUnsafe(after), 2))
          assert.isNull((yield* stateOf("ats.application")).blocked)
          const store = yield* Store
          assert.strictEqual((yield* store.log({ after: 0, limit: 10 })).length, 2)
        })
      ))
  }

  it.effect("C1: a blocked stream that an operator could poll is read as ever, not only from its probe on", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        api.intercept = () => Scripted.refuse(new Unsupported({ code: "X", message: "m" }))
        yield* TestClock.adjust("2 minutes")
        assert.strictEqual((yield* stateOf("ats.application")).blocked?.reason, "unsupported")
        api.intercept = (_, answer) => Effect.succeed(answer)
        const capture = yield* Capture
        yield* capture.poll({ integration, model: "ats.application" })
        const before = api.requests.length
        yield* TestClock.adjust("10 minutes")
        assert.isAtLeast(api.requests.length - before, 9)
      })
    ))

  it.effect("W4: streams are polled and swept at once when our own clock was set back, then as ever", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api, started) {
        yield* TestClock.adjust("7 hours")
        yield* Fiber.interrupt(started)
        api.skew = 7 * 3_600_000
        yield* TestClock.setTime(start)
        const before = api.requests.length
        const capture = yield* Capture
        yield* Effect.forkChild(capture.run)
        yield* TestClock.adjust("1 second")
        yield* TestClock.adjust("10 minutes")
        const since = api.requests.slice(before)
        const polls = since.filter((request) => request.updatedAfter !== null).length
        assert.isAtLeast(polls, 9)
        assert.isAtMost(polls, 12)
        assert.strictEqual(since.length - polls, 1)
      })
    ))

  for (
    const [how, reason] of [
      ["failed", new Transient({ code: null, message: "502" })],
      ["was blocked", new PermissionMissing({ code: null, message: "403" })]
    ] as const
  ) {
    it.effect(`W4: a stream that ${how} before our own clock was set back is read again as soon as ever`, () =>
      running(
        ["ats.application"],
        Effect.fnUntraced(function*(api, started) {
          yield* TestClock.adjust("7 hours")
          api.intercept = () => Scripted.refuse(reason)
          yield* TestClock.adjust("2 minutes")
          yield* Fiber.interrupt(started)
          api.intercept = (_, answer) => Effect.succeed(answer)
          api.skew = 7 * 3_600_000
          yield* TestClock.setTime(start)
          const before = api.requests.length
          const capture = yield* Capture
          yield* Effect.forkChild(capture.run)
          yield* TestClock.adjust("1 second")
          yield* TestClock.adjust("20 minutes")
          assert.isAtLeast(api.requests.length - before, 5)
        })
      ))
  }

  it.effect("C5: an integration that is not ready at the start is never read as empty", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        yield* TestClock.adjust("1 minute")
        assert.strictEqual((yield* stateOf("ats.application")).phase, "live")
        api.intercept = () => Scripted.refuse(new NotReady({ code: "X", message: "m" }))
        yield* TestClock.adjust("1 hour")
        const store = yield* Store
        assert.deepStrictEqual(yield* store.pendingRows({ limit: 10 }), [])
      })
    ))

  it.effect("W12: where `updated_after` is ignored and everything comes back, that is noticed and polls come less often", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        for (let i = 0; i < 300; i++) api.put(start - 30 * 86_400_000, { id: `r${i}`, title: "z" })
        yield* TestClock.adjust("7 hours")
        assert.isUndefined((yield* stateOf("ats.application")).polls)
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
        assert.strictEqual((yield* stateOf("ats.application")).polls, "everything")
        assert.isAtMost(yield* polls("1 hour"), 7)
        const store = yield* Store
        assert.strictEqual((yield* store.logRange).newest, 302)
        ignore(false)
        yield* TestClock.adjust("12 minutes")
        assert.isUndefined((yield* stateOf("ats.application")).polls)
        assert.isAtLeast(yield* polls("1 hour"), 50)
      })
    ))

  it.effect("C6: polls that are answered [] although a sweep finds changes are noticed; sweeps come more often until polls work", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        yield* TestClock.adjust("10 minutes")
        api.intercept = (request, answer) =>
          Effect.succeed(request.updatedAfter === null ? answer : { ...answer, results: [], next: null })
        api.put(start + 10 * 60_000, { id: "a", title: "late" })
        yield* TestClock.adjust("6 hours")
        assert.strictEqual((yield* stateOf("ats.application")).polls, "nothing")
        const store = yield* Store
        assert.strictEqual((yield* store.log({ after: 0, limit: 10 })).at(-1)!.origin, "sweep")
        const from = api.requests.length
        api.put(start + 6 * 3_600_000, { id: "b", title: "late" })
        yield* TestClock.adjust("3 hours")
        const sweeps = api.requests.slice(from).filter((request) => request.updatedAfter === null)
        assert.isAtLeast(sweeps.length, 2)
        api.intercept = (_, answer) => Effect.succeed(answer)
        api.put(start + 9 * 3_600_000, { id: "a", title: "in time" })
        yield* TestClock.adjust("2 minutes")
        assert.isUndefined((yield* stateOf("ats.application")).polls)
      })
    ))

  it.effect("S2: a stream whose rows are unreadable stops and says why, loses nothing, and the others go on", () =>
    running(
      ["ats.application", "ats.tag"],
      Effect.fnUntraced(function*(api) {
        yield* TestClock.adjust("5 minutes")
        const before = yield* stateOf("ats.application")
        for (let i = 0; i < 20; i++) api.put(start + 5 * 60_000, { id: `r${i}`, title: "new" })
        api.intercept = (request, answer) =>
          Effect.succeed(
            request.model === "ats.tag"
              ? answer
              : { ...answer, results: answer.results.map((row) => ({ ...row as object, id: null })) }
          )
        yield* TestClock.adjust("10 minutes")
        const blocked = yield* stateOf("ats.application")
        assert.strictEqual(blocked.blocked?.reason, "unreadable")
        assert.include(blocked.blocked?.message, "of 22 rows")
        assert.isAtMost(blocked.watermark! - before.watermark!, 2 * 60_000)
        assert.isNull((yield* stateOf("ats.tag")).blocked)
        assert.isAtLeast((yield* stateOf("ats.tag")).watermark! - before.watermark!, 8 * 60_000)
        api.intercept = (_, answer) => Effect.succeed(answer)
        yield* TestClock.adjust("20 minutes")
        assert.isNull((yield* stateOf("ats.application")).blocked)
        const store = yield* Store
        const events = yield* store.log({ after: 0, limit: 100, model: "ats.application" })
        assert.strictEqual(events.length, 22)
      })
    ))

  it.effect("R3: a stream that fails, or hangs, never delays another", () =>
    running(
      ["ats.application", "ats.offer", "ats.tag"],
      Effect.fnUntraced(function*(api) {
        yield* TestClock.adjust("5 minutes")
        const before = yield* stateOf("ats.tag")
        api.intercept = (request, answer): Effect.Effect<typeof answer, SourceError> =>
          request.model === "ats.offer"
            ? Scripted.refuse(new Transient({ code: null, message: "500" }))
            : request.model === "ats.application"
            ? Effect.never
            : Effect.succeed(answer)
        yield* TestClock.adjust("10 minutes")
        assert.isAtLeast((yield* stateOf("ats.tag")).watermark! - before.watermark!, 8 * 60_000)
        assert.isAtLeast((yield* stateOf("ats.offer")).failing!.count, 3)
        assert.isNull((yield* stateOf("ats.offer")).blocked)
      })
    ))

  it.effect("a sweep gives way to polls that are due and goes on after them", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        for (let i = 0; i < 20; i++) api.put(start, { id: `r${i}`, title: "z" })
        yield* TestClock.adjust("5 hours")
        api.pageSize = 1
        const before = api.requests.length
        api.intercept = (_, answer) => Effect.delay(Effect.succeed(answer), "20 seconds")
        yield* TestClock.adjust("2 hours")
        const kinds = api.requests.slice(before).map((request) => request.updatedAfter === null ? "s" : "p").join("")
        assert.match(kinds, /s+p+s+p+s/)
      })
    ))

  it.effect("W11: a stream that was away longer than the API remembers deletes sweeps before it polls", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api, fiber) {
        yield* TestClock.adjust("5 minutes")
        yield* Fiber.interrupt(fiber)
        yield* TestClock.adjust("15 days")
        const before = api.requests.length
        const capture = yield* Capture
        yield* Effect.forkChild(capture.run)
        yield* TestClock.adjust("1 second")
        assert.isNull(api.requests[before]!.updatedAfter)
      })
    ))

  it.effect("W11: a sweep that was left open before such an absence begins anew: what it had met may be gone", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api, fiber) {
        yield* TestClock.adjust("5 minutes")
        api.pageSize = 1
        api.intercept = (request, answer) =>
          request.cursor === null
            ? Effect.succeed(answer)
            : Scripted.refuse(new Transient({ code: null, message: "502" }))
        const capture = yield* Capture
        yield* capture.operate({ integration, model: "ats.application" }, { act: "sweep" })
        yield* TestClock.adjust("30 seconds")
        assert.strictEqual((yield* stateOf("ats.application")).sweep?.cursor, "1")
        yield* Fiber.interrupt(fiber)
        yield* TestClock.adjust("15 days")
        api.vanish("a")
        api.intercept = (_, answer) => Effect.succeed(answer)
        const before = api.requests.length
        yield* Effect.forkChild(capture.run)
        yield* TestClock.adjust("1 minute")
        const { cursor, updatedAfter } = api.requests.slice(before).find(({ ids }) => ids === null)!
        assert.deepStrictEqual([updatedAfter, cursor], [null, null])
        const store = yield* Store
        const pending = yield* store.pendingRows({ limit: 10 })
        assert.deepStrictEqual(pending.map(({ id, status }) => [id, status]), [["a", "absent"]])
      })
    ))

  it.effect("I1: where polls are refused for ever, sweeps go on, and end, and find what changed", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
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
          const events = (yield* store.log({ after: 0, limit: 10 })).filter(({ id }) => id === "a")
          assert.strictEqual(JSON.parse(events.at(-1)!.after!).title, title)
          const after = yield* stateOf("ats.application")
          assert.isAbove(after.lastSweep!.endedAt, before.lastSweep!.endedAt)
          assert.strictEqual(after.watermark, before.watermark)
        }
      })
    ))

  it.effect("X9: a second instance fences the first, whose next commit changes nothing and ends it", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api, fiber) {
        const store = yield* Store
        yield* TestClock.adjust("5 minutes")
        yield* store.claim("capture")
        const before = yield* stateOf("ats.application")
        api.put(start + 5 * 60_000, { id: "c", title: "z" })
        yield* TestClock.adjust("2 minutes")
        assert.strictEqual((yield* Effect.flip(Fiber.join(fiber))).reason._tag, "Fenced")
        assert.deepStrictEqual(yield* stateOf("ats.application"), before)
        assert.strictEqual((yield* store.logRange).newest, 2)
      })
    ))

  it.effect("X10: reading waits while too much is unpublished, and goes on when it is published", () =>
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
        yield* store.saveReaderPosition(yield* store.claim("relay"), "relay", 20)
        yield* TestClock.adjust("10 minutes")
        assert.isAbove((yield* stateOf("ats.application")).watermark!, before.watermark!)
      }).pipe(
        Effect.provide(
          capturing(["ats.application"], { backPressure: { reader: "relay", limit: 10 } }).pipe(
            Layer.provideMerge(Layer.merge(Scripted.layer(api), Sqlite.layer({ file: ":memory:" })))
          )
        )
      )
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None")))

  it.effect("X10: while the store is away nothing moves, which is told once; afterwards everything is there, once", () => {
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
      ).pipe(Layer.provide(Sqlite.layer({ file: ":memory:" })))
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
        assert.include((yield* capture.heldUp) ?? "", "its disk has room")
        away = false
        yield* TestClock.adjust("2 minutes")
        assert.isNull(yield* capture.heldUp)
        assert.isAbove((yield* stateOf("ats.application")).watermark!, before.watermark!)
        const log = (yield* store.log({ after: 0, limit: 9 })).filter((entry) => entry.model === "ats.application")
        assert.deepStrictEqual(log.map((entry) => entry.id), ["a", "b", "c"])
        assert.deepStrictEqual(lines.filter((line) => line.startsWith("store ")), [
          "store unavailable",
          "store available again"
        ])
      }).pipe(
        Effect.provide(
          capturing(["ats.application", "ats.tag"]).pipe(
            Layer.provideMerge(Layer.merge(Scripted.layer(api), flaky))
          )
        )
      )
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.effect("a stream that is no longer configured is retired, and goes on where it stopped when it is again", () =>
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
      }).pipe(Effect.provide(Layer.merge(Scripted.layer(api), Sqlite.layer({ file: ":memory:" }))))
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None")))

  it.effect("once reads every stream and names those that could not be read", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(start)
      const api = Scripted.make()
      api.put(start, { id: "a" })
      api.intercept = (request, answer) =>
        request.model === "ats.offer"
          ? Scripted.refuse(new PermissionMissing({ code: "INTEGRATION.PERMISSION_MISSING", message: "403" }))
          : Effect.succeed(answer)
      const problems = yield* Effect.flatMap(Capture, (capture) => capture.once).pipe(
        Effect.provide(capturing(["ats.application", "ats.offer"])),
        Effect.provide(Layer.merge(Scripted.layer(api), Sqlite.layer({ file: ":memory:" })))
      )
      assert.deepStrictEqual(problems.map((problem) => problem.model), ["ats.offer"])
      assert.include(problems[0]!.problem, "scope configuration")
    }).pipe(Effect.provideService(References.MinimumLogLevel, "None")))
})

describe("what an operator asks for", () => {
  const key = { integration, model: "ats.application" } as const
  const operate = (act: Act) => Effect.flatMap(Capture, (capture) => capture.operate(key, act))

  it.effect("pause leaves the stream alone for as long as it takes, resume reads it at once", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        yield* operate({ act: "pause" })
        yield* TestClock.adjust("1 second")
        const before = api.requests.length
        yield* TestClock.adjust("3 hours")
        assert.strictEqual(api.requests.length, before)
        const refused = yield* Effect.flip(operate({ act: "poll" }))
        assert.strictEqual(refused.message, "the stream is paused")
        yield* operate({ act: "resume" })
        yield* TestClock.adjust("1 second")
        assert.isAbove(api.requests.length, before)
        const audited = yield* Effect.flatMap(Store, (store) => store.audited(10))
        assert.deepStrictEqual(audited.map(({ act, target }) => [act, target]), [
          ["streams.resume", "greenhouse:acme/ats.application"],
          ["streams.pause", "greenhouse:acme/ats.application"]
        ])
      })
    ))

  it.effect("who waits for a reading of a stream that is taken out is told, and the stream goes at once", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        const capture = yield* Capture
        api.intercept = () => Effect.never
        const waiting = yield* Effect.forkChild(Effect.flip(capture.audit(key)))
        yield* TestClock.adjust("1 second")
        yield* capture.assign(integration, [])
        const error = yield* Fiber.join(waiting)
        assert.strictEqual(error.message, "there is no stream greenhouse:acme/ats.application")
      })
    ))

  it.effect("poll and resume try a blocked stream at once", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        api.intercept = () => Scripted.refuse(new Unsupported({ code: "X", message: "m" }))
        yield* TestClock.adjust("3 minutes")
        assert.strictEqual((yield* stateOf("ats.application")).blocked?.reason, "unsupported")
        api.intercept = (_, answer) => Effect.succeed(answer)
        yield* operate({ act: "poll" })
        yield* TestClock.adjust("1 second")
        assert.isNull((yield* stateOf("ats.application")).blocked)
      })
    ))

  it.effect("sweep begins a full reading anew, in place of one that is open", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        yield* TestClock.adjust("5 minutes")
        api.pageSize = 1
        let pages = 0
        api.meanwhile = (request) => {
          if (request.updatedAfter === null && request.ids === null) pages++
        }
        api.intercept = (request, answer) =>
          Effect.as(Effect.sleep(request.updatedAfter === null ? "10 seconds" : 0), answer)
        yield* operate({ act: "sweep" })
        yield* TestClock.adjust("5 seconds")
        const first = (yield* stateOf("ats.application")).sweep?.id
        yield* operate({ act: "sweep" })
        const second = (yield* stateOf("ats.application")).sweep?.id
        assert.notStrictEqual(second, first)
        yield* TestClock.adjust("2 minutes")
        const state = yield* stateOf("ats.application")
        assert.isNull(state.sweep)
        assert.strictEqual(state.lastSweep?.id, second)
        assert.isAtLeast(pages, 3)
      })
    ))

  it.effect("B3: what a new backfill finds is old, what comes after it is not; the watermark stays", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        yield* TestClock.adjust("26 hours")
        const { watermark } = yield* stateOf("ats.application")
        const asked = start + Duration.toMillis("26 hours")
        api.put(asked - 1, { id: "shown", remote_created_at: "2026-03-01T13:00:00.000Z" }, { silent: true })
        api.rows.get("shown")!.matchedAt = 0
        yield* operate({ act: "backfill" })
        yield* TestClock.adjust("10 seconds")
        const state = yield* stateOf("ats.application")
        assert.isAtLeast(state.watermark!, watermark!)
        assert.isNotNull(state.backfilledAt)
        api.put(asked + 10_000, { id: "hired", remote_created_at: new Date(asked + 10_000).toISOString() })
        yield* TestClock.adjust("2 minutes")
        const store = yield* Store
        const origins = new Map((yield* store.log({ after: 0, limit: 100 })).map(({ id, origin }) => [id, origin]))
        assert.deepStrictEqual([origins.get("shown"), origins.get("hired")], ["backfill", "poll"])
      })
    ))

  for (const act of ["sweep", "backfill"] as const) {
    it.effect(`a ${act} asked for while the first page of another reading is on its way is a reading of its own`, () =>
      running(
        ["ats.application"],
        Effect.fnUntraced(function*(api) {
          for (const under of ["poll", "sweep"] as const) {
            const isIt = (request: PageRequest) => (request.updatedAfter === null) === (under === "sweep")
            api.intercept = (request, answer) => Effect.as(Effect.sleep(isIt(request) ? "10 seconds" : 0), answer)
            const from = api.requests.length
            while (!api.requests.slice(from).some(isIt)) yield* TestClock.adjust("1 second")
            const before = api.requests.length
            const { sweep: asked } = yield* operate({ act })
            yield* TestClock.adjust("2 minutes")
            const whole = api.requests.slice(before).filter(({ ids, updatedAfter }) =>
              ids === null && updatedAfter === null
            )
            assert.strictEqual(whole.length, 1)
            const state = yield* stateOf("ats.application")
            assert.deepStrictEqual([state.sweep, state.lastSweep?.id], [null, asked?.id])
            assert.strictEqual(state.lastSweep?.backfill, act === "backfill")
            assert.isNotNull(state.backfilledAt)
          }
        })
      ))
  }

  for (const under of ["poll", "backfill"] as const) {
    it.effect(`B3: a ${under} under way when a new backfill is asked for meets old records as old`, () =>
      running(
        ["ats.application"],
        Effect.fnUntraced(function*(api) {
          const isIt = (request: PageRequest) =>
            under === "poll" ? request.updatedAfter !== null : request.cursor !== null
          api.put(start, { id: "c" })
          api.pageSize = 2
          if (under === "poll") yield* TestClock.adjust("1 hour")
          const store = yield* Store
          let underWay = false
          api.meanwhile = (request) => {
            if (underWay || !isIt(request)) return
            underWay = true
            api.put(start, { id: "late", outcome: "HIRED" })
            api.rows.get("late")!.matchedAt = Infinity
          }
          api.intercept = (request, answer) => Effect.as(Effect.sleep(isIt(request) ? "10 seconds" : 0), answer)
          while (!underWay) yield* TestClock.adjust("1 second")
          yield* operate({ act: "backfill" })
          yield* TestClock.adjust("5 minutes")
          const late = (yield* store.log({ after: 0, limit: 10 })).filter(({ id }) => id === "late")
          assert.deepStrictEqual(
            late.map(({ origin, transitions, version }) => [version, origin, transitions]),
            [[1, "backfill", "[]"]]
          )
        })
      ))
  }

  it.effect("rewind reads again from a time on, and publishes only what was not published", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        yield* TestClock.adjust("2 hours")
        const store = yield* Store
        const { newest } = yield* store.logRange
        // a change that no poll was ever shown
        const lost = start + Duration.toMillis("1 hour")
        api.put(lost, { id: "a", title: "lost" })
        yield* TestClock.adjust("10 minutes")
        assert.strictEqual((yield* store.logRange).newest, newest)
        const later = yield* Effect.flip(operate({ act: "rewind", to: lost + Duration.toMillis("30 days") }))
        assert.match(later.message, /after its watermark/)
        yield* operate({ act: "rewind", to: lost - 60_000 })
        yield* TestClock.adjust("1 second")
        const entries = yield* store.log({ after: newest, limit: 10 })
        assert.deepStrictEqual(entries.map(({ id, kind, origin }) => [id, kind, origin]), [["a", "updated", "poll"]])
        const { previous, watermark } = yield* stateOf("ats.application")
        assert.isBelow(previous!, watermark!)
      })
    ))

  it.effect("audit tells what differs, and not what is pending or published meanwhile", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api) {
        const capture = yield* Capture
        for (const id of ["c", "d", "e"]) api.put(start + 1_000, { id, title: id })
        yield* TestClock.adjust("10 minutes")
        assert.deepStrictEqual(yield* capture.audit(key), {
          read: 5,
          pending: {},
          quarantined: 0,
          differing: 0,
          differences: []
        })
        api.put(start, { id: "a", title: "unannounced" }, { silent: true })
        api.put(start, { id: "new", title: "unannounced" })
        api.vanish("c")
        api.rows.get("d")!.row = { ...api.rows.get("d")!.row, remote_deleted_at: "2026-03-01T12:00:00.000Z" }
        api.meanwhile = (request) => {
          // changed after its page was read, announced: the closing poll publishes it
          if (request.updatedAfter === null && request.ids === null) {
            api.put(start + Duration.toMillis("10 minutes"), { id: "e", title: "changed" })
          }
        }
        const before = (yield* (yield* Store).logRange).newest
        const report = yield* capture.audit(key)
        assert.strictEqual(report.differing, 4)
        assert.deepStrictEqual(report.differences, [
          { id: "a", what: "content", paths: ["/title"] },
          { id: "d", what: "gone", paths: [] },
          { id: "new", what: "unknown", paths: [] },
          { id: "c", what: "gone", paths: [] }
        ])
        const published = yield* (yield* Store).log({ after: before, limit: 10 })
        assert.deepStrictEqual(published.map(({ id }) => id), ["e"])
      })
    ))

  it.effect("X7: a decision is carried out as soon as it is written down, and by the next process if this one ended before", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*(api, started) {
        const store = yield* Store
        const approve = Effect.fnUntraced(function*() {
          const [hold] = yield* store.holds({ states: ["open"], limit: 1 })
          yield* store.decide(hold!.id, { state: "approving", release: { origin: null, silent: false } }, start)
          return hold!.id
        })
        const state = (id: number) => Effect.map(store.hold(id), (hold) => hold?.state)
        api.flag(start, "a")
        api.flag(start, "b")
        yield* TestClock.adjust("2 minutes")
        const deletes = yield* approve()
        yield* Effect.yieldNow
        yield* TestClock.adjust("10 millis")
        assert.strictEqual(yield* state(deletes), "approved")

        for (const id of ["a", "b"]) api.put(start + 120_000, { id, title: "back" })
        yield* TestClock.adjust("2 minutes")
        yield* Fiber.interrupt(started)
        const restores = yield* approve()
        assert.strictEqual(yield* state(restores), "approving")
        const next = yield* Layer.build(capturing(["ats.application"]))
        yield* Effect.forkChild(Context.get(next, Capture).run)
        yield* TestClock.adjust("10 millis")
        assert.strictEqual(yield* state(restores), "approved")
        const events = yield* store.log({ after: 2, limit: 10 })
        assert.deepStrictEqual(events.map(({ id, kind }) => `${kind} ${id}`), [
          "deleted a",
          "deleted b",
          "created a",
          "created b"
        ])
      }, Effect.scoped)
    ))

  it.effect("a stream that is not read is told", () =>
    running(
      ["ats.application"],
      Effect.fnUntraced(function*() {
        const capture = yield* Capture
        const error = yield* Effect.flip(capture.operate({ integration, model: "ats.tag" }, { act: "poll" }))
        assert.strictEqual(error.message, "there is no stream greenhouse:acme/ats.tag")
      })
    ))
})
