import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import { PermissionMissing, Rejected, Transient, Unsupported } from "../../../src/source/Source.ts"
import { Store } from "../../../src/store/Store.ts"
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

  it.effect("P3: the same row twice in one reading, older copy second: a point re-read decides, never B → A → B", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a", title: "A" })
      yield* rig.put({ id: "b", title: "other" })
      yield* rig.sweep
      const older = structuredClone(rig.api.rows.get("a")!.row)
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: "B" })
      yield* rig.put({ id: "b", title: "new" })
      rig.api.pageSize = 1
      rig.api.intercept = (request, answer) =>
        Effect.succeed(
          request.ids === null && request.cursor === "1" ? { ...answer, results: [older, ...answer.results] } : answer
        )
      yield* rig.poll
      const events = (yield* rig.events).filter((entry) => entry.id === "a")
      assert.deepStrictEqual(events.map((entry) => [entry.kind, JSON.parse(entry.after!).title]), [
        ["created", "A"],
        ["updated", "B"]
      ])
      assert.deepStrictEqual(yield* rig.pending, {})
    })))

  it.effect("P3: two copies that differ on one page are not judged, only the re-read is published", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "zero" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: "now" })
      rig.api.intercept = (request, answer) =>
        Effect.succeed(
          request.ids === null
            ? { ...answer, results: [...answer.results, { ...rig.api.rows.get("a")!.row, title: "before" }] }
            : answer
        )
      yield* rig.poll
      const events = (yield* rig.events).filter((entry) => entry.id === "a")
      assert.deepStrictEqual(events.map((entry) => JSON.parse(entry.after!).title), ["now"])
      const { balance } = (yield* rig.state).lastPoll!
      assert.strictEqual(balance.duplicates + balance.pending + balance.unchanged, balance.read)
    })))

  it.effect("P3: an old live copy of a deleted record that is gone when asked for leaves nothing pending", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a", title: "A" })
      yield* rig.put({ id: "b" })
      yield* rig.sweep
      const live = structuredClone(rig.api.rows.get("a")!.row)
      yield* rig.wait("1 minute")
      yield* rig.flag("a")
      yield* rig.poll
      rig.api.vanish("a")
      rig.api.intercept = (request, answer) =>
        Effect.succeed(request.ids === null ? { ...answer, results: [...answer.results, live] } : answer)
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "deleted 2"])
    })))

  it.effect("P3: a disputed record that is gone is settled after a quiet poll too, with records of the last sweep as controls", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a", title: "A" })
      yield* rig.put({ id: "b" })
      yield* rig.sweep
      const live = structuredClone(rig.api.rows.get("a")!.row)
      yield* rig.wait("20 minutes")
      yield* rig.flag("a")
      yield* rig.poll
      rig.api.vanish("a")
      rig.api.intercept = (request, answer) =>
        Effect.succeed({ ...answer, results: request.ids === null ? [...answer.results, live] : [] })
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, { a: "reread" })
      rig.api.intercept = (_, answer) => Effect.succeed(answer)
      yield* rig.wait("20 minutes")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "deleted 2"])
    })))

  it.effect("P3: of disputed records without anyone who could vouch, those that are there are settled, the one that is gone waits", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a", title: "A" })
      yield* rig.put({ id: "b", title: "B" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: "A now" })
      yield* rig.put({ id: "b", title: "B now" })
      const [a, b] = ["a", "b"].map((id) => structuredClone(rig.api.rows.get(id)!.row))
      rig.api.intercept = (request, answer) => {
        if (request.ids !== null) return Effect.succeed(answer)
        rig.api.vanish("b")
        return Effect.succeed({ ...answer, results: [a, { ...a, title: "A then" }, b, { ...b, title: "B then" }] })
      }
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, { b: "reread" })
      assert.strictEqual(JSON.parse((yield* rig.events).findLast(({ id }) => id === "a")!.after!).title, "A now")
    })))

  for (
    const [name, reason] of [
      ["400", new Rejected({ code: null, message: "400" })],
      ["403", new PermissionMissing({ code: null, message: "403" })],
      ["404", new Unsupported({ code: null, message: "404" })]
    ] as const
  ) {
    it.effect(`D12, P3: a point re-read refused with ${name} decides nothing, and the stream is read as ever`, () =>
      scenario(Effect.fnUntraced(function*(rig) {
        yield* rig.put({ id: "a", title: "A" })
        yield* rig.put({ id: "b", title: "B" })
        yield* rig.sweep
        const older = structuredClone(rig.api.rows.get("a")!.row)
        yield* rig.wait("1 minute")
        yield* rig.put({ id: "a", title: "A2" })
        rig.api.intercept = (request, answer) =>
          request.ids === null ? Effect.succeed({ ...answer, results: [...answer.results, older] }) : refuse(reason)
        yield* rig.poll
        assert.deepStrictEqual(yield* rig.pending, { a: "reread" })
        rig.api.intercept = (_, answer) => Effect.succeed(answer)
        yield* rig.poll
        assert.deepStrictEqual(yield* rig.pending, {})
        assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "updated 2"])
      })))
  }

  it.effect("P3: where re-reads are not answered, a dispute ends with what a later reading shows to be newer", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a", title: "A" })
      yield* rig.put({ id: "b", title: "B" })
      yield* rig.sweep
      const older = structuredClone(rig.api.rows.get("a")!.row)
      const showing = (...copies: ReadonlyArray<unknown>) => {
        rig.api.intercept = (request, answer) =>
          Effect.succeed({ ...answer, results: request.ids === null ? [...answer.results, ...copies] : [] })
      }
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: "A2" })
      showing(older)
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, { a: "reread" })
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
    })))

  it.effect("P3: a disputed record that was never known and is gone stays pending until a sweep does not meet it either", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "zero" })
      yield* rig.wait("20 minutes")
      yield* rig.sweep
      yield* rig.wait("20 minutes")
      yield* rig.put({ id: "a", title: "A" })
      rig.api.intercept = (request, answer) => {
        if (request.ids === null) rig.api.vanish("a")
        return Effect.succeed({
          ...answer,
          results: answer.results.flatMap((row) => [row, { ...row as object, title: "B" }])
        })
      }
      yield* rig.poll
      rig.api.intercept = (_, answer) => Effect.succeed(answer)
      yield* rig.wait("20 minutes")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, { a: "reread" })
      yield* rig.sweep
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.kinds("a"), [])
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

  it.effect("D1, X17, D20: a delete staged by a poll that broke off is released by the next one, with the latest before-image", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      for (const id of ["a", "b", "c"]) yield* rig.put({ id, title: "old" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.flag("a")
      yield* rig.put({ id: "b", title: "new" })
      rig.api.pageSize = 1
      rig.api.intercept = (request, answer) =>
        request.cursor === "1" ? refuse(new Transient({ code: null, message: "502" })) : Effect.succeed(answer)
      yield* Effect.flip(rig.poll)
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      assert.deepStrictEqual(yield* rig.pending, { a: "staged" })
      rig.api.intercept = (_, answer) => Effect.succeed(answer)
      yield* rig.poll
      const [, deleted] = (yield* rig.events).filter((entry) => entry.id === "a")
      assert.strictEqual(deleted!.kind, "deleted")
      assert.strictEqual(deleted!.reason, "flagged")
      assert.strictEqual(JSON.parse(deleted!.before!).title, "old")
      assert.isNull(deleted!.after)
      assert.deepStrictEqual(yield* rig.pending, {})
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

  it.effect("D8: created and deleted between two polls gives both events, reason unseen; during the backfill a silent tombstone", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "zero" })
      yield* rig.put({ id: "early", title: "x" })
      yield* rig.flag("early")
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: "x", remote_created_at: new Date(start + minute).toISOString() })
      yield* rig.flag("a")
      yield* rig.poll
      const events = (yield* rig.events).filter((entry) => entry.id !== "zero")
      assert.deepStrictEqual(
        events.map((entry) => [entry.id, entry.kind, entry.version, entry.reason, entry.origin]),
        [["a", "created", 1, "unseen", "poll"], ["a", "deleted", 2, "unseen", "poll"]]
      )
      assert.strictEqual(events[1]!.before, events[0]!.after)
    })))

  it.effect("W10, D8: a `Date` a day ahead on the backfill's last page silences nothing of what comes and goes after it", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      rig.api.pageSize = 1
      yield* rig.put({ id: "a" })
      yield* rig.put({ id: "b" })
      rig.api.intercept = (request, page) =>
        Effect.succeed(request.cursor === null ? page : { ...page, serverTime: page.serverTime! + 24 * 60 * minute })
      yield* rig.sweep
      rig.api.intercept = (_, page) => Effect.succeed(page)
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "c", title: "x" })
      yield* rig.flag("c")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("c"), ["created 1", "deleted 2"])
    })))

  it.effect("D9, T2: deleted, then back with other fields: `created` restored, compared with its last image", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a", outcome: "HIRED", title: "x" })
      yield* rig.put({ id: "b", outcome: "PENDING", title: "x" })
      // Were these two all there is, the guard would hold them.
      for (const id of ["c", "d"]) yield* rig.put({ id, outcome: "PENDING", title: "x" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.flag("a")
      yield* rig.flag("b")
      yield* rig.poll
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", outcome: "HIRED", title: "y" })
      yield* rig.put({ id: "b", outcome: "HIRED", title: "y" })
      yield* rig.poll
      const last = (id: string) => Effect.map(rig.events, (entries) => entries.findLast((entry) => entry.id === id)!)
      for (const id of ["a", "b"]) {
        assert.deepStrictEqual(yield* rig.kinds(id), ["created 1", "deleted 2", "created 3"])
        assert.isTrue((yield* last(id)).restored)
        assert.isNull((yield* last(id)).before)
      }
      assert.deepStrictEqual(JSON.parse((yield* last("a")).transitions), [])
      assert.deepStrictEqual(JSON.parse((yield* last("b")).transitions), [{
        name: "hired",
        from: "PENDING",
        to: "HIRED"
      }])
    })))

  it.effect("D11: a deleted record whose fields turn null is no update and no creation", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a", title: "x" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.flag("a")
      yield* rig.poll
      yield* rig.wait("14 days")
      const held = rig.api.rows.get("a")!
      rig.api.put(start, { ...held.row, title: null })
      yield* rig.sweep
      rig.api.put(start, { ...held.row, title: null, remote_deleted_at: null })
      yield* rig.sweep
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "deleted 2"])
      assert.deepStrictEqual(yield* rig.pending, {})
    })))

  it.effect("D11, D23: what the log holds of a record goes once nothing is left of it at its source, whatever showed that", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      const contents = Effect.map(rig.events, (entries) => entries.map(({ after, id }) => `${id} ${after !== null}`))
      for (const id of ["early", "late", "live", "kept", "y", "z"]) yield* rig.put({ id, title: "x" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      for (const id of ["early", "late", "kept"]) yield* rig.flag(id)
      rig.api.rows.get("early")!.row = { ...rig.api.rows.get("early")!.row, title: null }
      yield* rig.put({ id: "live", title: null })
      yield* rig.poll
      yield* rig.wait("14 days")
      rig.api.rows.get("late")!.row = { ...rig.api.rows.get("late")!.row, title: null }
      yield* rig.sweep
      const drop = Effect.flatMap(Store, (store) => store.dropErased({ before: Number.MAX_SAFE_INTEGER, upTo: 99 }))
      assert.strictEqual(yield* drop, 3)
      const left = ["kept true", "y true", "z true", "early false", "late false", "kept false", "live false"]
      assert.sameMembers(yield* contents, left)
      yield* rig.sweep
      assert.strictEqual(yield* drop, 0)
    })))

  it.effect("D23: a live record of which nothing is left is deleted, reason erased, and is created again when its content is back", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a", title: "x" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: null })
      yield* rig.poll
      const deleted = (yield* rig.events).at(-1)!
      assert.deepStrictEqual([deleted.kind, deleted.reason, deleted.after], ["deleted", "erased", null])
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: "x" })
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "deleted 2", "created 3"])
      assert.deepStrictEqual(yield* rig.pending, {})
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
      const { balance } = (yield* rig.state).lastPoll!
      assert.strictEqual(balance.quarantined, 4)
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
      assert.strictEqual((yield* rig.state).lastPoll!.balance.quarantined, 2)
    })))

  it.effect("S4, N2: keys and set-like arrays in another order, and a changed_at alone, mean nothing", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      yield* rig.put({ id: "a", interviews: [{ id: "1", title: "x" }, { id: "2", title: "y" }], title: "t" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.put({ title: "t", id: "a", interviews: [{ title: "y", id: "2" }, { id: "1", title: "x" }] })
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      assert.strictEqual((yield* rig.state).lastPoll!.balance.equivalent, 1)
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

  it.effect("D10: a record restored before its delete was released was never deleted", () =>
    scenario(Effect.fnUntraced(function*(rig) {
      for (const id of ["a", "b", "c"]) yield* rig.put({ id, title: "x" })
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.flag("a")
      rig.api.pageSize = 1
      rig.api.intercept = (request, answer) =>
        request.cursor === "1" ? refuse(new Transient({ code: null, message: "502" })) : Effect.succeed(answer)
      yield* Effect.flip(rig.poll)
      assert.deepStrictEqual(yield* rig.pending, { a: "staged" })
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: "y", remote_deleted_at: null })
      rig.api.intercept = (_, answer) => Effect.succeed(answer)
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "updated 2"])
      assert.deepStrictEqual(yield* rig.pending, {})
    })))
})
