import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { integrationOf, stateOf } from "../../../test/conformance/StoreSamples.ts"
import { withTurns } from "../../../test/support/Turns.ts"
import type { LogEntry } from "../../domain/ChangeEvent.ts"
import type { LogQuery } from "../../store/EventLog.ts"
import { Damaged, Store, StoreError } from "../../store/Store.ts"
import { storeOverview } from "./StoreOverview.ts"

/** A store with ten positions that are all published, and nothing else. */
const empty = {
  batchReads: <A>(reads: A) => reads,
  counts: Effect.succeed([]),
  streamsAtPosition: Effect.succeed({ position: 10, chain: "c", streams: [] }),
  identity: { store: "k3v9", generation: 1 },
  integrations: Effect.succeed([]),
  holds: () => Effect.succeed([]),
  readerPosition: () => Effect.succeed(10)
}

/** The progress of publishing of a store with ten positions, and the queries that read its log. */
const logOf = Effect.fnUntraced(function*(published: number, read: Effect.Effect<ReadonlyArray<LogEntry>, StoreError>) {
  const queries: Array<LogQuery> = []
  const store = {
    ...empty,
    readerPosition: () => Effect.succeed(published),
    readLog: (query: LogQuery) => {
      queries.push(query)
      return read
    }
  } as unknown as Store["Service"]
  const { log } = yield* Effect.provideService(storeOverview, Store, store)
  return { log, queries }
})

describe("the progress of publishing", () => {
  it.effect("has the time of the oldest event that is not published, which is searched in a bounded part of the log (I9)", () =>
    Effect.gen(function*() {
      const { log, queries } = yield* logOf(4, Effect.succeed([{ detectedAt: 7 } as LogEntry]))
      assert.deepStrictEqual(log, { newestPosition: 10, published: 4, unpublishedSince: 7 })
      assert.deepStrictEqual(queries, [{ after: 4, upTo: 1_004, limit: 1 }])
    }))

  it.effect("reads nothing if everything is published", () =>
    Effect.gen(function*() {
      const { log, queries } = yield* logOf(10, Effect.succeed([]))
      assert.deepStrictEqual([log.unpublishedSince, queries], [null, []])
    }))

  it.effect("is known except for that time if the row is damaged", () =>
    Effect.gen(function*() {
      const damaged = Effect.fail(new StoreError({ reason: new Damaged({ message: "row 5" }) }))
      const { log } = yield* logOf(4, damaged)
      assert.deepStrictEqual(log, { newestPosition: 10, published: 4, unpublishedSince: null })
    }))
})

describe("the overview of many streams", () => {
  it.effect("is made in parts, before each of which other fibers run, and shows each integration with its own streams (I9)", () =>
    Effect.gen(function*() {
      const ids = Array.from({ length: 1_000 }, (_, index) => `greenhouse:${index}`)
      const streams = ids.map((integration, index) =>
        stateOf({ integration, model: "ats.tag" }, {
          generation: 1 + index,
          phase: index === 7 ? "live" : "backfilling"
        })
      )
      const counts = ids.map((integration, index) => ({
        integration,
        model: "ats.tag",
        live: index,
        quarantined: 0,
        stale: 0,
        pending: {}
      }))
      const store = {
        ...empty,
        counts: Effect.succeed(counts),
        streamsAtPosition: Effect.succeed({ position: 10, chain: "c", streams }),
        integrations: Effect.succeed([integrationOf("greenhouse:7"), integrationOf("greenhouse:900")])
      } as unknown as Store["Service"]
      const { result, turns } = yield* withTurns(Effect.provideService(storeOverview, Store, store))
      assert.strictEqual(turns, 4)
      assert.deepStrictEqual(
        result.streams.map(({ integration, records_live }) => [integration, records_live]),
        ids.map((integration, index) => [integration, index])
      )
      assert.deepStrictEqual(
        result.integrations.map((one) => [one.id, one.generation, one.streams, one.live, one.records_live]),
        [["greenhouse:7", 8, 1, 1, 7], ["greenhouse:900", 901, 1, 0, 900]]
      )
    }))
})
