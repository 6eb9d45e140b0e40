/** Sessions of the operating API, which hold in every process. Only a hash of a session's secret is stored: the key. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const sessions = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql`CREATE TABLE sessions (
    key text PRIMARY KEY,
    id text NOT NULL,
    scope text NOT NULL,
    seal text NOT NULL,
    address text NOT NULL,
    started_at bigint NOT NULL,
    last_request_at bigint NOT NULL,
    expires_at bigint NOT NULL
  )`
)
