/**
 * The keys that content may be encrypted with.
 *
 * Gotchas
 * - Some stores have the table: for a time, the migration before this one created it.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const encryptionKeys = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`CREATE TABLE IF NOT EXISTS encryption_keys (id text PRIMARY KEY)`
)
