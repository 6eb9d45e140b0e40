/** Tests that every store must pass: who read records in which hour, and the samples of the installation, one per minute of a day. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Struct from "effect/Struct"
import { type AuditedRead, historyInterval, type HistorySample, historySlots } from "../../src/store/Operators.ts"
import { Store, type StoreError } from "../../src/store/Store.ts"
import { begin, testsIn } from "./StoreSamples.ts"

const hour = 3_600_000

const first: AuditedRead = {
  period: hour,
  route: "/v1/events",
  target: "greenhouse:acme/ats.tag",
  actor: "read token",
  address: "192.0.2.1",
  firstAt: hour + 1
}

export const auditSuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`the reads in the audit log of a store (${name})`, () => {
    const test = testsIn(layer, begin)

    const listed = (limit: number, before?: number) =>
      Effect.gen(function*() {
        const { auditedReads } = yield* Store
        return (yield* auditedReads(limit, before)).map((read) => Struct.omit(read, ["id"]))
      })

    test("are recorded once per hour, route, target, actor and address", function*({ store }) {
      const others: ReadonlyArray<AuditedRead> = [
        { ...first, period: 2 * hour },
        { ...first, route: "/v1/records" },
        { ...first, target: "*" },
        { ...first, actor: "session" },
        { ...first, address: "192.0.2.2" }
      ]
      yield* Effect.forEach([first, ...others, { ...first, firstAt: hour + 7 }], store.recordRead)
      const [oldest, ...newer] = (yield* listed(10)).toReversed()
      assert.deepStrictEqual(oldest, first)
      assert.sameDeepMembers(newer, [...others])
    })

    test("are listed with the newest first, in pages", function*({ store }) {
      const reads = Array.from({ length: 6 }, (_, index) => ({ ...first, target: `a:${index}/*` }))
      yield* Effect.forEach(reads, store.recordRead)
      const all = yield* store.auditedReads(1000)
      assert.sameMembers(all.map(({ target }) => target), reads.map(({ target }) => target))
      assert.deepStrictEqual(all.map(({ id }) => id), all.map(({ id }) => id).toSorted((one, other) => other - one))
      assert.deepStrictEqual(yield* store.auditedReads(2, all[2]?.id), all.slice(3, 5))
    })

    test("are deleted by their hour", function*({ store }) {
      yield* Effect.forEach([first, { ...first, period: 2 * hour }], store.recordRead)
      yield* store.pruneReads(2 * hour)
      assert.deepStrictEqual(yield* listed(10), [{ ...first, period: 2 * hour }])
    })
  })

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
  failing: 0,
  holds: 1
})

export const historySuite = (name: string, layer: Layer.Layer<Store, StoreError>) =>
  describe(`the history of a store (${name})`, () => {
    const test = testsIn(layer, begin)

    const times = (since: number) =>
      Effect.gen(function*() {
        const { history } = yield* Store
        return (yield* history(since)).map(({ at }) => at)
      })

    test("returns the samples as they were, in the order of their times", function*({ store }) {
      const samples = [sampleAt(day), sampleAt(day + historyInterval), sampleAt(day + 2 * historyInterval)]
      for (const sample of samples.toReversed()) yield* store.recordSample(sample)
      assert.deepStrictEqual(yield* store.history(0), samples)
      assert.deepStrictEqual(yield* store.history(day + 1), samples.slice(1))
    })

    test("keeps the first sample of a minute, whichever process adds it", function*({ store }) {
      yield* store.recordSample(sampleAt(day + 5))
      yield* store.recordSample(sampleAt(day + 7))
      yield* store.recordSample(sampleAt(day + historyInterval - 1))
      assert.deepStrictEqual(yield* times(0), [day + 5])
    })

    test("replaces the sample of the day before, so that the number of samples is bounded (I9)", function*({ store }) {
      for (let minute = 0; minute < 3; minute++) yield* store.recordSample(sampleAt(day + minute * historyInterval))
      yield* store.recordSample(sampleAt(2 * day + historyInterval))
      // our clock was set back by a day
      yield* store.recordSample(sampleAt(day + 2 * historyInterval - day))
      assert.deepStrictEqual(yield* times(0), [2 * historyInterval, day, 2 * day + historyInterval])
    })
  })
