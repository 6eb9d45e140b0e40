/** How far the removal of a record is that is being forgotten. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const forgettingProgress = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`ALTER TABLE forgotten ADD COLUMN progress text`
)
