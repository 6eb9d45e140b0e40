/**
 * Connections of a `SqlClient`: one that sends each statement on its own, and one for a transaction, which sends several together.
 *
 * Invariants
 * 1. The statements of a transaction run in the order in which it issued them
 * 2. If a statement that waited to be sent fails, the transaction fails: each further statement, its commit included, gets the error
 *
 * Details
 * In a transaction, BEGIN and statements that return no rows wait in a queue. They are sent together with the next statement that returns
 * rows, or with COMMIT, which saves a round trip each.
 *
 * Gotchas
 * - A transaction begins when it sends its first statement.
 * - The error of a statement that waited appears in a later operation. It keeps the name of its own operation: see `operationOf`.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Connection } from "effect/sql/SqlConnection"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import { sqlErrorOf } from "../StoreFault.ts"
import type { Row } from "./Rows.ts"

type Rows = ReadonlyArray<Row>

/** A statement and its values. */
export interface Step {
  readonly sql: string
  readonly params: ReadonlyArray<unknown>
}

/**
 * Runs the steps in order, in one round trip, until one fails. `received` gets the rows of each step that succeeded, in order, so the
 * step after these is the one that failed.
 */
export type Send = (steps: ReadonlyArray<Step>, received: (rows: Rows) => void) => Effect.Effect<void, SqlError>

// ---- one statement at a time --------------------------------------------------------------------------------------

/**
 * The connection of a `SqlClient` over one function that runs a statement. All rows of a statement are in memory at once, even for `stream`.
 * `values` needs columns with different names.
 */
export const connectionOf = (
  run: (sql: string, params: ReadonlyArray<unknown>) => Effect.Effect<Rows, SqlError>
): Connection => {
  const rows: Connection["execute"] = (sql, params, transformRows) =>
    transformRows === undefined ? run(sql, params) : Effect.map(run(sql, params), transformRows)
  const values: Connection["executeValues"] = (sql, params) =>
    Effect.map(run(sql, params), (all) => all.map((row) => Object.values(row)))
  return {
    execute: rows,
    executeUnprepared: rows,
    executeRaw: run,
    executeValues: values,
    executeValuesUnprepared: values,
    executeStream: (sql, params, transformRows) => Stream.fromIterableEffect(rows(sql, params, transformRows))
  }
}

/** A connection that sends each statement on its own. */
export const single = (send: Send): Connection =>
  connectionOf((sql, params) =>
    Effect.suspend(() => {
      let found: Rows = []
      return Effect.map(send([{ sql, params }], (rows) => (found = rows)), () => found)
    })
  )

// ---- transactions -------------------------------------------------------------------------------------------------

/** The store's operation to which a statement belongs, by its name in errors. */
export const CurrentOperation = Context.Reference<string | null>("rollcall/store/CurrentOperation", {
  defaultValue: () => null
})

const operations = new WeakMap<SqlError, string>()

/** The operation whose statement failed, if the statement was sent by a later one. */
export const operationOf = (error: SqlError): string | undefined => operations.get(error)

/** Receives the rows of a statement that waits in the queue of its transaction. */
const Receiver = Context.Reference<((rows: Rows) => void) | null>("rollcall/store/Receiver", {
  defaultValue: () => null
})

/** The result of a statement while it waits. */
const waits: Rows = []

/**
 * Issues a statement whose rows are needed only after the next statement; in a transaction it is sent together with that one. Returns
 * a function that returns the rows; null if the statement has not run.
 */
export const issue = <A extends object, E, R>(
  statement: Effect.Effect<ReadonlyArray<A>, E, R>
): Effect.Effect<() => ReadonlyArray<A> | null, E, R> =>
  Effect.suspend(() => {
    let found: ReadonlyArray<object> | null = null
    return statement.pipe(
      Effect.provideService(Receiver, (rows) => void (found = rows)),
      Effect.map((rows) => () => (rows === waits ? found : rows) as ReadonlyArray<A> | null)
    )
  })

/** In a transaction: a statement whose rows are not needed is sent together with the next one. */
export const later = <A, E, R>(statement: Effect.Effect<A, E, R>): Effect.Effect<void, E, R> =>
  Effect.asVoid(Effect.provideService(statement, Receiver, () => {}))

const begins = /^BEGIN\b/
/** Statements of these kinds return rows only if they have a RETURNING clause. */
const writes = /^\s*(INSERT|UPDATE|DELETE)\b/i
const returns = /\bRETURNING\b/i

interface Queued extends Step {
  readonly operation: string | null
  readonly receive: (rows: Rows) => void
}

const interrupted = () =>
  sqlErrorOf(new Error("interrupted"), "the transaction cannot continue, because a statement was interrupted")

/** The connection of one transaction. Statements before BEGIN are sent on their own. */
export const transaction = (send: Send): Connection => {
  let state: "before" | "waiting" | "begun" = "before"
  let queue: ReadonlyArray<Queued> = []
  /** Why the transaction can no longer be committed. */
  let failure: SqlError | null = null

  const sendAll = (last: Step): Effect.Effect<Rows, SqlError> => {
    if (failure !== null) return Effect.fail(failure)
    const waiting = queue
    queue = []
    if (state === "waiting") state = "begun"
    let found: Rows = []
    let done = 0
    const received = (rows: Rows) => {
      const one = waiting[done++]
      if (one === undefined) found = rows
      else one.receive(rows)
    }
    const ended = (exit: Exit.Exit<void, SqlError>) => {
      if (Exit.isSuccess(exit)) return undefined
      const failed = waiting[done]
      const error = exit.cause.reasons.find(Cause.isFailReason)?.error
      // without an error it was interrupted
      if (state !== "before" && (error === undefined || failed !== undefined)) failure = error ?? interrupted()
      const operation = failed?.operation ?? null
      if (error !== undefined && operation !== null) operations.set(error, operation)
      return undefined
    }
    return Effect.map(Effect.onExitPrimitive(send([...waiting, last], received), ended), () => found)
  }

  const end = (step: Step): Effect.Effect<Rows, SqlError> => {
    queue = []
    failure = null
    return state === "begun" ? sendAll(step) : Effect.succeed([])
  }

  return connectionOf((sql, params) =>
    Effect.withFiber((fiber) => {
      const step = { sql, params }
      const receive = fiber.getRef(Receiver)
      if (begins.test(sql)) state = "waiting"
      else if (state === "before") return sendAll(step)
      else if (sql.startsWith("ROLLBACK")) return end(step)
      else if (sql === "COMMIT" && state === "waiting" && queue.length === 1) return Effect.succeed([])
      else if (receive === null && (!writes.test(sql) || returns.test(sql))) return sendAll(step)
      if (failure !== null) return Effect.fail(failure)
      queue = [...queue, { ...step, operation: fiber.getRef(CurrentOperation), receive: receive ?? (() => {}) }]
      return Effect.succeed(waits)
    })
  )
}
