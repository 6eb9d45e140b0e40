/** The history of the runs of each stream. `id`: the number of the run modulo the number of runs that are kept. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const runs = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) =>
    sql`CREATE TABLE runs (stream integer NOT NULL, id integer NOT NULL, run text NOT NULL, PRIMARY KEY (stream, id))`
)
