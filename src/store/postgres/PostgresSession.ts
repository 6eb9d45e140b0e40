/**
 * The sessions of a pool: what a session must prove before it is used, and how its statements run.
 *
 * Gotchas
 * - Session settings are sent when a session starts. A pooler may drop them or share sessions between clients: see
 *   `verifySettings` and `rejectSharedSessions`.
 * - A statement with many values is not kept prepared, because the session would keep a plan for each number of values. Nor is one with an
 *   array: see `RowValues`.
 */
import type * as PgConnection from "@effect/sql-pg/PgConnection"
import type * as PgPool from "@effect/sql-pg/PgPool"
import * as PgTypes from "@effect/sql-pg/PgTypes"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import type { Acquirer, Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import { connectionOf } from "../sql/Connection.ts"
import type { Health } from "../sql/Health.ts"
import { maxPreparedValues } from "../sql/RowValues.ts"
import { AllowLongStatement } from "../sql/SqlRetry.ts"
import { StoreError } from "../StoreError.ts"
import { faultOf } from "../StoreFault.ts"
import type { CommitTracker } from "./CommitTracker.ts"
import { pooled, poolExhausted, replaced, settingsDropped, timedOut, toSqlError } from "./PostgresFault.ts"

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

export const defaultLimits: Limits = {
  connection: Duration.seconds(15),
  statement: Duration.seconds(20),
  long: Duration.minutes(15)
}

/** All tables are in this schema. */
export const schema = "rollcall"

/** Longer than the work on a page takes, shorter than people are willing to wait. */
const idleInTransaction = "5s"
/** Time limit for the first answer of a new session. */
const firstAnswerTimeout = Duration.seconds(5)
/** Longer than `idleInTransaction`: a holder that is idle loses its lock earlier, so only one that keeps working can exceed this. */
const lockWait = "10s"

export const sessionSettings = {
  search_path: schema,
  default_transaction_isolation: "read committed",
  idle_in_transaction_session_timeout: idleInTransaction,
  lock_timeout: lockWait
}

export const rollback = "ROLLBACK"

/** State that all sessions share. */
export interface SessionContext {
  /** Null if the client is read-only. */
  readonly tracker: CommitTracker | null
  readonly pool: PgPool.PgPool
  readonly name: string
  readonly health: Health["Service"]
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

/**
 * The driver would choose the type of an array of numbers by their sizes. So an array of numbers is sent as text, and the statement names
 * its type.
 */
const arrayOf = (values: ReadonlyArray<unknown>): unknown =>
  values.some((value) => typeof value === "number")
    ? `{${values.map((value) => value ?? "NULL").join(",")}}`
    : Result.getOrThrow(PgTypes.array(values, PgTypes.OID.text))

const withArrays = (params: ReadonlyArray<unknown>): ReadonlyArray<unknown> =>
  params.map((value) => Array.isArray(value) ? arrayOf(value) : value)

const connect = (
  shared: SessionContext,
  base: PgConnection.PgConnection,
  session: PgConnection.PgConnection
): Connection => {
  const { health, limits, name, pool } = shared

  /** Ends a session whose statement timed out: behind a proxy that stopped answering, it would wait forever. */
  const giveUp = Effect.fnUntraced(function*(begunAt: number) {
    // sessions that were idle during that time are probably dead too
    shared.suspectUntil = Math.max(shared.suspectUntil, begunAt)
    yield* pool.invalidate(base)
    return yield* timedOut(name)
  })

  return connectionOf((sql, params) =>
    Effect.withFiber<ReadonlyArray<PgConnection.Row>, SqlError>((fiber) => {
      const mayBeLong = fiber.getRef(AllowLongStatement)
      const begunAt = ++shared.moment
      const keeps = params.length <= maxPreparedValues && !params.some(Array.isArray)
      return session.query(sql, keeps ? params : withArrays(params), keeps).pipe(
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
  )
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
      if (wanted.some(([, value], index) => row?.[`s${index}`] !== value)) return Effect.fail(settingsDropped(name))
      answered.set(session, ++shared.moment)
      backends.set(session, Number(row?.["pid"]))
      return Effect.succeed(session)
    }),
    Effect.tapError(() => shared.pool.invalidate(session))
  )
}

/** Whether the database that answered lacks a commit of this process. */
export const isOlderCopy = ({ reason: { cause } }: SqlError): boolean => cause instanceof StoreError

/** Provides a verified session until the scope closes; with `pin` it is reserved for a transaction. */
export const acquire = (shared: SessionContext, { pin }: { readonly pin: boolean }): Acquirer => {
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
    Effect.timeoutOrElse({ duration: limits.connection, orElse: () => Effect.fail(poolExhausted(name)) }),
    Effect.tapError(health.failed),
    Effect.flatMap((session) =>
      Effect.gen(function*() {
        const connection = connect(shared, session, pin ? yield* session.pin : session)
        // this session may be connected to a different server than earlier sessions
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
export const rejectSharedSessions = (shared: SessionContext) => {
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
    Effect.timeoutOrElse({ duration: limits.connection, orElse: () => Effect.fail(poolExhausted(name)) })
  )
}
