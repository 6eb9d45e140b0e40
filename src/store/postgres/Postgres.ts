/**
 * The store in a PostgreSQL database: a `SqlClient` over a pool of connections, and the checks before a database is used.
 *
 * Invariants
 * 1. A commit that fails did not happen: if the connection is lost during the commit, the server is asked for the outcome
 * 2. A client that is idle inside a transaction for five seconds loses the transaction and all its locks   (X21)
 * 3. The wait for a server or proxy that stops answering is limited: see `Limits`   (X10)
 * 4. A copy that lacks a commit of this process is neither read nor written: see `CommitTracker`   (X14)
 *
 * Gotchas
 * - All tables are in the schema `rollcall`, so other programs may use the same database.
 * - Session settings are sent when a session starts. A pooler may drop them or share sessions between clients: see
 *   `verifySettings` and `rejectSharedSessions`.
 * - A statement with many values is not kept prepared: each pattern of nulls would need its own plan with thousands of values.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as PgPool from "@effect/sql-pg/PgPool"
import * as PgTypes from "@effect/sql-pg/PgTypes"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { Acquirer, Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import type { Deliveries } from "../Deliveries.ts"
import * as SqlDeliveries from "../sql/delivery/SqlDeliveries.ts"
import * as Health from "../sql/Health.ts"
import { table } from "../sql/Migrations.ts"
import { AllowLongStatement, toStoreError, withRetry } from "../sql/SqlRetry.ts"
import { Misconfigured, type Store, StoreError } from "../Store.ts"
import { type FaultKind, faultOf } from "../StoreFault.ts"
import * as CommitTracker from "./CommitTracker.ts"
import { codeOf, exhausted, isLost, pooled, replaced, timedOut, toSqlError, unsettled } from "./PostgresFault.ts"

export interface Options {
  /** `postgres://user:password@host:port/database`, as libpq reads it: `?sslmode=require` encrypts. */
  readonly url: Redacted.Redacted
  /** The store's name for people, without the login. */
  readonly name: string
  /** Shorter ones are for tests. */
  readonly limits?: Partial<Limits>
}

/**
 * Time limits. Each is longer than a working server needs, because the server itself waits up to `lockWait` for a lock. A
 * session whose statement timed out is not used again; the driver may need five seconds more to release it.
 */
export interface Limits {
  /** For a free or new session. The driver allows a new one five seconds, or `connect_timeout`. */
  readonly connection: Duration.Duration
  readonly statement: Duration.Duration
  /** For a statement of a migration or of pruning. */
  readonly long: Duration.Duration
}

const defaultLimits: Limits = {
  connection: Duration.seconds(15),
  statement: Duration.seconds(20),
  long: Duration.minutes(15)
}

const maxConnections = 10
const schema = "rollcall"
/** The oldest supported version: it introduced `pg_current_xact_id_if_assigned` and `xid8`. */
const oldest = 13

/** Longer than the work on a page takes, shorter than people are willing to wait. */
const idleInTransaction = "5s"
/** Time limit for the first answer of a new session. */
const firstAnswerTimeout = Duration.seconds(5)
/** Longer than a lock's holder may be idle, so it is reached only if the holder keeps working. */
const lockWait = "10s"

const sessionSettings = {
  search_path: schema,
  default_transaction_isolation: "read committed",
  idle_in_transaction_session_timeout: idleInTransaction,
  lock_timeout: lockWait
}

const maxPreparedValues = 64

// ---- sessions ---------------------------------------------------------------------------------------------------

const types = PgTypes.makeRegistry()
// positions, times and hashes originate as JavaScript numbers, so all of them are safe integers
types.register(PgTypes.OID.int8, {
  encode: (value: unknown) => PgTypes.encode(value, PgTypes.OID.int8),
  decode: (bytes) => Result.succeed(Number(new DataView(bytes.buffer, bytes.byteOffset).getBigInt64(0)))
})

const rollback = "ROLLBACK"

const configurationFaults: ReadonlySet<FaultKind> = new Set([
  "login",
  "missing",
  "encryption",
  "pooled",
  "unsettled",
  "denied"
])

const misconfigured = (message: string) => new StoreError({ reason: new Misconfigured({ message }) })

/** Separates faults of the configuration, which a person must fix first, from faults that may pass. */
const toOpenError = (error: SqlError): StoreError | SqlError => {
  const fault = faultOf(error)
  return fault !== null && configurationFaults.has(fault.kind)
    ? misconfigured(`${fault.message}; ${fault.hint}`)
    : error
}

/** State that all sessions share. */
interface SessionContext {
  /** null: the client is read-only. */
  readonly tracker: CommitTracker.CommitTracker | null
  readonly pool: PgPool.PgPool
  readonly name: string
  readonly health: Health.Health["Service"]
  readonly limits: Limits
  /** Logical clock of all sessions: counts statements and answers. A real clock could be set back. */
  moment: number
  /** When each session last answered. */
  readonly answered: WeakMap<PgConnection.PgConnection, number>
  /** A session whose last answer is not later than this moment is not used again. */
  suspectUntil: number
  /** By session: the id of its server process. */
  readonly backends: WeakMap<PgConnection.PgConnection, number>
}

const connect = (
  shared: SessionContext,
  base: PgConnection.PgConnection,
  session: PgConnection.PgConnection
): Connection => {
  const { health, limits, name, pool } = shared

  /** Ends a session whose statement timed out: behind a proxy that stopped answering, it would wait forever. */
  const giveUp = Effect.fnUntraced(function*(begunAt: number) {
    // sessions that were idle meanwhile are probably dead too
    shared.suspectUntil = Math.max(shared.suspectUntil, begunAt)
    yield* pool.invalidate(base)
    return yield* timedOut(name)
  })

  const query = (sql: string, params: ReadonlyArray<unknown>) =>
    Effect.withFiber<ReadonlyArray<PgConnection.Row>, SqlError>((fiber) => {
      const mayBeLong = fiber.getRef(AllowLongStatement)
      const begunAt = ++shared.moment
      return session.query(sql, params, params.length <= maxPreparedValues).pipe(
        Effect.map(({ rows }) => {
          shared.answered.set(base, ++shared.moment)
          return rows
        }),
        Effect.mapError((error) => toSqlError(name, error)),
        Effect.timeoutOrElse({
          duration: mayBeLong ? limits.long : limits.statement,
          orElse: () => giveUp(begunAt)
        }),
        (statement) => health.observe(statement, mayBeLong),
        // a session keeps its initial read-only setting and its server, so only a new session can write again
        Effect.tapError((error) => faultOf(error)?.kind === "readOnly" ? pool.invalidate(base) : Effect.void),
        // ending the session ends its transaction, so a failed rollback is not an error
        Effect.catchIf(() => sql === rollback, () => Effect.as(pool.invalidate(base), []))
      )
    })
  const rows: Connection["execute"] = (sql, params, transformRows) =>
    transformRows === undefined ? query(sql, params) : Effect.map(query(sql, params), transformRows)
  const values: Connection["executeValues"] = (sql, params) =>
    Effect.map(query(sql, params), (all) => all.map((row) => Object.values(row)))
  return {
    execute: rows,
    executeUnprepared: rows,
    executeRaw: query,
    executeValues: values,
    executeValuesUnprepared: values,
    executeStream: (sql, params, transformRows) => Stream.fromIterableEffect(rows(sql, params, transformRows))
  }
}

/**
 * Checks a new session before it is used: its settings must have reached the server. If a pooler drops them, tables would be
 * created in another schema, and locks could be held forever.
 */
const verifySettings = (shared: SessionContext, session: PgConnection.PgConnection) => {
  const { answered, backends, name } = shared
  const wanted = Object.entries(sessionSettings)
  const names = wanted.map(([setting]) => setting)
  const columns = names.map((_, index) => `current_setting($${index + 1}) AS s${index}`)
  return session.query(`SELECT pg_backend_pid() AS pid, ${columns.join(", ")}`, names, false).pipe(
    Effect.mapError((error) => toSqlError(name, error)),
    Effect.timeoutOrElse({ duration: firstAnswerTimeout, orElse: () => Effect.fail(timedOut(name)) }),
    Effect.flatMap(({ rows: [row] }) => {
      if (wanted.some(([, value], index) => row?.[`s${index}`] !== value)) return Effect.fail(unsettled(name))
      answered.set(session, ++shared.moment)
      backends.set(session, Number(row?.["pid"]))
      return Effect.succeed(session)
    }),
    Effect.tapError(() => shared.pool.invalidate(session))
  )
}

/** Whether the database that answered lacks a commit of this process. */
const isOlderCopy = ({ reason: { cause } }: SqlError): boolean => cause instanceof StoreError

/** Provides a verified session until the scope closes; with `pin` it is reserved for a transaction. */
const acquire = (shared: SessionContext, { pin }: { readonly pin: boolean }): Acquirer => {
  const { answered, health, limits, name, pool, tracker } = shared
  const next: Effect.Effect<PgConnection.PgConnection, SqlError, Scope.Scope> = pool.get.pipe(
    Effect.mapError((error) => toSqlError(name, error)),
    Effect.flatMap((session) => {
      const answeredAt = answered.get(session)
      if (answeredAt === undefined) return verifySettings(shared, session)
      return answeredAt <= shared.suspectUntil
        ? Effect.andThen(pool.invalidate(session), next)
        : Effect.succeed(session)
    })
  )
  return next.pipe(
    Effect.timeoutOrElse({ duration: limits.connection, orElse: () => Effect.fail(exhausted(name)) }),
    Effect.tapError(health.failed),
    Effect.flatMap((session) =>
      Effect.gen(function*() {
        const connection = connect(shared, session, pin ? yield* session.pin : session)
        // this session may be connected to another server than the last one
        if (tracker !== null) {
          yield* Effect.tapError(tracker.verify(session, connection), (error) =>
            Effect.andThen(
              pool.invalidate(session),
              isOlderCopy(error) ? health.failed(replaced(name)) : Effect.void
            ))
        }
        return connection
      })
    )
  )
}

/**
 * Fails if a pooler shares sessions of the server between clients, because prepared statements and settings would then affect
 * other clients. Evidence of sharing: two sessions that are open at once reach the same server process, or one session reaches
 * another server process than before.
 */
const rejectSharedSessions = (shared: SessionContext) => {
  const { backends, limits, name, pool } = shared
  const session = Effect.mapError(pool.get, (error) => toSqlError(name, error))
  return Effect.scoped(Effect.gen(function*() {
    const first = yield* session
    yield* verifySettings(shared, first)
    const before = backends.get(first)
    if (before === first.processId) return
    const second = yield* session
    yield* verifySettings(shared, second)
    yield* verifySettings(shared, first)
    if (backends.get(first) !== before || backends.get(second) === before) return yield* pooled(name)
  })).pipe(
    Effect.timeoutOrElse({ duration: limits.connection, orElse: () => Effect.fail(exhausted(name)) }),
    Effect.mapError(toOpenError)
  )
}

/** The commit tracker's SQL for PostgreSQL. */
const dialect: CommitTracker.Dialect = {
  ready: "SELECT 1 WHERE to_regclass('commit_counters') IS NOT NULL",
  wrote: "pg_current_xact_id_if_assigned() IS NOT NULL",
  transaction: "pg_current_xact_id_if_assigned()::text",
  server: "pg_postmaster_start_time()::text",
  forget: `DELETE FROM commit_counters
    WHERE process NOT IN (SELECT process FROM commit_counters WHERE updated_on >= CURRENT_DATE - 30)`
}

const pollSchedule = Schedule.spaced("200 millis")

/** SQLSTATE of a server that never had the transaction, because it was promoted or restored: it has not committed it. */
const unknownTransaction = "22023"

/**
 * Commits. If the connection is lost during the commit, or does not answer in time, the outcome is queried over another connection,
 * for as long as that takes. The commit counter decides, not the transaction's status alone: a promoted server may have given the
 * same transaction id to another transaction.
 */
const commitWith = (shared: SessionContext, tracker: CommitTracker.CommitTracker) => {
  const isCommitted = ({ process, counter, slot, transaction }: CommitTracker.CommitNote) =>
    Effect.flatMap(
      acquire(shared, { pin: false }),
      (connection) =>
        connection.execute(
          `SELECT pg_xact_status($1::xid8) AS status,
            (SELECT counter FROM commit_counters WHERE process = $2 AND slot = ${slot}) AS counter`,
          [transaction, process],
          undefined
        )
    ).pipe(
      Effect.scoped,
      Effect.map(([row]) => ({
        ended: row?.status !== "in progress",
        committed: Number(row?.counter ?? 0) >= counter
      })),
      Effect.catchIf(
        (error) => codeOf(error) === unknownTransaction,
        () => Effect.succeed({ ended: true, committed: false })
      ),
      // an older copy does not know the outcome: wait until the right database is back
      Effect.retry({ while: (error) => faultOf(error) !== null || isOlderCopy(error), schedule: pollSchedule }),
      Effect.repeat({ until: ({ ended }) => ended, schedule: pollSchedule }),
      Effect.map(({ committed }) => committed),
      Effect.interruptible
    )
  return (connection: Connection) =>
    tracker.committing(connection, (note) =>
      connection.execute("COMMIT", [], undefined).pipe(
        Effect.catchIf(
          (error) => isLost(error) && note !== null,
          (lost) => Effect.flatMap(isCommitted(note!), (committed) => committed ? Effect.void : Effect.fail(lost))
        ),
        Effect.andThen(note === null ? Effect.void : shared.health.wrote)
      ))
}

// ---- opening a database -------------------------------------------------------------------------------------------

interface Found {
  readonly version: number
  readonly encoding: string
  /** Whether the schema exists. */
  readonly made: boolean
  readonly exists: boolean
  readonly foreign: boolean
  readonly writable: boolean
}

/** Checks whether the database is, or can become, a store; fails with the reason if it cannot. */
export const checkDatabase = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, name: string) {
  const [found] = yield* sql<Found>`
    SELECT current_setting('server_version_num')::integer / 10000 AS version, getdatabaseencoding() AS encoding,
      namespace IS NOT NULL AS made, migrations IS NOT NULL AS exists,
      migrations IS NULL AND EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = namespace) AS foreign,
      NOT pg_is_in_recovery() AND coalesce(
        has_schema_privilege(namespace, 'CREATE'), has_database_privilege(current_database(), 'CREATE')) AS writable
    FROM (SELECT to_regnamespace(${schema})::oid, to_regclass(${`${schema}.${table}`})::oid) AS x (namespace, migrations)`
    .pipe(Effect.mapError(toOpenError))
  if (found === undefined) return yield* misconfigured(`${name} does not answer like PostgreSQL`)
  const { encoding, foreign, version, writable } = found
  if (version < oldest) {
    return yield* misconfigured(`${name} runs PostgreSQL ${version}; the store needs ${oldest} or newer`)
  }
  if (encoding !== "UTF8") {
    return yield* misconfigured(`the database ${name} has the encoding ${encoding}; create one with encoding UTF8`)
  }
  if (foreign) {
    return yield* misconfigured(
      `the schema "${schema}" of ${name} belongs to another program; configure another database`
    )
  }
  if (!writable) {
    return yield* misconfigured(
      `${name} is not writable; its user must own the schema "${schema}" or be allowed to create it`
    )
  }
  return found
})

const connected = (
  options: Options,
  health: Health.Health["Service"],
  { beginTransaction, writes }: { readonly beginTransaction: string; readonly writes: boolean }
) =>
  Effect.gen(function*() {
    const limits = { ...defaultLimits, ...options.limits }
    const pool = yield* PgPool.make({
      url: options.url,
      types,
      applicationName: "rollcall",
      keepAlive: "30 seconds",
      maxConnections,
      startupParameters: sessionSettings
    })
    const tracker = writes ? CommitTracker.make(dialect) : null
    const shared: SessionContext = {
      pool,
      tracker,
      name: options.name,
      health,
      limits,
      moment: 0,
      answered: new WeakMap(),
      suspectUntil: 0,
      backends: new WeakMap()
    }
    yield* withRetry("open")(rejectSharedSessions(shared))
    return yield* SqlClient.make({
      acquirer: acquire(shared, { pin: false }),
      transactionAcquirer: acquire(shared, { pin: true }),
      compiler: PgClient.makeCompiler(),
      driver: "sql-pg",
      beginTransaction,
      ...(tracker === null ? {} : { commit: commitWith(shared, tracker) }),
      onCommitFailure: (connection) => Effect.asVoid(connection.execute(rollback, [], undefined)),
      prepareTransactionControls: true,
      spanAttributes: [["db.system.name", "postgresql"]]
    })
  })

const readOnly = { beginTransaction: "BEGIN READ ONLY", writes: false }
const readWrite = { beginTransaction: "BEGIN", writes: true }

/** A client whose transactions are read-only. */
export const readOnlyClient = (options: Options): Layer.Layer<SqlClient.SqlClient, StoreError> =>
  Layer.effect(SqlClient.SqlClient, toStoreError("open")(connected(options, Health.none, readOnly))).pipe(
    Layer.provide(Reactivity.layer)
  )

/** A client with a pool of connections, to a database that is or can become a store. */
export const client = (options: Options): Layer.Layer<SqlClient.SqlClient | Health.Health, StoreError> =>
  Layer.effectContext(
    Effect.gen(function*() {
      const health = Health.make(options.name)
      const sql = yield* connected(options, health, readWrite)
      yield* Effect.gen(function*() {
        const { made } = yield* checkDatabase(sql, options.name)
        // if several processes create the schema at once, one succeeds and the others retry
        if (!made) yield* sql`CREATE SCHEMA IF NOT EXISTS ${sql(schema)}`.pipe(Effect.retry({ times: 1 }))
      }).pipe(withRetry("open"))
      yield* Effect.forkScoped(health.watch)
      return Context.make(SqlClient.SqlClient, sql).pipe(Context.add(Health.Health, health))
    }).pipe(toStoreError("open"))
  ).pipe(Layer.provide(Reactivity.layer))

/**
 * The store in a PostgreSQL database; created if there is none.
 * Fails with `Misconfigured` if the database cannot be a store, with `Incompatible` if a newer version wrote it.
 */
export const layer = (options: Options): Layer.Layer<Store | Deliveries, StoreError> =>
  Layer.provide(SqlDeliveries.ports, client(options))
