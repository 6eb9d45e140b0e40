/** Tests that every store must pass: the history of a stream's runs, and replacing the state of a quiet stream. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { type EndedRun, keptRuns } from "../../src/store/Run.ts"
import { Store, type StoreError, type StreamTx } from "../../src/store/Store.ts"
import { begin, employees, pendingOf, stateOf, Stop, tags, testsIn } from "./StoreSamples.ts"

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
    const test = testsIn(layer, begin)

    test("has the runs of one stream as they were, the newest first", function*({ inTags, owner, store }) {
      const [first, second] = [runOf(1), runOf(2, { kind: "sweep", outcome: "failed", reason: "502", id: null })]
      yield* inTags(record(first))
      yield* inTags(record(second))
      yield* store.transact(owner, employees, record(runOf(1, { pages: 7 })))
      assert.deepStrictEqual(yield* store.runs(tags), [second, first])
      assert.deepStrictEqual((yield* store.runs(employees)).map(({ pages }) => pages), [7])
      assert.deepStrictEqual(yield* store.runs({ ...tags, integration: "greenhouse:unknown" }), [])
    })

    test("has a run only if its transaction was committed (I2)", function*({ inTags, store }) {
      const fails = (tx: StreamTx) => Effect.andThen(record(runOf(1))(tx), Effect.fail(new Stop()))
      assert.instanceOf(yield* Effect.flip(inTags(fails)), Stop)
      assert.deepStrictEqual(yield* store.runs(tags), [])
    })

    test("replaces a run that is recorded again with its number", function*({ inTags, store }) {
      yield* inTags(record(runOf(1)))
      yield* inTags(record(runOf(1, { times: 2 })))
      assert.deepStrictEqual(yield* store.runs(tags), [runOf(1, { times: 2 })])
    })

    test(
      "keeps the newest runs only, and none after the stream was erased (I9, X19)",
      function*({ inTags, owner, store }) {
        for (let number = 1; number <= keptRuns + 3; number++) yield* inTags(record(runOf(number)))
        const numbers = (yield* store.runs(tags)).map(({ number }) => number)
        assert.deepStrictEqual(numbers, Array.from({ length: keptRuns }, (_, index) => keptRuns + 3 - index))
        yield* store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER)
        yield* begin
        assert.deepStrictEqual(yield* store.runs(tags), [])
      }
    )
  })

const stored = Effect.flatMap(Store, (store) => Effect.map(store.stream(tags), (state) => state!))

export const quietSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`the state of a quiet stream in a store (${name})`, () => {
    const test = testsIn(layer, begin)

    test("is replaced if it is the stored one, and no other stream changes", function*({ owner, store }) {
      const other = yield* store.stream(employees)
      const before = yield* stored
      const after = { ...before, watermark: 5, lastRunId: 7 }
      assert.isTrue(yield* store.replaceQuietState(owner, before, after))
      assert.deepStrictEqual(yield* stored, after)
      assert.isFalse(yield* store.replaceQuietState(owner, before, { ...after, lastRunId: 8 }))
      assert.deepStrictEqual(yield* stored, after)
      assert.isTrue(yield* store.replaceQuietState(owner, after, { ...after, lastRunId: 8 }))
      assert.deepStrictEqual(yield* store.stream(employees), other)
      const missing = stateOf({ ...tags, integration: "greenhouse:unknown" })
      assert.isFalse(yield* store.replaceQuietState(owner, missing, missing))
    })

    test("is not replaced for a process that another one fenced (I10)", function*({ owner, store }) {
      const before = yield* stored
      const next = yield* store.takeOwnership(owner.scope)
      assert.isFalse(yield* store.replaceQuietState(owner, before, { ...before, lastRunId: 7 }))
      assert.isFalse(yield* store.replaceQuietState({ ...owner, scope: "unknown" }, before, before))
      assert.deepStrictEqual(yield* stored, before)
      assert.isTrue(yield* store.replaceQuietState(next, before, { ...before, lastRunId: 7 }))
    })

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
      "a hold that has not ended": [
        (tx) =>
          tx.openHold({
            kind: "deletes",
            state: "open",
            reason: "r",
            paths: [],
            openedAt: 1,
            decidedAt: null,
            released: 0,
            release: null,
            published: null
          }),
        (tx) => Effect.flatMap(tx.holds, ([hold]) => tx.saveHold({ ...hold!, state: "canceled", decidedAt: 2 }))
      ]
    }
    for (const [what, [add, remove]] of Object.entries(obstacles)) {
      test(`is not replaced while the stream has ${what}`, function*({ inTags, owner, store }) {
        const before = yield* stored
        const after = { ...before, lastRunId: 7 }
        yield* store.transact(owner, employees, add)
        yield* inTags(add)
        assert.isFalse(yield* store.replaceQuietState(owner, before, after))
        assert.deepStrictEqual(yield* stored, before)
        yield* inTags(remove)
        assert.isTrue(yield* store.replaceQuietState(owner, before, after))
      })
    }
  })
