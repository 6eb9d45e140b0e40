/**
 * One connection to a SQLite file over Node's own driver, in the thread that opened it.
 *
 * Gotchas
 * - The driver is synchronous: a statement blocks its thread, a `COMMIT` until the disk has it.
 * - `SqliteThread.ts` loads this in a thread of its own: nothing but Node's modules may be loaded here, so that the
 *   thread starts at once.
 */
import type { Effect } from "effect/Effect"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"

const busyMillis = 100
const preparedStatements = 64

export const begin = "BEGIN IMMEDIATE"
export const commit = "COMMIT"

export type Row = Record<string, unknown>

export interface StatementResult {
  readonly rows: ReadonlyArray<Row>
  /** It committed a transaction in which a row was changed. */
  readonly wrote: boolean
}

export interface Driver {
  /** Runs one statement; throws what Node's driver throws. */
  readonly run: (sql: string, params: ReadonlyArray<unknown>) => StatementResult
  readonly isTransaction: () => boolean
  readonly close: () => void
}

/** A driver as the rest of the program uses it, in whichever thread it is. Failures are what the driver throws. */
export interface Session {
  /** Runs one statement to its end: it cannot be interrupted. */
  readonly run: (sql: string, params: ReadonlyArray<unknown>) => Effect<StatementResult, unknown>
  /** Whether a transaction is open after the last answer. */
  readonly isTransaction: () => boolean
  readonly close: Effect<void>
}

/** The first column of the first row. */
export const valueOf = (database: DatabaseSync, sql: string): unknown =>
  Object.values(database.prepare(sql).get() ?? {})[0]

interface Prepared {
  readonly statement: StatementSync
  /** Whether it yields rows: asking a statement without columns for rows is an error of the driver. */
  readonly yields: boolean
}

/** The most recently used statements stay prepared: a `Map` keeps the order of insertion. */
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
    const fresh = { statement, yields: statement.columns().length > 0 }
    cache.set(sql, fresh)
    for (const oldest of cache.keys()) {
      if (cache.size <= preparedStatements) break
      cache.delete(oldest)
    }
    return fresh
  }
}

/** Opens `file`, made if it does not exist; SQLite looks into it with the first statement. */
export const open = (file: string): Driver => {
  const database = new DatabaseSync(file, { timeout: busyMillis })
  const prepare = preparedCache(database)
  const changes = () => Number(valueOf(database, "SELECT total_changes()"))
  let changesBefore = 0
  return {
    run: (sql, params) => {
      if (sql.startsWith("BEGIN")) changesBefore = changes()
      const { statement, yields } = prepare(sql)
      const values = params as ReadonlyArray<SQLInputValue>
      let rows: ReadonlyArray<Row> = []
      if (yields) rows = statement.all(...values)
      else statement.run(...values)
      return { rows, wrote: sql === commit && changes() > changesBefore }
    },
    isTransaction: () => database.isTransaction,
    close: () => database.close()
  }
}
