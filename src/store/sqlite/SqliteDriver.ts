/**
 * One connection to a SQLite file over Node's driver, in the thread that opened it.
 *
 * Invariants
 * 1. A statement for many rows runs for all of them or for none
 *
 * Gotchas
 * - Node's driver frees a statement, and the values that were bound to it last, only when the garbage collector finds it. Few texts, each
 *   with few values, keep this memory small
 * - The driver is synchronous: a statement blocks its thread, and a `COMMIT` blocks it until the data is on disk.
 * - `SqliteThread.ts` loads this module in another thread: import only Node's modules here, and modules that import
 *   only these, so that the thread starts quickly.
 */
import type { Effect } from "effect/Effect"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import { createIfMissing } from "./FilePermissions.ts"

const busyMillis = 100
const preparedStatements = 256

export const begin = "BEGIN IMMEDIATE"
export const commit = "COMMIT"

export interface StatementResult {
  /** Empty for a statement that returns no rows. */
  readonly columns: ReadonlyArray<string>
  /** The values of each row, in the order of `columns`: another thread receives the names only once. */
  readonly rows: ReadonlyArray<ReadonlyArray<unknown>>
  /** True if the statement committed a transaction that changed a row. */
  readonly wrote: boolean
}

/** A driver in this thread or in another one. Failures are the errors that the driver throws. */
export interface Session {
  /** Runs one statement to its end; it cannot be interrupted. */
  readonly run: (sql: string, params: ReadonlyArray<unknown>) => Effect<StatementResult, unknown>
  /** Runs one statement once for each row, for all rows or for none. `values`: those of all rows, each of which has `columns` values. */
  readonly runForEachRow: (
    sql: string,
    values: ReadonlyArray<unknown>,
    columns: number
  ) => Effect<StatementResult, unknown>
  /** Whether a transaction was open after the last result. */
  readonly isTransaction: () => boolean
  readonly close: Effect<void>
}

/** The first column of the first row. */
export const valueOf = (database: DatabaseSync, sql: string): unknown =>
  Object.values(database.prepare(sql).get() ?? {})[0]

interface Prepared {
  readonly statement: StatementSync
  /** The driver fails if a statement without columns must return rows. */
  readonly columns: ReadonlyArray<string>
}

/** Keeps the most recently used statements prepared: a `Map` keeps insertion order. */
const preparedCache = (database: DatabaseSync) => {
  const cache = new Map<string, Prepared>()
  return (sql: string): Prepared => {
    const known = cache.get(sql)
    if (known !== undefined) {
      cache.delete(sql)
      cache.set(sql, known)
      return known
    }
    const statement = database.prepare(sql)
    statement.setReturnArrays(true)
    const fresh = { statement, columns: statement.columns().map(({ name }) => name) }
    cache.set(sql, fresh)
    for (const oldest of cache.keys()) {
      if (cache.size <= preparedStatements) break
      cache.delete(oldest)
    }
    return fresh
  }
}

/**
 * Opens `file`, which is created if it does not exist, readable by its owner only. SQLite does not read it until the first statement runs.
 * `content`: the first content of a database in memory, from `DatabaseSync.serialize`.
 */
export const open = (file: string, content?: Uint8Array) => {
  if (file !== ":memory:") createIfMissing(file)
  const database = new DatabaseSync(file, { timeout: busyMillis })
  if (content !== undefined) database.deserialize(content)
  const prepare = preparedCache(database)
  const changes = () => Number(valueOf(database, "SELECT total_changes()"))
  let changesBefore = 0

  const runOnce = ({ columns, statement }: Prepared, params: ReadonlyArray<unknown>): StatementResult["rows"] => {
    const values = params as ReadonlyArray<SQLInputValue>
    if (columns.length > 0) return statement.all(...values) as unknown as StatementResult["rows"]
    statement.run(...values)
    return []
  }
  const inTransaction = <A>(run: () => A): A => {
    if (database.isTransaction) return run()
    runOnce(prepare(begin), [])
    try {
      const result = run()
      runOnce(prepare(commit), [])
      return result
    } catch (cause) {
      if (database.isTransaction) runOnce(prepare("ROLLBACK"), [])
      throw cause
    }
  }

  return {
    /** Runs one statement; throws what Node's driver throws. */
    run: (sql: string, params: ReadonlyArray<unknown>): StatementResult => {
      if (sql.startsWith("BEGIN")) changesBefore = changes()
      const prepared = prepare(sql)
      return {
        columns: prepared.columns,
        rows: runOnce(prepared, params),
        wrote: sql === commit && changes() > changesBefore
      }
    },
    /** Runs one statement once for each row, like `Session.runForEachRow`. */
    runForEachRow: (sql: string, values: ReadonlyArray<unknown>, columns: number): StatementResult => {
      const prepared = prepare(sql)
      const rows = inTransaction(() =>
        Array.from(
          { length: values.length / columns },
          (_, row) => runOnce(prepared, values.slice(row * columns, (row + 1) * columns))
        ).flat()
      )
      return { columns: prepared.columns, rows, wrote: false }
    },
    isTransaction: () => database.isTransaction,
    close: () => database.close()
  }
}

export type Driver = ReturnType<typeof open>
