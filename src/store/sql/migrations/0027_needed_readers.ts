/** When a process last noted that the log must be kept for a reader; the time is the database's, in ms. Null if no process has. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const neededReaders = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`ALTER TABLE readers ADD COLUMN needed_at bigint`
)
