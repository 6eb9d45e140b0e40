/** Holds that an operator rejected, and old copies of their records: neither undoes the decision. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { Rig } from "../../../test/support/capture/Rig.ts"
import { after, each, filled, flagged, hold, published, row, vanished } from "../../../test/support/capture/Waves.ts"
import type { ParsedPage } from "../../../test/support/source/Doubles.ts"
import type { PageRequest } from "../../source/Source.ts"

describe("a rejected hold", () => {
  it.effect("rejected deletes are listed, not held again when seen again, and published after the records are live and deleted again (D17)", () =>
    filled(10, function*(rig, ids) {
      const gone = ids.slice(0, 3)
      yield* each(ids.slice(4), rig.flag)
      const back = yield* vanished(rig, gone)
      yield* rig.reject((yield* hold(rig)).id)
      const disputed = Object.fromEntries([...gone, ...ids.slice(4)].sort().map((id) => [id, "rejected"]))
      for (let cycle = 0; cycle < 3; cycle++) {
        yield* rig.wait("6 hours")
        const requests = rig.api.requests.length
        yield* rig.sweep
        assert.strictEqual(rig.api.requests.slice(requests).filter(({ ids }) => ids !== null).length, 0)
        yield* rig.confirm
        yield* rig.poll
        assert.deepStrictEqual(yield* rig.pending, disputed)
      }
      assert.deepStrictEqual((yield* rig.holds).map(({ rows, state }) => [state, rows]), [["rejected", 9]])
      assert.deepStrictEqual(yield* published(rig), {})
      back()
      yield* rig.sweep
      yield* rig.flag(gone[0]!)
      yield* rig.wait("25 hours")
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds(gone[0]!), ["created 1", "deleted 2"])
    }))

  /** Five deletes of ten records are held; then the list shows an old live copy of the first of them. */
  const oldCopy = Effect.fnUntraced(function*(rig: Rig, ids: ReadonlyArray<string>, rejected: boolean) {
    const older = { ...rig.api.rows.get(ids[0]!)!.row, title: "older" }
    yield* flagged(rig, ids.slice(0, 5))
    if (rejected) yield* rig.reject((yield* hold(rig)).id)
    yield* rig.wait("25 hours")
    const page = { results: [...[...rig.api.rows.values()].slice(1).map(({ row }) => row), older], next: null }
    return (request: PageRequest, answer: ParsedPage) =>
      Effect.succeed(request.ids === null ? { ...answer, ...page } : answer)
  })

  for (const rejected of [true, false]) {
    it.effect(`an old copy removes no delete from ${rejected ? "a rejected" : "an open"} hold (D17, P3)`, () =>
      filled(10, function*(rig, ids) {
        rig.api.intercept = yield* oldCopy(rig, ids, rejected)
        const waiting = Object.fromEntries(ids.slice(0, 5).map((id) => [id, rejected ? "rejected" : "held"]))
        yield* rig.sweep
        assert.deepStrictEqual(yield* rig.pending, waiting)
        yield* rig.poll
        rig.api.intercept = (_, answer) => answer
        yield* rig.poll
        assert.deepStrictEqual(yield* rig.pending, waiting)
        assert.deepStrictEqual(yield* published(rig), {})
      }))

    it.effect(`${rejected ? "rejecting" : "approving"} a hold does not apply to a record that waits for a refetch (D17, P3)`, () =>
      filled(10, function*(rig, ids) {
        const older = yield* oldCopy(rig, ids, false)
        rig.api.intercept = (request, answer) =>
          request.ids === null ? older(request, answer) : { ...answer, results: [] }
        yield* rig.poll
        const { id, rows } = yield* hold(rig)
        assert.strictEqual(rows, 5)
        yield* (rejected ? rig.reject(id) : rig.approve(id))
        assert.strictEqual((yield* rig.pending)[ids[0]!], "disputed")
        assert.deepStrictEqual(yield* published(rig), rejected ? {} : { deleted: 4 })
        rig.api.intercept = (_, answer) => answer
        yield* rig.poll
        yield* rig.poll
        assert.deepStrictEqual(yield* published(rig), rejected ? {} : { deleted: 5 })
        assert.strictEqual((yield* rig.pending)[ids[0]!], rejected ? "rejected" : undefined)
      }))
  }

  it.effect("an absent record stays in a rejected hold if an old copy appears and the record is absent again (D17, P3)", () =>
    filled(10, function*(rig, ids) {
      const older = rig.api.rows.get(ids[0]!)!.row
      yield* rig.change(row(ids[0]!, { title: "later" }))
      yield* vanished(rig, ids.slice(0, 5))
      yield* rig.reject((yield* hold(rig)).id)
      const waiting = Object.fromEntries(ids.slice(0, 5).map((id) => [id, "rejected"]))
      assert.deepStrictEqual(yield* rig.pending, waiting)
      yield* rig.wait("25 hours")
      rig.api.intercept = (request, answer) =>
        request.ids === null ? { ...answer, results: [...answer.results, older] } : answer
      yield* rig.poll
      rig.api.intercept = (_, answer) => answer
      for (let cycle = 0; cycle < 2; cycle++) {
        yield* rig.sweep
        yield* rig.wait("11 minutes")
        yield* rig.confirm
        yield* rig.poll
      }
      assert.deepStrictEqual(yield* rig.pending, waiting)
      assert.deepStrictEqual(yield* published(rig), { updated: 1 })
    }))

  it.effect("rejected restores that change meanwhile stay rejected, with their current content (D17)", () =>
    filled(10, function*(rig, ids) {
      yield* flagged(rig, ids)
      yield* rig.approve((yield* hold(rig)).id)
      yield* rig.change(...ids.map((id) => row(id)))
      const { id } = yield* hold(rig)
      yield* rig.reject(id)
      yield* rig.wait("1 minute")
      yield* rig.change(...ids.map((id) => row(id, { title: "later" })))
      assert.deepStrictEqual((yield* rig.holds).map((hold) => [hold.id, hold.state, hold.rows]), [[
        id,
        "rejected",
        10
      ]])
      yield* rig.approve(id)
      assert.strictEqual((yield* after(rig, ids[0]!)).title, "later")
    }))
})
