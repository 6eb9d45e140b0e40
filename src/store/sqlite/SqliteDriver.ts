/**
 * One connection to a SQLite file over Node's driver, in the thread that opened it.
 *
 * Gotchas
 * - The driver is synchronous: a statement blocks its thread, and a `COMMIT` blocks it until the data is on disk.
 * - `SqliteThread.ts` loads this module in another thread: import only Node's modules here, and modules that import
 *   only these, so that the thread starts quickly.
 */
import type { Effect } from "effect/Effect"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import { createIfMissing } from "./FilePermissions.ts"

const busyMillis = 100
const preparedStatements = 64

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

/** Opens `file`, which is created if it does not exist, readable by its owner only. SQLite reads it only with the first statement. */
export const open = (file: string) => {
  if (file !== ":memory:") createIfMissing(file)
  const database = new DatabaseSync(file, { timeout: busyMillis })
  const prepare = preparedCache(database)
  const changes = () => Number(valueOf(database, "SELECT total_changes()"))
  let changesBefore = 0
  return {
    /** Runs one statement; throws what Node's driver throws. */
    run: (sql: string, params: ReadonlyArray<unknown>): StatementResult => {
      if (sql.startsWith("BEGIN")) changesBefore = changes()
      const { columns, statement } = prepare(sql)
      const values = params as ReadonlyArray<SQLInputValue>
      let rows: StatementResult["rows"] = []
      if (columns.length > 0) rows = statement.all(...values) as unknown as StatementResult["rows"]
      else statement.run(...values)
      return { columns, rows, wrote: sql === commit && changes() > changesBefore }
    },
    isTransaction: () => database.isTransaction,
    close: () => database.close()
  }
}

export type Driver = ReturnType<typeof open>
