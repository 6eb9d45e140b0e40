/** Tests that the search for changes of every store must pass. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { LogSearch } from "../../src/store/EventLog.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import { begin, changeOf, created, headOf, skills, tags } from "./StoreSamples.ts"

const caused = (delivery: number) => JSON.stringify({ plugin: "p", delivery: String(delivery), depth: 1, paths: [""] })

export const searchSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`a search in a store's log (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store>) =>
      it.effect(title, () => Effect.provide(body, layer))

    const find = (query: Partial<LogSearch> = {}) =>
      Effect.gen(function*() {
        const { searchLog } = yield* Store
        const { entries, next } = yield* searchLog({ limit: 10, positions: 100, ...query })
        return [entries.map(({ id, version }) => `${id}${version}`), next]
      })

    test(
      "finds events from the newest to the oldest, by stream, kind and record",
      Effect.gen(function*() {
        const { change, write } = yield* begin
        yield* change("a", "created")
        yield* write([created("a"), created("b")], skills)
        yield* change("a", "updated")
        yield* change("a", "deleted")
        assert.deepStrictEqual(yield* find(), [["a3", "a2", "b1", "a1", "a1"], null])
        assert.deepStrictEqual(yield* find({ models: [skills.model] }), [["b1", "a1"], null])
        assert.deepStrictEqual(yield* find({ kinds: ["deleted"] }), [["a3"], null])
        assert.deepStrictEqual(yield* find({ id: "a", integrations: [tags.integration] }), [["a3", "a2", "a1"], null])
        assert.deepStrictEqual(yield* find({ id: "a" }), [["a3", "a2", "a1", "a1"], null])
        assert.deepStrictEqual(yield* find({ id: "c" }), [[], null])
      })
    )

    test(
      "reads a bounded part of the log, and says where to continue",
      Effect.gen(function*() {
        const { write } = yield* begin
        for (let count = 0; count < 5; count++) yield* write([created(`s${count}`)], skills)
        yield* write([created("t")])
        assert.deepStrictEqual(yield* find({ models: [skills.model], positions: 2 }), [["s41"], 5])
        assert.deepStrictEqual(yield* find({ models: [skills.model], positions: 2, before: 5 }), [["s31", "s21"], 3])
        assert.deepStrictEqual(yield* find({ models: [skills.model], positions: 2, before: 3 }), [["s11", "s01"], null])
        assert.deepStrictEqual(yield* find({ limit: 2 }), [["t1", "s41"], 5])
      })
    )

    test(
      "finds the changes that the writes of a delivery caused, and no others",
      Effect.gen(function*() {
        const { store, write } = yield* begin
        yield* write([changeOf(headOf("a"), "created", { cause: caused(1) })])
        yield* write([changeOf(headOf("b"), "created", { cause: caused(11) }), created("c")], skills)
        const echoes = (delivery: number, after = 0) =>
          Effect.map(store.echoesOf({ delivery, after, positions: 100 }), (found) => found.map(({ id }) => id))
        assert.deepStrictEqual(yield* echoes(1), ["a"])
        assert.deepStrictEqual(yield* echoes(11), ["b"])
        assert.deepStrictEqual(yield* echoes(1, 1), [])
      })
    )
  })
