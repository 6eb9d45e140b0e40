/**
 * Deletes of records of which nothing is left at their source, until what the log holds of them is gone too.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const erasures = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // position: the delete's, in the log
  yield* sql`CREATE TABLE erasures (position bigint PRIMARY KEY, noticed_at bigint NOT NULL)`
})
