/**
 * Runs database work: retries conflicts and converts database errors to `StoreError`.
 *
 * Gotchas
 * - The database's own message stays in `cause`; `StoreError.message` never repeats it   (I11)
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import { StoreError, Unavailable } from "../Store.ts"
import { type FaultKind, faultOf } from "../StoreFault.ts"

/** Ten attempts within about five seconds: a transaction of another process takes milliseconds. */
const backoff = Schedule.exponential("10 millis").pipe(Schedule.jittered, Schedule.upTo({ times: 9 }))

/** Whether statements may take minutes, like those of a migration. They have a time limit too. */
export const AllowLongStatement = Context.Reference<boolean>("rollcall/store/AllowLongStatement", {
  defaultValue: () => false
})

/** These faults come after a long wait: a retry would wait as long again, and the caller should learn of the fault before that. */
const notRetried: ReadonlySet<FaultKind | undefined> = new Set(["silent", "exhausted"])

/** Locked, deadlocked, serialization failure, connection lost: the same work may succeed the next time. */
const isConflict = (error: unknown): boolean => {
  const cause = error instanceof StoreError && error.reason._tag === "Unavailable" ? error.reason.cause : error
  return isSqlError(cause) && cause.isRetryable && !notRetried.has(faultOf(cause)?.kind)
}

/** For one step inside a transaction: on a conflict the whole transaction is retried, not the step. */
export const toStoreError =
  (operation: string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, SqlError> | StoreError, R> =>
    Effect.mapError(effect, (error) => {
      if (!isSqlError(error)) return error as Exclude<E, SqlError>
      // an adapter that knows the exact reason has put it into the cause
      const { cause } = error.reason
      return cause instanceof StoreError
        ? cause
        : new StoreError({ reason: new Unavailable({ operation, cause: error }) })
    })

/** For a single statement or a whole transaction: retries it on conflicts. `operation` names it in the error. */
export const withRetry = (operation: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(Effect.retry({ while: isConflict, schedule: backoff }), toStoreError(operation))

/** The operations of a port as the tables implement them: they may fail with the database's error, and void ones may return rows. */
export type Raw<S> = {
  readonly [K in keyof S]: S[K] extends Effect.Effect<infer A, StoreError> ? RawResult<A>
    : S[K] extends (...args: infer P) => Effect.Effect<infer A, StoreError> ? (...args: P) => RawResult<A>
    : S[K]
}
type RawResult<A> = Effect.Effect<[A] extends [void] ? unknown : A, SqlError | StoreError>

/** Applies `toStoreError` or `withRetry` to every operation, under its own name. */
export const convertEach = <S extends object>(convert: typeof withRetry, operations: Raw<S>): S =>
  Object.fromEntries(
    Object.entries<unknown>(operations).map(([name, operation]) => [
      name,
      Effect.isEffect(operation)
        ? convert(name)(operation)
        : typeof operation === "function"
        ? (...args: ReadonlyArray<unknown>) => convert(name)(operation(...args))
        : operation
    ])
  ) as S
