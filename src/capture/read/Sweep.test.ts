import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import { type Rig, scenario, start } from "../../../test/support/capture/Rig.ts"
import { refuse } from "../../../test/support/capture/ScriptedApi.ts"
import { Forbidden, Inactive, RateLimited, Transient, Unsupported } from "../../source/Source.ts"
import { Store } from "../../store/Store.ts"

const minute = 60_000
const iso = (time: number) => new Date(time).toISOString()
const fill = (rig: Rig, ids: ReadonlyArray<string>) =>
  Effect.forEach(ids, (id) => rig.put({ id, title: id }), { discard: true })

/** Backfills these records; returns an hour later. */
const backfill = Effect.fnUntraced(function*(rig: Rig, ids: ReadonlyArray<string>) {
  yield* fill(rig, ids)
  yield* rig.sweep
  yield* rig.wait("1 hour")
})

/** Asserts that the records are shown as absent without any confirm, however often they are requested. */
const isOnlyShown = Effect.fnUntraced(function*(rig: Rig, ids: ReadonlyArray<string>) {
  for (let round = 0; round < 3; round++) {
    assert.deepStrictEqual(yield* rig.confirmations, Object.fromEntries(ids.map((id) => [id, 0])))
    yield* rig.wait("1 hour")
    yield* rig.poll
    yield* rig.confirm
    yield* rig.sweep
  }
  assert.isTrue((yield* rig.events).every(({ kind }) => kind === "created"))
})

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
      yield* backfill(rig, ["a"])
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
      yield* backfill(rig, ["a"])
      yield* rig.change({ id: "new", outcome: "HIRED", remote_created_at: new Date(start + 60 * minute).toISOString() })
      const event = (yield* rig.events).find((entry) => entry.id === "new")!
      assert.strictEqual(event.origin, "poll")
      assert.deepStrictEqual(JSON.parse(event.transitions), [{ name: "hired", from: null, to: "HIRED" }])
    }))

  it.effect("a change on a path that updated_after does not react to is found by the sweep (N1)", () =>
    scenario(function*(rig) {
      yield* rig.put({ id: "a", job: { id: "J", name: "Cook" } })
      yield* rig.sweep
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

  it.effect("a record that vanished without a flag is pending as absent until two spaced confirmations agree, and is not deleted before (D2)", () =>
    scenario(function*(rig) {
      yield* backfill(rig, ["a", "b", "c", "d"])
      rig.api.vanish("b")
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, { b: "absent" })
      const store = yield* Store
      const confirmations = Effect.map(store.pendingRows({ limit: 10 }), (rows) => rows.map((row) => row.confirmations))
      yield* rig.confirm
      assert.deepStrictEqual(yield* confirmations, [1])
      yield* rig.wait("10 minutes")
      yield* rig.confirm
      assert.deepStrictEqual(yield* confirmations, [2])
      assert.deepStrictEqual(yield* rig.pending, { b: "staged" })
      assert.deepStrictEqual(yield* rig.kinds("b"), ["created 1"])
      const before = rig.api.requests.length
      yield* rig.confirm
      assert.strictEqual(rig.api.requests.length, before)
    }))

  it.effect("an absence is confirmed without extra delay after our clock was set back (D2, W4)", () =>
    scenario(function*(rig) {
      yield* backfill(rig, ["a", "b", "c", "d"])
      rig.api.vanish("b")
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, { b: "absent" })
      yield* TestClock.setTime(start + 1_000)
      yield* rig.confirm
      assert.deepStrictEqual(yield* rig.pending, { b: "staged" })
    }))

  it.effect("an absence is canceled by any observation of the record (D6)", () =>
    scenario(function*(rig) {
      yield* backfill(rig, ["a", "b", "c"])
      const held = rig.api.rows.get("b")!
      rig.api.vanish("b")
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, { b: "absent" })
      rig.api.rows.set("b", held)
      yield* rig.wait("1 hour")
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.kinds("b"), ["created 1"])
    }))

  it.effect("a record that shifting pages hide from the sweep is found by the confirmation and is not absent (D3)", () =>
    scenario(function*(rig) {
      yield* backfill(rig, ["a", "b", "c"])
      rig.api.intercept = (request, answer) =>
        request.ids === null ? { ...answer, results: answer.results.slice(1) } : answer
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, {})
    }))

  it.effect("an interrupted sweep infers no deletes and is resumed at its page (D4)", () =>
    scenario(function*(rig) {
      yield* backfill(rig, ["a", "b", "c", "d"])
      rig.api.vanish("d")
      rig.api.pageSize = 1
      rig.api.intercept = (request, answer) =>
        request.cursor === "2" ? refuse(new Transient({ code: null, message: "500" })) : answer
      yield* Effect.flip(rig.sweep)
      assert.deepStrictEqual(yield* rig.pending, {})
      rig.api.intercept = (_, answer) => answer
      const before = rig.api.requests.length
      yield* rig.sweep
      assert.strictEqual(rig.api.requests[before]!.cursor, "2")
      assert.deepStrictEqual(yield* rig.pending, { d: "absent" })
    }))

  it.effect("an API that returns [] for every request causes no absences, because the controls are missing too (D5)", () =>
    scenario(function*(rig) {
      yield* backfill(rig, ["a", "b", "c"])
      rig.api.intercept = (_, answer) => ({ ...answer, results: [], next: null })
      yield* rig.sweep
      yield* rig.poll
      // No control is left: the records are listed as unconfirmed, and the next observation cancels their absence.
      assert.deepStrictEqual(yield* rig.pending, { a: "absent", b: "absent", c: "absent" })
      const store = yield* Store
      assert.isTrue((yield* store.pendingRows({ limit: 10 })).every((row) => row.confirmations === 0))
      assert.strictEqual((yield* rig.events).length, 3)
      yield* rig.wait("1 hour")
      yield* rig.sweep
      assert.isTrue((yield* store.pendingRows({ limit: 10 })).every((row) => row.confirmations === 0))
      rig.api.intercept = (_, answer) => answer
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.strictEqual((yield* rig.events).length, 3)
    }))

  for (
    const [name, reason] of [
      ["404", new Unsupported({ code: null, message: "404" })],
      ["403", new Forbidden({ code: null, message: "403" })],
      ["inactive", new Inactive({ code: null, message: "gone" })]
    ] as const
  ) {
    it.effect(`a confirmation rejected with ${name} does not count (D12)`, () =>
      scenario(function*(rig) {
        yield* backfill(rig, ["a", "b", "c"])
        rig.api.vanish("b")
        rig.api.intercept = (request, answer) => request.ids === null ? answer : refuse(reason)
        yield* rig.sweep
        yield* isOnlyShown(rig, ["b"])
      }))
  }

  it.effect("the sweep stays open and confirms later if a confirmation is rejected with 429 (D12)", () =>
    scenario(function*(rig) {
      yield* backfill(rig, ["a", "b", "c"])
      rig.api.vanish("b")
      rig.api.intercept = (request, answer) =>
        request.ids === null
          ? answer
          : refuse(new RateLimited({ code: null, message: "429", retryAfter: 1000 }))
      yield* Effect.flip(rig.sweep)
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.strictEqual((yield* rig.state).sweep?.phase, "confirm")
      rig.api.intercept = (_, answer) => answer
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, { b: "absent" })
    }))

  const incomplete = {
    "lacks its controls": (rows: ReadonlyArray<unknown>) =>
      rows.filter((row) => !["a", "c"].includes((row as { id: string }).id)),
    "contains records that were not requested": (
      rows: ReadonlyArray<unknown>
    ) => [{ id: "unasked", title: "?" }, ...rows],
    "contains a row without an id": (rows: ReadonlyArray<unknown>) => [{ title: "?" }, ...rows]
  }
  for (const [defect, answered] of Object.entries(incomplete)) {
    it.effect(`a record in a response that ${defect} exists, so its absence is canceled (D2)`, () =>
      scenario(function*(rig) {
        yield* backfill(rig, ["a", "b", "c", "d", "e"])
        const b = rig.api.rows.get("b")!
        rig.api.vanish("b")
        rig.api.vanish("d")
        yield* rig.sweep
        assert.deepStrictEqual(yield* rig.confirmations, { b: 1, d: 1 })
        rig.api.rows.set("b", b)
        rig.api.intercept = (request, answer) =>
          request.ids === null ? answer : { ...answer, results: answered(answer.results) }
        yield* rig.wait("1 hour")
        yield* rig.confirm
        assert.deepStrictEqual(yield* rig.confirmations, { d: 1 })
      }))
  }

  it.effect("long ids are split over several requests that a proxy accepts (D2)", () =>
    scenario(function*(rig) {
      const ids = Array.from({ length: 300 }, (_, index) => `${"0".repeat(36)}${index}`)
      yield* backfill(rig, ids)
      for (const id of ids.slice(2, 240)) rig.api.vanish(id)
      const from = rig.api.requests.length
      yield* rig.sweep
      const lengths = rig.api.requests.slice(from).flatMap(({ ids }) =>
        ids === null ? [] : [encodeURIComponent(ids.join(",")).length]
      )
      assert.strictEqual(
        Object.values(yield* rig.confirmations).filter((confirmations) => confirmations === 1).length,
        238
      )
      assert.isAbove(lengths.length, 1)
      assert.isBelow(Math.max(...lengths), 6_200)
    }))

  for (const filter of ["that always returns []", "that the API ignores"]) {
    it.effect(`an \`ids\` filter ${filter} confirms no absence (D13)`, () =>
      scenario(function*(rig) {
        yield* backfill(rig, ["a", "b", "c", "d"])
        rig.api.vanish("b")
        const results = filter === "that the API ignores" ? [...rig.api.rows.values()].map((held) => held.row) : []
        rig.api.intercept = (request, answer) => request.ids === null ? answer : { ...answer, results }
        yield* rig.sweep
        yield* isOnlyShown(rig, ["b"])
      }))
  }

  it.effect("a server that reads only the first ids omits the last control, so no absence is confirmed (D22)", () =>
    scenario(function*(rig) {
      yield* backfill(rig, ["a", "b", "c", "d", "e"])
      rig.api.intercept = (request, answer) =>
        request.ids === null
          ? { ...answer, results: answer.results.filter((row) => !["b", "c"].includes((row as { id: string }).id)) }
          : { ...answer, results: answer.results.filter((row) => (row as { id: string }).id === request.ids![0]) }
      yield* rig.sweep
      yield* isOnlyShown(rig, ["b", "c"])
    }))

  for (const [order, direction, left] of [["ascending", 1, "d"], ["descending", -1, "c"]] as const) {
    it.effect(`a server that returns ids in ${order} order and stops too early omits a control, so no absence is confirmed (D22)`, () =>
      scenario(function*(rig) {
        yield* backfill(rig, ["a", "b", "c", "d", "e", "f"])
        const idOf = (row: unknown) => (row as { id: string }).id
        rig.api.intercept = (request, answer) => ({
          ...answer,
          results: request.ids === null
            ? answer.results.filter((row) => !["c", "d"].includes(idOf(row)))
            : answer.results.toSorted((a, b) => direction * idOf(a).localeCompare(idOf(b))).slice(0, 2)
        })
        yield* rig.sweep
        yield* isOnlyShown(rig, [left])
      }))
  }

  for (const ids of [["a", "b", "c,3", "d"], ["a,1", "b", "c,3", "d", "e"]]) {
    it.effect(`a record with a comma in its id is shown as absent, never deleted and never a control: ${ids.join(" ")} (D13)`, () =>
      scenario(function*(rig) {
        yield* backfill(rig, ids)
        rig.api.vanish("d")
        rig.api.intercept = ({ ids }, answer) => {
          const named = ids?.join(",").split(",")
          const isShown = ({ id }: { id: string }) => named === undefined ? id !== "c,3" : named.includes(id)
          return { ...answer, results: answer.results.filter((row) => isShown(row as { id: string })) }
        }
        for (let sweeps = 0; sweeps < 3; sweeps++) {
          yield* rig.sweep
          yield* rig.wait("1 hour")
          yield* rig.poll
        }
        assert.deepStrictEqual(yield* rig.pending, { "c,3": "absent" })
        assert.deepStrictEqual(yield* rig.kinds("c,3"), ["created 1"])
        assert.deepStrictEqual(yield* rig.kinds("d"), ["created 1", "deleted 2"])
        rig.api.intercept = (_, answer) => answer
        yield* rig.sweep
        assert.deepStrictEqual(yield* rig.pending, {})
      }))
  }

  it.effect("rows without an id in the sweep or in its confirmation prevent inferred deletes (D14)", () =>
    scenario(function*(rig) {
      yield* backfill(rig, ["a", "b", "c"])
      rig.api.vanish("b")
      for (const inConfirm of [false, true]) {
        rig.api.intercept = (request, answer) =>
          (request.ids !== null) === inConfirm
            ? { ...answer, results: [...answer.results, { title: "b" }] }
            : answer
        yield* rig.sweep
        yield* isOnlyShown(rig, inConfirm ? ["b"] : [])
      }
    }))

  it.effect("a record created on an already read page while the sweep runs is not missing (D15, P2)", () =>
    scenario(function*(rig) {
      yield* backfill(rig, ["a", "b"])
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
