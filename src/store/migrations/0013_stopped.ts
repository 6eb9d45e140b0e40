/**
 * Deliveries whose last attempt ended because the writes of all plugins were stopped: they go on when writes are resumed.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const stopped = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE deliveries ADD COLUMN stopped smallint NOT NULL DEFAULT 0`
  yield* sql`CREATE INDEX deliveries_stopped ON deliveries (id) WHERE stopped = 1`
})
