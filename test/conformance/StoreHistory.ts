/** Tests that the history of every store must pass: samples of the installation, one per minute of a day. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { historyInterval, type HistorySample, historySlots } from "../../src/store/Operators.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import { begin } from "./StoreSamples.ts"

const day = historySlots * historyInterval

const sampleAt = (at: number): HistorySample => ({
  at,
  median: 1.5,
  worst: 20,
  events: 12,
  unpublished: 0,
  deliveries: 3,
  deadLetters: 1,
  late: 0,
  blocked: 2,
  holds: 1
})

export const historySuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`the history of a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store>) =>
      it.effect(title, () => Effect.provide(body, layer))

    const times = (since: number) =>
      Effect.gen(function*() {
        const { history } = yield* Store
        return (yield* history(since)).map(({ at }) => at)
      })

    test(
      "returns the samples as they were, in the order of their times",
      Effect.gen(function*() {
        const { store } = yield* begin
        const samples = [sampleAt(day), sampleAt(day + historyInterval), sampleAt(day + 2 * historyInterval)]
        for (const sample of samples.toReversed()) yield* store.recordSample(sample)
        assert.deepStrictEqual(yield* store.history(0), samples)
        assert.deepStrictEqual(yield* store.history(day + 1), samples.slice(1))
      })
    )

    test(
      "keeps the first sample of a minute, whichever process adds it",
      Effect.gen(function*() {
        const { store } = yield* begin
        yield* store.recordSample(sampleAt(day + 5))
        yield* store.recordSample(sampleAt(day + 7))
        yield* store.recordSample(sampleAt(day + historyInterval - 1))
        assert.deepStrictEqual(yield* times(0), [day + 5])
      })
    )

    test(
      "replaces the sample of the day before, so that the number of samples is bounded (I9)",
      Effect.gen(function*() {
        const { store } = yield* begin
        for (let minute = 0; minute < 3; minute++) yield* store.recordSample(sampleAt(day + minute * historyInterval))
        yield* store.recordSample(sampleAt(2 * day + historyInterval))
        // our clock was set back by a day
        yield* store.recordSample(sampleAt(day + 2 * historyInterval - day))
        assert.deepStrictEqual(yield* times(0), [2 * historyInterval, day, 2 * day + historyInterval])
      })
    )
  })
