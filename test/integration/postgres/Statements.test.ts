/** Which statements a PostgreSQL session keeps prepared. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { SqlClient } from "effect/sql/SqlClient"
import * as Postgres from "../../../src/store/postgres/Postgres.ts"
import { among, rowsOf } from "../../../src/store/sql/RowValues.ts"
import { emptyStoreOf } from "../../conformance/StoreSuites.ts"
import * as Server from "./Server.ts"

const { missing } = Server
const database = emptyStoreOf(Server.ofFile())

describe.skipIf(missing !== null)(
  `the statements of a PostgreSQL session${missing === null ? "" : `, skipped: ${missing}`}`,
  () => {
    it.effect("are kept prepared if they have few values, and planned each time if they have an array", () =>
      Effect.gen(function*() {
        const options = yield* database
        yield* Effect.gen(function*() {
          const sql = yield* SqlClient
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
        }).pipe(Effect.provide(Postgres.client(options)))
      }))
  }
)
