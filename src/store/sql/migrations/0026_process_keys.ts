/** The id of the key with which each process encrypts, so that no key is retired that a living process uses. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const processKeys = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`ALTER TABLE processes ADD COLUMN encryption_key text`
)
