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

/**
 * A statement. If the number of rows is given, it runs once for each row, for all rows or for none; `values` then has for each placeholder
 * a list with a value for each row, or the value of all rows.
 */
export type Statement = readonly [sql: string, values: ReadonlyArray<unknown>, rows?: number]

/** The results of statements until one failed; `failure`: what the driver threw. */
export interface Answer {
  readonly results: ReadonlyArray<StatementResult>
  readonly failure?: unknown
}

/** A driver in this thread or in another one. */
export interface Session {
  /** Runs the statements in order, to the end of the last one or until one fails; they cannot be interrupted. */
  readonly run: (statements: ReadonlyArray<Statement>) => Effect<Answer, unknown>
  /** Whether a transaction was open after the last result. */
  readonly isTransaction: () => boolean
  readonly close: Effect<void>
}

/** The first column of the first row. */
export const valueOf = (database: DatabaseSync, sql: string): unknown =>
  Object.values(database.prepare(sql).get() ?? {})[0]

const none: StatementResult["rows"] = []

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
  const totalChanges = database.prepare("SELECT total_changes() AS total")
  const changes = () => Number(totalChanges.get()?.["total"])
  let changesBefore = 0

  const runOnce = ({ columns, statement }: Prepared, params: ReadonlyArray<unknown>): StatementResult["rows"] => {
    const values = params as ReadonlyArray<SQLInputValue>
    if (columns.length > 0) return statement.all(...values) as unknown as StatementResult["rows"]
    statement.run(...values)
    return none
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

  const runForEachRow = (prepared: Prepared, columns: ReadonlyArray<unknown>, rows: number) =>
    inTransaction(() => {
      const lists = columns.flatMap((values, at) => Array.isArray(values) ? [{ at, values }] : [])
      const bound = [...columns]
      const all: Array<ReadonlyArray<unknown>> = []
      for (let row = 0; row < rows; row++) {
        for (const { at, values } of lists) bound[at] = values[row]
        for (const found of runOnce(prepared, bound)) all.push(found)
      }
      return all
    })

  return {
    /** Runs one statement; throws what Node's driver throws. */
    run: ([sql, values, rows]: Statement): StatementResult => {
      if (sql.startsWith("BEGIN")) changesBefore = changes()
      const prepared = prepare(sql)
      return {
        columns: prepared.columns,
        rows: rows === undefined ? runOnce(prepared, values) : runForEachRow(prepared, values, rows),
        wrote: sql === commit && changes() > changesBefore
      }
    },
    isTransaction: () => database.isTransaction,
    close: () => database.close()
  }
}

export type Driver = ReturnType<typeof open>

/** Runs the statements until one fails. */
export const runAll = (driver: Driver, statements: ReadonlyArray<Statement>): Answer => {
  const results: Array<StatementResult> = []
  try {
    for (const statement of statements) results.push(driver.run(statement))
    return { results }
  } catch (failure) {
    return { results, failure }
  }
}
