/** Unchanged records are recognized by their bytes, without parsing them. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Rig, rigWith, scenario } from "../../../test/support/capture/Rig.ts"
import { compact, spell, type Spelling } from "../../../test/support/source/Spelling.ts"
import { scanValue } from "../../domain/JsonScan.ts"
import * as Processing from "../../domain/Processing.ts"
import { RawRow } from "../../domain/RawRow.ts"
import { SeededRandom } from "../../sandbox/world/SeededRandom.ts"

/** From now on the list has this spelling. Returns the ids of the records that were parsed since then. */
const respell = (rig: Rig, spelling: Spelling): Set<unknown> => {
  const parsed = new Set<unknown>()
  const random = new SeededRandom(1)
  rig.api.intercept = (_, answer) => ({
    ...answer,
    results: answer.results.map((value) => {
      const bytes = Buffer.from(spell(value, random, spelling))
      const row = new RawRow(bytes, scanValue(bytes, 0)!)
      Object.defineProperty(row, "value", {
        get: () => {
          parsed.add(row.id)
          return value
        }
      })
      return row
    })
  })
  return parsed
}

const fill = Effect.fnUntraced(function*(rig: Rig) {
  for (const id of ["a", "b", "c"]) {
    yield* rig.put({ id, title: `"${id}"`, tags: [{ id: "t" }, { id: "u" }], job: { id: "j", name: "Dev" } })
  }
  yield* rig.sweep
})

const countsOf = (rig: Rig) =>
  Effect.map(rig.state, ({ lastSweep }) => {
    const { changed, equivalent, unchanged } = lastSweep!.rowCounts
    return { changed, equivalent, unchanged }
  })

describe("a record in a list", () => {
  it.effect("is parsed only if its bytes changed (N2)", () =>
    scenario(function*(rig) {
      yield* fill(rig)
      const parsed = respell(rig, compact)
      yield* rig.sweep
      assert.deepStrictEqual([...parsed], [])
      assert.deepStrictEqual(yield* countsOf(rig), { changed: 0, equivalent: 0, unchanged: 3 })
      yield* rig.wait("1 minute")
      yield* rig.put({ id: "b", title: "new" }, { silent: true })
      yield* rig.sweep
      assert.deepStrictEqual([...parsed], ["b"])
      assert.deepStrictEqual(yield* rig.kinds("b"), ["created 1", "updated 2"])
    }))

  const spellings: Readonly<Record<string, Spelling>> = {
    "white space": { ...compact, space: 0.5 },
    "another order of properties": { ...compact, order: 0.5 },
    "escapes": { ...compact, escapes: 0.5 },
    "repeated properties": { ...compact, repeated: 0.5 }
  }
  for (const [difference, spelling] of Object.entries(spellings)) {
    it.effect(`with ${difference} is the same record, and is parsed once (S4, N2)`, () =>
      scenario(function*(rig) {
        yield* fill(rig)
        respell(rig, spelling)
        yield* rig.sweep
        assert.deepStrictEqual(yield* countsOf(rig), { changed: 0, equivalent: 3, unchanged: 0 })
        assert.strictEqual((yield* rig.events).length, 3)
        const parsed = respell(rig, spelling)
        yield* rig.sweep
        assert.deepStrictEqual([...parsed], [])
        assert.deepStrictEqual(yield* countsOf(rig), { changed: 0, equivalent: 0, unchanged: 3 })
      }))
  }

  it.effect("is parsed again once the rules by which it is processed change (V1)", () =>
    scenario(function*(rig) {
      yield* fill(rig)
      const parsed = respell(rig, compact)
      const later = rigWith(
        rig,
        Processing.make("ats.application", { remoteData: "drop", redact: { "/title": "hash" }, key: "k" })
      )
      yield* later.sweep
      assert.deepStrictEqual([...parsed], ["a", "b", "c"])
      parsed.clear()
      yield* later.sweep
      assert.deepStrictEqual([...parsed], [])
    }))
})
