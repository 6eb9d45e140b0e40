/**
 * Locks that make transactions wait for each other. They are needed only on PostgreSQL, where two transactions can run side by side and
 * both commit. On SQLite, `BEGIN IMMEDIATE` allows one writer, so it replaces all of these locks.
 *
 * Invariants
 * 1. Per integration, one transaction on its streams runs at a time, because streams mark each other's records stale and derive
 *    records from each other
 * 2. One transaction at a time changes deliveries, because a delivery is due only if no earlier one has its ordering key   (I5, X16)
 * 3. One transaction at a time moves `pruned`, and only forward
 * 4. A takeover of a scope waits only for those transactions of its owner that are already open. Later transactions of the owner wait
 *    for the takeover   (X20)
 *
 * Gotchas
 * - A lock is sent together with the next statement that returns rows.
 * - Rows are locked in key order. Two transactions can still deadlock on locks that they take later, for rows that a statement
 *   changes: the database then ends one of the transactions, and it is retried.
 * - A scope has two locks: of its row in `ownership`, and an advisory lock. The row's lock fences: a statement that waited for it reads the
 *   newest version of the row. But PostgreSQL grants a shared lock of a row even while another transaction waits to change the row, so
 *   overlapping transactions of an owner could make a takeover wait without end. The advisory lock prevents that, because advisory locks
 *   are granted in the order of the requests. It has no other purpose.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment, Statement } from "effect/sql/Statement"
import { later } from "./Connection.ts"
import { rowsOf } from "./RowValues.ts"

export const make = (sql: SqlClient) => {
  const onPostgres = <A, B>(lock: A, none: B) => sql.onDialectOrElse({ pg: () => lock, orElse: () => none })
  /** An advisory lock is valid in the whole database. The key contains the id of the table, so that stores in two schemas do not share it. */
  const scopeKey = (scope: Fragment) => sql`'ownership'::regclass::oid::integer, hashtext(${scope})`
  const exclusive = onPostgres(sql.literal("FOR UPDATE"), sql.literal(""))
  const rows = (select: Statement<object>) => onPostgres(later(select), Effect.void)

  const streams = (integration: string) =>
    rows(sql`SELECT key FROM streams WHERE integration = ${integration} ORDER BY key ${exclusive}`)
  const handlers = rows(sql`SELECT key FROM handlers ORDER BY key ${exclusive}`)

  return {
    /** Ends a `SELECT` of the row of a scope in `ownership`, after its other conditions: nothing takes the scope over until the commit. */
    owned: (scope: string) =>
      onPostgres(
        // a condition is evaluated before the row is locked
        sql`AND pg_advisory_xact_lock_shared(${scopeKey(sql`${scope}`)}) IS NOT NULL FOR SHARE`,
        sql.literal("")
      ),
    /** Call before a takeover of these scopes. Two takeovers must use the same order, so that they do not wait for each other. */
    takeover: (scopes: Arr.NonEmptyReadonlyArray<string>) =>
      rows(sql`
        SELECT pg_advisory_xact_lock(${scopeKey(sql.literal("s.scope"))})
        FROM (${rowsOf(sql, Arr.map(scopes, (scope) => ({ scope })))}) AS s (scope)`),
    /** Ends a `SELECT` whose rows no other transaction may lock until the commit. */
    exclusive,
    /** Like `exclusive`, for the rows of one of the joined tables. */
    exclusiveOf: (table: string) => onPostgres(sql.literal(`FOR UPDATE OF ${table}`), sql.literal("")),
    streams,
    /** Runs a transaction during which no other transaction can change deliveries. */
    deliveries: <A, E, R>(body: Effect.Effect<A, E, R>) => sql.withTransaction(Effect.andThen(handlers, body))
  }
}
