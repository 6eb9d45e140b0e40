/** The processes that have the store open, and which of them owns a scope. Times are those of the database's clock. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const processes = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE processes (
    id text PRIMARY KEY,
    version text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    address text,
    clock_offset bigint,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL
  )`
  yield* sql`ALTER TABLE ownership ADD COLUMN process text`
})
