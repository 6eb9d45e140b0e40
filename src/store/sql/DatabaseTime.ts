/**
 * The time of the database, ms, as a fragment of a statement: processes whose clocks differ can compare such times.
 *
 * Gotchas
 * - A SQLite file is on the machine of its process, so its time is that of the process. Tests can therefore set it.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"

export const make = (sql: SqlClient): Effect.Effect<Fragment> =>
  sql.onDialectOrElse({
    // not `now()`, which is the time at which the transaction began
    pg: () => Effect.succeed(sql.literal("(extract(epoch FROM clock_timestamp()) * 1000)::bigint")),
    orElse: () => Effect.map(Clock.currentTimeMillis, (now) => sql.literal(String(now)))
  })
