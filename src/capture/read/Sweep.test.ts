import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Rig, scenario, start } from "../../../test/support/capture/Rig.ts"
import { refuse } from "../../../test/support/capture/ScriptedApi.ts"
import { backfilled } from "../../../test/support/capture/Waves.ts"
import { Transient } from "../../source/Source.ts"

const minute = 60_000
const iso = (time: number) => new Date(time).toISOString()
const fill = (rig: Rig, ids: ReadonlyArray<string>) =>
  Effect.forEach(ids, (id) => rig.put({ id, title: id }), { discard: true })

describe("Sweep", () => {
  it.effect("the backfill publishes `created` version 1 with origin backfill and without transitions, and its first response sets the watermark", () =>
    scenario(function*(rig) {
      for (const id of ["a", "b", "c"]) yield* rig.put({ id, outcome: "HIRED" })
      yield* rig.wait("10 minutes")
      rig.api.pageSize = 2
      rig.api.meanwhile = (request) => {
        if (request.cursor === "2") rig.api.skew = 60_000
      }
      yield* rig.sweep
      const events = yield* rig.events
      assert.deepStrictEqual(
        events.map((entry) => [entry.kind, entry.version, entry.origin, entry.transitions]),
        ["a", "b", "c"].map(() => ["created", 1, "backfill", "[]"])
      )
      const state = yield* rig.state
      assert.strictEqual(state.watermark, start + 600_000 - 1000)
      assert.strictEqual(state.previousWatermark, state.watermark)
      yield* rig.poll
      assert.strictEqual((yield* rig.state).phase, "live")
    }))

  it.effect("a record created while the backfill runs is published once, with an origin other than backfill (B2)", () =>
    scenario(function*(rig) {
      yield* fill(rig, ["a", "b"])
      rig.api.pageSize = 1
      rig.api.meanwhile = (request) => {
        if (request.cursor === "1") {
          rig.api.put(start, { id: "new", outcome: "HIRED", remote_created_at: new Date(start).toISOString() })
        }
      }
      yield* rig.sweep
      rig.api.meanwhile = () => {}
      yield* rig.wait("1 minute")
      yield* rig.poll
      const events = (yield* rig.events).filter((entry) => entry.id === "new")
      assert.deepStrictEqual(events.map((entry) => [entry.kind, entry.origin]), [["created", "sweep"]])
      assert.deepStrictEqual(JSON.parse(events[0]!.transitions), [{ name: "hired", from: null, to: "HIRED" }])
    }))

  it.effect("a record created years ago that is found late is old, whatever its changed_at is (B1, B3, B4)", () =>
    scenario(function*(rig) {
      yield* backfilled(rig, ["a"])
      yield* rig.change({ id: "old", outcome: "HIRED", remote_created_at: "2024-01-01T00:00:00.000Z" })
      const event = (yield* rig.events).find((entry) => entry.id === "old")!
      assert.deepStrictEqual([event.kind, event.origin, event.transitions], ["created", "backfill", "[]"])
    }))

  it.effect("a record dated in the future is old if it was there before the backfill, whichever run finds it first (B1, B4)", () =>
    scenario(function*(rig) {
      const long = { outcome: "HIRED", changed_at: "2024-01-01T00:00:00.000Z" }
      const dates = {
        hours: { remote_created_at: iso(start + 8 * 60 * minute) },
        days: { remote_created_at: iso(start + 30 * 24 * 60 * minute) },
        placeholder: { remote_created_at: "9999-12-31T23:59:59.999Z" },
        changed: { remote_created_at: null, changed_at: "9999-12-31T00:00:00.000Z" },
        both: { remote_created_at: "9999-12-31", changed_at: "9999-12-31" },
        changedOnly: { remote_created_at: null, changed_at: iso(start + 8 * 60 * minute) }
      }
      for (const [id, more] of Object.entries(dates)) yield* rig.put({ id, ...long, ...more }, { silent: true })
      yield* rig.sweep
      yield* rig.wait("1 hour")
      yield* rig.poll
      yield* rig.put({ id: "late", ...long, ...dates.placeholder }, { silent: true })
      yield* rig.sweep
      const found = (yield* rig.events).map(({ id, origin, transitions }) => [id, origin, transitions])
      assert.deepStrictEqual(found, [...Object.keys(dates), "late"].map((id) => [id, "backfill", "[]"]))
    }))

  it.effect("a record created while the backfill runs is new if its system sends local time as UTC, or our clock is slow (B2)", () =>
    scenario(function*(rig) {
      yield* fill(rig, ["a", "b"])
      rig.api.pageSize = 1
      rig.api.skew = 10 * minute
      rig.api.meanwhile = (request) => {
        if (request.cursor !== "1") return
        const now = start + 10 * minute
        rig.api.put(now, { id: "local", remote_created_at: iso(now + 8 * 60 * minute) })
        // `Date` has whole seconds, so the record may be younger than it
        rig.api.put(now + 999, { id: "utc", remote_created_at: iso(now + 999) })
      }
      yield* rig.wait("999 millis")
      yield* rig.sweep
      const found = (yield* rig.events).map(({ id, origin }) => [id, origin])
      assert.deepStrictEqual(found, [["a", "backfill"], ["b", "backfill"], ["local", "sweep"], ["utc", "sweep"]])
    }))

  it.effect("a new record that is hired when first read has the transition `hired` (T2)", () =>
    scenario(function*(rig) {
      yield* backfilled(rig, ["a"])
      yield* rig.change({ id: "new", outcome: "HIRED", remote_created_at: new Date(start + 60 * minute).toISOString() })
      const event = (yield* rig.events).find((entry) => entry.id === "new")!
      assert.strictEqual(event.origin, "poll")
      assert.deepStrictEqual(JSON.parse(event.transitions), [{ name: "hired", from: null, to: "HIRED" }])
    }))

  it.effect("a change on a path that updated_after does not react to is found by the sweep (N1)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a", job: { id: "J", name: "Cook" } })
      for (let i = 0; i < 2; i++) {
        yield* rig.wait("1 hour")
        yield* rig.poll
      }
      yield* rig.put({ id: "a", job: { id: "J", name: "Chef" } }, { silent: true })
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1"])
      yield* rig.sweep
      const event = (yield* rig.events).at(-1)!
      assert.deepStrictEqual([event.kind, event.origin], ["updated", "sweep"])
      assert.deepStrictEqual(JSON.parse(event.changes), [{ path: "/job/name", before: "Cook", after: "Chef" }])
    }))

  it.effect("a record created on an already read page while the sweep runs is not missing (D15, P2)", () =>
    scenario(function*(rig) {
      yield* backfilled(rig, ["a", "b"])
      rig.api.pageSize = 1
      rig.api.meanwhile = (request) => {
        if (request.cursor === "1" && request.ids === null) {
          const rest = [...rig.api.rows]
          rig.api.rows.clear()
          rig.api.put(start + 60 * minute, { id: "new", title: "new" })
          for (const [id, held] of rest) rig.api.rows.set(id, held)
        }
      }
      yield* rig.sweep
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.kinds("new"), ["created 1"])
    }))

  it.effect("a poll that ends between two pages of a sweep does not release changes that the sweep staged (D21)", () =>
    scenario(function*(rig) {
      yield* fill(rig, ["a", "b", "c"])
      yield* rig.sweep
      // The flags are too old for a poll by the time of the next run, so only the sweep returns them.
      yield* rig.flag("a")
      yield* rig.wait("1 hour")
      yield* rig.poll
      yield* rig.wait("1 hour")
      yield* rig.poll
      yield* rig.flag("b")
      rig.api.rows.get("b")!.matchedAt = 0
      rig.api.pageSize = 2
      rig.api.intercept = (request, answer) =>
        request.cursor === "2" ? refuse(new Transient({ code: null, message: "500" })) : answer
      yield* Effect.flip(rig.sweep)
      assert.deepStrictEqual(yield* rig.pending, { b: "staged" })
      rig.api.intercept = (_, answer) => answer
      yield* rig.poll
      assert.deepStrictEqual(yield* rig.pending, { b: "staged" })
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.kinds("b"), ["created 1", "deleted 2"])
    }))
})
