/**
 * Runs database work: retries where they may help, and the conversion of database errors to `StoreError`.
 *
 * Gotchas
 * - The database's own message stays in `cause`; `StoreError.message` never repeats it   (I11)
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import { type Operation, StoreError, Unavailable } from "../StoreError.ts"
import { type FaultKind, faultOf } from "../StoreFault.ts"
import { CurrentOperation, operationOf } from "./Connection.ts"

/** Ten attempts within about five seconds: that outlasts a transaction of another process, which takes milliseconds. */
const backoff = Schedule.exponential("10 millis").pipe(Schedule.jittered, Schedule.upTo({ times: 9 }))

/** True for statements that may take minutes, like those of a migration. Their time limit is longer. */
export const AllowLongStatement = Context.Reference<boolean>("rollcall/store/AllowLongStatement", {
  defaultValue: () => false
})

/** False for a transaction whose loss in a failover would lose no data: the database that lacks it is not an older copy. */
export const CountedCommit = Context.Reference<boolean>("rollcall/store/CountedCommit", { defaultValue: () => true })

/** These faults occur after a long wait, and a retry would wait as long again. The caller gets the error at once. */
const notRetried: ReadonlySet<FaultKind | undefined> = new Set(["silent", "poolExhausted"])

/** The database's error, which a step of a transaction may have converted already. */
const causeOf = (error: unknown): unknown =>
  error instanceof StoreError && error.reason._tag === "Unavailable" ? error.reason.cause : error

/**
 * True if the same work may succeed the next time: after a lock, a deadlock, a serialization failure or a lost connection, and while the
 * server is starting, stopping or has too many clients.
 */
const mayPass = (error: unknown): boolean => {
  const cause = causeOf(error)
  return isSqlError(cause) && cause.isRetryable && !notRetried.has(faultOf(cause)?.kind)
}

/** For one step inside a transaction: the step is not retried, because the whole transaction is. */
export const toStoreError =
  (operation: string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, SqlError> | StoreError, R> =>
    Effect.mapError(Effect.provideService(effect, CurrentOperation, operation), (error) => {
      if (!isSqlError(error)) return error as Exclude<E, SqlError>
      // an adapter that knows the exact reason has put it into the cause
      const { cause } = error.reason
      return cause instanceof StoreError
        ? cause
        : new StoreError({ reason: new Unavailable({ operation: operationOf(error) ?? operation, cause: error }) })
    })

/** For a single statement or a whole transaction: retries it if that may help. `operation` is its name in the error. */
export const withRetry = (operation: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(Effect.retry({ while: mayPass, schedule: backoff }), toStoreError(operation))

/** Errors of statements that the database rolled back. */
const rolledBack: ReadonlySet<string> = new Set(["DeadlockError", "SerializationError", "LockTimeoutError"])
const wasRolledBack = (error: unknown): boolean => {
  const cause = causeOf(error)
  return mayPass(error) && isSqlError(cause) && rolledBack.has(cause.reason._tag)
}

/**
 * For a transaction that must not run twice: it is retried only if it was certainly rolled back. After any other error it may have been
 * committed.
 */
export const withRetryAfterRollback = (operation: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(Effect.retry({ while: wasRolledBack, schedule: backoff }), toStoreError(operation))

type Work = Effect.Effect<unknown, SqlError | StoreError>

/** Lists are read-only. Rows without a type are dropped: the operation returns nothing. */
type Result<A> = A extends ReadonlyArray<infer Row> ? string extends keyof Row ? void : ReadonlyArray<Row> : A

type Converted<S> = {
  readonly [K in keyof S]: S[K] extends (...args: infer P) => Effect.Effect<infer A, SqlError | StoreError>
    ? (...args: P) => Operation<Result<A>>
    : S[K] extends Effect.Effect<infer A, SqlError | StoreError> ? Operation<Result<A>>
    : never
}

/** Applies `toStoreError` or `withRetry` to every operation of a table, under its own name. */
export const convertEach = <S extends { readonly [K in keyof S]: Work | ((...args: Array<never>) => Work) }>(
  convert: typeof withRetry,
  operations: S
): Converted<S> =>
  Object.fromEntries(
    Object.entries<Work | ((...args: Array<never>) => Work)>(operations).map(([name, operation]) => [
      name,
      Effect.isEffect(operation)
        ? convert(name)(operation)
        : (...args: Array<never>) => convert(name)(operation(...args))
    ])
  ) as Converted<S>
