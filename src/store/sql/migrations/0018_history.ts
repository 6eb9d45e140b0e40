/** The history of the installation, for plots: one row for each minute of a day. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const history = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE history (slot integer PRIMARY KEY, at bigint NOT NULL, sample text NOT NULL)`
})
