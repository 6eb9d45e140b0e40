/** Inspects a PostgreSQL database as a store, in read-only transactions. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { HandlerName } from "../Delivery.ts"
import * as Processes from "../Processes.ts"
import * as DatabaseTime from "../sql/DatabaseTime.ts"
import { Observed } from "../sql/Health.ts"
import {
  chainQuery,
  type Inspection,
  keysQuery,
  logQuery,
  openCircuitsQuery,
  type StoredLog
} from "../sql/Inspection.ts"
import { checkVersion, newestKnown, table } from "../sql/Migrations.ts"

import { withRetry } from "../sql/SqlRetry.ts"
import type { StoreError } from "../StoreError.ts"
import { checkDatabase, connectionsPerProcess, type Options, readOnlyClient } from "./Postgres.ts"

const newestMigration = (sql: SqlClient.SqlClient) =>
  Effect.map(sql<{ id: number }>`SELECT max(migration_id) AS id FROM ${sql(table)}`, ([newest]) => newest?.id ?? 0)

const readLog = Effect.fnUntraced(function*(sql: SqlClient.SqlClient) {
  if ((yield* newestMigration(sql)) > newestKnown) yield* checkVersion(sql)
  const [log] = yield* sql.unsafe<StoredLog>(logQuery)
  return log ?? null
})

const readFleet = Effect.fnUntraced(function*(sql: SqlClient.SqlClient) {
  const processes = yield* Processes.make(sql, "", null).list
  const before = yield* Clock.currentTimeMillis
  const [row] = yield* sql<{ now: number; available: number }>`
    SELECT ${yield* DatabaseTime.make(sql)} AS now,
      current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
        - coalesce(current_setting('reserved_connections', true), '0')::integer AS available`
  const after = yield* Clock.currentTimeMillis
  const fleet: Processes.FleetInspection = {
    processes,
    clockOffset: (before + after) / 2 - Number(row?.now),
    connections: { available: Number(row?.available), perProcess: connectionsPerProcess }
  }
  return fleet
})

const readKeys = (sql: SqlClient.SqlClient) =>
  Effect.map(sql.unsafe<{ id: string }>(keysQuery), (rows) => rows.map(({ id }) => id))

/** Runs `use` in one read-only transaction. */
const withReadOnly = <A, E>(options: Options, use: (sql: SqlClient.SqlClient) => Effect.Effect<A, E>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(use(sql))).pipe(
    withRetry("inspect"),
    Effect.provide(readOnlyClient(options)),
    Effect.provideService(Observed, false)
  )

/** Fails as opening the store would. */
export const inspect = (options: Options): Effect.Effect<Inspection, StoreError> =>
  withReadOnly(options, (sql) =>
    Effect.gen(function*() {
      const { storeExists } = yield* checkDatabase(sql, options.name)
      return {
        exists: storeExists,
        locked: false,
        log: storeExists ? yield* readLog(sql) : null,
        fleet: storeExists ? yield* readFleet(sql) : null,
        openCircuits: storeExists ? yield* sql.unsafe<HandlerName>(openCircuitsQuery) : [],
        keys: storeExists ? yield* readKeys(sql) : []
      }
    }))

/** The chain of the log at a position, as in `Store.chains`. Fails for a store that is not migrated yet. */
export const chainAt = (options: Options, position: number): Effect.Effect<string | null, StoreError> =>
  withReadOnly(options, (sql) =>
    Effect.map(
      sql.unsafe<{ chain: string | null }>(chainQuery(position)),
      ([row]) => row?.chain ?? null
    ))
