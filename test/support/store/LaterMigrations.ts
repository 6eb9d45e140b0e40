/** Migrations that a newer version may have. */
import * as Effect from "effect/Effect"
import { SqlClient } from "effect/sql/SqlClient"
import { stopEarlierVersions } from "../../../src/store/sql/Migrations.ts"
import { withRetry } from "../../../src/store/sql/SqlRetry.ts"

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
