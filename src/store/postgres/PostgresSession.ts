/**
 * The sessions of a pool: what a session must prove before it is used, and how its statements run.
 *
 * Gotchas
 * - Session settings are sent when a session starts. A pooler may drop them or share sessions between clients: see
 *   `verifySettings` and `rejectSharedSessions`.
 * - A statement with many values is not kept prepared, because the session would keep a plan for each number of values. Nor is one with an
 *   array: see `RowValues`.
 */
import * as PgConnection from "@effect/sql-pg/PgConnection"
import type * as PgPool from "@effect/sql-pg/PgPool"
import * as PgTypes from "@effect/sql-pg/PgTypes"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import type { Acquirer, Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import type { Send, Step } from "../sql/Connection.ts"
import * as Connections from "../sql/Connection.ts"
import type { Health } from "../sql/Health.ts"
import { maxPreparedValues } from "../sql/RowValues.ts"
import { AllowLongStatement } from "../sql/SqlRetry.ts"
import { StoreError } from "../StoreError.ts"
import { faultOf, sqlErrorOf } from "../StoreFault.ts"
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
  /** The id of the open transaction of a connection; null if it is not known. */
  readonly transactions: WeakMap<Connection, () => string | null>
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

type Rows = ReadonlyArray<PgConnection.Row>
type Running = Fiber.Fiber<PgConnection.Result, SqlError>

const reads = /^\s*(SELECT\b|WITH\b(?!.*\b(INSERT|UPDATE|DELETE)\b))/is

/** Statements that start or end a transaction. They are not kept prepared: if the server had dropped one, the driver would send it again. */
const isControl = (sql: string): boolean => /^(BEGIN|COMMIT|ROLLBACK)\b/.test(sql)

/** Time in which most statements end, so that an interrupted session can be used again. */
const settleMillis = 10
/** Time limit for the request to end a statement. */
const cancelTimeout = Duration.seconds(3)

const transactionEnded = (operation: string) =>
  sqlErrorOf(new Error(`the transaction had failed, so ${operation} rolled it back`), "not committed")

/** A transaction has an id once it has locked a row. The commit tracker needs the id before the commit. */
const transactionId: Step = { sql: "SELECT pg_current_xact_id_if_assigned()::text AS id", params: [] }

/**
 * Runs the steps of one transaction, or a single statement. No other fiber uses the session, except on the connection that `effect/cluster`
 * reserves for its locks: an interruption there may end the statement of another fiber.
 */
const sendTo = (shared: SessionContext, session: PgConnection.PgConnection) => {
  const { answered, backends, health, limits, name, pool, tracker } = shared
  let isLost = false
  let isOpen = false
  /** Id of the open transaction; null until it is known. */
  let transaction: string | null = null

  /** Asks the server to end the running statement, and does not use the session again. Its locks are then free. */
  const cancel = Effect.suspend(() => {
    isLost = true
    const ended = Effect.scoped(
      Effect.flatMap(
        PgConnection.make(pool.config),
        (other) => other.query("SELECT pg_cancel_backend($1)", [backends.get(session)], false)
      )
    )
    return Effect.andThen(Effect.ignore(Effect.timeout(ended, cancelTimeout)), pool.invalidate(session))
  })

  /** The caller of these statements was interrupted, but the server may still run them. */
  const settle = (running: ReadonlyArray<Running>) =>
    Effect.suspend(() => {
      if (running.every((one) => one.pollUnsafe() !== undefined)) return Effect.void
      // not virtual time: the server is real
      const grace = Effect.callback<void>((resume) => void setTimeout(() => resume(Effect.void), settleMillis))
      return Effect.raceFirst(Fiber.awaitAll(running), grace).pipe(
        Effect.andThen(Effect.suspend(() => running.at(-1)?.pollUnsafe() === undefined ? cancel : Effect.void))
      )
    })

  /** Ends a session whose statement timed out: behind a proxy that stopped answering, it would wait forever. */
  const giveUp = Effect.fnUntraced(function*(begunAt: number, commits: boolean) {
    // sessions that were idle during that time are probably dead too
    shared.suspectUntil = Math.max(shared.suspectUntil, begunAt)
    isLost = true
    // a commit that waits for a synchronous replica would end that wait, and succeed without the replica
    yield* commits ? pool.invalidate(session) : cancel
    return yield* timedOut(name)
  })

  const start = ({ params, sql }: Step) => {
    const keeps = !isControl(sql) && params.length <= maxPreparedValues && !params.some(Array.isArray)
    return Effect.forkDetach(session.query(sql, keeps ? params : withArrays(params), keeps), { startImmediately: true })
  }

  /** One write to the server, whose answers arrive in order. Each statement has its own time limit, from the answer before it. */
  const pipeline = Effect.fnUntraced(
    function*(steps: ReadonlyArray<Step>, running: Array<Running>, received: (rows: Rows) => void) {
      const mayBeLong = yield* AllowLongStatement
      for (const step of steps) {
        const one = yield* start(step)
        running.push(one)
        // the driver could not send it, so the statements behind it must not be sent either
        if (one.pollUnsafe() !== undefined) break
      }
      for (const [index, one] of running.entries()) {
        const begunAt = ++shared.moment
        const { command, rows } = yield* Fiber.join(one).pipe(
          Effect.mapError((error) => toSqlError(name, error)),
          Effect.timeoutOrElse({
            duration: mayBeLong ? limits.long : limits.statement,
            orElse: () => giveUp(begunAt, steps.at(-1)?.sql === "COMMIT")
          }),
          (statement) => health.observe(statement, mayBeLong)
        )
        answered.set(session, ++shared.moment)
        // this is how the server answers the commit of a transaction in which a statement failed
        if (steps[index]?.sql === "COMMIT" && command !== "COMMIT") return yield* Effect.fail(transactionEnded(command))
        received(rows)
      }
    }
  )

  const send: Send = (asked, receive) => {
    const running: Array<Running> = []
    const first = asked[0]!.sql
    isOpen ||= first.startsWith("BEGIN")
    const asksForId = tracker !== null && isOpen && transaction === null && !isControl(asked.at(-1)!.sql)
    const steps = asksForId ? [...asked, transactionId] : asked
    let answers = 0
    const received = (rows: Rows) => {
      if (answers++ < asked.length) receive(rows)
      else transaction = rows[0]?.["id"] as string | null
    }
    // Without its BEGIN a statement that writes would be committed on its own. So it is sent once the transaction is open.
    const isApart = steps.length > 1 && first.startsWith("BEGIN") && !steps.slice(1).every(({ sql }) => reads.test(sql))
    const sent = isApart
      ? Effect.andThen(
        pipeline(steps.slice(0, 1), running, received),
        Effect.suspend(() => {
          running.length = 0
          return pipeline(steps.slice(1), running, received)
        })
      )
      : pipeline(steps, running, received)
    return Effect.suspend(() => isLost ? Effect.fail(timedOut(name)) : sent).pipe(
      Effect.onInterrupt(() => settle(running)),
      // a session keeps its initial read-only setting and its server, so only a new session can write again
      Effect.tapError((error) => faultOf(error)?.kind === "readOnly" ? pool.invalidate(session) : Effect.void),
      // ending the session ends its transaction, so a failed rollback is not an error
      Effect.catchIf(() => first === rollback, () => pool.invalidate(session))
    )
  }
  return { send, transaction: () => transaction }
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

/** Provides a verified session until the scope closes, for one transaction or for single statements. */
export const acquire = (shared: SessionContext, kind: "transaction" | "single"): Acquirer => {
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
        const { send, transaction } = sendTo(shared, session)
        const connection = Connections[kind](send)
        shared.transactions.set(connection, transaction)
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
