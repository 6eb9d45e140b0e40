/** Records that polls show as deleted, erased or restored. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { scenario, start } from "../../../test/support/capture/Rig.ts"
import { refuse } from "../../../test/support/capture/ScriptedApi.ts"
import { Transient } from "../../source/Source.ts"
import { Store } from "../../store/Store.ts"

const minute = 60_000

describe("Deletes", () => {
  it.effect("a delete staged by an unfinished poll is released by the next poll, with the latest content as `before` (D1, X17, D20)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(...["a", "b", "c"].map((id) => ({ id, title: "old" })))
      yield* rig.flag("a")
      yield* rig.put({ id: "b", title: "new" })
      rig.api.pageSize = 1
      rig.api.intercept = (request, answer) =>
        request.cursor === "1" ? refuse(new Transient({ code: null, message: "502" })) : answer
      yield* Effect.flip(rig.poll)
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      assert.deepStrictEqual(yield* rig.pending, { a: "staged" })
      rig.api.intercept = (_, answer) => answer
      yield* rig.poll
      const [, deleted] = (yield* rig.events).filter((entry) => entry.id === "a")
      assert.strictEqual(deleted!.kind, "deleted")
      assert.strictEqual(deleted!.reason, "flagged")
      assert.strictEqual(JSON.parse(deleted!.before!).title, "old")
      assert.isNull(deleted!.after)
      assert.deepStrictEqual(yield* rig.pending, {})
    }))

  it.effect("a record created and deleted between two polls gives both events with reason unseen, and during the backfill none (D8)", () =>
    scenario(function*(rig) {
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
    }))

  it.effect("records created and deleted after the backfill are published although its last page had a `Date` a day ahead (W10, D8)", () =>
    scenario(function*(rig) {
      rig.api.pageSize = 1
      yield* rig.put({ id: "a" })
      yield* rig.put({ id: "b" })
      yield* rig.wait("10 minutes")
      rig.api.intercept = (request, page) =>
        request.cursor === null ? page : { ...page, serverTime: page.serverTime! + 24 * 60 * minute }
      yield* rig.sweep
      rig.api.intercept = (_, page) => page
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "c", title: "x" })
      yield* rig.flag("c")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("c"), ["created 1", "deleted 2"])
    }))

  it.effect("a deleted record that returns with other fields is `created` as restored, with transitions from its last content (D9, T2)", () =>
    scenario(function*(rig) {
      yield* rig.put({ id: "a", outcome: "HIRED", title: "x" })
      yield* rig.put({ id: "b", outcome: "PENDING", title: "x" })
      // If these two were the only records, the guard would hold their deletes.
      yield* rig.backfill(...["c", "d"].map((id) => ({ id, outcome: "PENDING", title: "x" })))
      yield* rig.flag("a")
      yield* rig.flag("b")
      yield* rig.poll
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", outcome: "HIRED", title: "y" }, { id: "b", outcome: "HIRED", title: "y" })
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
    }))

  it.effect("a deleted record whose fields turn null is neither updated nor created (D11)", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "a", title: "x" })
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
    }))

  it.effect("a record's content is removed from the log once the API shows it erased, in whatever way (D11, D23)", () =>
    scenario(function*(rig) {
      const contents = Effect.map(rig.events, (entries) => entries.map(({ after, id }) => `${id} ${after !== null}`))
      yield* rig.backfill(...["early", "late", "live", "kept", "y", "z"].map((id) => ({ id, title: "x" })))
      for (const id of ["early", "late", "kept"]) yield* rig.flag(id)
      rig.api.rows.get("early")!.row = { ...rig.api.rows.get("early")!.row, title: null }
      yield* rig.change({ id: "live", title: null })
      yield* rig.wait("14 days")
      rig.api.rows.get("late")!.row = { ...rig.api.rows.get("late")!.row, title: null }
      yield* rig.sweep
      const drop = Effect.flatMap(Store, (store) => store.purgeErased({ before: Number.MAX_SAFE_INTEGER, upTo: 99 }))
      assert.strictEqual(yield* drop, 3)
      const left = ["kept true", "y true", "z true", "early false", "late false", "kept false", "live false"]
      assert.sameMembers(yield* contents, left)
      yield* rig.sweep
      assert.strictEqual(yield* drop, 0)
    }))

  it.effect("a live record whose content is empty is deleted with reason erased, and created again when its content returns (D23)", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "a", title: "x" })
      yield* rig.change({ id: "a", title: null })
      const deleted = (yield* rig.events).at(-1)!
      assert.deepStrictEqual([deleted.kind, deleted.reason, deleted.after], ["deleted", "erased", null])
      yield* rig.sweep
      yield* rig.wait("1 minute")
      yield* rig.change({ id: "a", title: "x" })
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "deleted 2", "created 3"])
      assert.deepStrictEqual(yield* rig.pending, {})
    }))

  it.effect("a record that is restored before its delete is released is not published as deleted (D10)", () =>
    scenario(function*(rig) {
      yield* rig.backfill(...["a", "b", "c"].map((id) => ({ id, title: "x" })))
      yield* rig.flag("a")
      rig.api.pageSize = 1
      rig.api.intercept = (request, answer) =>
        request.cursor === "1" ? refuse(new Transient({ code: null, message: "502" })) : answer
      yield* Effect.flip(rig.poll)
      assert.deepStrictEqual(yield* rig.pending, { a: "staged" })
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: "y", remote_deleted_at: null })
      rig.api.intercept = (_, answer) => answer
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "updated 2"])
      assert.deepStrictEqual(yield* rig.pending, {})
    }))
})
