/** Commands that one process of a fleet receives and another one executes. Times are those of the database's clock. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const calls = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // state: 'waiting', 'running' or 'answered'; changed_at: of the state, or of the last sign that the call is being executed
  yield* sql`CREATE TABLE calls (
    id text PRIMARY KEY,
    scope text NOT NULL,
    method text NOT NULL,
    payload text NOT NULL,
    actor text NOT NULL,
    address text,
    requested_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    changed_at bigint NOT NULL,
    state text NOT NULL,
    epoch bigint,
    beats bigint NOT NULL,
    reply text
  )`
  yield* sql`CREATE INDEX calls_waiting ON calls (scope) WHERE state = 'waiting'`
})
