/**
 * The store in a PostgreSQL database: a `SqlClient` over a pool of connections, and the checks before a database is used.
 *
 * Invariants
 * 1. A commit that fails did not happen: if the connection is lost during the commit, the outcome is queried from the server
 * 2. A client that is idle inside a transaction for five seconds loses the transaction and all its locks   (X21)
 * 3. The wait for a server or proxy that stops answering is limited: see `Limits`   (X10)
 * 4. A replica or a restored disk that lacks a commit of this process is neither read nor written: see `CommitTracker`   (X14)
 *
 * Gotchas
 * - All tables are in the schema `rollcall`, so other programs may use the same database.
 */
import * as PgClient from "@effect/sql-pg/PgClient"
import * as PgPool from "@effect/sql-pg/PgPool"
import * as PgTypes from "@effect/sql-pg/PgTypes"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Health from "../sql/Health.ts"
import { table } from "../sql/Migrations.ts"
import * as Ports from "../sql/Ports.ts"
import { toStoreError, withRetry } from "../sql/SqlRetry.ts"
import { misconfigured, type StoreError } from "../StoreError.ts"
import { type FaultKind, faultOf } from "../StoreFault.ts"
import * as CommitTracker from "./CommitTracker.ts"
import { commitWith, dialect } from "./PostgresCommit.ts"
import {
  acquire,
  defaultLimits,
  type Limits,
  rejectSharedSessions,
  rollback,
  schema,
  type SessionContext,
  sessionSettings
} from "./PostgresSession.ts"
import * as PostgresTls from "./PostgresTls.ts"

export interface Options {
  /** `postgres://user:password@host:port/database`, as libpq reads it. */
  readonly url: Redacted.Redacted
  /** Whether the connection is encrypted; with `optional`, and by default, the `sslmode` of the URL decides. */
  readonly tls?: "off" | "optional" | PostgresTls.Tls
  /** The store's name for people, without the login. */
  readonly name: string
  /** Shorter limits are for tests. */
  readonly limits?: Partial<Limits>
}

/** For everything except leases, which have a pool of their own with `leaseConnections`. */
const maxConnections = 10
const leaseConnections = 3
/** How many connections a process may open. */
export const connectionsPerProcess = maxConnections + leaseConnections

const types = PgTypes.makeRegistry()
// positions, times and hashes originate as JavaScript numbers, so all of them are safe integers
types.register(PgTypes.OID.int8, {
  encode: (value: unknown) => PgTypes.encode(value, PgTypes.OID.int8),
  decode: (bytes) => Result.succeed(Number(new DataView(bytes.buffer, bytes.byteOffset).getBigInt64(0)))
})

// ---- checks -------------------------------------------------------------------------------------------------------

/** The oldest supported version: it introduced `pg_current_xact_id_if_assigned` and `xid8`. */
const oldest = 13

const configurationFaults: ReadonlySet<FaultKind> = new Set([
  "login",
  "missing",
  "encryption",
  "pooled",
  "settingsDropped",
  "denied"
])

/** Separates faults of the configuration, which a person must fix first, from faults that may pass. */
const toOpenError = (error: SqlError): StoreError | SqlError => {
  const fault = faultOf(error)
  return fault !== null && configurationFaults.has(fault.kind)
    ? misconfigured(`${fault.message}; ${fault.hint}`)
    : error
}

interface Found {
  readonly version: number
  readonly encoding: string
  readonly schemaExists: boolean
  readonly storeExists: boolean
  readonly foreign: boolean
  readonly writable: boolean
}

/** Checks whether the database is, or can become, a store; fails with the reason if it cannot. */
export const checkDatabase = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, name: string) {
  const [found] = yield* sql<Found>`
    SELECT current_setting('server_version_num')::integer / 10000 AS version, getdatabaseencoding() AS encoding,
      namespace IS NOT NULL AS "schemaExists", migrations IS NOT NULL AS "storeExists",
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

// ---- clients ------------------------------------------------------------------------------------------------------

const connected = (
  options: Options,
  health: Health.Health["Service"],
  { connections = maxConnections, tracked = true, writes }: {
    readonly writes: boolean
    readonly tracked?: boolean
    readonly connections?: number
  }
) =>
  Effect.gen(function*() {
    const limits = { ...defaultLimits, ...options.limits }
    const { tls = "optional" } = options
    const pool = yield* PgPool.make({
      url: options.url,
      ssl: tls === "optional" ? undefined : tls === "off" ? false : yield* PostgresTls.optionsOf(tls),
      types,
      applicationName: "rollcall",
      keepAlive: "30 seconds",
      maxConnections: connections,
      // a session is lent to one fiber at a time, which may send several statements without waiting
      multiplex: true,
      multiplexConcurrency: 1,
      startupParameters: sessionSettings
    })
    const transactions: SessionContext["transactions"] = new WeakMap()
    const tracker = writes && tracked
      ? CommitTracker.make({ ...dialect, transactionOf: (connection) => transactions.get(connection)?.() ?? null })
      : null
    const shared: SessionContext = {
      pool,
      tracker,
      name: options.name,
      health,
      limits,
      moment: 0,
      answered: new WeakMap(),
      suspectUntil: 0,
      transactions,
      backends: new WeakMap()
    }
    yield* rejectSharedSessions(shared).pipe(Effect.mapError(toOpenError), withRetry("open"))
    return yield* SqlClient.make({
      acquirer: acquire(shared, "single"),
      transactionAcquirer: acquire(shared, "transaction"),
      compiler: PgClient.makeCompiler(),
      driver: "sql-pg",
      beginTransaction: writes ? "BEGIN" : "BEGIN READ ONLY",
      ...(tracker === null ? {} : { commit: commitWith(shared, tracker) }),
      onCommitFailure: (connection) => Effect.asVoid(connection.execute(rollback, [], undefined)),
      prepareTransactionControls: true,
      spanAttributes: [["db.system.name", "postgresql"]]
    })
  })

/** A client whose health no other part of the process sees. */
const clientFor = (how: Parameters<typeof connected>[2]) => (options: Options) =>
  Layer.effect(
    SqlClient.SqlClient,
    toStoreError("open")(connected(options, Health.make(options.name), how))
  ).pipe(Layer.provide(Reactivity.layer))

/** A client whose transactions are read-only. */
export const readOnlyClient = clientFor({ writes: false })

/** A client for leases, which need not survive a failover: its commits are not tracked. */
export const leaseClient = clientFor({ writes: true, tracked: false, connections: leaseConnections })

/** A client with a pool of connections, to a database that is or can become a store. */
export const client = (options: Options): Layer.Layer<SqlClient.SqlClient | Health.Health, StoreError> =>
  Layer.effectContext(
    Effect.gen(function*() {
      const health = Health.make(options.name)
      const sql = yield* connected(options, health, { writes: true })
      yield* Effect.gen(function*() {
        const { schemaExists } = yield* checkDatabase(sql, options.name)
        // if several processes create the schema at once, one succeeds and the others retry
        if (!schemaExists) yield* sql`CREATE SCHEMA IF NOT EXISTS ${sql(schema)}`.pipe(Effect.retry({ times: 1 }))
      }).pipe(withRetry("open"))
      yield* Effect.forkScoped(health.watch)
      return Context.make(SqlClient.SqlClient, sql).pipe(Context.add(Health.Health, health))
    }).pipe(toStoreError("open"))
  ).pipe(Layer.provide(Reactivity.layer))

/**
 * The store in a PostgreSQL database; created if there is none.
 * Fails with `Misconfigured` if the database cannot be a store, with `Incompatible` if a newer version wrote it.
 */
export const layer = (options: Options): Layer.Layer<Ports.Ports, StoreError> =>
  Layer.provide(Ports.layer, client(options))
