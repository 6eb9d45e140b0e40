/** Tests of the history of a stream's runs that every store must pass. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { type EndedRun, keptRuns } from "../../src/store/Run.ts"
import { Store, type StoreError, type StreamTx } from "../../src/store/Store.ts"
import { begin, skills, Stop, tags } from "./StoreSamples.ts"

const runOf = (number: number, details: Partial<EndedRun> = {}): EndedRun => ({
  number,
  id: number * 10,
  kind: "poll",
  backfill: false,
  pass: 1,
  startedAt: 1_767_225_600_000,
  endedAt: 1_767_225_600_500,
  pages: 1,
  rowCounts: {
    read: 2,
    unchanged: 1,
    equivalent: 0,
    changed: 1,
    tombstones: 0,
    duplicates: 0,
    pending: 0,
    quarantined: 0
  },
  published: { created: 1, updated: 0, deleted: 0 },
  outcome: "complete",
  reason: null,
  times: 1,
  idle: { polls: 3, read: 1, since: 1_767_225_000_000, until: 1_767_225_300_000 },
  ...details
})

/** A run is recorded in the transaction that saves its number. */
const record = (run: EndedRun) =>
  Effect.fnUntraced(function*({ recordRun, saveState, state }: StreamTx) {
    yield* recordRun(run)
    yield* saveState({ ...state, recordedRuns: run.number })
  })

export const runSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`the history of runs in a store (${name})`, () => {
    const test = (title: string, body: Effect.Effect<void, unknown, Store>) =>
      it.effect(title, () => Effect.provide(body, layer))

    test(
      "has the runs of one stream as they were, the newest first",
      Effect.gen(function*() {
        const { inTags, owner, store } = yield* begin
        const [first, second] = [runOf(1), runOf(2, { kind: "sweep", outcome: "failed", reason: "502", id: null })]
        yield* inTags(record(first))
        yield* inTags(record(second))
        yield* store.transact(owner, skills, record(runOf(1, { pages: 7 })))
        assert.deepStrictEqual(yield* store.runs(tags), [second, first])
        assert.deepStrictEqual((yield* store.runs(skills)).map(({ pages }) => pages), [7])
        assert.deepStrictEqual(yield* store.runs({ ...tags, integration: "greenhouse:unknown" }), [])
      })
    )

    test(
      "has a run only if its transaction was committed (I2)",
      Effect.gen(function*() {
        const { inTags, store } = yield* begin
        const fails = (tx: StreamTx) => Effect.andThen(record(runOf(1))(tx), Effect.fail(new Stop()))
        assert.instanceOf(yield* Effect.flip(inTags(fails)), Stop)
        assert.deepStrictEqual(yield* store.runs(tags), [])
      })
    )

    test(
      "replaces a run that is recorded again with its number",
      Effect.gen(function*() {
        const { inTags, store } = yield* begin
        yield* inTags(record(runOf(1)))
        yield* inTags(record(runOf(1, { times: 2 })))
        assert.deepStrictEqual(yield* store.runs(tags), [runOf(1, { times: 2 })])
      })
    )

    test(
      "keeps the newest runs only, and none after the stream was erased (I9, X19)",
      Effect.gen(function*() {
        const { inTags, owner, store } = yield* begin
        for (let number = 1; number <= keptRuns + 3; number++) yield* inTags(record(runOf(number)))
        const numbers = (yield* store.runs(tags)).map(({ number }) => number)
        assert.deepStrictEqual(numbers, Array.from({ length: keptRuns }, (_, index) => keptRuns + 3 - index))
        yield* store.eraseStream(owner, tags)
        yield* begin
        assert.deepStrictEqual(yield* store.runs(tags), [])
      })
    )
  })
