/**
 * Migrates a database to this program's schema, or rejects one that a newer version changed so that this program cannot use it.
 *
 * Gotchas
 * - An earlier version may use a store that a newer version has migrated, because processes of both versions are running during an
 *   update. A migration that does not allow this uses `stopEarlierVersions`. Processes of the earlier version also keep inserting rows, so
 *   a column that a migration adds is nullable or has a default: CONTRIBUTING.md has all rules under "Add a store statement".
 * - On PostgreSQL, the migrator locks its table, even against readers. The lock is not granted while `pg_dump` runs, so the migrator runs
 *   only if a migration is missing   (X31)
 */
import * as Effect from "effect/Effect"
import * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import { isSqlError } from "effect/sql/SqlError"
import type { LogIdentity } from "../../domain/ChangeEvent.ts"
import { incompatible, StoreError, Unavailable } from "../StoreError.ts"
import { deliveries } from "./migrations/initial/Deliveries.ts"
import { installation } from "./migrations/initial/Installation.ts"
import { eventLog, records } from "./migrations/initial/Records.ts"
import { AllowLongStatement, toStoreError, withRetry } from "./SqlRetry.ts"

/** In order. Never edit a released migration: a change of the schema is a new entry. */
export const migrations = {
  "0001_initial": Effect.all([installation, records, eventLog, deliveries], { discard: true })
}
export const newestKnown = Math.max(...Object.keys(migrations).map((name) => Number.parseInt(name, 10)))
export const table = "migrations"

/** The schema that a program must know. */
export const requiredSchemaQuery = "SELECT required_schema FROM meta"

/** `required`: the result of `requiredSchemaQuery`. */
export const checkRequired = (required: number): Effect.Effect<void, StoreError> =>
  required > newestKnown
    ? Effect.fail(
      incompatible(
        `the store needs a version of Rollcall that knows schema ${required}, but this version knows schemas only up to ${newestKnown}`
      )
    )
    : Effect.void

/** Fails if a newer version has changed a migrated store so that this program cannot use it. */
export const checkVersion = (sql: SqlClient.SqlClient): Effect.Effect<void, StoreError> =>
  Effect.flatMap(
    toStoreError("version")(sql.unsafe<{ required_schema: number }>(requiredSchemaQuery)),
    ([meta]) => checkRequired(Number(meta?.required_schema))
  )

interface MigrationOptions {
  readonly loader: Migrator.Loader
  /** The table that has a row for each migration that was run. */
  readonly table: string
}

/** The id of the newest migration that was run; 0 if there is none, or if the database is not PostgreSQL. */
const newestRun = (sql: SqlClient.SqlClient, table: string) =>
  sql.onDialectOrElse({
    pg: () =>
      Effect.gen(function*() {
        const [found] = yield* sql<{ exists: boolean }>`SELECT to_regclass(${table}) IS NOT NULL AS exists`
        if (found?.exists !== true) return 0
        const [newest] = yield* sql<{ id: number | null }>`SELECT max(migration_id) AS id FROM ${sql(table)}`
        return Number(newest?.id ?? 0)
      }),
    orElse: () => Effect.succeed(0)
  })

/** Runs the migrations that the database lacks; returns their ids. */
export const runMissing = (
  { loader, table }: MigrationOptions
): Effect.Effect<ReadonlyArray<number>, StoreError, SqlClient.SqlClient> =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const known = yield* loader
    if ((yield* newestRun(sql, table)) >= Math.max(...known.map(([id]) => id))) return []
    return (yield* Migrator.make({})({ loader, table })).map(([id]) => id)
  }).pipe(
    withRetry("migrate"),
    Effect.catchTag("MigrationError", (error) =>
      Effect.fail(
        isSqlError(error.cause)
          ? new StoreError({ reason: new Unavailable({ operation: "migrate", cause: error.cause }) })
          : incompatible(error.message)
      )),
    Effect.provideService(AllowLongStatement, true)
  )

/** Migrates, then returns the store's identity and whether this call created the store. */
export const migrate: Effect.Effect<
  { readonly identity: LogIdentity; readonly isNew: boolean },
  StoreError,
  SqlClient.SqlClient
> = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const done = yield* runMissing({ loader: Migrator.fromRecord(migrations), table })
  yield* checkVersion(sql)
  const [meta] = yield* sql<{ store: string; generation: number }>`SELECT store, generation FROM meta`.pipe(
    withRetry("identity")
  )
  if (meta === undefined) return yield* incompatible("the store has no identity")
  return {
    identity: { store: meta.store, generation: meta.generation },
    isNew: done.includes(1)
  }
})

/**
 * For a migration that makes the store unusable for earlier versions. `schema`: its number. Waits for open transactions of owners first,
 * so that they do not wait for the tables that the migration changes. After it, no process of an earlier version commits anything as an
 * owner, or takes anything over   (I10)
 */
export const stopEarlierVersions = (schema: number) => <A, E, R>(migration: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.onDialectOrElse({
      // Two purposes. A takeover commits before this transaction, or waits for its end and then sees the new schema. And owners that keep
      // beginning transactions wait for this one, so that it does not wait without end.
      pg: () => Effect.asVoid(sql`LOCK TABLE ownership IN EXCLUSIVE MODE`),
      orElse: () => Effect.void
    }).pipe(
      Effect.andThen(sql`UPDATE ownership SET epoch = epoch + 1`),
      Effect.andThen(sql`UPDATE meta SET required_schema = ${schema}`),
      Effect.andThen(migration)
    ))
