/**
 * The store in a PostgreSQL database: a `SqlClient` over a pool of connections, and the checks before a database is used.
 *
 * Invariants
 * 1. A commit that fails did not happen: where the connection is lost meanwhile, the server is asked what became of it
 * 2. Whoever is silent inside a transaction for five seconds loses it, and every lock it holds   (X21)
 * 3. Nothing is read from or written to a copy that lacks a commit of this process: see `Witness`   (X14)
 * 4. What a server says of values stays here: errors tell its code and where, never what a row holds   (I11)
 *
 * Gotchas
 * - Everything lies in a schema of its own, `rollcall`: other programs may use the same database.
 * - The settings of a session travel with its start: a pooler that shares sessions between transactions refuses them.
 * - A statement of many values is not kept prepared: each pattern of nulls would be one more plan of thousands of values.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import * as PgPool from "@effect/sql-pg/PgPool"
import * as PgTypes from "@effect/sql-pg/PgTypes"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import {
  ConnectionError,
  ConstraintError,
  DeadlockError,
  LockTimeoutError,
  SerializationError,
  SqlError,
  type SqlErrorReason,
  UnknownError
} from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import { attempt, step } from "./Attempt.ts"
import type { Deliveries } from "./Deliveries.ts"
import { table } from "./Migrations.ts"
import * as SqlDeliveries from "./SqlDeliveries.ts"
import { Misconfigured, type Store, StoreError } from "./Store.ts"
import * as Witness from "./Witness.ts"

export interface Options {
  /** `postgres://user:password@host:port/database`, as libpq reads it: `?sslmode=require` encrypts. */
  readonly url: Redacted.Redacted
  /** What it is called where people read it: without the login. */
  readonly name: string
}

const schema = "rollcall"
/** What it is known by: `pg_xact_status` and what else is used came with it. */
const oldest = 13

/** Longer than a page takes, shorter than people wait. */
const idleInTransaction = "5s"
/** Longer than a holder may be idle: it is met only where somebody works on. */
const lockWait = "10s"

const sessionSettings = {
  search_path: schema,
  default_transaction_isolation: "read committed",
  idle_in_transaction_session_timeout: idleInTransaction,
  lock_timeout: lockWait
}

const mostPreparedValues = 64

// ---- errors -------------------------------------------------------------------------------------------------------

/** An error as the server tells it. */
interface Told extends Error {
  readonly code: string
  readonly table?: string
  readonly constraint?: string
}

const isTold = (cause: unknown): cause is Told =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" && "severity" in cause

/** Classes of SQLSTATE whose message may quote a value: data, constraints, and what functions raise. */
const quoting = /^(21|22|23|44|P0)/
/** The server ended the session, or begins none: silent for too long, going down, starting, full. */
const ended = /^(25P0[34]|57P0[1235]|53300)$/

const withoutValues = ({ code, constraint, message, table }: Told): Error =>
  Object.assign(new Error(quoting.test(code) ? `SQLSTATE ${code}` : message), {
    code,
    ...(table === undefined ? {} : { table }),
    ...(constraint === undefined ? {} : { constraint })
  })

const reasonOf = ({ _tag, cause, message = "", operation = "query" }: SqlErrorReason): SqlErrorReason => {
  const told = isTold(cause)
  // of what was sent or read, only the line itself is known to quote nothing
  const plain = _tag === "ConnectionError" ? cause : new Error(message)
  const props = { cause: told ? withoutValues(cause) : plain, message, operation }
  if (told && ended.test(cause.code)) return new ConnectionError(props)
  switch (_tag) {
    case "ConnectionError":
      return new ConnectionError(props)
    case "DeadlockError":
      return new DeadlockError(props)
    case "SerializationError":
      return new SerializationError(props)
    case "LockTimeoutError":
    case "StatementTimeoutError":
      return new LockTimeoutError(props)
    case "UniqueViolation":
    case "ConstraintError":
      return new ConstraintError(props)
    default:
      return new UnknownError(props)
  }
}

const toSqlError = (error: SqlError): SqlError => new SqlError({ reason: reasonOf(error.reason) })

/** Whether the server has the transaction no more, or cannot be asked. */
const isLost = (error: SqlError): boolean => error.reason._tag === "ConnectionError"
const codeOf = ({ reason: { cause } }: SqlError): unknown =>
  cause instanceof Error && "code" in cause ? cause.code : undefined

// ---- the client ---------------------------------------------------------------------------------------------------

const types = PgTypes.makeRegistry()
// positions, times and hashes are made as numbers: none is beyond what a number holds
types.register(PgTypes.OID.int8, {
  encode: (value: unknown) => PgTypes.encode(value, PgTypes.OID.int8),
  decode: (bytes) => Result.succeed(Number(new DataView(bytes.buffer, bytes.byteOffset).getBigInt64(0)))
})

const rollback = "ROLLBACK"

const connect = (session: PgConnection.PgConnection): Connection => {
  const query = (sql: string, params: ReadonlyArray<unknown>) =>
    session.query(sql, params, params.length <= mostPreparedValues).pipe(
      Effect.map(({ rows }) => rows),
      Effect.mapError(toSqlError),
      // with its connection a transaction is gone
      Effect.catchIf((error) => sql === rollback && isLost(error), () => Effect.succeed([]))
    )
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

/** What a process of this server notes of its commits. */
const dialect: Witness.Dialect = {
  ready: "SELECT 1 WHERE to_regclass('witness') IS NOT NULL",
  wrote: "pg_current_xact_id_if_assigned() IS NOT NULL",
  transaction: "pg_current_xact_id_if_assigned()::text",
  server: "pg_postmaster_start_time()::text",
  forget: `DELETE FROM witness WHERE process NOT IN (SELECT process FROM witness WHERE noted >= CURRENT_DATE - 30)`
}

/** Sessions that may be used: `get` for one statement, `reserve` for a transaction. */
const sessionsOf = (pool: PgPool.PgPool, witness: Witness.Witness | null) => {
  const lend = (pin: boolean) =>
    Effect.gen(function*() {
      const session = yield* Effect.mapError(pool.get, toSqlError)
      const connection = connect(pin ? yield* session.pin : session)
      // whoever answers here now need not be who answers the next connection
      if (witness !== null) yield* Effect.tapError(witness.verify(session, connection), () => pool.invalidate(session))
      return connection
    })
  return { get: lend(false), reserve: lend(true) }
}
type Sessions = ReturnType<typeof sessionsOf>

const soon = Schedule.spaced("200 millis")

/** A server that never knew a transaction, because it was promoted or set back, has not committed it. */
const unknownTransaction = "22023"

/**
 * Commits; where the connection is lost meanwhile, the server is asked over another one, for as long as it takes. It has
 * committed what it shows: a server that was promoted may have given the transaction's name to another one.
 */
const commitWith = ({ get }: Sessions, witness: Witness.Witness) => {
  const isCommitted = ({ process, serial, slot, transaction }: Witness.Note) =>
    Effect.flatMap(get, (connection) =>
      connection.execute(
        `SELECT pg_xact_status($1::xid8) AS status,
          (SELECT serial FROM witness WHERE process = $2 AND slot = ${slot}) AS serial`,
        [transaction, process],
        undefined
      )).pipe(
        Effect.scoped,
        Effect.map(([row]) => ({
          ended: row?.status !== "in progress",
          committed: Number(row?.serial ?? 0) >= serial
        })),
        Effect.catchIf(
          (error) => codeOf(error) === unknownTransaction,
          () => Effect.succeed({ ended: true, committed: false })
        ),
        Effect.retry({ while: isLost, schedule: soon }),
        Effect.repeat({ until: ({ ended }) => ended, schedule: soon }),
        Effect.map(({ committed }) => committed),
        Effect.interruptible
      )
  return (connection: Connection) =>
    witness.committing(connection, (note) =>
      connection.execute("COMMIT", [], undefined).pipe(
        Effect.asVoid,
        Effect.catchIf(
          (error) => isLost(error) && note !== null,
          (lost) => Effect.flatMap(isCommitted(note!), (committed) => committed ? Effect.void : Effect.fail(lost))
        )
      ))
}

// ---- opening a database -------------------------------------------------------------------------------------------

const misconfigured = (message: string) => new StoreError({ reason: new Misconfigured({ message }) })

/** What a person can mend is said in words, the rest is the database's own error. */
const toOpenError = (name: string) => (error: SqlError): StoreError | SqlError => {
  switch (codeOf(error)) {
    case "28000":
    case "28P01":
      return misconfigured(`${name} refuses the login; check user and password, and who the server lets in`)
    case "3D000":
      return misconfigured(`the database ${name} does not exist; create it, or name another one`)
    default:
      return error
  }
}

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
    .pipe(Effect.mapError(toOpenError(name)))
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
  settings: Readonly<Record<string, string>>,
  { writes }: { readonly writes: boolean }
) =>
  Effect.gen(function*() {
    const pool = yield* PgPool.make({
      url: options.url,
      types,
      applicationName: "rollcall",
      keepAlive: "30 seconds",
      startupParameters: settings
    })
    const witness = writes ? Witness.make(dialect) : null
    const sessions = sessionsOf(pool, witness)
    return yield* SqlClient.make({
      acquirer: sessions.get,
      transactionAcquirer: sessions.reserve,
      compiler: PgClient.makeCompiler(),
      driver: "sql-pg",
      ...(witness === null ? {} : { commit: commitWith(sessions, witness) }),
      onCommitFailure: (connection) => Effect.asVoid(connection.execute(rollback, [], undefined)),
      prepareTransactionControls: true,
      spanAttributes: [["db.system.name", "postgresql"]]
    })
  })

const provided = <E>(made: Effect.Effect<SqlClient.SqlClient, E | SqlError, Scope.Scope | Reactivity.Reactivity>) =>
  Layer.provide(Layer.effect(SqlClient.SqlClient, step("open")(made)), Reactivity.layer)

/** A client that cannot write. */
export const onlyReading = (options: Options): Layer.Layer<SqlClient.SqlClient, StoreError> =>
  provided(connected(options, { ...sessionSettings, default_transaction_read_only: "on" }, { writes: false }))

/** A client of as many connections as are used at once, to a database that can be a store. */
export const client = (options: Options): Layer.Layer<SqlClient.SqlClient, StoreError> =>
  provided(Effect.tap(connected(options, sessionSettings, { writes: true }), (sql) =>
    Effect.gen(function*() {
      const { made } = yield* look(sql, options.name)
      // of several that make it at once, one does
      if (!made) yield* sql`CREATE SCHEMA IF NOT EXISTS ${sql(schema)}`.pipe(Effect.retry({ times: 1 }))
    }).pipe(attempt("open"))))

/**
 * The store in a database, made there if there is none.
 * Fails with `Misconfigured` if the database cannot be one, with `Incompatible` if a newer program wrote it.
 */
export const layer = (options: Options): Layer.Layer<Store | Deliveries, StoreError> =>
  Layer.provide(SqlDeliveries.ports, client(options))
