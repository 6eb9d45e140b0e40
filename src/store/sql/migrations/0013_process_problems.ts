/** The problems that a process reports about itself, so that every process can show them. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const processProblems = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`ALTER TABLE processes ADD COLUMN problems text NOT NULL DEFAULT '[]'`
)
