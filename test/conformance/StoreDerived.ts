/** Tests for derived models: which records show a derived record, and two streams in one transaction. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { Store } from "../../src/store/Store.ts"
import { all, begin, created, eventOf, headOf, ids, reasonOf, stateOf, Stop, tags, testsIn } from "./StoreSamples.ts"

const candidates = { integration: tags.integration, model: "ats.candidate" } as const

const setup = Effect.tap(begin, ({ store }) => store.ensureStreams([stateOf(candidates)]))

const derivedIds = (...pairs: ReadonlyArray<readonly [string, string | null]>) => new Map(pairs)

export const derivedSuite = (name: string, layer: Layer.Layer<Store, unknown>): void => {
  describe(name, () => {
    const test = testsIn(layer, setup)

    test("a derived record is committed together with its source, or neither is", function*({ inTags, store }) {
      const write = inTags(Effect.fnUntraced(function*(tx) {
        const derived = yield* tx.derived("ats.candidate")
        assert.deepStrictEqual(derived.state, stateOf(candidates))
        yield* tx.setDerivedIds(derivedIds(["a", "c"]))
        yield* tx.write([created("a")])
        yield* derived.write([{
          head: headOf("c", { version: 1 }),
          events: [eventOf("c", 1, "created", { eventId: "c1" })]
        }])
        yield* derived.saveState({ ...derived.state, phase: "live" })
        return (yield* derived.heads(["c"])).get("c")?.position
      }))
      yield* Effect.exit(inTags((tx) =>
        Effect.andThen(
          Effect.flatMap(tx.derived("ats.candidate"), (derived) => derived.write([created("lost")])),
          Effect.fail(new Stop())
        )
      ))
      assert.strictEqual(yield* write, 2)
      assert.deepStrictEqual((yield* store.readLog(all)).map(({ id, model, position }) => [position, model, id]), [
        [1, "ats.tag", "a"],
        [2, "ats.candidate", "c"]
      ])
      assert.strictEqual((yield* store.stream(candidates))?.phase, "live")
      assert.deepStrictEqual((yield* store.records(candidates, null, 10)).records.map(({ id }) => id), ["c"])
    })

    testsIn(layer, begin)(
      "a transaction cannot derive records into a stream that does not exist",
      function*({ inTags }) {
        const exit = yield* Effect.exit(inTags((tx) => tx.derived("ats.candidate")))
        assert.strictEqual(reasonOf(exit), "Incompatible")
      }
    )

    test(
      "a record shows the derived record that was set last; live sources are listed in id order, up to a limit",
      function*({ change, inTags, write }) {
        yield* write(["d", "a", "b", "e"].map(created))
        yield* inTags((tx) =>
          tx.setDerivedIds(derivedIds(["d", "x"], ["a", "x"], ["b", "x"], ["e", "y"], ["never written", "x"]))
        )
        yield* inTags((tx) => tx.setDerivedIds(derivedIds(["b", "y"], ["e", null], ["unknown", null])))
        assert.deepStrictEqual(
          yield* inTags((tx) => tx.derivedIds(["a", "b", "e", "unknown"])),
          new Map([["a", "x"], ["b", "y"]])
        )
        yield* change("a", "updated")
        const liveSources = (most: number) =>
          Effect.map(
            inTags((tx) => tx.liveSources(["x", "y", "z"], most)),
            (found) =>
              [...found].map(([derivedId, own]) => [derivedId, ...own.map(({ id, position }) => `${id} ${position}`)])
          )
        assert.deepStrictEqual(yield* liveSources(10), [["x", "a 5", "d 1"], ["y", "b 3"]])
        assert.deepStrictEqual(yield* liveSources(1), [["x", "a 5"], ["y", "b 3"]])
        yield* change("a", "deleted")
        assert.deepStrictEqual(yield* liveSources(1), [["x", "d 1"], ["y", "b 3"]])
        assert.deepStrictEqual([...yield* inTags((tx) => tx.deletedSources(["x", "y", "z"]))], [["x", ["a"]]])
      }
    )

    test("hundreds of records can be set, queried and marked stale at once", function*({ inTags, write }) {
      const many = ids(600)
      yield* write(many.map(created))
      yield* inTags((tx) => tx.setDerivedIds(new Map(many.map((id) => [id, `of ${id}`]))))
      assert.strictEqual((yield* inTags((tx) => tx.derivedIds(many))).size, 600)
      assert.strictEqual((yield* inTags((tx) => tx.liveSources(many.map((id) => `of ${id}`), 5))).size, 600)
      yield* inTags((tx) => tx.markStale(many))
      yield* inTags((tx) => tx.markStale(["r00000"]))
      assert.deepStrictEqual(yield* inTags((tx) => tx.takeStale(600)), many)
    })

    test("a record that becomes stale again after it was requested stays stale", function*({ inTags }) {
      yield* inTags((tx) => tx.markStale(["a", "b"]))
      yield* inTags((tx) => tx.takeStale(10))
      yield* inTags((tx) => tx.markStale(["a"]))
      yield* inTags((tx) => tx.markRefreshed(["a", "b"]))
      assert.deepStrictEqual(yield* inTags((tx) => tx.takeStale(10)), ["a"])
    })
  })
}
