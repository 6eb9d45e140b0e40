/** How PostgreSQL deletes old steps of the journal while many deliveries wait. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { SqlClient } from "effect/sql/SqlClient"
import { CurrentTransformer, type Transformer } from "effect/sql/Statement"
import { Deliveries } from "../../../src/store/Deliveries.ts"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import * as Ports from "../../../src/store/sql/Ports.ts"
import { emptyStoreOf } from "../../conformance/StoreSuites.ts"
import * as Server from "./Server.ts"

const { missing } = Server
const database = emptyStoreOf(Server.ofFile())

/** With 64 kB of memory for a statement, the keys of so many deliveries are not hashed. */
const waiting = 5_000
const settled = 100

describe.skipIf(missing !== null)(
  `old steps of the journal on PostgreSQL${missing === null ? "" : `, skipped: ${missing}`}`,
  () => {
    it.effect("are not compared with each delivery that waits, although the keys of these exceed the memory of a statement", () =>
      Effect.gen(function*() {
        const options = yield* database
        yield* Effect.gen(function*() {
          const sql = yield* SqlClient
          const deliveries = yield* Deliveries
          yield* sql`INSERT INTO deliveries
              (handler, integration, ordering_key, position, state, due_at, created_at, attempts, claims, shard)
            SELECT 1, 'lever:beta', n::text, n, 'due', 0, 0, 0, 0, 1 FROM generate_series(1, ${waiting}::integer) n`
          // the event of the first step has a delivery
          yield* sql`INSERT INTO journal (handler, dedup_key, step, keep_forever, delivery, claim, begun_at, done, result)
            SELECT 1, 'e' || ${waiting}::integer + n, 's', 0, 1000000 + n, 1, 1, 1, '1'
            FROM generate_series(0, ${settled}::integer) n`
          yield* sql`ANALYZE`
          const queries: Array<readonly [string, ReadonlyArray<unknown>]> = []
          const note: Transformer = (statement) => {
            queries.push(statement.compile())
            return Effect.succeed(statement)
          }
          const plans = yield* Effect.gen(function*() {
            yield* sql`SET LOCAL work_mem = '64kB'`
            const deleted = yield* deliveries.prune(2).pipe(Effect.provideService(CurrentTransformer, note))
            assert.strictEqual(deleted, settled)
            return yield* Effect.forEach(
              queries,
              ([query, params]) => sql.unsafe<{ "QUERY PLAN": string }>(`EXPLAIN ${query}`, params)
            )
          }).pipe(sql.withTransaction)
          const lines = plans.flat().map((row) => row["QUERY PLAN"])
          assert.isNotEmpty(lines)
          // such a subplan reads its whole list again for each row; a hashed one does not
          assert.isEmpty(lines.filter((line) => /NOT \(SubPlan/.test(line)))
        }).pipe(Effect.provide(Layer.provideMerge(Ports.layer, Postgres.client(options))))
      }))
  }
)
