/**
 * Runs work against the database: tries conflicts again, turns database errors into the port's.
 *
 * Gotchas
 * - The database's own words stay in `cause`; `StoreError.message` never repeats them   (I11)
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import { StoreError, Unavailable } from "../Store.ts"
import { type FaultKind, faultOf } from "../StoreFault.ts"

/** Ten tries within about five seconds: another process' transaction lasts milliseconds. */
const backoff = Schedule.exponential("10 millis").pipe(Schedule.jittered, Schedule.upTo({ times: 9 }))

/** Whether statements may take minutes, as those of a migration do. They have a limit too. */
export const AllowLongStatement = Context.Reference<boolean>("rollcall/store/AllowLongStatement", {
  defaultValue: () => false
})

/** What took its time already: the next try would take as long, and whoever waits should know before that. */
const notRetried: ReadonlySet<FaultKind | undefined> = new Set(["silent", "exhausted"])

/** Locked, deadlocked, serialization failure, connection lost: the same work may succeed the next time. */
const isConflict = (error: unknown): boolean => {
  const cause = error instanceof StoreError && error.reason._tag === "Unavailable" ? error.reason.cause : error
  return isSqlError(cause) && cause.isRetryable && !notRetried.has(faultOf(cause)?.kind)
}

/** One step inside a transaction: on a conflict the whole transaction is tried again, not the step. */
export const toStoreError =
  (operation: string) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, Exclude<E, SqlError> | StoreError, R> =>
    Effect.mapError(effect, (error) => {
      if (!isSqlError(error)) return error as Exclude<E, SqlError>
      // an adapter that knows better what it means says so
      const { cause } = error.reason
      return cause instanceof StoreError
        ? cause
        : new StoreError({ reason: new Unavailable({ operation, cause: error }) })
    })

/** Work that stands alone, a statement or a transaction: tried again on conflict, `operation` names it in the error. */
export const withRetry = (operation: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  effect.pipe(Effect.retry({ while: isConflict, schedule: backoff }), toStoreError(operation))
