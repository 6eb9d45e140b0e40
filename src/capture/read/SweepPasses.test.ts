/** Lists ordered by `changed_at` whose cursor is a position: a record that changes moves to the end, and the rest shifts forward. */
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import { integration, running, stateOf, streamsOf } from "../../../test/support/capture/Capturing.ts"
import { type Rig, scenario, start } from "../../../test/support/capture/Rig.ts"
import * as Scripted from "../../../test/support/capture/ScriptedApi.ts"
import { completeTo } from "../../domain/Watermark.ts"
import { NotReady, Rejected, SourceError } from "../../source/Source.ts"
import type { StreamState } from "../../store/State.ts"
import { Store } from "../../store/Store.ts"
import { Capture } from "../schedule/Capture.ts"
import { nextStep } from "../schedule/NextStep.ts"
import { executeCommand } from "../schedule/StreamCommands.ts"
import { newRun } from "../StreamLifecycle.ts"
import { poll } from "./Poll.ts"
import { sweep } from "./Sweep.ts"
import { addPage } from "./SweepPasses.ts"

const ids = ["a", "b", "c", "d", "e", "f", "g", "h"]

/** Eight records that last changed a while ago, on pages of two. */
const listed = Effect.fnUntraced(function*(rig: Rig) {
  for (const id of ids) yield* rig.put({ id, title: "old" })
  yield* rig.wait("1 hour")
  rig.api.pageSize = 2
})

/** Changes a record, which moves to the end of its list. */
const move = Effect.fnUntraced(function*(rig: Rig, id: string) {
  rig.api.rows.delete(id)
  yield* rig.put({ id, title: "new" })
})

/** Reads one page of the open or due sweep; true = it was the last page. */
const page = (rig: Rig, stream = rig.stream) => sweep(stream, Effect.succeed(true))

/** The same stream in the next process. */
const restarted = Effect.fnUntraced(function*(rig: Rig) {
  const owner = yield* (yield* Store).takeOwnership("capture")
  return { ...rig.stream, owner }
})

/** Changes a record of a list that shows the newest changes first. */
const moveToFront = ({ api: { rows } }: Rig, id: string, changedAt: string) => {
  const held = rows.get(id)!
  const others = [...rows].filter(([other]) => other !== id)
  rows.clear()
  rows.set(id, { ...held, row: { ...held.row, changed_at: changedAt }, matchedAt: Date.parse(changedAt) })
  for (const [other, row] of others) rows.set(other, row)
}

const known = (rig: Rig) => Effect.map(rig.events, (events) => [...new Set(events.map(({ id }) => id))].sort())

const turnOf = (rig: Rig, state: StreamState) =>
  nextStep(
    { ...rig.stream, pollRequested: false, lastTried: "sweep", pollTook: 0, refreshOutcome: "done", jitter: 0 },
    state,
    state.lastSweep!.endedAt
  )

/** Moves a record that was already read, whenever the second page of a list is requested. */
const restless = (rig: Rig) => {
  rig.api.meanwhile = (request) => {
    if (request.cursor !== "2") return
    const [first] = rig.api.rows.keys()
    const held = rig.api.rows.get(first!)!
    rig.api.rows.delete(first!)
    const now = Date.parse("2026-03-01T13:00:00Z")
    rig.api.rows.set(first!, { ...held, row: { ...held.row, changed_at: new Date(now).toISOString() }, matchedAt: now })
  }
}

/** After the first page of a backfill its cursor expires and the list is empty, but records can still be read by id. */
const emptied = Effect.fnUntraced(function*(rig: Rig) {
  yield* listed(rig)
  yield* page(rig)
  rig.api.intercept = () =>
    Effect.fail(new SourceError({ reason: new Rejected({ code: null, message: "the cursor expired" }) }))
  yield* Effect.exit(page(rig))
  rig.api.intercept = (request, answer) => request.ids === null ? { ...answer, results: [], next: null } : answer
})

/** Asserts that the backfill lacks the record `h`, and that the next poll finds it and completes the backfill. */
const isCompleteAfterPoll = Effect.fnUntraced(function*(rig: Rig) {
  assert.notInclude(yield* known(rig), "h")
  assert.deepStrictEqual([(yield* rig.state).phase, completeTo(yield* rig.state)], ["backfilling", null])
  rig.api.meanwhile = () => {}
  yield* rig.poll
  assert.include(yield* known(rig), "h")
  assert.strictEqual((yield* rig.state).phase, "live")
  assert.isNotNull(completeTo(yield* rig.state))
})

describe("Possible gaps", () => {
  for (const what of ["moves behind the cursor", "leaves the list, so that no row that was read changes"]) {
    it.effect(`a backfill that a restart interrupts is neither live nor complete before another pass, because a record ${what} (P9)`, () =>
      scenario(function*(rig) {
        yield* listed(rig)
        yield* page(rig)
        // while the process is down, something happens to a record that was already read
        yield* rig.wait("1 minute")
        if (what === "moves behind the cursor") yield* move(rig, "a")
        else rig.api.vanish("a")
        const next = yield* restarted(rig)
        while (!(yield* page(rig, next))) yield* rig.wait("1 second")
        assert.deepStrictEqual(yield* known(rig), ids.filter((id) => id !== "c"), "c slid past the cursor")
        const state = yield* rig.state
        assert.deepStrictEqual([state.phase, completeTo(state)], ["backfilling", null])
        assert.strictEqual(turnOf(rig, state).kind, "sweep", "at once")
        while (!(yield* page(rig, next))) yield* rig.wait("1 second")
        assert.deepStrictEqual(yield* known(rig), ids)
        yield* poll(next)
        const c = (yield* rig.events).find(({ id }) => id === "c")!
        assert.deepStrictEqual([c.kind, c.origin, c.transitions], ["created", "backfill", "[]"])
        const after = yield* rig.state
        assert.strictEqual(after.phase, "live")
        assert.isNotNull(completeTo(after))
      }))
  }

  it.effect("a pass of a backfill without rows is repeated if confirmations find records (P9)", () =>
    scenario(function*(rig) {
      yield* emptied(rig)
      while (!(yield* page(rig)));
      const state = yield* rig.state
      assert.deepStrictEqual([state.phase, completeTo(state), state.backfilledAt], ["backfilling", null, null])
      assert.strictEqual(turnOf(rig, state).kind, "sweep", "at once")
      rig.api.intercept = (_, answer) => answer
      while (!(yield* page(rig)));
      assert.deepStrictEqual(yield* known(rig), ids)
      yield* rig.poll
      assert.strictEqual((yield* rig.state).phase, "live")
    }))

  it.effect("a list that always hides records from a backfill is read at most four times (P9)", () =>
    scenario(function*(rig) {
      yield* emptied(rig)
      let passes = 0
      for (; (yield* rig.state).backfilledAt === null; passes++) while (!(yield* page(rig)));
      assert.strictEqual(passes, 4)
    }))

  it.effect("a backfill is complete after the following poll, because a record that changes may move in front of the cursor (P9)", () =>
    scenario(function*(rig) {
      yield* listed(rig)
      rig.api.meanwhile = (request) => {
        if (request.cursor === "2") moveToFront(rig, "h", "2026-03-01T13:00:00Z")
      }
      yield* rig.sweep
      yield* isCompleteAfterPoll(rig)
    }))

  it.effect("a backfill is complete after two polls if the first one has several pages: the record may move again meanwhile (P9, W6)", () =>
    scenario(function*(rig) {
      yield* listed(rig)
      rig.api.meanwhile = (request) => {
        if (request.cursor === "2") moveToFront(rig, "h", "2026-03-01T13:00:00Z")
      }
      yield* rig.sweep
      for (const id of ["a", "b"]) moveToFront(rig, id, "2026-03-01T13:00:01Z")
      rig.api.meanwhile = (request) => {
        if (request.cursor === "2") moveToFront(rig, "h", "2026-03-01T13:00:02Z")
      }
      yield* rig.poll
      yield* isCompleteAfterPoll(rig)
    }))

  it.effect("a backfill without changes has one pass, however many pages it has, and a list of one page is live after it (P9)", () =>
    scenario(function*(rig) {
      yield* listed(rig)
      yield* rig.sweep
      assert.strictEqual(rig.api.requests.length, 4)
      yield* rig.poll
      assert.strictEqual((yield* rig.state).phase, "live")
      yield* executeCommand(rig.stream, { kind: "backfill" })
      rig.api.pageSize = 250
      yield* rig.sweep
      assert.strictEqual((yield* rig.state).phase, "live")
    }))

  it.effect("a backfill of a list that changes all the time ends with its second pass (P9)", () =>
    scenario(function*(rig) {
      yield* listed(rig)
      restless(rig)
      yield* rig.sweep
      assert.deepStrictEqual([(yield* rig.state).phase, (yield* known(rig)).length], ["backfilling", 7])
      yield* rig.sweep
      for (let polls = 0; polls < 2; polls++) yield* rig.poll
      assert.deepStrictEqual([(yield* rig.state).phase, (yield* known(rig)).length], ["live", 8])
      assert.strictEqual((yield* rig.state).lastSweep?.pass, 2)
    }))

  it.effect("a long pause between two pages is a possible gap, and a backfill with pauses in every pass ends with the fourth (P9)", () =>
    scenario(function*(rig) {
      yield* listed(rig)
      for (const pass of [1, 2, 3, 4]) {
        while (!(yield* page(rig))) yield* rig.wait("6 minutes")
        yield* rig.poll
        assert.strictEqual((yield* rig.state).phase, pass < 4 ? "backfilling" : "live")
      }
    }))

  it.effect("a pass that a restart interrupts never completes a backfill (P9)", () =>
    scenario(function*(rig) {
      yield* listed(rig)
      for (let pass = 1; pass <= 6; pass++) {
        yield* page(rig, yield* restarted(rig))
        const next = yield* restarted(rig)
        while (!(yield* page(rig, next)));
        assert.strictEqual((yield* rig.state).phase, "backfilling")
      }
      const last = yield* restarted(rig)
      yield* sweep(last, Effect.succeed(false))
      yield* poll(last)
      assert.strictEqual((yield* rig.state).phase, "live")
    }))

  it.effect("a pass whose cursor expired starts again at the first page and keeps its number (P5, P9)", () =>
    scenario(function*(rig) {
      yield* listed(rig)
      restless(rig)
      yield* rig.sweep
      rig.api.intercept = (request, answer) =>
        request.cursor === "4"
          ? Scripted.refuse(new Rejected({ code: null, message: "expired" }))
          : answer
      yield* Effect.flip(rig.sweep)
      assert.isNull((yield* rig.state).sweep)
      rig.api.intercept = (_, answer) => answer
      yield* rig.sweep
      for (let polls = 0; polls < 2; polls++) yield* rig.poll
      const state = yield* rig.state
      assert.deepStrictEqual([state.phase, state.lastSweep?.pass], ["live", 2])
    }))

  it.effect("a later sweep that a restart interrupts is repeated once, at once, and the stream stays complete meanwhile (P9)", () =>
    scenario(function*(rig) {
      yield* listed(rig)
      yield* rig.sweep
      yield* rig.poll
      yield* rig.wait("6 hours")
      const before = completeTo(yield* rig.state)
      let stream = rig.stream
      for (const again of [true, false]) {
        yield* page(rig, stream)
        stream = yield* restarted(rig)
        while (!(yield* page(rig, stream)));
        const state = yield* rig.state
        assert.deepStrictEqual([state.phase, completeTo(state), state.lastSweep?.mustRepeat], ["live", before, again])
        const { kind } = nextStep(
          { ...rig.stream, pollRequested: false, lastTried: "sweep", pollTook: 0, refreshOutcome: "done", jitter: 0 },
          { ...state, lastPoll: { ...state.lastSweep!, kind: "poll" } },
          state.lastSweep!.endedAt
        )
        assert.strictEqual(kind, again ? "sweep" : "wait")
      }
    }))

  it.effect("a later sweep during which records change is not repeated, because polls return them (P9)", () =>
    scenario(function*(rig) {
      yield* listed(rig)
      yield* rig.sweep
      restless(rig)
      yield* rig.sweep
      const { lastSweep } = yield* rig.state
      assert.deepStrictEqual([lastSweep?.possibleGap, lastSweep?.mustRepeat], ["change", false])
    }))

  it.effect("a new backfill that is requested during a repeated pass counts its passes from one (P9)", () =>
    scenario(function*(rig) {
      yield* listed(rig)
      restless(rig)
      yield* rig.sweep
      yield* page(rig)
      yield* executeCommand(rig.stream, { kind: "backfill" })
      yield* rig.sweep
      assert.deepStrictEqual([(yield* rig.state).backfilledAt, (yield* rig.state).lastSweep?.pass], [null, undefined])
      yield* rig.sweep
      assert.isNotNull((yield* rig.state).backfilledAt)
    }))

  it.effect("a backfill that a version without shards began is read again, even if the epochs of both processes are equal (P9)", () =>
    scenario(function*(rig) {
      yield* listed(rig)
      yield* page(rig)
      const owner = yield* (yield* Store).takeOwnership("capture/22")
      assert.strictEqual(owner.epoch, rig.stream.owner.epoch)
      while (!(yield* page(rig, { ...rig.stream, owner })));
      const { backfilledAt, lastSweep } = yield* rig.state
      assert.deepStrictEqual([backfilledAt, lastSweep?.possibleGap], [null, "restart"])
    }))

  it.effect("a backfill is complete only after a following poll, even if our clock was set back since the last poll (W4, P9)", () =>
    scenario(function*(rig) {
      yield* listed(rig)
      yield* page(rig)
      yield* rig.poll
      yield* TestClock.setTime((yield* rig.state).lastPoll!.endedAt - Duration.toMillis("3 minutes"))
      while (!(yield* page(rig)));
      const state = yield* rig.state
      assert.isNotNull(state.backfilledAt)
      assert.deepStrictEqual([state.phase, completeTo(state)], ["backfilling", null])
      yield* rig.poll
      assert.strictEqual((yield* rig.state).phase, "live")
    }))

  it.effect("a large step back of our clock between two pages counts as a long pause (W4)", () =>
    scenario(function*(rig) {
      const state = yield* rig.state
      const run = {
        ...newRun(state, "sweep", { updatedAfter: null, startedAt: 0, backfill: true }),
        pages: 2,
        lastPageAt: Duration.toMillis("1 hour"),
        lastPageOwner: rig.stream.owner
      }
      const page = { results: [], next: "x", serverTime: 0, requestedAt: 0, duration: 0 }
      const at = (now: number) =>
        addPage(run, page, { watermark: 0, newestRun: 0, now, owner: rig.stream.owner }).possibleGap
      assert.deepStrictEqual([at(Duration.toMillis("61 minutes")), at(0)], [undefined, "pause"])
    }))

  it.effect("`start --once` ends with a live stream although every page of the list comes after a pause (P9)", () =>
    running(["ats.application"], function*(api, started) {
      yield* Fiber.interrupt(started)
      api.pageSize = 1
      const capture = yield* Capture
      yield* capture.execute({ integration, model: "ats.application" }, { kind: "backfill" })
      yield* TestClock.adjust("1 hour")
      api.intercept = (request, answer) =>
        Effect.as(Effect.sleep(request.updatedAfter === null ? "6 minutes" : 0), answer)
      const from = api.requests.length
      const once = yield* Effect.forkChild(capture.once)
      yield* TestClock.adjust("3 hours")
      assert.deepStrictEqual(yield* Fiber.join(once), [])
      const whole = api.requests.slice(from).filter(({ ids, updatedAfter }) => ids === null && updatedAfter === null)
      assert.strictEqual(whole.length, 4 * 2)
      assert.strictEqual((yield* stateOf("ats.application")).phase, "live")
    }))

  for (const between of ["pause", "block", "rewind", "take out"] as const) {
    it.effect(`a backfill ends although its second pass is interrupted by: ${between} (P9)`, () =>
      running(["ats.application"], function*(api) {
        const key = { integration, model: "ats.application" } as const
        const capture = yield* Capture
        api.pageSize = 1
        yield* TestClock.adjust("5 minutes")
        api.meanwhile = ({ cursor }) => {
          if (cursor === "1") api.put(start, { id: "b", title: "moves", changed_at: "2026-03-02T12:00:00.000Z" })
        }
        api.intercept = (request, answer) =>
          Effect.as(Effect.sleep(request.updatedAfter === null ? "10 seconds" : 0), answer)
        yield* capture.execute(key, { kind: "backfill" })
        for (let second = 0; second < 60; second++) {
          if ((yield* stateOf("ats.application")).lastSweep?.mustRepeat !== true) yield* TestClock.adjust("1 second")
        }
        assert.isTrue((yield* stateOf("ats.application")).lastSweep?.mustRepeat)
        switch (between) {
          case "pause":
            yield* capture.execute(key, { kind: "pause" })
            yield* TestClock.adjust("1 hour")
            yield* capture.execute(key, { kind: "resume" })
            break
          case "block": {
            const { intercept } = api
            api.intercept = () => Scripted.refuse(new NotReady({ code: null, message: "not yet" }))
            yield* TestClock.adjust("1 hour")
            assert.strictEqual((yield* stateOf("ats.application")).phase, "backfilling")
            api.intercept = intercept
            break
          }
          case "rewind":
            yield* capture.execute(key, { kind: "rewind", to: start })
            break
          case "take out":
            yield* capture.assign(new Map([[integration, []]]))
            yield* TestClock.adjust("1 hour")
            yield* capture.assign(new Map([[integration, streamsOf(["ats.application"])]]))
        }
        for (let second = 0; second < 300; second++) yield* TestClock.adjust("1 second")
        const state = yield* stateOf("ats.application")
        // if the second pass had started, it now contains a long pause
        const passes = between === "pause" || between === "block" ? 3 : 2
        assert.deepStrictEqual([state.phase, state.lastSweep?.pass, state.lastSweep?.mustRepeat], [
          "live",
          passes,
          false
        ])
        assert.isNotNull(completeTo(state))
      }))
  }
})
