/** The circuits of handlers that have failed since their last success. `failed`: JSON. `open_until` is a time of the database's clock. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const handlerCircuits = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql`CREATE TABLE handler_circuits (
      handler integer PRIMARY KEY,
      failed text NOT NULL,
      openings integer NOT NULL,
      open_until bigint
    )`
)
