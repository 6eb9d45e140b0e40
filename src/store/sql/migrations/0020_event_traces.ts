/** The span that appended an event, as `traceparent`; null if its trace is not recorded. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const eventTraces = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`ALTER TABLE events ADD COLUMN traceparent text`
)
