/** The schema that a program must know to use the store; 0 = any. Earlier versions do not ask: see `stopEarlierVersions`. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const requiredSchema = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`ALTER TABLE meta ADD COLUMN required_schema bigint NOT NULL DEFAULT 0`
)
