/** The pauses of accounts, and the request slots that each process has leased. Times are those of the database's clock. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const requestLeases = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE request_accounts (account text PRIMARY KEY, paused_until bigint NOT NULL)`
  yield* sql`CREATE TABLE request_leases (
    account text NOT NULL,
    process text NOT NULL,
    concurrency integer NOT NULL,
    slots integer NOT NULL,
    wanted integer NOT NULL,
    turn_at bigint NOT NULL,
    renewed_at bigint NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (account, process)
  )`
})
