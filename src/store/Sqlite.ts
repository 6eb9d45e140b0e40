/**
 * The store in one SQLite file: a `SqlClient` over Node's own driver, and the checks before a file is taken for a store.
 *
 * Invariants
 * 1. A commit is on disk before it returns: WAL with `synchronous=FULL`
 * 2. A file that another program wrote is never touched
 * 3. Nothing is written once the file at the path is another one, or gone
 *
 * Gotchas
 * - The driver is synchronous: a statement blocks the event loop, so a lock of another process is waited for only
 *   briefly here, and again, without blocking, by who runs the transaction.
 * - Rows of one statement are held in memory together, `stream` included; `values` wants columns of different names.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Schedule from "effect/Schedule"
import * as Semaphore from "effect/Semaphore"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { classifySqliteError, SqlError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import * as Stream from "effect/Stream"
import { existsSync } from "node:fs"
import { dirname } from "node:path"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import { attempt, step } from "./Attempt.ts"
import type { Deliveries } from "./Deliveries.ts"
import * as Health from "./Health.ts"
import * as SqlDeliveries from "./SqlDeliveries.ts"
import * as SqliteFile from "./SqliteFile.ts"
import { Misconfigured, type Store, StoreError } from "./Store.ts"
import { type Kind, StoreFault } from "./StoreFault.ts"

/** "Roll": marks a file as ours. */
export const applicationId = 0x526f6c6c

const begin = "BEGIN IMMEDIATE"
const busyMillis = 100
/** As long as a transaction of a process that is well may last. */
const lockedBriefly = Schedule.spaced("100 millis").pipe(Schedule.upTo({ times: 4 }))
/** Two or three events of common size fill a page; with the default of 4096 every event took one of its own. */
const pageBytes = 8192
const cacheKibibytes = 16_384
const preparedStatements = 64

const resultCodes: Readonly<Record<number, Kind>> = {
  3: "denied",
  5: "locked",
  6: "locked",
  7: "exceeded",
  8: "readOnly",
  10: "disk",
  11: "damaged",
  13: "full",
  14: "unopenable",
  23: "denied",
  26: "damaged"
}

/** `code` with or without what extends it. */
export const ofResultCode = (code: number): Kind | null =>
  (code & 0xff) === 19 ? null : resultCodes[code & 0xff] ?? "refused"

const codeOf = (cause: unknown): number | undefined =>
  cause instanceof Error && "errcode" in cause ? Number(cause.errcode) : undefined

/** The driver's `errcode` is what the classification knows as `errno`. */
const toSqlError = (file: string, operation: string) => (cause: unknown): SqlError => {
  const errno = codeOf(cause)
  const kind = errno === undefined ? "refused" : ofResultCode(errno)
  const fault = kind === null
    ? cause
    : new StoreFault(kind, file, errno === undefined ? undefined : String(errno), cause)
  return new SqlError({
    reason: classifySqliteError(
      errno !== undefined && fault instanceof Error ? Object.assign(fault, { errno }) : fault,
      { message: `the database failed to ${operation}`, operation }
    )
  })
}

// ---- opening a file -----------------------------------------------------------------------------------------------

export const codes = { busy: 5, readOnly: 8, cannotOpen: 14, notADatabase: 26 }

const misconfigured = (message: string) => new StoreError({ reason: new Misconfigured({ message }) })
export const foreign = (file: string) =>
  misconfigured(`${file} is the database of another program; name another file for the store`)
export const unwritable = (file: string) =>
  misconfigured(`${file} cannot be written to; it and its directory must be writable for this user`)

/** What a person can mend is said in words, the rest is the database's own error. */
export const toOpenError = (file: string) => (cause: unknown): StoreError | SqlError => {
  if (cause instanceof StoreError) return cause
  const code = codeOf(cause)
  switch (code === undefined ? undefined : code & 0xff) {
    case codes.notADatabase:
      return misconfigured(`${file} is not a SQLite database; name another file for the store`)
    case codes.cannotOpen:
      return existsSync(dirname(file))
        ? misconfigured(`${file} cannot be opened; it must be a file that this user may read and write`)
        : misconfigured(`the directory ${dirname(file)} does not exist; create it, or name another file for the store`)
    case codes.readOnly:
      return unwritable(file)
    default:
      return toSqlError(file, "open")(cause)
  }
}

/** The first column of the first row. */
export const valueOf = (database: DatabaseSync, sql: string): unknown =>
  Object.values(database.prepare(sql).get() ?? {})[0]

const prepareFile = (database: DatabaseSync, file: string): void => {
  const marked = valueOf(database, "PRAGMA application_id")
  if (marked !== applicationId) {
    if (marked !== 0 || valueOf(database, "SELECT count(*) FROM sqlite_master") !== 0) {
      throw foreign(file)
    }
    database.exec(`PRAGMA page_size = ${pageBytes}`)
    database.exec(`PRAGMA application_id = ${applicationId}`)
  }
  database.exec("PRAGMA journal_mode = WAL")
  database.exec("PRAGMA synchronous = FULL")
  database.exec(`PRAGMA cache_size = -${cacheKibibytes}`)
}

const open = (file: string) =>
  Effect.acquireRelease(
    Effect.try({
      try: () => {
        const database = new DatabaseSync(file, { timeout: busyMillis })
        try {
          prepareFile(database, file)
          return database
        } catch (cause) {
          database.close()
          throw cause
        }
      },
      catch: toOpenError(file)
    }),
    (database) => Effect.sync(() => database.close())
  ).pipe(attempt("open"))

// ---- the client ---------------------------------------------------------------------------------------------------

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

type Row = Record<string, unknown>

const connect = (database: DatabaseSync, file: string, health: Health.Health["Service"]): Connection => {
  const present = SqliteFile.guard(file)
  const prepare = preparedCache(database)
  const changes = () => Number(valueOf(database, "SELECT total_changes()"))
  let changesBefore = 0
  const run = (sql: string, params: ReadonlyArray<unknown>): ReadonlyArray<Row> => {
    const { statement, yields } = prepare(sql)
    const values = params as ReadonlyArray<SQLInputValue>
    if (yields) return statement.all(...values)
    statement.run(...values)
    return []
  }
  const rows: Connection["execute"] = (sql, params, transformRows) => {
    const result = health.observe(Effect.andThen(
      // what was begun is ended, one way or the other
      Effect.suspend(() => database.isTransaction ? Effect.void : present(sql === begin)),
      Effect.try({
        try: () => {
          if (sql === begin) changesBefore = changes()
          return transformRows === undefined ? run(sql, params) : transformRows(run(sql, params))
        },
        catch: toSqlError(file, "execute")
      })
    ))
    return sql === "COMMIT"
      ? Effect.tap(result, () => changes() > changesBefore ? health.wrote : Effect.void)
      : result
  }
  const values: Connection["executeValues"] = (sql, params) =>
    Effect.map(rows(sql, params, undefined), (all) => all.map((row) => Object.values(row)))
  return {
    execute: rows,
    executeUnprepared: rows,
    executeRaw: (sql, params) => rows(sql, params, undefined),
    executeValues: values,
    executeValuesUnprepared: values,
    executeStream: (sql, params, transformRows) => Stream.fromIterableEffect(rows(sql, params, transformRows))
  }
}

/** One connection to `file`, made if it does not exist. */
export const session = (file: string) =>
  Effect.map(open(file), (database) => {
    const health = Health.make(file)
    return { connection: connect(database, file, health), isTransaction: () => database.isTransaction, health }
  })

/** A client of one connection to `file`. */
export const client = (
  { file }: { readonly file: string }
): Layer.Layer<SqlClient.SqlClient | Health.Health, StoreError> =>
  Layer.effectContext(
    Effect.gen(function*() {
      const { connection, health, isTransaction } = yield* session(file)
      const sql = yield* SqlClient.make({
        ...SqlClient.makeSqliteAcquirers({
          connection: Effect.succeed(connection),
          semaphore: yield* Semaphore.make(1),
          isTransaction
        }),
        compiler: Statement.makeCompilerSqlite(),
        driver: "node-sqlite",
        beginTransaction: begin,
        prepareTransactionControls: true,
        spanAttributes: [["db.system.name", "sqlite"]]
      })
      return Context.make(SqlClient.SqlClient, sql).pipe(Context.add(Health.Health, health))
    })
  ).pipe(Layer.provide(Reactivity.layer))

/** Returns once no other process holds the write lock; says so when it has to wait. A frozen holder keeps it (X21). */
const unlocked = (sql: SqlClient.SqlClient, file: string) => {
  const tried = sql`SELECT 1`.pipe(Effect.asVoid, sql.withTransaction, Effect.provideService(Health.Observed, false))
  const waiting = Effect.logWarning("waiting for the store: another process is writing to it").pipe(
    Effect.annotateLogs({
      store: file,
      hint: "if this lasts, that process is stuck or frozen: let it go on, or end it"
    })
  )
  const isLocked = (error: SqlError) => error.reason._tag === "LockTimeoutError"
  return tried.pipe(
    Effect.retry({ while: isLocked, schedule: lockedBriefly }),
    Effect.catchIf(isLocked, () =>
      waiting.pipe(
        Effect.andThen(Effect.retry(tried, { while: isLocked, schedule: Schedule.spaced("500 millis") })),
        Effect.andThen(Effect.logInfo("the store is free"))
      )),
    step("open")
  )
}

/** As `layer`, for who serves: a file that another process holds is waited for, however long. */
export const patientLayer = (options: { readonly file: string }): Layer.Layer<Store | Deliveries, StoreError> =>
  SqlDeliveries.ports.pipe(
    Layer.provide(Layer.effectDiscard(Effect.flatMap(SqlClient.SqlClient, (sql) => unlocked(sql, options.file)))),
    Layer.provide(client(options))
  )

/**
 * The store in `file`, made there if there is none; `:memory:` lives as long as the layer.
 * Fails with `Misconfigured` if the file cannot be one, with `Incompatible` if a newer program wrote it.
 */
export const layer = (options: { readonly file: string }): Layer.Layer<Store | Deliveries, StoreError> =>
  Layer.provide(SqlDeliveries.ports, client(options))
