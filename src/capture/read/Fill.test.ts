import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Rig, scenario, start } from "../../../test/support/capture/Rig.ts"
import { Store } from "../../store/Store.ts"

const recordsOf = (rig: Rig) =>
  Effect.flatMap(Store, (store) => store.records(rig.stream.key, null, 100)).pipe(
    Effect.map(({ records }) => Object.fromEntries(records.map(({ id, version }) => [id, version])))
  )

/** Id, version and kind of each event, with the title before and after. */
const eventsOf = (rig: Rig) =>
  Effect.map(rig.events, (entries) =>
    entries.map(({ after, before, id, kind, version }) => {
      const title = (content: string | null) => content === null ? null : JSON.parse(content).title
      return [id, version, kind, title(before), title(after)]
    }))

const filling = { backfill: "fill" } as const

describe("a silent backfill", () => {
  it.effect("publishes nothing and stores its records as version 1, on which later changes follow", () =>
    scenario(function*(rig) {
      yield* rig.fill(...["a", "b", "c"].map((id) => ({ id, title: "1" })))
      assert.deepStrictEqual(yield* rig.events, [])
      assert.deepStrictEqual(yield* recordsOf(rig), { a: 1, b: 1, c: 1 })
      assert.strictEqual((yield* (yield* Store).logRange).newest, 3)
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "a", title: "2" })
      yield* rig.flag("b")
      yield* rig.poll
      assert.deepStrictEqual(yield* eventsOf(rig), [["a", 2, "updated", "1", "2"], ["b", 2, "deleted", "1", null]])
      assert.deepStrictEqual(yield* recordsOf(rig), { a: 2, c: 1 })
    }, filling))

  it.effect("publishes a record that is created while it runs (B2)", () =>
    scenario(function*(rig) {
      yield* rig.put({ id: "a", title: "1" })
      yield* rig.put({ id: "b", title: "1" })
      rig.api.pageSize = 1
      rig.api.meanwhile = (_, count) => {
        if (count === 2) rig.api.put(start, { id: "new", title: "1", remote_created_at: "2026-03-01T12:00:00.000Z" })
      }
      yield* rig.sweep
      assert.deepStrictEqual(yield* eventsOf(rig), [["new", 1, "created", null, "1"]])
    }, filling))

  it.effect("also stores an old record that it missed silently, whichever run finds it (B1)", () =>
    scenario(function*(rig) {
      yield* rig.fill({ id: "a", title: "1" })
      yield* rig.wait("1 hour")
      yield* rig.put({ id: "old", title: "1" })
      yield* rig.put({ id: "hired", title: "1", remote_created_at: "2026-03-01T13:00:00.000Z" })
      yield* rig.poll
      assert.deepStrictEqual(yield* eventsOf(rig), [["hired", 1, "created", null, "1"]])
      assert.deepStrictEqual(yield* recordsOf(rig), { a: 1, hired: 1, old: 1 })
    }, filling))
})
