/** What every store must do with rows of the log that are not as they were written; needs a layer of a fresh database. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import { Deliveries } from "../../src/store/Deliveries.ts"
import * as SqlDeliveries from "../../src/store/sql/delivery/SqlDeliveries.ts"
import type { Health } from "../../src/store/sql/Health.ts"
import { type Store, StoreError } from "../../src/store/Store.ts"
import { all, begin, reasonOf, tags } from "./StoreSamples.ts"

/** A record with three versions; `spoilt` changes a column of the second one's row behind the store's back. */
const written = Effect.gen(function*() {
  const { change, owner, store } = yield* begin
  const sql = yield* SqlClient
  const deliveries = yield* Deliveries
  for (const kind of ["created", "updated", "updated"] as const) yield* change("r", kind)
  const spoilt = (position: number, column: string, value: string | number | null) =>
    sql`UPDATE events SET ${sql(column)} = ${value} WHERE position = ${position}`
  return { deliveries, owner, store, spoilt, sql }
})

const isDamaged = <A>(exit: Exit.Exit<A, unknown>) => assert.strictEqual(reasonOf(exit), "Damaged")

export const damageSuite = (
  name: string,
  place: Effect.Effect<Layer.Layer<SqlClient | Health, StoreError>, never, Scope.Scope>
) =>
  describe(`damage of a store (${name})`, () => {
    const fresh = Layer.unwrap(
      Effect.map(place, (client) => Layer.fresh(Layer.provideMerge(SqlDeliveries.ports, client)))
    )
    const test = (title: string, body: Effect.Effect<void, unknown, Store | Deliveries | SqlClient | Scope.Scope>) =>
      it.effect(title, () => Effect.provide(body, fresh))

    test(
      "content that is not what was written is given to no reader, neither as `after` nor as `before` (X23)",
      Effect.gen(function*() {
        const { deliveries, owner, spoilt, store } = yield* written
        yield* spoilt(3, "content", '{"id":"s"}')
        const transact = <A>(body: Parameters<typeof store.transact<A, StoreError>>[2]) =>
          Effect.exit(store.transact(owner, tags, body))
        isDamaged(yield* Effect.exit(store.readLog(all)))
        isDamaged(yield* Effect.exit(deliveries.entries([3])))
        isDamaged(yield* Effect.exit(store.records(tags, null, 10)))
        isDamaged(yield* Effect.exit(deliveries.content(tags, "r")))
        isDamaged(yield* transact((tx) => tx.contents([3])))
        isDamaged(yield* transact((tx) => tx.olderGenerationRecords(2, null, 10)))
        assert.strictEqual((yield* store.readLog({ after: 0, limit: 2 })).length, 2)
        yield* spoilt(2, "content", '{"id":"s"}')
        isDamaged(yield* transact((tx) => tx.beforeImages([3])))
        yield* spoilt(3, "content", null)
        isDamaged(yield* Effect.exit(store.readLog({ after: 2, limit: 1 })))
      })
    )

    test(
      "a row of the log of which anything changed that is published is given to no reader (X23)",
      Effect.gen(function*() {
        const { spoilt, sql, store } = yield* written
        const columns = {
          id: "s",
          event_id: "x",
          remote_id: "x",
          generation: 2,
          version: 9,
          kind: "deleted",
          origin: "sweep",
          reason: "flagged",
          restored: 1,
          changed_at: "2020-01-01T00:00:00Z",
          detected_at: 1,
          cause: "{}",
          transitions: "[1]",
          changes: "[1]",
          previous: 1
        }
        for (const [column, value] of Object.entries(columns)) {
          const [row] = yield* sql<Record<string, string | number | null>>`
            SELECT ${sql(column)} AS was FROM events WHERE position = 3`
          yield* spoilt(3, column, value)
          isDamaged(yield* Effect.exit(store.readLog(all)))
          yield* spoilt(3, column, row?.["was"] ?? null)
          assert.strictEqual((yield* store.readLog(all)).length, 3)
        }
      })
    )

    test(
      "the failure names the row, says what to do, and repeats no content (X23)",
      Effect.gen(function*() {
        const { spoilt, store } = yield* written
        yield* spoilt(2, "content", '{"id":"secret"}')
        const { message, reason } = yield* Effect.flip(Effect.mapError(store.readLog(all), (error) => error))
        assert.isFalse(reason.retryable)
        assert.match(message, /row 2 of the event log.*restore the store from a backup/)
        assert.notInclude(message, "secret")
      })
    )

    test(
      "a row that was emptied, or written by an earlier version, is not taken for damaged (X23)",
      Effect.gen(function*() {
        const { owner, sql, store } = yield* written
        yield* sql`UPDATE events SET content_sum = NULL, row_sum = NULL`
        assert.strictEqual((yield* store.readLog(all)).length, 3)
        yield* store.eraseStream(owner, tags)
        assert.deepStrictEqual(yield* store.readLog(all), [])
      })
    )
  })
