/** `assessment.package`, a list that the API only returns as a whole. */
import { assert, describe, it } from "@effect/vitest"
import { type Rig, scenario as scenarioOf } from "../../../test/support/capture/Rig.ts"
import type { ScriptedApi } from "../../../test/support/capture/ScriptedApi.ts"

/** Rows of packages have none of the timestamps that lists with `updated_after` have. The API ignores `ids`. */
const plainRows = ({ rows }: ScriptedApi) => {
  const keep = new Set(["id", "name", "type", "updated_at"])
  return [...rows.values()].map(({ row }) => Object.fromEntries(Object.entries(row).filter(([key]) => keep.has(key))))
}

const scenario = (test: (rig: Rig) => ReturnType<Parameters<typeof scenarioOf>[0]>) =>
  scenarioOf((rig) => {
    rig.api.intercept = (_, answer) => ({ ...answer, results: plainRows(rig.api) })
    return test(rig)
  }, { model: "assessment.package" })

describe("assessment packages", () => {
  it.effect("packages of the first run are old, later ones are new, and no package is requested by id", () =>
    scenario(function*(rig) {
      yield* rig.backfill({ id: "a", name: "Typing" })
      yield* rig.fill({ id: "b", name: "Logic" }, { id: "a", name: "Typing fast" })
      const events = yield* rig.events
      assert.deepStrictEqual(
        events.map(({ id, kind, origin, version }) => [id, kind, version, origin]),
        [["a", "created", 1, "backfill"], ["a", "updated", 2, "sweep"], ["b", "created", 1, "sweep"]]
      )
      assert.isTrue(rig.api.requests.every(({ ids, updatedAfter }) => ids === null && updatedAfter === null))
    }))

  it.effect("a package that a run shows twice, with different contents, is published once a later run shows it once (P3)", () =>
    scenario(function*(rig) {
      yield* rig.fill(...["a", "b", "c", "d", "e"].map((id) => ({ id, name: "1" })))
      const { intercept } = rig.api
      rig.api.intercept = (_, answer) => ({ ...answer, results: [...plainRows(rig.api), { id: "a", name: "2" }] })
      yield* rig.wait("1 minute")
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, { a: "disputed" })
      rig.api.intercept = intercept
      yield* rig.put({ id: "a", name: "2" })
      yield* rig.wait("1 minute")
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "updated 2"])
      assert.isTrue(rig.api.requests.every(({ ids }) => ids === null))
    }))

  it.effect("each complete run moves the watermark by the server's clock (I6)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a" })
      const first = yield* rig.state
      rig.api.skew = 3_000
      yield* rig.wait("1 minute")
      yield* rig.sweep
      const second = yield* rig.state
      assert.deepStrictEqual(
        [second.previousWatermark, second.watermark],
        [first.watermark, first.watermark! + 63_000]
      )
    }))

  it.effect("two complete runs, spaced in time, confirm that a package is gone, and a run that reads it cancels the absence (D2)", () =>
    scenario(function*(rig) {
      yield* rig.fill(...["a", "b", "c"].map((id) => ({ id })))
      rig.api.vanish("a")
      rig.api.vanish("b")
      for (let minute = 0; minute < 2; minute++) {
        yield* rig.wait("1 minute")
        yield* rig.sweep
        assert.deepStrictEqual(yield* rig.confirmations, { a: 1, b: 1 })
      }
      yield* rig.put({ id: "b" })
      yield* rig.wait("10 minutes")
      yield* rig.sweep
      assert.deepStrictEqual(yield* rig.pending, {})
      assert.deepStrictEqual(yield* rig.kinds("a"), ["created 1", "deleted 2"])
      assert.deepStrictEqual(yield* rig.kinds("b"), ["created 1"])
    }))
})
