/**
 * Stops processes of earlier versions in a migration. Otherwise they would continue to run beside the newer version, and could be started
 * again.
 *
 * Invariants
 * 1. After such a migration no process of an earlier version commits anything as an owner, or takes anything over   (I10)
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

/**
 * For a migration that makes the store unusable for earlier versions. `schema`: its number. Waits for open transactions of owners first,
 * so that they do not wait for the tables that the migration changes.
 */
export const stopEarlierVersions = (schema: number) => <A, E, R>(migration: Effect.Effect<A, E, R>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.onDialectOrElse({
      // a process that takes over scopes now does so before this transaction, or after it and then sees the schema; and owners that begin
      // transactions all the time wait for this one
      pg: () => Effect.asVoid(sql`LOCK TABLE ownership IN EXCLUSIVE MODE`),
      orElse: () => Effect.void
    }).pipe(
      Effect.andThen(sql`UPDATE ownership SET epoch = epoch + 1`),
      Effect.andThen(sql`UPDATE meta SET required_schema = ${schema}`),
      Effect.andThen(migration)
    ))
