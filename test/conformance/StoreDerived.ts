/** The suite of what is derived of a stream: who shows whom, and two streams in one transaction. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { Store } from "../../src/store/Store.ts"
import { all, begin, created, eventOf, headOf, ids, reasonOf, stateOf, Stop, tags } from "./StoreSamples.ts"

const candidates = { integration: tags.integration, model: "ats.candidate" } as const

const begun = Effect.tap(begin, ({ store }) => store.ensureStreams([stateOf(candidates)]))

const children = (...pairs: ReadonlyArray<readonly [string, string | null]>) => new Map(pairs)

export const derivedSuite = (name: string, layer: Layer.Layer<Store, unknown>): void => {
  describe(name, () => {
    it.effect("what is derived is written with what it is derived of, or neither is", () =>
      Effect.gen(function*() {
        const { inTags, store } = yield* begun
        const write = inTags(Effect.fnUntraced(function*(tx) {
          const derived = yield* tx.derived("ats.candidate")
          assert.deepStrictEqual(derived.state, stateOf(candidates))
          yield* tx.setDerivedIds(children(["a", "c"]))
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
      }).pipe(Effect.provide(layer)))

    it.effect("nothing can be derived into a stream that is not there", () =>
      Effect.gen(function*() {
        const { inTags } = yield* begin
        const exit = yield* Effect.exit(inTags((tx) => tx.derived("ats.candidate")))
        assert.strictEqual(reasonOf(exit), "Incompatible")
      }).pipe(Effect.provide(layer)))

    it.effect("a record shows the one it was last set to show; who shows one is told of the living, in order and bounded", () =>
      Effect.gen(function*() {
        const { change, inTags, write } = yield* begun
        yield* write(["d", "a", "b", "e"].map(created))
        yield* inTags((tx) =>
          tx.setDerivedIds(children(["d", "x"], ["a", "x"], ["b", "x"], ["e", "y"], ["never written", "x"]))
        )
        yield* inTags((tx) => tx.setDerivedIds(children(["b", "y"], ["e", null], ["unknown", null])))
        assert.deepStrictEqual(
          yield* inTags((tx) => tx.derivedIds(["a", "b", "e", "unknown"])),
          new Map([["a", "x"], ["b", "y"]])
        )
        yield* change("a", "updated")
        const parents = (most: number) =>
          Effect.map(
            inTags((tx) => tx.liveSources(["x", "y", "z"], most)),
            (found) => [...found].map(([child, own]) => [child, ...own.map(({ id, position }) => `${id} ${position}`)])
          )
        assert.deepStrictEqual(yield* parents(10), [["x", "a 5", "d 1"], ["y", "b 3"]])
        assert.deepStrictEqual(yield* parents(1), [["x", "a 5"], ["y", "b 3"]])
        yield* change("a", "deleted")
        assert.deepStrictEqual(yield* parents(1), [["x", "d 1"], ["y", "b 3"]])
        assert.deepStrictEqual([...yield* inTags((tx) => tx.deletedSources(["x", "y", "z"]))], [["x", ["a"]]])
      }).pipe(Effect.provide(layer)))

    it.effect("as many as one likes are set, asked for and owed at once", () =>
      Effect.gen(function*() {
        const { inTags, write } = yield* begun
        const many = ids(600)
        yield* write(many.map(created))
        yield* inTags((tx) => tx.setDerivedIds(new Map(many.map((id) => [id, `of ${id}`]))))
        assert.strictEqual((yield* inTags((tx) => tx.derivedIds(many))).size, 600)
        assert.strictEqual((yield* inTags((tx) => tx.liveSources(many.map((id) => `of ${id}`), 5))).size, 600)
        yield* inTags((tx) => tx.markStale(many))
        yield* inTags((tx) => tx.markStale(["r00000"]))
        assert.deepStrictEqual(yield* inTags((tx) => tx.takeStale(600)), many)
      }).pipe(Effect.provide(layer)))

    it.effect("what is owed again after it was asked for stays owed", () =>
      Effect.gen(function*() {
        const { inTags } = yield* begun
        yield* inTags((tx) => tx.markStale(["a", "b"]))
        yield* inTags((tx) => tx.takeStale(10))
        yield* inTags((tx) => tx.markStale(["a"]))
        yield* inTags((tx) => tx.markRefreshed(["a", "b"]))
        assert.deepStrictEqual(yield* inTags((tx) => tx.takeStale(10)), ["a"])
      }).pipe(Effect.provide(layer)))
  })
}
