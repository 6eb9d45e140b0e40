/** Tests for derived models: which records show a derived record, and two streams in one transaction. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { Sources } from "../../src/store/Records.ts"
import type { Store } from "../../src/store/Store.ts"
import { all, begin, created, eventOf, headOf, ids, reasonOf, stateOf, Stop, tags, testsIn } from "./StoreSamples.ts"

const candidates = { integration: tags.integration, model: "ats.candidate" } as const

const setup = Effect.tap(begin, ({ store }) => store.ensureStreams([stateOf(candidates)]))

const copyOf = (id: string) => ({ id, parent: "", textHash: null })

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

    test("live derived records are counted, whether or not their heads have been read", function*({ inTags, store }) {
      const live = Effect.map(store.counts, (all) => all.find(({ model }) => model === "ats.candidate")?.live)
      const write = (id: string, isLive: boolean, isLiveBefore?: boolean) =>
        inTags((tx) =>
          Effect.flatMap(
            tx.derived("ats.candidate", isLiveBefore === undefined ? undefined : new Map([[id, isLiveBefore]])),
            (derived) => derived.write([{ head: headOf(id, { version: 1, live: isLive }), events: [] }])
          )
        )
      yield* write("a", true, false)
      yield* write("b", true)
      yield* write("a", true, true)
      assert.strictEqual(yield* live, 2)
      yield* write("a", false, true)
      yield* write("b", false)
      assert.strictEqual(yield* live, 0)
    })

    testsIn(layer, begin)(
      "a transaction cannot derive records into a stream that does not exist",
      function*({ inTags }) {
        const exit = yield* Effect.exit(inTags((tx) => tx.derived("ats.candidate")))
        assert.strictEqual(reasonOf(exit), "Incompatible")
      }
    )

    /** The other live sources of each derived record, with their content. */
    const liveSources = ({ live }: Sources) =>
      [...live].map(([derivedId, own]) => [derivedId, ...own.map(({ content, id }) => `${id} ${content?.content}`)])

    test(
      "a record shows the derived record that was set last; live sources are listed in id order, up to a limit",
      function*({ change, inTags, write }) {
        yield* write(["d", "a", "b", "e"].map(created))
        yield* inTags((tx) =>
          tx.setDerivedIds(derivedIds(["d", "x"], ["a", "x"], ["b", "x"], ["e", "y"], ["never written", "x"]))
        )
        yield* inTags((tx) => tx.setDerivedIds(derivedIds(["b", "y"], ["e", null], ["unknown", null])))
        const sources = (limit: number, ...changed: ReadonlyArray<string>) =>
          inTags((tx) => tx.sources("ats.candidate", { changed, copies: ["x", "y", "z"].map(copyOf), limit }))
        assert.deepStrictEqual(
          (yield* sources(10, "a", "b", "e", "unknown")).before,
          new Map([["a", "x"], ["b", "y"]])
        )
        yield* change("a", "updated")
        const [a, b, d] = [["a", 2], ["b", 1], ["d", 1]].map(([id, version]) => JSON.stringify({ id, version }))
        assert.deepStrictEqual(liveSources(yield* sources(10)), [["x", `a ${a}`, `d ${d}`], ["y", `b ${b}`]])
        assert.deepStrictEqual(liveSources(yield* sources(1)), [["x", `a ${a}`], ["y", `b ${b}`]])
        assert.deepStrictEqual(liveSources(yield* sources(1, "a")), [["x", `d ${d}`], ["y", `b ${b}`]])
        assert.strictEqual((yield* sources(10)).withDeleted.size, 0)
        yield* change("a", "deleted")
        assert.deepStrictEqual(liveSources(yield* sources(1)), [["x", `d ${d}`], ["y", `b ${b}`]])
        assert.deepStrictEqual([...(yield* sources(10)).withDeleted], ["x"])
        assert.strictEqual((yield* sources(10, "a")).withDeleted.size, 0)
      }
    )

    test(
      "the sources of a derived record are read if its stored text is not shown, if it is deleted, or if a record no longer shows it",
      function*({ inTags, write }) {
        yield* write(["a", "b", "c", "d", "e"].map(created))
        yield* inTags((tx) => tx.setDerivedIds(derivedIds(["a", "x"], ["b", "x"], ["c", "y"], ["d", "y"], ["e", "z"])))
        yield* inTags(Effect.fnUntraced(function*(tx) {
          const derived = yield* tx.derived("ats.candidate")
          yield* derived.write([created("x"), { ...created("z"), head: headOf("z", { version: 1, textHash: "" }) }, {
            ...created("y"),
            head: headOf("y", { version: 1, live: false })
          }])
        }))
        const read = (...shown: ReadonlyArray<readonly [parent: string, id: string, textHash: string | null]>) =>
          Effect.map(
            inTags((tx) =>
              tx.sources("ats.candidate", {
                changed: ["a", "c"],
                copies: shown.map(([parent, id, textHash]) => ({ parent, id, textHash })),
                limit: 10
              })
            ),
            ({ derived, live }) => [
              [...derived].map(([id, { content }]) => `${id} ${content !== null}`).sort(),
              [...live].map(([id, own]) => `${id} ${own.map(({ id }) => id)}`)
            ]
          )
        const same = headOf("x").textHash
        assert.deepStrictEqual(yield* read(["a", "x", same], ["c", "y", same]), [["x false", "y true"], ["y d"]])
        assert.deepStrictEqual(yield* read(["a", "x", "other"], ["c", "y", same]), [["x true", "y true"], [
          "x b",
          "y d"
        ]])
        // a moved to y; its text is the stored one in another record
        assert.deepStrictEqual(yield* read(["c", "x", same], ["a", "y", same]), [["x true", "y true"], ["x b", "y d"]])
        assert.deepStrictEqual(yield* read(), [["x true", "y true"], ["x b", "y d"]])
        // a head of an earlier version has no hash of a text
        assert.deepStrictEqual(yield* read(["a", "x", same], ["c", "z", null]), [["x false", "y true", "z true"], [
          "y d",
          "z e"
        ]])
      }
    )

    test("hundreds of records can be set, queried and marked stale at once", function*({ inTags, write }) {
      const many = ids(600)
      yield* write(many.map(created))
      yield* inTags((tx) => tx.setDerivedIds(new Map(many.map((id) => [id, `of ${id}`]))))
      const copies = many.map((id) => copyOf(`of ${id}`))
      const before = yield* inTags((tx) => tx.sources("ats.candidate", { changed: many, copies, limit: 5 }))
      assert.deepStrictEqual([before.before.size, before.live.size], [600, 0])
      assert.strictEqual(
        (yield* inTags((tx) => tx.sources("ats.candidate", { changed: [], copies, limit: 5 }))).live.size,
        600
      )
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
