/** The guard, end to end: waves are held and operators decide, without lost, duplicated or reordered changes. */
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import { start } from "../../../test/support/capture/Rig.ts"
import { refuse } from "../../../test/support/capture/ScriptedApi.ts"
import { after, each, filled, flagged, hold, published, row, vanished } from "../../../test/support/capture/Waves.ts"
import { Forbidden, Transient } from "../../source/Source.ts"
import { Store, StoreError, Unavailable } from "../../store/Store.ts"
import { releaseApprovedHolds } from "./ApprovedHolds.ts"

describe("Guard", () => {
  it.effect("an absence confirmed twice is published as deleted by the next poll, with its last content (D2)", () =>
    filled(10, function*(rig) {
      yield* vanished(rig, ["r0003"])
      const event = (yield* rig.events).at(-1)!
      assert.deepStrictEqual([event.id, event.kind, event.version, event.reason, event.origin], [
        "r0003",
        "deleted",
        2,
        "absent",
        "sweep"
      ])
      assert.strictEqual(event.remoteId, "r-r0003")
      assert.strictEqual(JSON.parse(event.before!).title, "t-r0003")
      assert.deepStrictEqual(yield* rig.pending, {})
      yield* rig.change(row("r0003"))
      assert.deepStrictEqual(yield* rig.kinds("r0003"), ["created 1", "deleted 2", "created 3"])
    }))

  it.effect("a hold keeps the time of its decision when its release ends, or when it is canceled after a rejection", () =>
    filled(500, function*(rig, ids) {
      const store = yield* Store
      const decide = Effect.fnUntraced(function*(decision: Parameters<typeof store.decide>[1]) {
        const { id } = yield* hold(rig)
        const now = yield* Clock.currentTimeMillis
        yield* store.decide(id, decision, now)
        yield* rig.wait("1 minute")
        return { id, now }
      })
      const back = yield* vanished(rig, ids.slice(0, 150))
      const rejected = yield* decide({ state: "rejected" })
      back()
      yield* rig.sweep
      yield* vanished(rig, ids.slice(0, 150))
      const approved = yield* decide({ state: "approving", release: { origin: null, silent: false } })
      yield* releaseApprovedHolds(rig.stream)
      for (const [{ id, now }, state] of [[rejected, "canceled"], [approved, "approved"]] as const) {
        const over = yield* store.hold(id)
        assert.deepStrictEqual([over?.state, over?.decidedAt], [state, now])
      }
      const deletes = (yield* rig.events).filter(({ kind }) => kind === "deleted").map(({ position }) => position)
      assert.lengthOf(deletes, 150)
      assert.deepStrictEqual((yield* store.hold(approved.id))?.published, { first: deletes[0], last: deletes.at(-1) })
      assert.isNull((yield* store.hold(rejected.id))?.published)
    }))

  it.effect("a list that returns only two records, even for confirmations, deletes no record (D5)", () =>
    filled(20, function*(rig, ids) {
      yield* vanished(rig, ids.slice(2))
      assert.deepStrictEqual(yield* published(rig), {})
      assert.strictEqual((yield* hold(rig)).rows, 18)
    }))

  it.effect("a hold of 30 % vanished records ends without a decision when they reappear (D6)", () =>
    filled(500, function*(rig, ids) {
      const back = yield* vanished(rig, ids.slice(0, 150))
      assert.deepStrictEqual(yield* published(rig), {})
      const held = yield* hold(rig)
      assert.deepStrictEqual([held.kind, held.state, held.rows], ["deletes", "open", 150])
      assert.include(held.reason, "150 of 500")
      back()
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.holds, [])
      const store = yield* Store
      assert.strictEqual((yield* store.hold(held.id))?.state, "canceled")
      assert.deepStrictEqual(yield* published(rig), {})
    }))

  it.effect("an approved hold of 30 % vanished records deletes each exactly once, with origin backfill if requested (D6)", () =>
    filled(500, function*(rig, ids) {
      yield* vanished(rig, ids.slice(0, 150))
      const { id } = yield* hold(rig)
      yield* rig.approve(id, { origin: "backfill" })
      yield* rig.approve(id)
      yield* rig.sweep
      yield* rig.poll
      const deleted = (yield* rig.events).filter((entry) => entry.kind === "deleted")
      assert.deepStrictEqual(deleted.map((entry) => entry.id), ids.slice(0, 150))
      assert.isTrue(deleted.every((entry) => entry.version === 2 && entry.origin === "backfill"))
      const store = yield* Store
      const over = yield* store.hold(id)
      assert.deepStrictEqual([over?.state, over?.released, over?.rows], ["approved", 150, 0])
    }))

  it.effect("a wave of absences is judged as a whole although only a part is confirmed yet (D6)", () =>
    filled(2000, function*(rig, ids) {
      for (const id of ids.slice(0, 450)) rig.api.vanish(id)
      yield* rig.sweep
      yield* rig.wait("11 minutes")
      let requests = 0
      rig.api.intercept = (request, answer) =>
        request.ids !== null && ++requests > 1
          ? refuse(new Transient({ code: null, message: "502" }))
          : answer
      yield* Effect.flip(rig.confirm)
      yield* rig.poll
      assert.deepStrictEqual(yield* published(rig), {})
      assert.strictEqual((yield* hold(rig)).rows, 248)
      rig.api.intercept = (_, answer) => answer
      yield* rig.confirm
      yield* rig.poll
      assert.deepStrictEqual((yield* rig.holds).map(({ rows }) => rows), [450])
    }))

  it.effect("deletes of 3 % an hour are held from the limit of the sliding window on (D7)", () =>
    filled(1000, function*(rig, ids) {
      for (let hour = 0; hour < 12; hour++) {
        yield* flagged(rig, ids.slice(hour * 30, hour * 30 + 30))
        yield* rig.wait("1 hour")
      }
      assert.deepStrictEqual(yield* published(rig), { deleted: 180 })
      assert.strictEqual((yield* hold(rig)).rows, 180)
    }))

  it.effect("approved deletes are not counted again, and a day later no delete is counted (D7)", () =>
    filled(1000, function*(rig, ids) {
      yield* flagged(rig, ids.slice(0, 180))
      yield* flagged(rig, ids.slice(180, 210))
      yield* rig.approve((yield* hold(rig)).id)
      yield* flagged(rig, ids.slice(210, 300))
      assert.deepStrictEqual(yield* rig.holds, [])
      assert.deepStrictEqual(yield* published(rig), { deleted: 300 })
      yield* rig.wait("25 hours")
      yield* flagged(rig, ids.slice(300, 400))
      assert.deepStrictEqual(yield* published(rig), { deleted: 400 })
    }))

  for (const count of [60, 4]) {
    it.effect(`the deletes of a stream of ${count} records whose model is switched off are held (D16)`, () =>
      filled(count, function*(rig, ids) {
        yield* flagged(rig, ids)
        assert.deepStrictEqual(yield* published(rig), {})
        assert.strictEqual((yield* hold(rig)).rows, count)
      }))
  }

  it.effect("a few deletes in a small stream, and one delete of two records, are not held", () =>
    filled(12, function*(rig, ids) {
      yield* flagged(rig, ids.slice(0, 4))
      assert.deepStrictEqual(yield* published(rig), { deleted: 4 })
      yield* rig.flag(ids[4]!)
      yield* rig.poll
      assert.deepStrictEqual(yield* published(rig), { deleted: 5 })
    }))

  it.effect("records that change while they are held have versions without gaps and current content after the release (D18)", () =>
    filled(10, function*(rig, ids) {
      yield* flagged(rig, ids)
      yield* rig.approve((yield* hold(rig)).id)
      yield* rig.wait("1 minute")
      yield* rig.change(...ids.map((id) => row(id, { title: "first" })))
      const { id: restores, kind } = yield* hold(rig)
      assert.strictEqual(kind, "restores")
      yield* rig.wait("1 minute")
      yield* rig.change(...ids.map((id) => row(id, { title: "second", outcome: "HIRED" })))
      assert.deepStrictEqual((yield* rig.holds).map((hold) => [hold.id, hold.rows]), [[restores, 10]])
      yield* rig.approve(restores)
      for (const id of ids) {
        assert.deepStrictEqual(yield* rig.kinds(id), ["created 1", "deleted 2", "created 3"])
        assert.strictEqual((yield* after(rig, id)).title, "second")
      }
    }))

  it.effect("no delete of a mass delete over many pages is published, neither before its end nor after it (D19)", () =>
    filled(300, function*(rig, ids) {
      yield* each(ids.slice(0, 200), rig.flag)
      rig.api.pageSize = 10
      rig.api.intercept = (request, answer) =>
        request.cursor === "150" ? refuse(new Transient({ code: null, message: "502" })) : answer
      yield* Effect.flip(rig.poll)
      assert.deepStrictEqual(yield* published(rig), {})
      rig.api.intercept = (_, answer) => answer
      yield* rig.poll
      assert.deepStrictEqual(yield* published(rig), {})
      assert.strictEqual((yield* hold(rig)).rows, 200)
    }))

  it.effect("live records without content are counted by the guard as deletes with reason erased (D23)", () =>
    filled(10, function*(rig, ids) {
      const empty = (id: string) => rig.put({ id, title: null, source: null, outcome: null })
      yield* empty(ids[0]!)
      yield* rig.poll
      const [event] = (yield* rig.events).slice(-1)
      assert.deepStrictEqual([event?.kind, event?.reason], ["deleted", "erased"])
      yield* each(ids.slice(1), empty)
      yield* rig.poll
      yield* rig.sweep
      assert.deepStrictEqual(yield* published(rig), { deleted: 1 })
      assert.strictEqual((yield* hold(rig)).rows, 9)
    }))

  it.effect("a model that is switched off gives one hold and one log line, however many runs observe it (C2)", () => {
    const lines: Array<unknown> = []
    const logger = Logger.make(({ logLevel, message }) => {
      if (logLevel === "Warn") lines.push(message)
    })
    return filled(300, function*(rig, ids) {
      for (let wave = 0; wave < 3; wave++) {
        yield* each(ids.slice(wave * 100, wave * 100 + 100), rig.flag)
        rig.api.pageSize = 50
        yield* rig.poll
        yield* rig.sweep
      }
      assert.deepStrictEqual(yield* published(rig), { deleted: 100 })
      assert.deepStrictEqual((yield* rig.holds).map((hold) => hold.rows), [200])
      assert.deepStrictEqual(lines, [["changes are held"]])
    }).pipe(Effect.provide(Logger.layer([logger])))
  })

  it.effect("if 298 of 300 held deletes come back, the next complete sweep releases the two real ones (C8)", () =>
    filled(400, function*(rig, ids) {
      const back = yield* vanished(rig, ids.slice(0, 300))
      assert.strictEqual((yield* hold(rig)).rows, 300)
      back()
      for (const id of ids.slice(0, 2)) rig.api.vanish(id)
      yield* rig.wait("1 hour")
      yield* rig.sweep
      assert.deepStrictEqual(yield* published(rig), { deleted: 2 })
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.holds, [])
    }))

  it.effect("the remainder of a hold waits for a complete sweep, and polls do not release it (C8)", () =>
    filled(400, function*(rig, ids) {
      yield* flagged(rig, ids.slice(0, 300))
      yield* rig.wait("1 minute")
      yield* each(ids.slice(2, 300), (id) => rig.put(row(id)))
      yield* rig.poll
      assert.deepStrictEqual(yield* published(rig), {})
      assert.strictEqual((yield* hold(rig)).rows, 2)
      yield* rig.sweep
      assert.deepStrictEqual(yield* published(rig), { deleted: 2 })
    }))

  it.effect("a remainder that the sweep could not confirm stays held (C8)", () =>
    filled(400, function*(rig, ids) {
      const back = yield* vanished(rig, ids.slice(0, 300))
      back()
      for (const id of ids.slice(0, 2)) rig.api.vanish(id)
      rig.api.intercept = (request, answer) =>
        request.ids === null
          ? answer
          : refuse(new Forbidden({ code: null, message: "403" }))
      yield* rig.wait("1 hour")
      yield* rig.sweep
      assert.deepStrictEqual(yield* published(rig), {})
      assert.strictEqual((yield* hold(rig)).rows, 2)
    }))

  it.effect("the restores are held too when a model is switched on again after its deletes were approved (C9)", () =>
    filled(60, function*(rig, ids) {
      yield* flagged(rig, ids)
      yield* rig.approve((yield* hold(rig)).id)
      assert.deepStrictEqual(yield* published(rig), { deleted: 60 })
      yield* rig.wait("1 hour")
      yield* rig.change(...ids.map((id) => row(id)))
      assert.deepStrictEqual(yield* published(rig), { deleted: 60 })
      const held = yield* hold(rig)
      assert.deepStrictEqual([held.kind, held.rows], ["restores", 60])
      yield* rig.approve(held.id, { origin: "backfill" })
      const restored = (yield* rig.events).filter((entry) => entry.restored)
      assert.strictEqual(restored.length, 60)
      assert.isTrue(restored.every((entry) => entry.origin === "backfill" && entry.transitions === "[]"))
    }))

  it.effect("the share of restores is computed without the records that are held as deleted (C9)", () =>
    filled(14, function*(rig, ids) {
      const [first, second] = [ids.slice(0, 5), ids.slice(5, 10)]
      yield* flagged(rig, first)
      yield* rig.wait("1 minute")
      yield* flagged(rig, second)
      assert.deepStrictEqual((yield* rig.holds).map(({ kind, rows }) => [kind, rows]), [["deletes", 5]])
      yield* rig.wait("1 minute")
      yield* rig.change(...first.map((id) => row(id)))
      assert.deepStrictEqual(yield* published(rig), { deleted: 5 })
      assert.deepStrictEqual((yield* rig.holds).map(({ kind, rows }) => [kind, rows]), [["restores", 5], [
        "deletes",
        5
      ]])
    }))

  it.effect("a held delete is released as erased only if the record has no content by then (D11)", () =>
    filled(2, function*(rig, ids) {
      const shown = (id: string, title: string | null) =>
        Effect.gen(function*() {
          yield* rig.put({ id, title })
          yield* rig.flag(id)
        })
      yield* each(ids, (id) => shown(id, id === ids[0] ? null : "x"))
      yield* rig.poll
      yield* rig.wait("1 minute")
      yield* each(ids, (id) => shown(id, id === ids[0] ? "x" : null))
      yield* rig.poll
      yield* rig.approve((yield* hold(rig)).id)
      assert.deepStrictEqual(yield* published(rig), { deleted: 2 })
      yield* Effect.flatMap(Store, (store) => store.purgeErased({ before: Number.MAX_SAFE_INTEGER, upTo: 99 }))
      const left = (yield* rig.events).map(({ id, kind }) => `${id} ${kind}`)
      assert.sameMembers(left, [`${ids[0]} created`, `${ids[0]} deleted`, `${ids[1]} deleted`])
    }))

  it.effect("the reason of a hold has the current number of records (D6)", () =>
    filled(40, function*(rig, ids) {
      const sizeInReason = Effect.map(hold(rig), ({ id, reason }) => [id, reason.slice(0, "40 of 40".length)])
      yield* flagged(rig, ids.slice(0, 20))
      assert.deepStrictEqual(yield* sizeInReason, [1, "20 of 40"])
      yield* rig.wait("1 minute")
      yield* flagged(rig, ids.slice(20, 30))
      assert.deepStrictEqual(yield* sizeInReason, [1, "30 of 40"])
      yield* rig.wait("1 minute")
      yield* rig.change(...ids.slice(0, 28).map((id) => row(id)))
      assert.strictEqual((yield* hold(rig)).reason, "2 of 40 records deleted, fewer than the limits now")
    }))

  it.effect("the reason of a rejected hold has the number of records that are still in it (D6)", () =>
    filled(40, function*(rig, ids) {
      yield* flagged(rig, ids.slice(0, 30))
      yield* Effect.flatMap(Store, (store) => store.decide(1, { state: "rejected" }, start))
      yield* rig.wait("1 minute")
      yield* rig.change(...ids.slice(0, 5).map((id) => row(id)))
      const { reason, rows, state } = yield* hold(rig)
      assert.deepStrictEqual([state, rows, reason], ["rejected", 25, "25 of 40 records deleted"])
    }))

  it.effect("the release of an approved hold that is killed between two transactions is resumed in order, without loss or duplicates (X7)", () =>
    filled(1000, function*(rig, ids) {
      yield* flagged(rig, ids)
      const store = yield* Store
      const { id } = yield* hold(rig)
      let transactions = 0
      const dying = Store.of({
        ...store,
        transact: (owner, key, body) =>
          ++transactions > 2
            ? Effect.fail(
              new StoreError({ reason: new Unavailable({ operation: "transact", cause: new Error("killed") }) })
            )
            : store.transact(owner, key, body)
      })
      yield* store.decide(id, { state: "approving", release: { origin: null, silent: false } }, start)
      yield* Effect.flip(Effect.provideService(releaseApprovedHolds(rig.stream), Store, dying))
      const half = yield* store.hold(id)
      assert.deepStrictEqual([half?.state, half?.released, half?.rows], ["approving", 500, 500])
      assert.deepStrictEqual(half?.published, { first: 1_001, last: 1_500 })
      // Runs continue meanwhile, and the rows that they read do not change the result.
      yield* rig.wait("1 minute")
      yield* rig.change(row(ids[900]!, { title: "alive" }))
      yield* rig.sweep
      yield* releaseApprovedHolds(rig.stream)
      yield* releaseApprovedHolds(rig.stream)
      const deleted = (yield* rig.events).filter((entry) => entry.kind === "deleted").map((entry) => entry.id)
      assert.deepStrictEqual(deleted, ids.filter((id) => id !== ids[900]))
      assert.deepStrictEqual(yield* rig.kinds(ids[900]!), ["created 1", "updated 2"])
      assert.strictEqual((yield* store.hold(id))?.state, "approved")
      assert.deepStrictEqual(yield* rig.pending, {})
    }))

  it.effect("a hold is never approved by a timeout", () =>
    filled(60, function*(rig, ids) {
      yield* flagged(rig, ids)
      for (let day = 0; day < 60; day++) {
        yield* rig.wait("1 day")
        yield* rig.poll
        if (day % 10 === 0) yield* rig.sweep
      }
      assert.deepStrictEqual(yield* published(rig), {})
      assert.strictEqual((yield* hold(rig)).rows, 60)
    }))
})
