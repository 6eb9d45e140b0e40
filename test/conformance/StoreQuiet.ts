/** Tests for replacing the state of a quiet stream that every store must pass. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { Store, type StoreError, type StreamTx } from "../../src/store/Store.ts"
import { begin, pendingOf, skills, stateOf, tags } from "./StoreSamples.ts"

const stored = Effect.flatMap(Store, (store) => Effect.map(store.stream(tags), (state) => state!))

export const quietSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`the state of a quiet stream in a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store>) =>
      it.effect(title, () => Effect.provide(body, layer))

    test(
      "is replaced if it is the stored one, and no other stream changes",
      Effect.gen(function*() {
        const { owner, store } = yield* begin
        const other = yield* store.stream(skills)
        const before = yield* stored
        const after = { ...before, watermark: 5, lastRunId: 7 }
        assert.isTrue(yield* store.replaceQuietState(owner, before, after))
        assert.deepStrictEqual(yield* stored, after)
        assert.isFalse(yield* store.replaceQuietState(owner, before, { ...after, lastRunId: 8 }))
        assert.deepStrictEqual(yield* stored, after)
        assert.isTrue(yield* store.replaceQuietState(owner, after, { ...after, lastRunId: 8 }))
        assert.deepStrictEqual(yield* store.stream(skills), other)
        const missing = stateOf({ ...tags, integration: "greenhouse:unknown" })
        assert.isFalse(yield* store.replaceQuietState(owner, missing, missing))
      })
    )

    test(
      "is not replaced for a process that another one fenced (I10)",
      Effect.gen(function*() {
        const { owner, store } = yield* begin
        const before = yield* stored
        const next = yield* store.takeOwnership(owner.scope)
        assert.isFalse(yield* store.replaceQuietState(owner, before, { ...before, lastRunId: 7 }))
        assert.isFalse(yield* store.replaceQuietState({ ...owner, scope: "unknown" }, before, before))
        assert.deepStrictEqual(yield* stored, before)
        assert.isTrue(yield* store.replaceQuietState(next, before, { ...before, lastRunId: 7 }))
      })
    )

    const obstacles: Readonly<
      Record<
        string,
        readonly [
          (tx: StreamTx) => Effect.Effect<unknown, StoreError>,
          (tx: StreamTx) => Effect.Effect<unknown, StoreError>
        ]
      >
    > = {
      "a pending row": [(tx) => tx.putPending([pendingOf("a")]), (tx) => tx.dropPending(["a"])],
      "a stale record": [(tx) => tx.markStale(["a"]), (tx) => tx.clearStale],
      "an undecided hold": [
        (tx) =>
          tx.openHold({
            kind: "deletes",
            state: "open",
            reason: "r",
            paths: [],
            openedAt: 1,
            decidedAt: null,
            released: 0,
            release: null
          }),
        (tx) => Effect.flatMap(tx.holds, ([hold]) => tx.saveHold({ ...hold!, state: "canceled", decidedAt: 2 }))
      ]
    }
    for (const [what, [add, remove]] of Object.entries(obstacles)) {
      test(
        `is not replaced while the stream has ${what}`,
        Effect.gen(function*() {
          const { inTags, owner, store } = yield* begin
          const before = yield* stored
          const after = { ...before, lastRunId: 7 }
          yield* store.transact(owner, skills, add)
          yield* inTags(add)
          assert.isFalse(yield* store.replaceQuietState(owner, before, after))
          assert.deepStrictEqual(yield* stored, before)
          yield* inTags(remove)
          assert.isTrue(yield* store.replaceQuietState(owner, before, after))
        })
      )
    }
  })
