import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import { capturing, integration, running, stateOf, streamsOf } from "../../../test/support/capture/Capturing.ts"
import { start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import { completeTo } from "../../domain/Watermark.ts"
import { type PageRequest, Unsupported } from "../../source/Source.ts"
import { Store } from "../../store/Store.ts"
import { Capture } from "./Capture.ts"
import type { StreamCommand } from "./StreamCommands.ts"

describe("operator commands", () => {
  const key = { integration, model: "ats.application" } as const
  const operate = (command: StreamCommand) => Effect.flatMap(Capture, (capture) => capture.execute(key, command))

  it.effect("a paused stream is not read until it is resumed, and is then read at once", () =>
    running(["ats.application"], function*(api) {
      yield* operate({ kind: "pause" })
      yield* TestClock.adjust("1 second")
      const before = api.requests.length
      yield* TestClock.adjust("3 hours")
      assert.strictEqual(api.requests.length, before)
      const refused = yield* Effect.flip(operate({ kind: "poll" }))
      assert.strictEqual(refused.message, "the stream is paused")
      yield* operate({ kind: "resume" })
      yield* TestClock.adjust("1 second")
      assert.isAbove(api.requests.length, before)
      const audited = yield* Effect.flatMap(Store, (store) => store.auditLog(10))
      assert.deepStrictEqual(audited.map(({ command, target }) => [command, target]), [
        ["streams.resume", "greenhouse:acme/ats.application"],
        ["streams.pause", "greenhouse:acme/ats.application"]
      ])
    }))

  it.effect("a stream is removed at once while an operator waits for its run, and the operator gets an error", () =>
    running(["ats.application"], function*(api) {
      const capture = yield* Capture
      api.intercept = () => Effect.never
      const waiting = yield* Effect.forkChild(Effect.flip(capture.audit(key)))
      yield* TestClock.adjust("1 second")
      yield* capture.assign(new Map([[integration, []]]))
      const error = yield* Fiber.join(waiting)
      assert.strictEqual(error.message, "stream greenhouse:acme/ats.application not found")
    }))

  it.effect("`poll` and `resume` try a blocked stream at once", () =>
    running(["ats.application"], function*(api) {
      api.intercept = () => Scripted.refuse(new Unsupported({ code: "X", message: "m" }))
      yield* TestClock.adjust("3 minutes")
      assert.strictEqual((yield* stateOf("ats.application")).blocked?.reason, "unsupported")
      api.intercept = (_, answer) => answer
      yield* operate({ kind: "poll" })
      yield* TestClock.adjust("1 second")
      assert.isNull((yield* stateOf("ats.application")).blocked)
    }))

  it.effect("`sweep` starts a new sweep, which replaces an open one", () =>
    running(["ats.application"], function*(api) {
      yield* TestClock.adjust("5 minutes")
      api.pageSize = 1
      let pages = 0
      api.meanwhile = (request) => {
        if (request.updatedAfter === null && request.ids === null) pages++
      }
      api.intercept = (request, answer) =>
        Effect.as(Effect.sleep(request.updatedAfter === null ? "10 seconds" : 0), answer)
      yield* operate({ kind: "sweep" })
      yield* TestClock.adjust("5 seconds")
      const first = (yield* stateOf("ats.application")).sweep?.id
      yield* operate({ kind: "sweep" })
      const second = (yield* stateOf("ats.application")).sweep?.id
      assert.notStrictEqual(second, first)
      yield* TestClock.adjust("2 minutes")
      const state = yield* stateOf("ats.application")
      assert.isNull(state.sweep)
      assert.strictEqual(state.lastSweep?.id, second)
      assert.isAtLeast(pages, 3)
    }))

  it.effect("a record that a new backfill finds is old, one created after it is not, and the watermark stays (B3)", () =>
    running(["ats.application"], function*(api) {
      yield* TestClock.adjust("26 hours")
      const { watermark } = yield* stateOf("ats.application")
      const requested = start + Duration.toMillis("26 hours")
      api.put(requested - 1, { id: "shown", remote_created_at: "2026-03-01T13:00:00.000Z" }, { silent: true })
      api.rows.get("shown")!.matchedAt = 0
      yield* operate({ kind: "backfill" })
      yield* TestClock.adjust("10 seconds")
      const state = yield* stateOf("ats.application")
      assert.isAtLeast(state.watermark!, watermark!)
      assert.isNotNull(state.backfilledAt)
      api.put(requested + 10_000, { id: "hired", remote_created_at: new Date(requested + 10_000).toISOString() })
      yield* TestClock.adjust("2 minutes")
      const store = yield* Store
      const origins = new Map((yield* store.readLog({ after: 0, limit: 100 })).map(({ id, origin }) => [id, origin]))
      assert.deepStrictEqual([origins.get("shown"), origins.get("hired")], ["backfill", "poll"])
    }))

  for (const command of ["sweep", "backfill"] as const) {
    it.effect(`a ${command} that is requested during the first page of another run has its own run`, () =>
      running(["ats.application"], function*(api) {
        for (const kind of ["poll", "sweep"] as const) {
          const isIt = (request: PageRequest) => (request.updatedAfter === null) === (kind === "sweep")
          api.intercept = (request, answer) => Effect.as(Effect.sleep(isIt(request) ? "10 seconds" : 0), answer)
          const from = api.requests.length
          while (!api.requests.slice(from).some(isIt)) yield* TestClock.adjust("1 second")
          const before = api.requests.length
          const { sweep: requested } = yield* operate({ kind: command })
          yield* TestClock.adjust("2 minutes")
          const whole = api.requests.slice(before).filter(({ ids, updatedAfter }) =>
            ids === null && updatedAfter === null
          )
          assert.strictEqual(whole.length, 1)
          const state = yield* stateOf("ats.application")
          assert.deepStrictEqual([state.sweep, state.lastSweep?.id], [null, requested?.id])
          assert.strictEqual(state.lastSweep?.backfill, command === "backfill")
          assert.isNotNull(state.backfilledAt)
        }
      }))
  }

  for (const kind of ["poll", "backfill"] as const) {
    it.effect(`a ${kind} in progress when a new backfill is requested classifies old records as old (B3)`, () =>
      running(["ats.application"], function*(api) {
        const isIt = (request: PageRequest) => kind === "poll" ? request.updatedAfter !== null : request.cursor !== null
        api.put(start, { id: "c" })
        api.pageSize = 2
        if (kind === "poll") yield* TestClock.adjust("1 hour")
        const store = yield* Store
        let inProgress = false
        api.meanwhile = (request) => {
          if (inProgress || !isIt(request)) return
          inProgress = true
          api.put(start, { id: "late", outcome: "HIRED" })
          api.rows.get("late")!.matchedAt = Infinity
        }
        api.intercept = (request, answer) => Effect.as(Effect.sleep(isIt(request) ? "10 seconds" : 0), answer)
        while (!inProgress) yield* TestClock.adjust("1 second")
        yield* operate({ kind: "backfill" })
        yield* TestClock.adjust("5 minutes")
        const late = (yield* store.readLog({ after: 0, limit: 10 })).filter(({ id }) => id === "late")
        assert.deepStrictEqual(
          late.map(({ origin, transitions, version }) => [version, origin, transitions]),
          [[1, "backfill", "[]"]]
        )
      }))
  }

  it.effect("`rewind` reads again from the given time, and publishes only unpublished changes", () =>
    running(["ats.application"], function*(api) {
      yield* TestClock.adjust("2 hours")
      const store = yield* Store
      const { newest } = yield* store.logRange
      // a change that no poll returned
      const lost = start + Duration.toMillis("1 hour")
      api.put(lost, { id: "a", title: "lost" })
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual((yield* store.logRange).newest, newest)
      const later = yield* Effect.flip(operate({ kind: "rewind", to: lost + Duration.toMillis("30 days") }))
      assert.match(later.message, /after the watermark/)
      // the time minus the overlap would be before 1970, which no request can express
      const earlier = yield* Effect.flip(operate({ kind: "rewind", to: -8.64e15 }))
      assert.match(earlier.message, /before 1970/)
      yield* operate({ kind: "rewind", to: lost - 60_000 })
      yield* TestClock.adjust("1 second")
      const entries = yield* store.readLog({ after: newest, limit: 10 })
      assert.deepStrictEqual(entries.map(({ id, kind, origin }) => [id, kind, origin]), [["a", "updated", "poll"]])
      const { previousWatermark, watermark } = yield* stateOf("ats.application")
      assert.isBelow(previousWatermark!, watermark!)
    }))

  it.effect("`rewind` does not set `complete_to` back, also not during another backfill (W15)", () =>
    running(["ats.application"], function*(api) {
      yield* TestClock.adjust("5 hours")
      const before = completeTo(yield* stateOf("ats.application"))!
      yield* operate({ kind: "rewind", to: start })
      assert.strictEqual(completeTo(yield* stateOf("ats.application")), before)
      const reported: Array<number> = []
      for (let minute = 0; minute < 20; minute++) {
        yield* TestClock.adjust("1 minute")
        reported.push(completeTo(yield* stateOf("ats.application"))!)
      }
      assert.deepStrictEqual(reported, [...reported].sort((a, b) => a - b))
      assert.isAtLeast(reported[0]!, before)
      assert.isAbove(reported.at(-1)!, before, "complete_to advances")

      const latest = reported.at(-1)!
      api.intercept = (request, answer) =>
        Effect.as(Effect.sleep(request.updatedAfter === null ? "30 seconds" : 0), answer)
      yield* operate({ kind: "backfill" })
      yield* operate({ kind: "rewind", to: start })
      assert.isNull(completeTo(yield* stateOf("ats.application")), "records may be missing until it is done")
      while (completeTo(yield* stateOf("ats.application")) === null) yield* TestClock.adjust("1 second")
      assert.isAtLeast(completeTo(yield* stateOf("ats.application"))!, latest)
    }))

  it.effect("`audit` reports the differences, without changes that are pending or published meanwhile", () =>
    running(["ats.application"], function*(api) {
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
      const published = yield* (yield* Store).readLog({ after: before, limit: 10 })
      assert.deepStrictEqual(published.map(({ id }) => id), ["e"])
    }))

  it.effect("`audit` is refused until the stream was read, and its hint says what reads it", () =>
    running(["ats.application"], function*(api) {
      api.intercept = () => Scripted.refuse(new Unsupported({ code: "X", message: "m" }))
      const { assign, audit } = yield* Capture
      yield* assign(new Map([[integration, streamsOf(["ats.application", "ats.offer"])]]))
      yield* TestClock.adjust("1 second")
      const offers = { integration, model: "ats.offer" } as const
      const refused = yield* Effect.flip(audit(offers))
      assert.deepInclude(refused, {
        _tag: "CommandRefused",
        message: "the stream has not been read yet",
        hint: "its first backfill starts automatically"
      })
      yield* Effect.flatMap(Capture, (capture) => capture.execute(offers, { kind: "pause" }))
      assert.deepInclude(yield* Effect.flip(audit(offers)), { hint: "resume the stream first" })
      const { auditLog } = yield* Store
      assert.notInclude((yield* auditLog(10)).map(({ command }) => command), "streams.audit")
    }))

  it.effect("the audit log has an `audit` when it starts, and its outcome when it ends, fails or is interrupted", () =>
    running(["ats.application"], function*(api) {
      const { assign, audit } = yield* Capture
      yield* TestClock.adjust("10 minutes")
      const logged = Effect.map(
        Effect.flatMap(Store, (store) => store.auditLog(10)),
        (entries) => entries.map(({ command, detail, target }) => [command, target, detail].join(" ")).toReversed()
      )
      const entry = (detail: string) => `streams.audit greenhouse:acme/ats.application ${detail}`
      api.put(start, { id: "a", title: "unannounced" }, { silent: true })
      api.intercept = (_, answer) => Effect.delay(Effect.succeed(answer), "10 seconds")
      const auditing = yield* Effect.forkChild(audit(key))
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(yield* logged, [entry("started")])
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(auditing)
      assert.deepStrictEqual(yield* logged, [entry("started"), entry("1 of 2 records differ")])
      api.intercept = () => Scripted.refuse(new Unsupported({ code: "X", message: "m" }))
      const failing = yield* Effect.forkChild(Effect.flip(audit(key)))
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(failing)
      assert.deepStrictEqual((yield* logged).slice(2), [entry("started"), entry("not completed")])
      api.intercept = () => Effect.never
      const interrupted = yield* Effect.forkChild(Effect.flip(audit(key)))
      yield* TestClock.adjust("1 second")
      yield* assign(new Map([[integration, []]]))
      yield* Fiber.join(interrupted)
      assert.deepStrictEqual((yield* logged).slice(4), [entry("started"), entry("not completed")])
    }))

  it.effect("a decision is carried out as soon as it is stored, or by the next process if this one ends before (X7)", () =>
    running(["ats.application"], function*(api, started) {
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
      const events = yield* store.readLog({ after: 2, limit: 10 })
      assert.deepStrictEqual(events.map(({ id, kind }) => `${kind} ${id}`), [
        "deleted a",
        "deleted b",
        "created a",
        "created b"
      ])
    }))

  it.effect("a decision is carried out even if many others wait for streams that are no longer read (X7)", () =>
    running(["ats.application"], function*(api) {
      const store = yield* Store
      const owner = (yield* Capture).ownerOf(integration)
      const approve = (id: number) =>
        store.decide(id, { state: "approving", release: { origin: null, silent: false } }, start)
      api.flag(start, "a")
      api.flag(start, "b")
      yield* TestClock.adjust("2 minutes")
      const [hold] = yield* store.holds({ states: ["open"], limit: 1 })
      const { id, integration: _, model: __, rows: ___, ...opened } = hold!
      const left = { integration, model: "ats.tag" } as const
      yield* store.ensureStreams([{ ...yield* stateOf("ats.application"), ...left, retired: true }])
      yield* store.transact(
        owner,
        left,
        (tx) => Effect.forEach(Array.from({ length: 250 }), () => tx.openHold(opened), { discard: true })
      )
      const others = yield* store.holds({ states: ["open"], limit: 250 })
      yield* Effect.forEach(others, (other) => approve(other.id), { discard: true })
      yield* approve(id)
      yield* TestClock.adjust("10 millis")
      assert.strictEqual((yield* store.hold(id))?.state, "approved")
      assert.strictEqual((yield* store.hold(others[0]!.id))?.state, "approving")
    }))

  it.effect("a command for a stream that is not read fails", () =>
    running(["ats.application"], function*() {
      const capture = yield* Capture
      const error = yield* Effect.flip(capture.execute({ integration, model: "ats.tag" }, { kind: "poll" }))
      assert.strictEqual(error.message, "stream greenhouse:acme/ats.tag not found")
    }))
})
