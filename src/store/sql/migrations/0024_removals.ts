/** The number of removals of content from rows of the log, so that a reader that holds content notices them. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const removals = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`ALTER TABLE log_counter ADD COLUMN removals bigint NOT NULL DEFAULT 0`
)
