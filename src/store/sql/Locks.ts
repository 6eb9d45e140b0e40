/**
 * Row locks that make transactions wait for each other. They are needed only on PostgreSQL, where two transactions can run
 * side by side and both commit. On SQLite, `BEGIN IMMEDIATE` allows one writer, so it replaces all of these locks.
 *
 * Invariants
 * 1. Per integration, one transaction on its streams runs at a time, because streams mark each other's records stale and derive
 *    records from each other
 * 2. One transaction at a time changes deliveries, because a delivery is due only if no earlier one has its ordering key   (I5, X16)
 * 3. One transaction at a time moves `pruned`, and only forward
 *
 * Gotchas
 * - Rows are locked in key order. Two transactions can still deadlock on locks that they take later, for rows that a statement
 *   changes: the database then ends one of the transactions, and it is retried.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Statement } from "effect/sql/Statement"

export const make = (sql: SqlClient) => {
  const onPostgres = <A, B>(lock: A, none: B) => sql.onDialectOrElse({ pg: () => lock, orElse: () => none })
  const shared = onPostgres(sql.literal("FOR SHARE"), sql.literal(""))
  const exclusive = onPostgres(sql.literal("FOR UPDATE"), sql.literal(""))
  const rows = (select: Statement<object>) => onPostgres(Effect.asVoid(select), Effect.void)

  const streams = (integration: string) =>
    rows(sql`SELECT key FROM streams WHERE integration = ${integration} ORDER BY key ${exclusive}`)
  const handlers = rows(sql`SELECT key FROM handlers ORDER BY key ${exclusive}`)

  return {
    /** Ends a `SELECT` whose rows no other transaction may change until the commit. */
    shared,
    /** Ends a `SELECT` whose rows no other transaction may lock until the commit. */
    exclusive,
    /** Like `exclusive`, for the rows of one of the joined tables. */
    exclusiveOf: (table: string) => onPostgres(sql.literal(`FOR UPDATE OF ${table}`), sql.literal("")),
    streams,
    /** Runs a transaction during which no other transaction can change deliveries. */
    deliveries: <A, E, R>(body: Effect.Effect<A, E, R>) => sql.withTransaction(Effect.andThen(handlers, body))
  }
}
