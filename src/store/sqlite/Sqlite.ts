/**
 * The store in one SQLite file: a `SqlClient` over Node's driver, and the checks before a file is used as a store.
 *
 * Invariants
 * 1. A commit is on disk before it returns: WAL with `synchronous=FULL`
 * 2. A file that another program wrote is never changed
 * 3. Nothing is written after the file at the path was replaced or deleted
 * 4. Deleted content is overwritten with zeros in the pages of the file; see `Store.reclaim` for the `-wal` file   (I11)
 *
 * Gotchas
 * - The driver is synchronous: a statement blocks its thread, which is the main thread unless `ownThread` is set. So the driver
 *   waits only briefly for another process's lock; the caller of the transaction retries without blocking.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Schedule from "effect/Schedule"
import * as Semaphore from "effect/Semaphore"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import type { Send, Step } from "../sql/Connection.ts"
import * as Connection from "../sql/Connection.ts"
import * as Health from "../sql/Health.ts"
import * as Ports from "../sql/Ports.ts"
import type { Row } from "../sql/Rows.ts"
import { ManyRows } from "../sql/RowValues.ts"
import { AllowLongStatement, toStoreError, withRetry } from "../sql/SqlRetry.ts"
import type { StoreError, StoreInUse } from "../StoreError.ts"
import { begin, type Session, type StatementResult } from "./SqliteDriver.ts"
import * as SqliteDriver from "./SqliteDriver.ts"
import { foreign, toOpenError, toSqlError } from "./SqliteFault.ts"
import * as SqliteThread from "./SqliteThread.ts"
import * as StoreFile from "./StoreFile.ts"

/** "Roll": marks a file as Rollcall's. */
export const applicationId = 0x526f6c6c

/** How long to wait for a lock: longer than a transaction of a healthy process lasts. */
const lockedBriefly = Schedule.spaced("100 millis").pipe(Schedule.upTo({ times: 4 }))
/** Two or three events of typical size fill a page. With the default of 4096 bytes, every event would need a whole page. */
const pageBytes = 8192
const cacheKibibytes = 16_384

// ---- opening a file -----------------------------------------------------------------------------------------------

const tryRun = <A>(run: () => A): Effect.Effect<A, unknown> => Effect.try({ try: run, catch: (cause) => cause })

const rowsOf = ({ columns, rows }: StatementResult): ReadonlyArray<Row> =>
  rows.map((values) => {
    const row: Record<string, unknown> = {}
    for (let index = 0; index < columns.length; index++) row[columns[index]!] = values[index]
    return row
  })

const openHere = (file: string, content?: Uint8Array): Effect.Effect<Session, unknown> =>
  Effect.map(tryRun(() => SqliteDriver.open(file, content)), (driver) => ({
    run: (statements) => Effect.sync(() => SqliteDriver.runAll(driver, statements)),
    isTransaction: driver.isTransaction,
    close: Effect.sync(driver.close)
  }))

/** One statement reads both, because another process may mark the file and create its tables between two statements. */
const markAndTables =
  "SELECT application_id AS mark, (SELECT count(*) FROM sqlite_master) AS tables FROM pragma_application_id"

/**
 * Sets up a connection to the file. If the file is empty, first marks it as Rollcall's. Fails if the file belongs to another program.
 */
export const prepareFile = Effect.fnUntraced(function*(session: Pick<Session, "run">, file: string) {
  const run = (sql: string) =>
    Effect.flatMap(
      session.run([[sql, []]]),
      (answer) => "failure" in answer ? Effect.fail(answer.failure) : Effect.succeed(rowsOf(answer.results[0]!))
    )
  const [found] = yield* run(markAndTables)
  if (found?.["mark"] !== applicationId) {
    if (found?.["mark"] !== 0 || found["tables"] !== 0) return yield* Effect.fail(foreign(file))
    yield* run(`PRAGMA page_size = ${pageBytes}`)
    yield* run(`PRAGMA application_id = ${applicationId}`)
  }
  yield* run("PRAGMA journal_mode = WAL")
  yield* run("PRAGMA synchronous = FULL")
  // FAST is not enough, because it leaves the content in the free pages of the file.
  yield* run("PRAGMA secure_delete = ON")
  yield* run(`PRAGMA cache_size = -${cacheKibibytes}`)
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

const statementOf = ({ params, sql }: Step): SqliteDriver.Statement => {
  const [rows] = params
  return params.length === 1 && rows instanceof ManyRows ? [sql, rows.columns, rows.rows] : [sql, params]
}

const sendTo = ({ isTransaction, run }: Session, file: string, health: Health.Health["Service"]): Send => {
  const checkFile = StoreFile.checkOf(file)
  const toError = toSqlError(file, "execute")
  return (steps, received) =>
    Effect.withFiber((fiber) => {
      const answered = Effect.matchEffect(run(steps.map(statementOf)), {
        onFailure: (cause) => Effect.fail(toError(cause)),
        onSuccess: ({ results, ...answer }) => {
          for (const result of results) received(rowsOf(result))
          if ("failure" in answer) return Effect.fail(toError(answer.failure))
          return results.some(({ wrote }) => wrote) ? health.wrote : Effect.void
        }
      })
      // no check inside a transaction: it must be committed or rolled back in any case
      const statements = isTransaction() ? answered : Effect.andThen(checkFile(steps[0]?.sql === begin), answered)
      return health.observe(statements, fiber.getRef(AllowLongStatement))
    })
}

export interface Options {
  readonly file: string
  /**
   * True if the connection runs in a separate thread, so that the main thread does not wait for the disk. False by default. A database in
   * memory never has a separate thread.
   */
  readonly ownThread?: boolean
  /** Start although another process works on the file. False by default; only `waitingLayer` uses it. */
  readonly takeOver?: boolean
  /** The first content of a database in memory, from `DatabaseSync.serialize`. Nothing by default. */
  readonly content?: Uint8Array
}

/** One connection to `file`, which is created if it does not exist. */
export const session = ({ content, file, ownThread = false }: Options) =>
  Effect.map(
    open(file, ownThread && file !== ":memory:" ? SqliteThread.open(file) : openHere(file, content)),
    (opened) => {
      const health = Health.make(file)
      const send = sendTo(opened, file, health)
      return {
        connection: Connection.single(send),
        /** The connection for one transaction. */
        transaction: () => Connection.transaction(send),
        isTransaction: opened.isTransaction,
        health
      }
    }
  )

/** A client with one connection to `file`. */
export const client = (
  options: Options
): Layer.Layer<SqlClient.SqlClient | Health.Health, StoreError> =>
  Layer.effectContext(
    Effect.gen(function*() {
      const { connection, health, isTransaction, transaction } = yield* session(options)
      const acquirers = SqlClient.makeSqliteAcquirers({
        connection: Effect.succeed(connection),
        semaphore: yield* Semaphore.make(1),
        isTransaction
      })
      const sql = yield* SqlClient.make({
        ...acquirers,
        transactionAcquirer: Effect.map(acquirers.transactionAcquirer, transaction),
        compiler: Statement.makeCompilerSqlite(),
        driver: "node-sqlite",
        beginTransaction: begin,
        prepareTransactionControls: true,
        spanAttributes: [["db.system.name", "sqlite"]]
      })
      return Context.make(SqlClient.SqlClient, sql).pipe(Context.add(Health.Health, health))
    })
  ).pipe(Layer.provide(Reactivity.layer))

/** Waits until no other process holds the write lock; logs a warning while it waits. A frozen process keeps the lock (X21). */
const waitForWriteLock = (sql: SqlClient.SqlClient, file: string) => {
  const takeLock = sql`SELECT 1`.pipe(Effect.asVoid, sql.withTransaction, Effect.provideService(Health.Observed, false))
  const waiting = Effect.logWarning("waiting for the store: another process is writing to it").pipe(
    Effect.annotateLogs({
      store: file,
      hint: "if this lasts, that process is stuck or frozen: let it continue, or end it"
    })
  )
  const isLocked = (error: SqlError) => error.reason._tag === "LockTimeoutError"
  return takeLock.pipe(
    Effect.retry({ while: isLocked, schedule: lockedBriefly }),
    Effect.catchIf(isLocked, () =>
      waiting.pipe(
        Effect.andThen(Effect.retry(takeLock, { while: isLocked, schedule: Schedule.spaced("500 millis") })),
        Effect.andThen(Effect.logInfo("the store is no longer locked"))
      )),
    toStoreError("open")
  )
}

/**
 * Like `layer`, for `rollcall start`: fails with `StoreInUse` if another process works on the file, and waits without a limit while another
 * process holds the write lock.
 */
export const waitingLayer = (options: Options): Layer.Layer<Ports.Ports, StoreError | StoreInUse> =>
  Ports.layer.pipe(
    Layer.provide(
      Layer.effectDiscard(
        Effect.flatMap(
          SqlClient.SqlClient,
          (sql) => waitForWriteLock(sql, options.file)
        )
      )
    ),
    Layer.provide(client(options)),
    Layer.provide(StoreFile.lockLayer(options.file, options.takeOver === true))
  )

/**
 * The store in `file`, which is created if it does not exist; `:memory:` lives as long as the layer.
 * Fails with `Misconfigured` if the file cannot be a store, with `Incompatible` if a newer version wrote it.
 */
export const layer = (options: Options): Layer.Layer<Ports.Ports, StoreError> =>
  Layer.provide(Ports.layer, client(options))
