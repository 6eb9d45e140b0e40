/** How PostgreSQL executes statements: which it keeps prepared, and how much those read whose cost must not grow with the tables. */
import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { CurrentTransformer, type Transformer } from "effect/sql/Statement"
import { among, rowsOf } from "../../../src/store/sql/RowValues.ts"
import { changeOf, created, headOf, stateOf, tags, testsIn } from "../../conformance/StoreSamples.ts"
import { onServer, open } from "./Opened.ts"
import * as Server from "./Server.ts"

const { emptyStore } = Server.ofFile()
const opened = Effect.flatMap(emptyStore, open)
const test = testsIn(Layer.empty, opened)
const live = testsIn(Layer.empty, opened, it.live)

/** With 64 kB of memory for a statement, the keys of so many deliveries are not hashed. */
const waiting = 5_000
const settled = 100

onServer("statements of PostgreSQL", () => {
  test("are kept prepared if they have few values, and planned each time if they have an array", function*({ sql }) {
    const numbers = (count: number) => Array.from({ length: count }, (_, index) => index)
    const kept = yield* Effect.gen(function*() {
      for (const count of [3, 100]) {
        yield* sql`SELECT 1 AS one WHERE 7 ${among(sql, numbers(count))}`
        yield* sql`SELECT * FROM (${rowsOf(sql, [{ n: 1 }, ...numbers(count).map((n) => ({ n }))])}) AS x`
      }
      return yield* sql<{ statement: string }>`SELECT statement FROM pg_prepared_statements ORDER BY statement`
    }).pipe(sql.withTransaction)
    const statements = kept.map(({ statement }) => statement).filter((text) => / AS one | AS x$/.test(text))
    assert.deepStrictEqual(statements, [
      "SELECT * FROM (VALUES ($1),($2),($3),($4)) AS x",
      "SELECT 1 AS one WHERE 7 IN ($1,$2,$3)"
    ])
  })

  test("get many rows, even if all of them are equal or have only nulls", function*({ sql }) {
    for (const row of [{ n: 1, text: "a", nothing: null }, { n: null, text: null, nothing: null }]) {
      const rows = Array.from({ length: 100 }, () => row)
      assert.deepStrictEqual(yield* sql`SELECT * FROM (${rowsOf(sql, [row, ...rows])}) AS x (n, text, nothing)`, [
        row,
        ...rows
      ])
    }
  })

  live(
    "that prune the log read only the rows that they delete, because all appends wait for them",
    function*({ sql, store }) {
      yield* store.ensureStreams([stateOf(tags)])
      const owner = yield* store.takeOwnership("capture")
      yield* store.transact(owner, tags, (tx) =>
        tx.write([created("a")]).pipe(
          Effect.andThen(tx.write([changeOf(headOf("a", { live: true, version: 1, position: 1 }), "updated")])),
          Effect.andThen(tx.write([created("b")]))
        ))
      const { deleted, scans } = yield* sql.withTransaction(Effect.gen(function*() {
        // in a small table, the whole table is read only if no index can be used
        yield* sql`SET LOCAL enable_seqscan = off`
        const deleted = yield* store.prune({ before: Date.now() + 60_000, upTo: 2 })
        const [row] = yield* sql<{ scans: number }>`
        SELECT seq_scan AS scans FROM pg_stat_xact_user_tables WHERE relname = 'events'`
        return { deleted, scans: row?.scans }
      }))
      assert.deepStrictEqual([deleted, scans], [1, 0])
    }
  )

  test(
    "that count dead letters by cause read an index of these, and no other delivery",
    function*({ deliveries, sql }) {
      yield* sql`INSERT INTO deliveries
        (handler, integration, ordering_key, position, state, due_at, created_at, attempts, claims, shard, failure, died_at, cause)
      SELECT 1, 'lever:beta', n::text, n, CASE WHEN n % 100 = 0 THEN 'dead' ELSE 'waiting' END, 0, 0, 0, 0, 1, '{}', n,
        CASE WHEN n % 100 = 0 THEN 'Permanent-1' END
      FROM generate_series(1, ${waiting}::integer) n`
      yield* sql`ANALYZE`
      const queries: Array<readonly [string, ReadonlyArray<unknown>]> = []
      const note: Transformer = (statement) => {
        queries.push(statement.compile())
        return Effect.succeed(statement)
      }
      yield* deliveries.deadLetterCauses({}, 9).pipe(Effect.provideService(CurrentTransformer, note))
      const plans = yield* Effect.forEach(
        queries,
        ([query, params]) => sql.unsafe<{ "QUERY PLAN": string }>(`EXPLAIN ${query}`, params)
      )
      const lines = plans.flat().map((row) => row["QUERY PLAN"])
      const scans = lines.flatMap((line) => /(\w+ )+(?:using \w+ )?on deliveries( \w)?/.exec(line)?.[0] ?? [])
      // of two small indexes that have only dead letters, either is read; after a vacuum of the server, the index suffices
      const read = scans.map((scan) =>
        scan.replace("deliveries_dead", "deliveries_causes").replace("Only Scan", "Scan")
      )
      assert.deepStrictEqual(read, [
        "Index Scan using deliveries_causes on deliveries d",
        "Index Scan using deliveries_pkey on deliveries",
        "Index Scan using deliveries_causes on deliveries d",
        "Index Scan using deliveries_ordering_key on deliveries w"
      ])
    }
  )

  test(
    "that delete old steps of the journal do not compare each with all deliveries, although the keys of these exceed the memory of a statement",
    function*({ deliveries, sql }) {
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
    }
  )
})
