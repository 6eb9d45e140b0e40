/** Where published events are in the sink: one row for each batch, with the position of the log up to which it goes. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const publications = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`CREATE TABLE publications (position bigint PRIMARY KEY, at bigint NOT NULL, places text NOT NULL)`
)
