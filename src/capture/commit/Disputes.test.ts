/** Contradicting copies of a record: neither is published before a refetch, or before a copy newer than both. */
import { assert, describe, it } from "@effect/vitest"
import { scenario } from "../../../test/support/capture/Rig.ts"
import { refuse } from "../../../test/support/capture/ScriptedApi.ts"
import { vanished } from "../../../test/support/capture/Waves.ts"
import { Forbidden, Rejected, Unsupported } from "../../source/Source.ts"

describe("Disputes", () => {
  it.effect("a refetch decides if a run reads a record twice with the older copy second, so that B → A → B is never published (P3)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a", title: "A" }, { id: "b", title: "other" })
      const older = structuredClone(rig.api.rows.get("a")!.row)
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: "B" })
      yield* rig.put({ id: "b", title: "new" })
      rig.api.pageSize = 1
      rig.api.intercept = (request, answer) =>
        request.ids === null && request.cursor === "1" ? { ...answer, results: [older, ...answer.results] } : answer
      yield* rig.poll
      const events = (yield* rig.events).filter((entry) => entry.id === "a")
      assert.deepStrictEqual(events.map((entry) => [entry.kind, JSON.parse(entry.after!).title]), [
        ["created", "A"],
        ["updated", "B"]
      ])
      assert.deepStrictEqual(yield* rig.pending, {})
    }))

  it.effect("an old copy that is followed by an intermediate one never publishes B → A → B (P3)", () =>
    scenario(function*(rig) {
      yield* rig.put({ id: "control" })
      const copies: Array<unknown> = []
      for (const title of ["B", "A", "B"]) {
        yield* rig.wait("1 minute")
        yield* rig.put({ id: "r", title })
        copies.push(rig.api.rows.get("r")!.row)
        yield* copies.length === 1 ? rig.sweep : rig.poll
      }
      for (const copy of copies) {
        rig.api.intercept = (request, answer) => request.ids === null ? { ...answer, results: [copy] } : answer
        yield* rig.poll
      }
      assert.deepStrictEqual(yield* rig.kinds("r"), ["created 1", "updated 2", "updated 3"])
      assert.deepStrictEqual(yield* rig.pending, {})
    }))

  it.effect("an old copy of an earlier delete that is followed by a copy of the restored record restores no record (P3, D9)", () =>
    scenario(function*(rig) {
      for (let i = 0; i < 10; i++) yield* rig.put({ id: `control ${i}` })
      yield* rig.fill({ id: "r", title: "x" })
      const copies: Array<unknown> = []
      for (const change of [rig.flag("r"), rig.put({ id: "r", title: "x" }), rig.flag("r")]) {
        yield* rig.wait("1 minute")
        yield* change
        copies.push(rig.api.rows.get("r")!.row)
        yield* rig.poll
      }
      for (const copy of copies) {
        rig.api.intercept = (request, answer) => request.ids === null ? { ...answer, results: [copy] } : answer
        yield* rig.poll
      }
      assert.deepStrictEqual(yield* rig.kinds("r"), ["created 1", "deleted 2", "created 3", "deleted 4"])
    }))

  it.effect("two equal copies on one page count with the newer timestamp, so that an old delete between them is disputed (P3, I7)", () =>
    scenario(function*(rig) {
      for (let i = 0; i < 10; i++) yield* rig.put({ id: `control ${i}` })
      yield* rig.sweep
      const copies: Array<unknown> = []
      for (const change of [rig.put({ id: "r", title: "x" }), rig.flag("r"), rig.put({ id: "r", title: "x" })]) {
        yield* rig.wait("1 minute")
        yield* change
        copies.push(rig.api.rows.get("r")!.row)
      }
      const [first, deleted, restored] = copies
      for (const results of [[restored, first], [deleted]]) {
        rig.api.intercept = (request, answer) => request.ids === null ? { ...answer, results } : answer
        yield* rig.poll
      }
      assert.deepStrictEqual(yield* rig.kinds("r"), ["created 1"])
    }))

  it.effect("an old copy of a record whose pending state has no timestamp is disputed (P3, W7)", () =>
    scenario(function*(rig) {
      for (let i = 0; i < 10; i++) yield* rig.put({ id: `control ${i}` })
      yield* rig.fill({ id: "r", title: "first", color: "red" })
      const older = rig.api.rows.get("r")!.row
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "r", title: null, color: "red" })
      yield* rig.put({ id: "r", title: "last", color: "red", changed_at: null })
      // the refetch stages the last state, because it changes a value from null; then the old copy is read again
      for (const _ of [1, 2]) {
        rig.api.intercept = (request, answer) => request.ids === null ? { ...answer, results: [older] } : answer
        yield* rig.poll
      }
      rig.api.intercept = (_, answer) => answer
      yield* rig.sweep
      const titles = (yield* rig.events).filter(({ id }) => id === "r").map(({ after }) => JSON.parse(after!).title)
      assert.deepStrictEqual(titles, ["first", null, "last"])
    }))

  it.effect("an emptied record that is published as deleted is not disputed because its timestamp went back (P3, D23)", () =>
    scenario(function*(rig) {
      for (let i = 0; i < 10; i++) yield* rig.put({ id: `control ${i}` })
      yield* rig.fill({ id: "r", title: "x" })
      yield* rig.change({ id: "r", title: null, changed_at: "2099-01-01T00:00:00.000Z" })
      assert.deepStrictEqual(yield* rig.kinds("r"), ["created 1", "deleted 2"])
      rig.api.requests.length = 0
      yield* rig.put({ id: "r", title: null })
      yield* rig.sweep
      assert.deepStrictEqual([yield* rig.pending, rig.api.requests.filter(({ ids }) => ids !== null)], [{}, []])
    }))

  it.effect("of two different copies on one page neither is published, only the refetched one (P3)", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "zero" })
      yield* rig.put({ id: "a", title: "now" })
      rig.api.intercept = (request, answer) =>
        request.ids === null
          ? { ...answer, results: [...answer.results, { ...rig.api.rows.get("a")!.row, title: "before" }] }
          : answer
      yield* rig.poll
      const events = (yield* rig.events).filter((entry) => entry.id === "a")
      assert.deepStrictEqual(events.map((entry) => JSON.parse(entry.after!).title), ["now"])
      const { rowCounts } = (yield* rig.state).lastPoll!
      assert.strictEqual(rowCounts.duplicates + rowCounts.pending + rowCounts.unchanged, rowCounts.read)
    }))

  it.effect("an old live copy of a deleted record leaves no pending row if the refetch finds the record absent (P3)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a", title: "A" }, { id: "b" })
      const live = structuredClone(rig.api.rows.get("a")!.row)
      yield* rig.wait("1 minute")
      yield* rig.flag("a")
      yield* rig.poll
      rig.api.vanish("a")
      rig.api.intercept = (request, answer) =>
        request.ids === null ? { ...answer, results: [...answer.results, live] } : answer
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "deleted 2"])
    }))

  it.effect("an old copy of a record that was absent and came back is disputed, and only the refetched copy is restored (P3, D9)", () =>
    scenario(function*(rig) {
      for (let i = 0; i < 10; i++) yield* rig.put({ id: `control ${i}` })
      yield* rig.fill({ id: "r", title: "old" })
      const old = structuredClone(rig.api.rows.get("r")!.row)
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "r", title: "edited" })
      const comeBack = yield* vanished(rig, ["r"])
      comeBack()
      rig.api.intercept = (request, answer) => request.ids === null ? { ...answer, results: [old] } : answer
      yield* rig.poll
      rig.api.intercept = (_, answer) => answer
      yield* rig.poll
      const titles = (yield* rig.events).filter(({ id }) => id === "r")
        .map(({ after, kind }) => [kind, after === null ? null : JSON.parse(after).title])
      assert.deepStrictEqual(titles, [["created", "old"], ["updated", "edited"], ["deleted", null], [
        "created",
        "edited"
      ]])
    }))

  it.effect("a dispute about a record that is gone is resolved after a poll without rows too, with controls from the last sweep (P3)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a", title: "A" }, { id: "b" })
      const live = structuredClone(rig.api.rows.get("a")!.row)
      yield* rig.wait("20 minutes")
      yield* rig.flag("a")
      yield* rig.poll
      rig.api.vanish("a")
      rig.api.intercept = (request, answer) => ({
        ...answer,
        results: request.ids === null ? [...answer.results, live] : []
      })
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, { a: "disputed" })
      rig.api.intercept = (_, answer) => answer
      yield* rig.wait("20 minutes")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "deleted 2"])
    }))

  it.effect("without controls, disputes about existing records are resolved, and one about a missing record stays pending (P3)", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "a", title: "A" }, { id: "b", title: "B" })
      yield* rig.put({ id: "a", title: "A now" })
      yield* rig.put({ id: "b", title: "B now" })
      const [a, b] = ["a", "b"].map((id) => structuredClone(rig.api.rows.get(id)!.row))
      rig.api.intercept = (request, answer) => {
        if (request.ids !== null) return answer
        rig.api.vanish("b")
        return { ...answer, results: [a, { ...a, title: "A then" }, b, { ...b, title: "B then" }] }
      }
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, { b: "disputed" })
      assert.strictEqual(JSON.parse((yield* rig.events).findLast(({ id }) => id === "a")!.after!).title, "A now")
    }))

  for (
    const [name, reason] of [
      ["400", new Rejected({ code: null, message: "400" })],
      ["403", new Forbidden({ code: null, message: "403" })],
      ["404", new Unsupported({ code: null, message: "404" })]
    ] as const
  ) {
    it.effect(`a refetch rejected with ${name} decides nothing, and the stream is read normally (D12, P3)`, () =>
      scenario(function*(rig) {
        yield* rig.fill({ id: "a", title: "A" }, { id: "b", title: "B" })
        const older = structuredClone(rig.api.rows.get("a")!.row)
        yield* rig.wait("1 minute")
        yield* rig.put({ id: "a", title: "A2" })
        rig.api.intercept = (request, answer) =>
          request.ids === null ? { ...answer, results: [...answer.results, older] } : refuse(reason)
        yield* rig.poll
        assert.deepStrictEqual(yield* rig.pending, { a: "disputed" })
        rig.api.intercept = (_, answer) => answer
        yield* rig.poll
        assert.deepStrictEqual(yield* rig.pending, {})
        assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "updated 2"])
      }))
  }

  it.effect("if refetches are rejected, a dispute ends when a later run shows a newer copy (P3)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a", title: "A" }, { id: "b", title: "B" })
      const older = structuredClone(rig.api.rows.get("a")!.row)
      const showing = (...copies: ReadonlyArray<unknown>) => {
        rig.api.intercept = (request, answer) => ({
          ...answer,
          results: request.ids === null ? [...answer.results, ...copies] : []
        })
      }
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: "A2" })
      showing(older)
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, { a: "disputed" })
      showing()
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "updated 2"])
      showing(older)
      yield* rig.wait("1 minute")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "updated 2"])
      yield* rig.put({ id: "a", title: "A3" })
      showing()
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "updated 2", "updated 3"])
    }))

  it.effect("a disputed record that was never published and is gone stays pending until a sweep does not read it either (P3)", () =>
    scenario(function*(rig) {
      yield* rig.put({ id: "zero" })
      yield* rig.wait("20 minutes")
      yield* rig.sweep
      yield* rig.wait("20 minutes")
      yield* rig.put({ id: "a", title: "A" })
      rig.api.intercept = (request, answer) => {
        if (request.ids === null) rig.api.vanish("a")
        return {
          ...answer,
          results: answer.results.flatMap((row) => [row, { ...row as object, title: "B" }])
        }
      }
      yield* rig.poll
      rig.api.intercept = (_, answer) => answer
      yield* rig.wait("20 minutes")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, { a: "disputed" })
      yield* rig.sweep
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.kinds("a"), [])
    }))
})
