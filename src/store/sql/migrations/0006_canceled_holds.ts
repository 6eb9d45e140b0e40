/** The state of a hold without records is spelled `canceled`, like everything else. Earlier versions stored `cancelled`. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const canceledHolds = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`UPDATE holds SET state = 'canceled' WHERE state = 'cancelled'`
)
