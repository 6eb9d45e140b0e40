import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { type Rig, scenario, start } from "../../../test/support/capture/Rig.ts"
import { refuse } from "../../../test/support/capture/ScriptedApi.ts"
import { completeTo } from "../../domain/Watermark.ts"
import { Rejected, Transient } from "../../source/Source.ts"

const minute = 60_000

/** Changes a record of a list in the order of changes: it moves to the end. */
const moveToEnd = ({ api }: Rig, now: number, id: string) => {
  api.vanish(id)
  api.put(now, { id, title: `changed at ${now}` })
}

/** Puts three records a minute after the backfill; a poll reads them on three pages. */
const putOnThreePages = Effect.fnUntraced(function*(rig: Rig) {
  yield* rig.backfill({ id: "zero" })
  for (const id of ["a", "b", "c"]) yield* rig.put({ id })
  rig.api.pageSize = 1
})

describe("Poll", () => {
  it.effect("a row updated after its page was read is published once, by the next poll (W1)", () =>
    scenario(function*(rig) {
      yield* rig.fill(...["a", "b", "c"].map((id) => ({ id, outcome: "PENDING" })))
      rig.api.pageSize = 1
      yield* rig.wait("1 minute")
      for (const id of ["a", "b", "c"]) yield* rig.put({ id, outcome: "DECLINED" })
      const second = rig.api.requests.length + 2
      rig.api.meanwhile = (_, count) => {
        if (count === second) rig.api.put(start + minute, { id: "a", outcome: "HIRED" })
      }
      yield* rig.poll
      yield* rig.wait("1 minute")
      yield* rig.poll
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "updated 2", "updated 3"])
    }))

  it.effect("the watermark is the Date of the first response, however long the poll takes (W1)", () =>
    scenario(function*(rig) {
      yield* putOnThreePages(rig)
      rig.api.intercept = (request, answer) => ({
        ...answer,
        serverTime: answer.serverTime! + Number(request.cursor ?? 0) * 10_000
      })
      yield* rig.poll
      assert.strictEqual((yield* rig.state).watermark, start + minute - 1000)
    }))

  it.effect("rows with the same timestamp on both sides of a page boundary and of a poll boundary are all read (W2, W8)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "zero" })
      rig.api.pageSize = 2
      yield* rig.wait("1 minute")
      yield* rig.change(...["a", "b", "c"].map((id) => ({ id })))
      rig.api.put(start + minute, { id: "d" })
      yield* rig.wait("1 minute")
      yield* rig.poll
      for (const id of ["a", "b", "c", "d"]) assert.deepStrictEqual(yield* rig.kinds(id), ["created 1"])
    }))

  it.effect("a record that becomes visible after its own timestamp is found thanks to the overlap (W3)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "zero" })
      yield* rig.put({ id: "late" }, { visibleAfter: 4 * minute })
      for (let i = 0; i < 6; i++) {
        yield* rig.wait("1 minute")
        yield* rig.poll
      }
      assert.deepStrictEqual(yield* rig.kinds("late"), ["created 1"])
    }))

  for (const skew of [-2 * minute, 2 * minute]) {
    it.effect(`a client clock that is off by ${-skew / 1000} s loses no change (W4)`, () =>
      scenario(function*(rig) {
        rig.api.skew = skew
        yield* rig.fill({ id: "zero" })
        for (let i = 0; i < 12; i++) {
          yield* rig.wait("1 minute")
          yield* rig.change({ id: `r${i}` })
          assert.deepStrictEqual(yield* rig.kinds(`r${i}`), ["created 1"])
        }
        const { watermark } = yield* rig.state
        assert.isAtMost(watermark!, start + 12 * minute + skew)
      }))
  }

  it.effect("a record that shifting pages hide from the first poll after three days of downtime is found by the second (W6, P1)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "zero" })
      yield* rig.wait("1 day")
      for (const id of ["a", "b", "c", "d"]) yield* rig.put({ id })
      yield* rig.wait("2 days")
      rig.api.pageSize = 2
      rig.api.intercept = (request, answer) =>
        request.cursor === "2" ? { ...answer, results: answer.results.slice(1) } : answer
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("b"), [])
      rig.api.intercept = (_, answer) => answer
      yield* rig.wait("1 minute")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("b"), ["created 1"])
    }))

  it.effect("complete_to does not pass a record that shifting pages hide from the first two polls after a day of downtime (P1, W6)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "zero" })
      for (let polls = 0; polls < 2; polls++) {
        yield* rig.wait("1 hour")
        yield* rig.poll
      }
      yield* rig.wait("1 day")
      const createdAt = yield* Clock.currentTimeMillis
      for (const id of ["a", "b", "c", "d"]) yield* rig.put({ id })
      yield* rig.wait("1 hour")
      rig.api.pageSize = 2
      // a, b | c, d becomes b, c, d, a: c is on a page that the poll has passed
      rig.api.meanwhile = ({ cursor }) => cursor === "2" && moveToEnd(rig, createdAt + 60 * minute, "a")
      yield* rig.poll
      assert.isBelow(completeTo(yield* rig.state)!, createdAt)
      // b, d | a, e | c becomes d, a, e, c, b
      for (const id of ["e", "c"]) moveToEnd(rig, createdAt + 60 * minute, id)
      rig.api.meanwhile = ({ cursor }) => cursor === "4" && moveToEnd(rig, createdAt + 61 * minute, "b")
      yield* rig.wait("1 minute")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("c"), [])
      assert.isBelow(completeTo(yield* rig.state)!, createdAt)
      rig.api.meanwhile = () => {}
      yield* rig.wait("1 minute")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("c"), ["created 1"])
      assert.isAbove(completeTo(yield* rig.state)!, createdAt)
    }))

  it.effect("the watermark of a list that moves during every poll moves with every second poll (P1, I6)", () =>
    scenario(function*(rig) {
      yield* rig.fill(...["a", "b", "c"].map((id) => ({ id })))
      rig.api.pageSize = 2
      const watermarks: Array<number> = []
      for (let i = 1; i <= 4; i++) {
        yield* rig.wait("1 minute")
        rig.api.meanwhile = ({ cursor }) => {
          if (cursor === "2") moveToEnd(rig, start + i * minute, [...rig.api.rows.keys()][0]!)
        }
        yield* rig.poll
        watermarks.push((yield* rig.state).watermark! - start)
      }
      assert.deepStrictEqual(watermarks, [-1000, 2 * minute - 1000, 2 * minute - 1000, 4 * minute - 1000])
    }))

  it.effect("timestamps that are in the future, null or earlier than before do not affect the watermark and lose no change (W7)", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "a", changed_at: "2031-01-01T00:00:00.000Z" }, { id: "b", changed_at: null })
      yield* rig.put({ id: "a", outcome: "HIRED", changed_at: "2026-02-01T00:00:00.000Z" })
      yield* rig.put({ id: "b", outcome: "HIRED", changed_at: null })
      yield* rig.poll
      yield* rig.poll
      assert.isAtMost((yield* rig.state).watermark!, start + minute)
      assert.include(yield* rig.kinds("b"), "updated 2")
      assert.include(yield* rig.kinds("a"), "updated 2")
    }))

  it.effect("a cursor that repeats aborts the run, and the watermark stays (P4)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a" })
      const before = yield* rig.state
      yield* rig.wait("1 minute")
      rig.api.intercept = (_, answer) => ({ ...answer, next: "0" })
      const error = yield* Effect.flip(rig.poll)
      assert.include(String(error), "cursor")
      assert.strictEqual((yield* rig.state).watermark, before.watermark)
    }))

  it.effect("a list that never ends aborts the run although every cursor is new (P4)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a" })
      let count = 0
      rig.api.intercept = (_, answer) => ({ ...answer, results: [], next: `c${count++}` })
      assert.include(String(yield* Effect.flip(rig.poll)), "no new row")
      assert.isBelow(count, 200)
    }))

  it.effect("records whose ids UTF-8 cannot encode are quarantined instead of published repeatedly (S1)", () =>
    scenario(function*(rig) {
      yield* rig.fill(...["a\ud800", "a\ud801", "b"].map((id) => ({ id })))
      yield* rig.poll
      yield* rig.poll
      assert.deepStrictEqual((yield* rig.events).map(({ id, kind }) => `${id} ${kind}`), ["b created"])
      assert.strictEqual((yield* rig.state).lastPoll?.rowCounts.quarantined, 2)
    }))

  it.effect("a cursor that expires during the run restarts the run from its first page (P5)", () =>
    scenario(function*(rig) {
      yield* putOnThreePages(rig)
      let refused = false
      rig.api.intercept = (request, answer) => {
        if (request.cursor !== "1" || refused) return answer
        refused = true
        return refuse(new Rejected({ code: "PLATFORM.INPUT_INVALID", message: "400" }))
      }
      yield* rig.poll
      assert.isTrue(refused)
      for (const id of ["a", "b", "c"]) assert.deepStrictEqual(yield* rig.kinds(id), ["created 1"])
    }))

  it.effect("an empty page with a cursor is not the end of the list, and page sizes have no meaning (P6, P7)", () =>
    scenario(function*(rig) {
      yield* putOnThreePages(rig)
      rig.api.intercept = (request, answer) =>
        request.cursor === null ? { ...answer, results: [], next: "0x0" } : answer
      yield* rig.poll
      for (const id of ["a", "b", "c"]) assert.deepStrictEqual(yield* rig.kinds(id), ["created 1"])
    }))

  it.effect("an interrupted run keeps the watermark, and its committed changes are neither lost nor repeated", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "zero" })
      const before = yield* rig.state
      yield* rig.wait("1 minute")
      for (const id of ["a", "b", "c"]) yield* rig.put({ id })
      rig.api.pageSize = 1
      rig.api.intercept = (request, answer) =>
        request.cursor === "2" ? refuse(new Transient({ code: null, message: "502" })) : answer
      yield* Effect.flip(rig.poll)
      assert.strictEqual((yield* rig.state).watermark, before.watermark)
      rig.api.intercept = (_, answer) => answer
      yield* rig.poll
      for (const id of ["a", "b", "c"]) assert.deepStrictEqual(yield* rig.kinds(id), ["created 1"])
    }))

  it.effect("a change to or from null is published at the end of its run, a plain change at once", () =>
    scenario(function*(rig) {
      yield* rig.backfill(...["a", "b", "c"].map((id) => ({ id, title: "x", source: "y" })))
      yield* rig.put({ id: "a", title: null, source: "y" })
      yield* rig.put({ id: "b", title: "z", source: "y" })
      rig.api.pageSize = 2
      rig.api.intercept = (request, answer) =>
        request.cursor === null ? answer : refuse(new Transient({ code: null, message: "502" }))
      yield* Effect.flip(rig.poll)
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      assert.deepStrictEqual(yield* rig.kinds("b"), ["created 1", "updated 2"])
      assert.deepStrictEqual(yield* rig.pending, { a: "staged" })
      rig.api.intercept = (_, answer) => answer
      yield* rig.poll
      const last = (yield* rig.events).at(-1)!
      assert.deepStrictEqual(JSON.parse(last.changes), [{ path: "/title", before: "x", after: null }])
    }))

  it.effect("a record that does not match the schema is published, and counted by model and path (S1)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a", outcome: 7, job: { id: "j", name: { de: "Ada" } } }, { id: "b", outcome: "PENDING" })
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", outcome: 8, job: { id: "j", name: { de: "Ada" } } })
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "updated 2"])
      const drift = (yield* Metric.snapshot).filter((metric) => metric.id === "rollcall_schema_drift_total")
      const counted = drift.map(({ attributes, state }) => ({
        ...attributes,
        count: "count" in state ? state.count : 0
      }))
      assert.sameDeepMembers(
        counted,
        ["/job/name", "/outcome"].map((path) => ({ model: "ats.application", path, count: 2 }))
      )
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map())))

  it.effect("a record without an id, or nested too deeply, is quarantined, and the other rows of the page are committed (S1)", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "zero" })
      const nested = (levels: number) => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`)
      yield* rig.put({ id: "a", custom_fields: nested(98) })
      const withoutId = [{ title: "without id" }, null, 7, { id: 12 }]
      const tooDeep = [{ id: "b", custom_fields: nested(2_000) }, nested(2_000)]
      rig.api.intercept = (_, answer) => ({ ...answer, results: [...withoutId, ...tooDeep, ...answer.results] })
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      assert.strictEqual((yield* rig.state).lastPoll!.rowCounts.quarantined, 6)
    }))

  it.effect("a different order of keys or of a set-like array, or a changed_at alone, is not a change (S4, N2)", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "a", interviews: [{ id: "1", title: "x" }, { id: "2", title: "y" }], title: "t" })
      yield* rig.change({ title: "t", id: "a", interviews: [{ title: "y", id: "2" }, { id: "1", title: "x" }] })
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      assert.strictEqual((yield* rig.state).lastPoll!.rowCounts.equivalent, 1)
    }))

  it.effect("a different order of rows and pages has no effect (P8)", () =>
    scenario(function*(rig) {
      yield* rig.fill(...["a", "b", "c", "d"].map((id) => ({ id, title: id })))
      rig.api.pageSize = 2
      const rows = [...rig.api.rows].reverse()
      rig.api.rows.clear()
      for (const [id, held] of rows) rig.api.rows.set(id, held)
      yield* rig.wait("1 minute")
      yield* rig.poll
      yield* rig.sweep
      assert.strictEqual((yield* rig.events).length, 4)
      assert.deepStrictEqual(yield* rig.pending, {})
    }))
})
