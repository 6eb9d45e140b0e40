/**
 * The connection of a `SqlClient` over one function that runs a statement.
 *
 * Gotchas
 * - All rows of a statement are in memory at once, even for `stream`. `values` needs columns with different names.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import type { Row } from "./Rows.ts"

/** False for a transaction whose loss in a failover would lose no data: the database that lacks it is not an older copy. */
export const CountedCommit = Context.Reference<boolean>("rollcall/store/CountedCommit", { defaultValue: () => true })

export const make = (
  run: (sql: string, params: ReadonlyArray<unknown>) => Effect.Effect<ReadonlyArray<Row>, SqlError>
): Connection => {
  const rows: Connection["execute"] = (sql, params, transformRows) =>
    transformRows === undefined ? run(sql, params) : Effect.map(run(sql, params), transformRows)
  const values: Connection["executeValues"] = (sql, params) =>
    Effect.map(run(sql, params), (all) => all.map((row) => Object.values(row)))
  return {
    execute: rows,
    executeUnprepared: rows,
    executeRaw: run,
    executeValues: values,
    executeValuesUnprepared: values,
    executeStream: (sql, params, transformRows) => Stream.fromIterableEffect(rows(sql, params, transformRows))
  }
}
