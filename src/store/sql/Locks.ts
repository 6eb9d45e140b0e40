/**
 * What a transaction locks so that others wait for it. SQLite has one writer, whose `BEGIN IMMEDIATE` is all of these
 * locks at once; PostgreSQL commits what two of them did side by side unless it is asked.
 *
 * Invariants
 * 1. Per integration one transaction of its streams at a time: they tell each other what they owe, and derive from each
 *    other
 * 2. Whoever changes deliveries is alone with them: what is due depends on what else its lane holds   (I5, X16)
 * 3. `pruned` is moved by one at a time, only forward
 *
 * Gotchas
 * - Rows are locked in the order of their keys. Of locks taken later, for rows that a statement changes, two transactions
 *   may still wait in a circle: the database ends one of them, which is run again.
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
    /** Ends a `SELECT` whose rows nobody may change until the commit. */
    shared,
    /** Ends a `SELECT` whose rows nobody else may lock until the commit. */
    exclusive,
    streams,
    /** A transaction that is alone with the deliveries. */
    deliveries: <A, E, R>(body: Effect.Effect<A, E, R>) => sql.withTransaction(Effect.andThen(handlers, body))
  }
}
