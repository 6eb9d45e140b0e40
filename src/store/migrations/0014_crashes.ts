/** How many claims of a delivery ended with the process that had claimed it. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const crashes = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE deliveries ADD COLUMN crashes integer NOT NULL DEFAULT 0`
  yield* sql`CREATE INDEX deliveries_crashes ON deliveries (handler, crashes) WHERE crashes > 0`
})
