import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { Rejected, Transient } from "../../../src/source/Source.ts"
import { scenario, start } from "./Rig.ts"
import { refuse } from "./ScriptedApi.ts"

const minute = 60_000

describe("Poll", () => {
  it.effect("W1: a row updated after its page was read is found by the next poll, once", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      for (const id of ["a", "b", "c"]) yield* rig.put({ id, outcome: "PENDING" })
      yield* rig.sweep
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
    })))

  it.effect("W1: the watermark is the Date of the first answer, however long the poll pages", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "zero" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      for (const id of ["a", "b", "c"]) yield* rig.put({ id })
      rig.api.pageSize = 1
      rig.api.intercept = (request, answer) =>
        Effect.succeed({ ...answer, serverTime: answer.serverTime! + Number(request.cursor ?? 0) * 10_000 })
      yield* rig.poll
      assert.strictEqual((yield* rig.state).watermark, start + minute - 1000)
    })))

  it.effect("W2, W8: rows of one timestamp on both sides of a page edge and of a poll edge are all seen", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "zero" })
      yield* rig.sweep
      rig.api.pageSize = 2
      yield* rig.wait("1 minute")
      for (const id of ["a", "b", "c"]) yield* rig.put({ id })
      yield* rig.poll
      rig.api.put(start + minute, { id: "d" })
      yield* rig.wait("1 minute")
      yield* rig.poll
      for (const id of ["a", "b", "c", "d"]) assert.deepStrictEqual(yield* rig.kinds(id), ["created 1"])
    })))

  it.effect("W3: a record that becomes visible after its own timestamp is found by the margin", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "zero" })
      yield* rig.sweep
      yield* rig.put({ id: "late" }, { visibleAfter: 4 * minute })
      for (let i = 0; i < 6; i++) {
        yield* rig.wait("1 minute")
        yield* rig.poll
      }
      assert.deepStrictEqual(yield* rig.kinds("late"), ["created 1"])
    })))

  for (const skew of [-2 * minute, 2 * minute]) {
    it.effect(`W4: a client clock that is off by ${-skew / 1000} s loses nothing`, () =>
      scenario(Effect.fnUntraced(function*(rig) {
        rig.api.skew = skew
        yield* rig.put({ id: "zero" })
        yield* rig.sweep
        for (let i = 0; i < 12; i++) {
          yield* rig.wait("1 minute")
          yield* rig.put({ id: `r${i}` })
          yield* rig.poll
          assert.deepStrictEqual(yield* rig.kinds(`r${i}`), ["created 1"])
        }
        const { watermark } = yield* rig.state
        assert.isAtMost(watermark!, start + 12 * minute + skew)
      })))
  }

  it.effect("W6, P1: after three days down, a record that the first poll skips by drift is found by the second", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "zero" })
      yield* rig.sweep
      yield* rig.wait("1 day")
      for (const id of ["a", "b", "c", "d"]) yield* rig.put({ id })
      yield* rig.wait("2 days")
      rig.api.pageSize = 2
      rig.api.intercept = (request, answer) =>
        Effect.succeed(request.cursor === "2" ? { ...answer, results: answer.results.slice(1) } : answer)
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("b"), [])
      rig.api.intercept = (_, answer) => Effect.succeed(answer)
      yield* rig.wait("1 minute")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("b"), ["created 1"])
    })))

  it.effect("W7: timestamps in the future, null or going back leave the watermark alone and lose nothing", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a", changed_at: "2031-01-01T00:00:00.000Z" })
      yield* rig.put({ id: "b", changed_at: null })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", outcome: "HIRED", changed_at: "2026-02-01T00:00:00.000Z" })
      yield* rig.put({ id: "b", outcome: "HIRED", changed_at: null })
      yield* rig.poll
      yield* rig.poll
      assert.isAtMost((yield* rig.state).watermark!, start + minute)
      assert.include(yield* rig.kinds("b"), "updated 2")
      assert.include(yield* rig.kinds("a"), "updated 2")
    })))

  it.effect("P4: a cursor that repeats aborts the reading, the watermark stays", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a" })
      yield* rig.sweep
      const before = yield* rig.state
      yield* rig.wait("1 minute")
      rig.api.intercept = (_, answer) => Effect.succeed({ ...answer, next: "0" })
      const error = yield* Effect.flip(rig.poll)
      assert.include(String(error), "cursor")
      assert.strictEqual((yield* rig.state).watermark, before.watermark)
    })))

  it.effect("P4: a list that never ends aborts although every cursor is new", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a" })
      yield* rig.sweep
      let count = 0
      rig.api.intercept = (_, answer) => Effect.succeed({ ...answer, results: [], next: `c${count++}` })
      assert.include(String(yield* Effect.flip(rig.poll)), "nothing new")
      assert.isBelow(count, 200)
    })))

  it.effect("S1: of records whose ids no UTF-8 can say nothing is published again and again; they are set aside", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      for (const id of ["a\ud800", "a\ud801", "b"]) yield* rig.put({ id })
      yield* rig.sweep
      yield* rig.poll
      yield* rig.poll
      assert.deepStrictEqual((yield* rig.events).map(({ id, kind }) => `${id} ${kind}`), ["b created"])
      assert.strictEqual((yield* rig.state).lastPoll?.rowCounts.quarantined, 2)
    })))

  it.effect("P5: a cursor that expires mid-run restarts the reading from where it began", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "zero" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      for (const id of ["a", "b", "c"]) yield* rig.put({ id })
      rig.api.pageSize = 1
      let refused = false
      rig.api.intercept = (request, answer) => {
        if (request.cursor !== "1" || refused) return Effect.succeed(answer)
        refused = true
        return refuse(new Rejected({ code: "PLATFORM.INPUT_INVALID", message: "400" }))
      }
      yield* rig.poll
      assert.isTrue(refused)
      for (const id of ["a", "b", "c"]) assert.deepStrictEqual(yield* rig.kinds(id), ["created 1"])
    })))

  it.effect("P6, P7: an empty page with a cursor is not the end, and page sizes mean nothing", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "zero" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      for (const id of ["a", "b", "c"]) yield* rig.put({ id })
      rig.api.pageSize = 1
      rig.api.intercept = (request, answer) =>
        Effect.succeed(request.cursor === null ? { ...answer, results: [], next: "0x0" } : answer)
      yield* rig.poll
      for (const id of ["a", "b", "c"]) assert.deepStrictEqual(yield* rig.kinds(id), ["created 1"])
    })))

  it.effect("a reading that breaks off keeps the watermark, and what it committed is not lost or repeated", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "zero" })
      yield* rig.sweep
      const before = yield* rig.state
      yield* rig.wait("1 minute")
      for (const id of ["a", "b", "c"]) yield* rig.put({ id })
      rig.api.pageSize = 1
      rig.api.intercept = (request, answer) =>
        request.cursor === "2" ? refuse(new Transient({ code: null, message: "502" })) : Effect.succeed(answer)
      yield* Effect.flip(rig.poll)
      assert.strictEqual((yield* rig.state).watermark, before.watermark)
      rig.api.intercept = (_, answer) => Effect.succeed(answer)
      yield* rig.poll
      for (const id of ["a", "b", "c"]) assert.deepStrictEqual(yield* rig.kinds(id), ["created 1"])
    })))

  it.effect("a change to or from null waits for the end of its reading, a plain one does not", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      for (const id of ["a", "b", "c"]) yield* rig.put({ id, title: "x", source: "y" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: null, source: "y" })
      yield* rig.put({ id: "b", title: "z", source: "y" })
      rig.api.pageSize = 2
      rig.api.intercept = (request, answer) =>
        request.cursor === null ? Effect.succeed(answer) : refuse(new Transient({ code: null, message: "502" }))
      yield* Effect.flip(rig.poll)
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      assert.deepStrictEqual(yield* rig.kinds("b"), ["created 1", "updated 2"])
      assert.deepStrictEqual(yield* rig.pending, { a: "staged" })
      rig.api.intercept = (_, answer) => Effect.succeed(answer)
      yield* rig.poll
      const last = (yield* rig.events).at(-1)!
      assert.deepStrictEqual(JSON.parse(last.changes), [{ path: "/title", before: "x", after: null }])
    })))

  it.effect("S1: a record that does not fit the contract is published all the same, and counted by model and path", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a", outcome: 7, job: { id: "j", name: { de: "Ada" } } })
      yield* rig.put({ id: "b", outcome: "PENDING" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", outcome: 8, job: { id: "j", name: { de: "Ada" } } })
      yield* rig.poll
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
    })).pipe(Effect.provideService(Metric.MetricRegistry, new Map())))

  it.effect("S1: a record without id is set aside, the page goes on", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "zero" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a" })
      rig.api.intercept = (_, answer) =>
        Effect.succeed({ ...answer, results: [{ title: "nobody" }, null, 7, { id: 12 }, ...answer.results] })
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      const { rowCounts } = (yield* rig.state).lastPoll!
      assert.strictEqual(rowCounts.quarantined, 4)
    })))

  it.effect("S1: a record nested too deep to walk through is set aside, the page goes on", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      const nested = (levels: number) => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`)
      yield* rig.put({ id: "zero" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", custom_fields: nested(98) })
      rig.api.intercept = (_, answer) =>
        Effect.succeed({
          ...answer,
          results: [{ id: "b", custom_fields: nested(20_000) }, nested(20_000), ...answer.results]
        })
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      assert.strictEqual((yield* rig.state).lastPoll!.rowCounts.quarantined, 2)
    })))

  it.effect("S4, N2: keys and set-like arrays in another order, and a changed_at alone, mean nothing", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a", interviews: [{ id: "1", title: "x" }, { id: "2", title: "y" }], title: "t" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ title: "t", id: "a", interviews: [{ title: "y", id: "2" }, { id: "1", title: "x" }] })
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      assert.strictEqual((yield* rig.state).lastPoll!.rowCounts.equivalent, 1)
    })))

  it.effect("P8: another order of rows and pages means nothing", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      for (const id of ["a", "b", "c", "d"]) yield* rig.put({ id, title: id })
      yield* rig.sweep
      rig.api.pageSize = 2
      const rows = [...rig.api.rows].reverse()
      rig.api.rows.clear()
      for (const [id, held] of rows) rig.api.rows.set(id, held)
      yield* rig.wait("1 minute")
      yield* rig.poll
      yield* rig.sweep
      assert.strictEqual((yield* rig.events).length, 4)
      assert.deepStrictEqual(yield* rig.pending, {})
    })))
})
