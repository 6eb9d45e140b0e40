/** Tests for log rows that changed after they were written; needs a layer with a new database for each test. */
import { assert, describe } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import { SqlClient } from "effect/sql/SqlClient"
import { Deliveries } from "../../src/store/Deliveries.ts"
import { anyHash, queryFor } from "../../src/store/Records.ts"
import type { Health } from "../../src/store/sql/Health.ts"
import * as Ports from "../../src/store/sql/Ports.ts"
import { StoreError } from "../../src/store/Store.ts"
import { all, begin, reasonOf, tags, testsIn } from "./StoreSamples.ts"

/** A record with three versions. `damage` changes a column of a row without the store's knowledge. */
const written = Effect.gen(function*() {
  const { change, owner, store } = yield* begin
  const sql = yield* SqlClient
  const deliveries = yield* Deliveries
  for (const kind of ["created", "updated", "updated"] as const) yield* change("r", kind)
  const damage = (position: number, column: string, value: string | number | null) =>
    sql`UPDATE events SET ${sql(column)} = ${value} WHERE position = ${position}`
  return { deliveries, owner, store, damage, sql }
})

const isDamaged = <A>(exit: Exit.Exit<A, unknown>) => assert.strictEqual(reasonOf(exit), "Damaged")

export const damageSuite = (
  name: string,
  place: Effect.Effect<Layer.Layer<SqlClient | Health, StoreError>, never, Scope.Scope>
) =>
  describe(`damage of a store (${name})`, () => {
    const fresh = Layer.unwrap(
      Effect.map(place, (client) => Layer.fresh(Layer.provideMerge(Ports.layer, client)))
    )
    const test = testsIn(fresh, written)

    test(
      "changed content reaches no reader, neither as `after` nor as `before` (X23)",
      function*({ deliveries, owner, damage, store }) {
        yield* damage(3, "content", '{"id":"s"}')
        const transact = <A>(body: Parameters<typeof store.transact<A, StoreError>>[2]) =>
          Effect.exit(store.transact(owner, tags, body))
        isDamaged(yield* Effect.exit(store.readLog(all)))
        isDamaged(yield* Effect.exit(deliveries.entries([3])))
        isDamaged(yield* Effect.exit(store.records(tags, null, 10)))
        isDamaged(yield* Effect.exit(deliveries.content(tags, "r")))
        isDamaged(yield* transact((tx) => tx.read(queryFor(["r"], anyHash))))
        assert.strictEqual(reasonOf(yield* transact((tx) => tx.read(queryFor(["r"], null)))), "success")
        isDamaged(yield* transact((tx) => tx.olderGenerationRecords(2, null, 10)))
        assert.strictEqual((yield* store.readLog({ after: 0, limit: 2 })).length, 2)
        yield* damage(2, "content", '{"id":"s"}')
        isDamaged(yield* transact((tx) => tx.logContents(9, 1)))
        yield* damage(3, "content", null)
        isDamaged(yield* Effect.exit(store.readLog({ after: 2, limit: 1 })))
      }
    )

    test("a log row with any changed published column reaches no reader (X23)", function*({ damage, sql, store }) {
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
        yield* damage(3, column, value)
        isDamaged(yield* Effect.exit(store.readLog(all)))
        yield* damage(3, column, row?.["was"] ?? null)
        assert.strictEqual((yield* store.readLog(all)).length, 3)
      }
    })

    test("the error names the row, says what to do, and contains no content (X23)", function*({ damage, store }) {
      yield* damage(2, "content", '{"id":"secret"}')
      const { message, reason } = yield* Effect.flip(Effect.mapError(store.readLog(all), (error) => error))
      assert.isFalse(reason.retryable)
      assert.match(message, /row 2 of the event log.*restore the store from a backup/)
      assert.notInclude(message, "secret")
    })

    test("a row that was emptied does not count as damaged (X23)", function*({ owner, sql, store }) {
      yield* sql`UPDATE events SET content_sum = NULL, row_sum = NULL`
      assert.strictEqual((yield* store.readLog(all)).length, 3)
      yield* store.eraseStream(owner, tags, Number.MAX_SAFE_INTEGER)
      assert.deepStrictEqual(yield* store.readLog(all), [])
    })
  })
