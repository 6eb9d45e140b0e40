/** Migrations that a store has and that have to be undone, and those that a newer version may have. */
import * as Effect from "effect/Effect"
import { SqlClient } from "effect/sql/SqlClient"
import { stopEarlierVersions } from "../../../src/store/sql/EarlierVersions.ts"
import { withRetry } from "../../../src/store/sql/SqlRetry.ts"

/** Removes what the migrations after the seventh add, so that a test can run them again. A new migration adds a statement here. */
export const undoLaterMigrations: ReadonlyArray<string> = [
  "DROP TABLE audit_reads",
  "DROP TABLE processes",
  "ALTER TABLE ownership DROP COLUMN process",
  "DROP TABLE signals",
  "DROP TABLE sessions",
  "DROP TABLE request_accounts",
  "DROP TABLE request_leases",
  "DROP INDEX deliveries_unassigned",
  "DROP INDEX deliveries_running",
  "DROP INDEX deliveries_due",
  "CREATE INDEX deliveries_due ON deliveries (handler, due_at, id) WHERE state = 'due'",
  "ALTER TABLE deliveries DROP COLUMN shard",
  "DROP TABLE calls",
  "ALTER TABLE meta DROP COLUMN required_schema",
  "DROP TABLE history",
  "DROP TABLE handler_circuits",
  "ALTER TABLE events DROP COLUMN traceparent",
  "DROP TABLE publications",
  "DROP TABLE runs",
  "ALTER TABLE forgotten DROP COLUMN progress",
  "ALTER TABLE log_counter DROP COLUMN removals",
  "ALTER TABLE streams DROP COLUMN live_records",
  "ALTER TABLE readers DROP COLUMN needed_at",
  "DROP INDEX ticks_on",
  "DROP INDEX deliveries_spans",
  "DROP INDEX integrations_account"
]

/** The number of a migration that no version has. */
export const later = 9999

/** Migrates a store as a newer version would, whose process is started again if it lost too many locks to the processes that run. */
export const migrateFurther = (
  migration: Effect.Effect<unknown, unknown, SqlClient>,
  { stops }: { readonly stops: boolean }
) =>
  Effect.flatMap(SqlClient, (sql) =>
    sql.withTransaction(
      sql.unsafe("LOCK TABLE migrations IN ACCESS EXCLUSIVE MODE").pipe(
        Effect.andThen(stops ? stopEarlierVersions(later)(migration) : migration),
        Effect.andThen(sql`INSERT INTO migrations (migration_id, name) VALUES (${later}, 'later')`)
      )
    )).pipe(withRetry("migrate"), Effect.retry({ times: 5 }), Effect.orDie)
