/** Tests for derived models: which records show a derived record, and two streams in one transaction. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { Sources } from "../../src/store/Records.ts"
import type { Store } from "../../src/store/Store.ts"
import {
  all,
  begin,
  beginWith,
  created,
  eventOf,
  headOf,
  headsOf,
  ids,
  reasonOf,
  stateOf,
  Stop,
  testsIn
} from "./StoreSamples.ts"

const applications = { integration: "greenhouse:acme", model: "ats.application" } as const
const candidates = { ...applications, model: "ats.candidate" } as const

const setup = Effect.map(
  beginWith(applications, candidates),
  ({ inFirst, ...rig }) => ({ ...rig, inApplications: inFirst })
)

const copyOf = (id: string) => ({ id, parent: "", textHash: null })

const derivedIds = (...pairs: ReadonlyArray<readonly [string, string | null]>) => new Map(pairs)

export const derivedSuite = (name: string, layer: Layer.Layer<Store, unknown>): void => {
  describe(name, () => {
    const test = testsIn(layer, setup)

    test("a derived record is committed together with its source, or neither is", function*({ inApplications, store }) {
      const write = inApplications(Effect.fnUntraced(function*(tx) {
        const derived = yield* tx.derived
        assert.deepStrictEqual(derived.state, stateOf(candidates))
        yield* tx.setDerivedIds(derivedIds(["a", "c"]))
        yield* tx.write([created("a")])
        yield* derived.write([{
          head: headOf("c", { version: 1 }),
          events: [eventOf("c", 1, "created", { eventId: "c1" })]
        }])
        yield* derived.saveState({ ...derived.state, phase: "live" })
        return (yield* headsOf(derived, ["c"])).get("c")?.position
      }))
      yield* Effect.exit(inApplications((tx) =>
        Effect.andThen(
          Effect.flatMap(tx.derived, (derived) => derived.write([created("lost")])),
          Effect.fail(new Stop())
        )
      ))
      assert.strictEqual(yield* write, 2)
      assert.deepStrictEqual((yield* store.readLog(all)).map(({ id, model, position }) => [position, model, id]), [
        [1, "ats.application", "a"],
        [2, "ats.candidate", "c"]
      ])
      assert.strictEqual((yield* store.stream(candidates))?.phase, "live")
      assert.deepStrictEqual((yield* store.records(candidates, null, 10)).records.map(({ id }) => id), ["c"])
    })

    test("live derived records are counted", function*({ inApplications, store }) {
      const write = (id: string, live: boolean, wasLive: boolean) =>
        inApplications((tx) =>
          Effect.flatMap(
            tx.derived,
            (derived) => derived.write([{ head: headOf(id, { version: 1, live }), events: [], wasLive }])
          )
        )
      yield* write("a", true, false)
      yield* write("b", true, false)
      yield* write("a", true, true)
      yield* write("b", false, true)
      assert.strictEqual((yield* store.counts).find(({ model }) => model === "ats.candidate")?.live, 1)
    })

    testsIn(layer, begin)(
      "a transaction cannot derive records into a stream that does not exist",
      function*({ inTags, owner, store }) {
        yield* store.ensureStreams([stateOf(applications)])
        const inApplications = store.transact(owner, applications, (tx) => tx.derived)
        for (const derived of [inTags((tx) => tx.derived), inApplications]) {
          assert.strictEqual(reasonOf(yield* Effect.exit(derived)), "Incompatible")
        }
      }
    )

    /** The other live sources of each derived record, with their content. */
    const liveSources = ({ live }: Sources) =>
      [...live].map(([derivedId, own]) => [derivedId, ...own.map(({ content, id }) => `${id} ${content?.content}`)])

    test(
      "a record shows the derived record that was set last; live sources are listed in id order, up to a limit",
      function*({ change, inApplications, write }) {
        yield* write(["d", "a", "b", "e"].map(created))
        yield* inApplications((tx) =>
          tx.setDerivedIds(derivedIds(["d", "x"], ["a", "x"], ["b", "x"], ["e", "y"], ["never written", "x"]))
        )
        yield* inApplications((tx) => tx.setDerivedIds(derivedIds(["b", "y"], ["e", null], ["unknown", null])))
        const sources = (limit: number, ...changed: ReadonlyArray<string>) =>
          inApplications((tx) => tx.sources("ats.candidate", { changed, copies: ["x", "y", "z"].map(copyOf), limit }))
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
      function*({ inApplications, write }) {
        yield* write(["a", "b", "c", "d", "e"].map(created))
        yield* inApplications((tx) =>
          tx.setDerivedIds(derivedIds(["a", "x"], ["b", "x"], ["c", "y"], ["d", "y"], ["e", "z"]))
        )
        yield* inApplications(Effect.fnUntraced(function*(tx) {
          const derived = yield* tx.derived
          yield* derived.write([created("x"), { ...created("z"), head: headOf("z", { version: 1, textHash: "" }) }, {
            ...created("y"),
            head: headOf("y", { version: 1, live: false })
          }])
        }))
        const read = (...shown: ReadonlyArray<readonly [parent: string, id: string, textHash: string | null]>) =>
          Effect.map(
            inApplications((tx) =>
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

    test("hundreds of records can be set, queried and marked stale at once", function*({ inApplications, write }) {
      const many = ids(600)
      yield* write(many.map(created))
      yield* inApplications((tx) => tx.setDerivedIds(new Map(many.map((id) => [id, `of ${id}`]))))
      const copies = many.map((id) => copyOf(`of ${id}`))
      const before = yield* inApplications((tx) => tx.sources("ats.candidate", { changed: many, copies, limit: 5 }))
      assert.deepStrictEqual([before.before.size, before.live.size], [600, 0])
      assert.strictEqual(
        (yield* inApplications((tx) => tx.sources("ats.candidate", { changed: [], copies, limit: 5 }))).live.size,
        600
      )
      yield* inApplications((tx) => tx.markStale(many))
      yield* inApplications((tx) => tx.markStale(["r00000"]))
      assert.deepStrictEqual(yield* inApplications((tx) => tx.takeStale(600)), many)
    })

    test("a record that becomes stale again after it was requested stays stale", function*({ inApplications }) {
      yield* inApplications((tx) => tx.markStale(["a", "b"]))
      yield* inApplications((tx) => tx.takeStale(10))
      yield* inApplications((tx) => tx.markStale(["a"]))
      yield* inApplications((tx) => tx.markRefreshed(["a", "b"]))
      assert.deepStrictEqual(yield* inApplications((tx) => tx.takeStale(10)), ["a"])
    })
  })
}
