/**
 * The time of the database, in ms, as a fragment of a statement: processes whose clocks differ can compare such times.
 *
 * Gotchas
 * - A SQLite file is on the machine of its process, so its time is that of the process. Tests can therefore set it.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"

/** For tests in virtual time: the clock of a PostgreSQL database is that of the process too. */
export const IsProcessTime = Context.Reference<boolean>("rollcall/store/IsProcessTime", { defaultValue: () => false })

export const make = (sql: SqlClient): Effect.Effect<Fragment> => {
  const ofProcess = Effect.map(Clock.currentTimeMillis, (now) => sql.literal(String(now)))
  return sql.onDialectOrElse({
    pg: () =>
      Effect.flatMap(IsProcessTime, (isProcessTime) =>
        isProcessTime
          ? ofProcess
          // not `now()`, the time at which the transaction started, and not `clock_timestamp()`, which differs within a statement
          : Effect.succeed(sql.literal("(extract(epoch FROM statement_timestamp()) * 1000)::bigint"))),
    orElse: () => ofProcess
  })
}

/** The time of the database, in ms, and how far it is ahead of the clock of this process. */
export interface DatabaseClock {
  readonly now: number
  readonly ahead: number
}

/** Reads the clock of the database. On SQLite that takes no statement. */
export const read = (sql: SqlClient): Effect.Effect<DatabaseClock, SqlError> =>
  Effect.flatMap(Clock.currentTimeMillis, (ours) =>
    sql.onDialectOrElse({
      pg: () =>
        Effect.map(
          Effect.flatMap(make(sql), (time) => sql<{ now: number }>`SELECT ${time} AS now`),
          ([row]) => ({ now: Number(row?.now), ahead: Number(row?.now) - ours })
        ),
      orElse: () => Effect.succeed({ now: ours, ahead: 0 })
    }))
