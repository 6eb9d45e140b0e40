/**
 * The store in a PostgreSQL database: a `SqlClient` over a pool of connections, and the checks before a database is used.
 *
 * Invariants
 * 1. A commit that fails did not happen: where the connection is lost meanwhile, the server is asked what became of it
 * 2. Whoever is silent inside a transaction for five seconds loses it, and every lock it holds   (X21)
 * 3. A server or proxy that falls silent is waited for only so long: see `Limits`   (X10)
 * 4. Nothing is read from or written to a copy that lacks a commit of this process: see `Witness`   (X14)
 *
 * Gotchas
 * - Everything lies in a schema of its own, `rollcall`: other programs may use the same database.
 * - The settings of a session travel with its start. A pooler may drop them, or share sessions: see `greet`, `unshared`.
 * - A statement of many values is not kept prepared: each pattern of nulls would be one more plan of thousands of values.
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
  /** What it is called where people read it: without the login. */
  readonly name: string
  /** Shorter ones are for tests. */
  readonly limits?: Partial<Limits>
}

/**
 * How long is waited at most. Longer than a server may take: for a statement's lock it waits `lockWait`. A session whose
 * statement was given up is not used again; the driver may take five seconds more to let go of it.
 */
export interface Limits {
  /** For a session: one that is free, or a new one. The driver gives a new one five seconds, or `connect_timeout`. */
  readonly connection: Duration.Duration
  readonly statement: Duration.Duration
  /** For a statement of a migration or of pruning. */
  readonly long: Duration.Duration
}

const usualLimits: Limits = {
  connection: Duration.seconds(15),
  statement: Duration.seconds(20),
  long: Duration.minutes(15)
}

const maxConnections = 10
const schema = "rollcall"
/** What it is known by: `pg_xact_status` and what else is used came with it. */
const oldest = 13

/** Longer than a page takes, shorter than people wait. */
const idleInTransaction = "5s"
/** How long a new session has for its first answer. */
const greeting = Duration.seconds(5)
/** Longer than a holder may be idle: it is met only where somebody works on. */
const lockWait = "10s"

const sessionSettings = {
  search_path: schema,
  default_transaction_isolation: "read committed",
  idle_in_transaction_session_timeout: idleInTransaction,
  lock_timeout: lockWait
}

const mostPreparedValues = 64

// ---- sessions ---------------------------------------------------------------------------------------------------

const types = PgTypes.makeRegistry()
// positions, times and hashes are made as numbers: none is beyond what a number holds
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

/** What a person has to mend before it can begin is told apart from what passes. */
const toOpenError = (error: SqlError): StoreError | SqlError => {
  const fault = faultOf(error)
  return fault !== null && configurationFaults.has(fault.kind)
    ? misconfigured(`${fault.message}; ${fault.hint}`)
    : error
}

/** What sessions have in common. */
interface SessionContext {
  /** null: it writes nothing. */
  readonly witness: CommitTracker.CommitTracker | null
  readonly pool: PgPool.PgPool
  readonly name: string
  readonly health: Health.Health["Service"]
  readonly limits: Limits
  /** Counts what happens in all sessions. No clock: it could be set back. */
  moment: number
  /** When each session last answered. */
  readonly answered: WeakMap<PgConnection.PgConnection, number>
  /** A session that did not answer after that is not used again. */
  suspectUntil: number
  /** The server's process of each session. */
  readonly backends: WeakMap<PgConnection.PgConnection, number>
}

const connect = (
  shared: SessionContext,
  base: PgConnection.PgConnection,
  session: PgConnection.PgConnection
): Connection => {
  const { health, limits, name, pool } = shared

  /** Whoever reads a session through a proxy that fell silent waits for ever: what took too long is given up. */
  const given = Effect.fnUntraced(function*(begunAt: number) {
    // the sessions that were idle meanwhile are likely to be as dead as this one
    shared.suspectUntil = Math.max(shared.suspectUntil, begunAt)
    yield* pool.invalidate(base)
    return yield* timedOut(name)
  })

  const query = (sql: string, params: ReadonlyArray<unknown>) =>
    Effect.withFiber<ReadonlyArray<PgConnection.Row>, SqlError>((fiber) => {
      const mayBeLong = fiber.getRef(AllowLongStatement)
      const begunAt = ++shared.moment
      return session.query(sql, params, params.length <= mostPreparedValues).pipe(
        Effect.map(({ rows }) => {
          shared.answered.set(base, ++shared.moment)
          return rows
        }),
        Effect.mapError((error) => toSqlError(name, error)),
        Effect.timeoutOrElse({
          duration: mayBeLong ? limits.long : limits.statement,
          orElse: () => given(begunAt)
        }),
        (statement) => health.observe(statement, mayBeLong),
        // a session keeps the setting that it began with, and the server that it began at
        Effect.tapError((error) => faultOf(error)?.kind === "readOnly" ? pool.invalidate(base) : Effect.void),
        // with its session a transaction is gone
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
 * What is asked of each new session before it is used: whether the settings that it began with have reached the server.
 * A pooler that drops them would let the tables be made in another schema, and locks be held for ever.
 */
const verifySettings = (shared: SessionContext, session: PgConnection.PgConnection) => {
  const { answered, backends, name } = shared
  const wanted = Object.entries(sessionSettings)
  const names = wanted.map(([setting]) => setting)
  const asked = names.map((_, index) => `current_setting($${index + 1}) AS s${index}`)
  return session.query(`SELECT pg_backend_pid() AS pid, ${asked.join(", ")}`, names, false).pipe(
    Effect.mapError((error) => toSqlError(name, error)),
    Effect.timeoutOrElse({ duration: greeting, orElse: () => Effect.fail(timedOut(name)) }),
    Effect.flatMap(({ rows: [row] }) => {
      if (wanted.some(([, value], index) => row?.[`s${index}`] !== value)) return Effect.fail(unsettled(name))
      answered.set(session, ++shared.moment)
      backends.set(session, Number(row?.["pid"]))
      return Effect.succeed(session)
    }),
    Effect.tapError(() => shared.pool.invalidate(session))
  )
}

/** Whether a database answers that lacks a commit of this process. */
const isOlderCopy = ({ reason: { cause } }: SqlError): boolean => cause instanceof StoreError

/** A session that may be used, until the scope closes; with `pin` it is kept for a transaction. */
const acquire = (shared: SessionContext, { pin }: { readonly pin: boolean }): Acquirer => {
  const { answered, health, limits, name, pool, witness } = shared
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
        // another server may answer this session than answered the last one
        if (witness !== null) {
          yield* Effect.tapError(witness.verify(session, connection), (error) =>
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
 * Fails where a pooler lends one session of the server to several clients in turn: what a session prepares or is set to
 * would be another client's. Two sessions that are open at once then meet the same process of the server, or a session
 * meets another one than before.
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

/** What a process of this server notes of its commits. */
const dialect: CommitTracker.Dialect = {
  ready: "SELECT 1 WHERE to_regclass('commit_counters') IS NOT NULL",
  wrote: "pg_current_xact_id_if_assigned() IS NOT NULL",
  transaction: "pg_current_xact_id_if_assigned()::text",
  server: "pg_postmaster_start_time()::text",
  forget: `DELETE FROM commit_counters
    WHERE process NOT IN (SELECT process FROM commit_counters WHERE updated_on >= CURRENT_DATE - 30)`
}

const soon = Schedule.spaced("200 millis")

/** A server that never knew a transaction, because it was promoted or set back, has not committed it. */
const unknownTransaction = "22023"

/**
 * Commits; where the connection is lost meanwhile, or is silent for too long, the server is asked over another one, for
 * as long as it takes. It has committed what it shows: a server that was promoted may have given the transaction's name to
 * another one.
 */
const commitWith = (shared: SessionContext, witness: CommitTracker.CommitTracker) => {
  const isCommitted = ({ process, counter: serial, slot, transaction }: CommitTracker.CommitNote) =>
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
        committed: Number(row?.counter ?? 0) >= serial
      })),
      Effect.catchIf(
        (error) => codeOf(error) === unknownTransaction,
        () => Effect.succeed({ ended: true, committed: false })
      ),
      // an older copy cannot tell what became of it: the database that can may come back
      Effect.retry({ while: (error) => faultOf(error) !== null || isOlderCopy(error), schedule: soon }),
      Effect.repeat({ until: ({ ended }) => ended, schedule: soon }),
      Effect.map(({ committed }) => committed),
      Effect.interruptible
    )
  return (connection: Connection) =>
    witness.committing(connection, (note) =>
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
  /** Whether the schema is there. */
  readonly made: boolean
  readonly exists: boolean
  readonly foreign: boolean
  readonly writable: boolean
}

/** What the database is, or why it cannot be a store. */
export const look = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, name: string) {
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
    return yield* misconfigured(`${name} is PostgreSQL ${version}; the store needs ${oldest} or newer`)
  }
  if (encoding !== "UTF8") {
    return yield* misconfigured(`the database ${name} is encoded in ${encoding}; create one with encoding UTF8`)
  }
  if (foreign) {
    return yield* misconfigured(`the schema "${schema}" of ${name} is of another program; name another database`)
  }
  if (!writable) {
    return yield* misconfigured(
      `${name} cannot be written to; its user must be allowed to create, or to own, the schema "${schema}"`
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
    const limits = { ...usualLimits, ...options.limits }
    const pool = yield* PgPool.make({
      url: options.url,
      types,
      applicationName: "rollcall",
      keepAlive: "30 seconds",
      maxConnections,
      startupParameters: sessionSettings
    })
    const witness = writes ? CommitTracker.make(dialect) : null
    const shared: SessionContext = {
      pool,
      witness,
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
      ...(witness === null ? {} : { commit: commitWith(shared, witness) }),
      onCommitFailure: (connection) => Effect.asVoid(connection.execute(rollback, [], undefined)),
      prepareTransactionControls: true,
      spanAttributes: [["db.system.name", "postgresql"]]
    })
  })

const reading = { beginTransaction: "BEGIN READ ONLY", writes: false }
const writing = { beginTransaction: "BEGIN", writes: true }

/** A client whose transactions cannot write. */
export const onlyReading = (options: Options): Layer.Layer<SqlClient.SqlClient, StoreError> =>
  Layer.effect(SqlClient.SqlClient, toStoreError("open")(connected(options, Health.none, reading))).pipe(
    Layer.provide(Reactivity.layer)
  )

/** A client of as many connections as are used at once, to a database that can be a store. */
export const client = (options: Options): Layer.Layer<SqlClient.SqlClient | Health.Health, StoreError> =>
  Layer.effectContext(
    Effect.gen(function*() {
      const health = Health.make(options.name)
      const sql = yield* connected(options, health, writing)
      yield* Effect.gen(function*() {
        const { made } = yield* look(sql, options.name)
        // of several that make it at once, one does
        if (!made) yield* sql`CREATE SCHEMA IF NOT EXISTS ${sql(schema)}`.pipe(Effect.retry({ times: 1 }))
      }).pipe(withRetry("open"))
      yield* Effect.forkScoped(health.watch)
      return Context.make(SqlClient.SqlClient, sql).pipe(Context.add(Health.Health, health))
    }).pipe(toStoreError("open"))
  ).pipe(Layer.provide(Reactivity.layer))

/**
 * The store in a database, made there if there is none.
 * Fails with `Misconfigured` if the database cannot be one, with `Incompatible` if a newer program wrote it.
 */
export const layer = (options: Options): Layer.Layer<Store | Deliveries, StoreError> =>
  Layer.provide(SqlDeliveries.ports, client(options))
