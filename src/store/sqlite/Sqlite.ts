/**
 * The store in one SQLite file: a `SqlClient` over Node's own driver, and the checks before a file is taken for a store.
 *
 * Invariants
 * 1. A commit is on disk before it returns: WAL with `synchronous=FULL`
 * 2. A file that another program wrote is never touched
 * 3. Nothing is written once the file at the path is another one, or gone
 *
 * Gotchas
 * - The driver is synchronous: a statement blocks its thread, which is this one unless `ownThread` is set. A lock of another
 *   process is waited for only briefly there, and again, without blocking, by who runs the transaction.
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
import { classifySqliteError, SqlError, UnknownError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import * as Stream from "effect/Stream"
import { existsSync } from "node:fs"
import { dirname } from "node:path"
import type { Deliveries } from "../Deliveries.ts"
import * as SqlDeliveries from "../sql/delivery/SqlDeliveries.ts"
import * as Health from "../sql/Health.ts"
import { AllowLongStatement, toStoreError, withRetry } from "../sql/SqlRetry.ts"
import { Misconfigured, type Store, StoreError } from "../Store.ts"
import { type FaultKind, StoreFault } from "../StoreFault.ts"
import { begin, type Session } from "./SqliteDriver.ts"
import * as SqliteDriver from "./SqliteDriver.ts"
import * as SqliteFile from "./SqliteFile.ts"
import * as SqliteThread from "./SqliteThread.ts"

/** "Roll": marks a file as ours. */
export const applicationId = 0x526f6c6c

/** As long as a transaction of a process that is well may last. */
const lockedBriefly = Schedule.spaced("100 millis").pipe(Schedule.upTo({ times: 4 }))
/** Two or three events of common size fill a page; with the default of 4096 every event took one of its own. */
const pageBytes = 8192
const cacheKibibytes = 16_384

const resultCodes: Readonly<Record<number, FaultKind>> = {
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
export const ofResultCode = (code: number): FaultKind | null =>
  (code & 0xff) === 19 ? null : resultCodes[code & 0xff] ?? "refused"

const codeOf = (cause: unknown): number | undefined =>
  cause instanceof Error && "errcode" in cause ? Number(cause.errcode) : undefined

/** Whether a statement that was sent was run is unknown, so it is not tried again: the next process reads what is there. */
const lost = (file: string, operation: string, why: string): SqlError =>
  new SqlError({
    reason: new UnknownError({
      operation,
      message: "the thread of the database ended",
      cause: misconfigured(
        `the thread that held the database file ${file} open ended (${why}), so nothing can be read or written any more. `
          + "Start again; if it happens again, check that the machine has enough memory, and report it"
      )
    })
  })

/** The driver's `errcode` is what the classification knows as `errno`. */
const toSqlError = (file: string, operation: string) => (cause: unknown): SqlError => {
  if (cause instanceof SqliteThread.ThreadEnded) return lost(file, operation, cause.why)
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

const thrown = <A>(run: () => A): Effect.Effect<A, unknown> => Effect.try({ try: run, catch: (cause) => cause })

const openHere = (file: string): Effect.Effect<Session, unknown> =>
  Effect.map(thrown(() => SqliteDriver.open(file)), ({ close, isTransaction, run }) => ({
    run: (sql, params) => thrown(() => run(sql, params)),
    isTransaction,
    close: Effect.sync(close)
  }))

/** One statement reads both: between two, another process may mark the file and make its tables. */
const markAndTables =
  "SELECT application_id AS mark, (SELECT count(*) FROM sqlite_master) AS tables FROM pragma_application_id"

/** Marks an empty file as ours and sets it up; fails if it belongs to another program. */
export const prepareFile = Effect.fnUntraced(function*({ run }: Pick<Session, "run">, file: string) {
  const { rows: [found] } = yield* run(markAndTables, [])
  if (found?.["mark"] !== applicationId) {
    if (found?.["mark"] !== 0 || found["tables"] !== 0) return yield* Effect.fail(foreign(file))
    yield* run(`PRAGMA page_size = ${pageBytes}`, [])
    yield* run(`PRAGMA application_id = ${applicationId}`, [])
  }
  yield* run("PRAGMA journal_mode = WAL", [])
  yield* run("PRAGMA synchronous = FULL", [])
  yield* run(`PRAGMA cache_size = -${cacheKibibytes}`, [])
})

const open = (file: string, opening: Effect.Effect<Session, unknown>) =>
  Effect.acquireRelease(
    Effect.flatMap(opening, (session) =>
      prepareFile(session, file).pipe(Effect.as(session), Effect.onError(() => session.close))).pipe(
        Effect.mapError(toOpenError(file))
      ),
    ({ close }) =>
      close
  ).pipe(withRetry("open"))

// ---- the client ---------------------------------------------------------------------------------------------------

const connect = ({ isTransaction, run }: Session, file: string, health: Health.Health["Service"]): Connection => {
  const present = SqliteFile.guard(file)
  const rows: Connection["execute"] = (sql, params, transformRows) =>
    Effect.flatMap(AllowLongStatement, (mayBeLong) => {
      const statement = Effect.andThen(
        // what was begun is ended, one way or the other
        Effect.suspend(() => isTransaction() ? Effect.void : present(sql === begin)),
        Effect.mapError(run(sql, params), toSqlError(file, "execute"))
      )
      return Effect.flatMap(health.observe(statement, mayBeLong), ({ rows, wrote }) => {
        const transformed = transformRows === undefined ? rows : transformRows(rows)
        return wrote ? Effect.as(health.wrote, transformed) : Effect.succeed(transformed)
      })
    })
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

export interface Options {
  readonly file: string
  /**
   * Whether the connection has a thread of its own, so that this one does not wait for the disk. Default: no. A database in
   * memory never has one.
   */
  readonly ownThread?: boolean
}

/** One connection to `file`, made if it does not exist. */
export const session = ({ file, ownThread = false }: Options) =>
  Effect.map(open(file, ownThread && file !== ":memory:" ? SqliteThread.open(file) : openHere(file)), (opened) => {
    const health = Health.make(file)
    return { connection: connect(opened, file, health), isTransaction: opened.isTransaction, health }
  })

/** A client of one connection to `file`. */
export const client = (
  options: Options
): Layer.Layer<SqlClient.SqlClient | Health.Health, StoreError> =>
  Layer.effectContext(
    Effect.gen(function*() {
      const { connection, health, isTransaction } = yield* session(options)
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
const waitForWriteLock = (sql: SqlClient.SqlClient, file: string) => {
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
    toStoreError("open")
  )
}

/** As `layer`, for who serves: a file that another process holds is waited for, however long. */
export const waitingLayer = (options: Options): Layer.Layer<Store | Deliveries, StoreError> =>
  SqlDeliveries.ports.pipe(
    Layer.provide(
      Layer.effectDiscard(Effect.flatMap(SqlClient.SqlClient, (sql) => waitForWriteLock(sql, options.file)))
    ),
    Layer.provide(client(options))
  )

/**
 * The store in `file`, made there if there is none; `:memory:` lives as long as the layer.
 * Fails with `Misconfigured` if the file cannot be one, with `Incompatible` if a newer program wrote it.
 */
export const layer = (options: Options): Layer.Layer<Store | Deliveries, StoreError> =>
  Layer.provide(SqlDeliveries.ports, client(options))
