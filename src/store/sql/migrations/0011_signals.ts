/** Counts commits that other processes wait for, such as operators' decisions on holds. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const signals = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`CREATE TABLE signals (name text PRIMARY KEY, counter bigint NOT NULL)`
)
