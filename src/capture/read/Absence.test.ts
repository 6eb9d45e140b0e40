/** Records that a sweep did not read: which confirmations show that they are deleted. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import { type Rig, scenario, start } from "../../../test/support/capture/Rig.ts"
import { refuse } from "../../../test/support/capture/ScriptedApi.ts"
import { backfilled } from "../../../test/support/capture/Waves.ts"
import { Forbidden, Inactive, RateLimited, Transient, Unsupported } from "../../source/Source.ts"
import { Store } from "../../store/Store.ts"

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

describe("Absence", () => {
  it.effect("a record that vanished without a flag is pending as absent until two spaced confirmations agree, and is not deleted before (D2)", () =>
    scenario(function*(rig) {
      yield* backfilled(rig, ["a", "b", "c", "d"])
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
      yield* backfilled(rig, ["a", "b", "c", "d"])
      rig.api.vanish("b")
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, { b: "absent" })
      yield* TestClock.setTime(start + 1_000)
      yield* rig.confirm
      assert.deepStrictEqual(yield* rig.pending, { b: "staged" })
    }))

  it.effect("an absence is canceled by any observation of the record (D6)", () =>
    scenario(function*(rig) {
      yield* backfilled(rig, ["a", "b", "c"])
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
      yield* backfilled(rig, ["a", "b", "c"])
      rig.api.intercept = (request, answer) =>
        request.ids === null ? { ...answer, results: answer.results.slice(1) } : answer
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, {})
    }))

  it.effect("a record that moves between two pages of the confirmation hides no other record from it (D3)", () =>
    scenario(function*(rig) {
      const ids = ["a", "b", "c", "d", "e", "f"]
      yield* backfilled(rig, ids)
      rig.api.pageSize = 3
      const [first, last] = ["a", "f"].map((id) => rig.api.rows.get(id)!.row)
      rig.api.intercept = (request, answer) =>
        request.ids === null ? { ...answer, results: [first, last], next: null } : answer
      // the first record moves to the end behind each first page, so that the fourth one moves in front of the cursor
      rig.api.meanwhile = ({ cursor, ids }) => {
        if (ids === null || cursor === null) return
        const [[id, held] = []] = rig.api.rows
        rig.api.rows.delete(id!)
        rig.api.rows.set(id!, held!)
      }
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, {})
    }))

  for (const pageSize of [1, 2, 3]) {
    it.effect(`absences are confirmed if a page has at most ${pageSize} rows (D3)`, () =>
      scenario(function*(rig) {
        yield* backfilled(rig, ["a", "b", "c", "d", "e", "f"])
        for (const id of ["b", "d", "e"]) rig.api.vanish(id)
        rig.api.pageSize = pageSize
        yield* rig.sweep
        assert.deepStrictEqual(yield* rig.confirmations, { b: 1, d: 1, e: 1 })
      }))
  }

  it.effect("an interrupted sweep infers no deletes and is resumed at its page (D4)", () =>
    scenario(function*(rig) {
      yield* backfilled(rig, ["a", "b", "c", "d"])
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
      yield* backfilled(rig, ["a", "b", "c"])
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
        yield* backfilled(rig, ["a", "b", "c"])
        rig.api.vanish("b")
        rig.api.intercept = (request, answer) => request.ids === null ? answer : refuse(reason)
        yield* rig.sweep
        yield* isOnlyShown(rig, ["b"])
      }))
  }

  it.effect("the sweep stays open and confirms later if a confirmation is rejected with 429 (D12)", () =>
    scenario(function*(rig) {
      yield* backfilled(rig, ["a", "b", "c"])
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
        yield* backfilled(rig, ["a", "b", "c", "d", "e"])
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
      yield* backfilled(rig, ids)
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
        yield* backfilled(rig, ["a", "b", "c", "d"])
        rig.api.vanish("b")
        const results = filter === "that the API ignores" ? [...rig.api.rows.values()].map((held) => held.row) : []
        rig.api.intercept = (request, answer) => request.ids === null ? answer : { ...answer, results }
        yield* rig.sweep
        yield* isOnlyShown(rig, ["b"])
      }))
  }

  it.effect("a server that reads only the first ids omits the last control, so no absence is confirmed (D22)", () =>
    scenario(function*(rig) {
      yield* backfilled(rig, ["a", "b", "c", "d", "e"])
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
        yield* backfilled(rig, ["a", "b", "c", "d", "e", "f"])
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
        yield* backfilled(rig, ids)
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
      yield* backfilled(rig, ["a", "b", "c"])
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
})
