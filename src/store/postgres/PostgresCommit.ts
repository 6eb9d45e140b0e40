/** Commits a transaction, and finds out whether it was committed if the connection is lost during the commit. */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { Connection } from "effect/sql/SqlConnection"
import { CountedCommit } from "../sql/SqlRetry.ts"
import { faultOf } from "../StoreFault.ts"
import type * as CommitTracker from "./CommitTracker.ts"
import { codeOf, isLost } from "./PostgresFault.ts"
import { acquire, isOlderCopy, type SessionContext } from "./PostgresSession.ts"

/** The commit tracker's SQL for PostgreSQL. */
export const dialect: Omit<CommitTracker.Dialect, "transactionOf"> = {
  ready: "SELECT 1 WHERE to_regclass('commit_counters') IS NOT NULL",
  wrote: "pg_current_xact_id_if_assigned() IS NOT NULL",
  transaction: "pg_current_xact_id_if_assigned()::text",
  server: "pg_postmaster_start_time()::text",
  forget: `DELETE FROM commit_counters
    WHERE process NOT IN (SELECT process FROM commit_counters WHERE updated_on >= CURRENT_DATE - 30)`,
  renew: (process) =>
    `UPDATE commit_counters SET updated_on = CURRENT_DATE WHERE (process, slot) IN (
      SELECT process, slot FROM commit_counters WHERE process = '${process}' AND updated_on < CURRENT_DATE FOR UPDATE SKIP LOCKED)`
}

const pollSchedule = Schedule.spaced("200 millis")

/** SQLSTATE of a server that never had the transaction, because it was promoted or restored: it has not committed it. */
const unknownTransaction = "22023"

/**
 * Whether a transaction has ended, and whether it was committed. The commit counter decides, not the status alone: a promoted server
 * may have given the same transaction id to another transaction. It is read once the transaction has ended, by a statement of its own:
 * a statement reads the status of the moment, but the rows of the moment at which it began.
 */
export const outcomeOf = (connection: Connection, { counter, process, slot, transaction }: CommitTracker.CommitNote) =>
  Effect.gen(function*() {
    const [row] = yield* connection.execute("SELECT pg_xact_status($1::xid8) AS status", [transaction], undefined)
    if (row?.status === "in progress") return { ended: false, committed: false }
    const [counted] = yield* connection.execute(
      `SELECT counter FROM commit_counters WHERE process = $1 AND slot = ${slot}`,
      [process],
      undefined
    )
    return { ended: true, committed: Number(counted?.counter ?? 0) >= counter }
  }).pipe(Effect.catchIf(
    (error) => codeOf(error) === unknownTransaction,
    () => Effect.succeed({ ended: true, committed: false })
  ))

/**
 * Commits. If the connection is lost during the commit, or does not answer in time, the outcome is queried over another connection,
 * for as long as that takes.
 */
export const commitWith = (shared: SessionContext, tracker: CommitTracker.CommitTracker) => {
  const isCommitted = (note: CommitTracker.CommitNote) =>
    Effect.flatMap(acquire(shared, "single"), (connection) => outcomeOf(connection, note)).pipe(
      Effect.scoped,
      // an older copy does not know the outcome: wait until the right database is back
      Effect.retry({ while: (error) => faultOf(error) !== null || isOlderCopy(error), schedule: pollSchedule }),
      Effect.repeat({ until: ({ ended }) => ended, schedule: pollSchedule }),
      Effect.map(({ committed }) => committed),
      Effect.interruptible
    )
  const commit = (connection: Connection) => connection.execute("COMMIT", [], undefined)
  const commitCounted = (connection: Connection) =>
    tracker.committing(connection, (note) =>
      commit(connection).pipe(
        Effect.catchIf(
          (error) => isLost(error) && note !== null,
          (lost) => Effect.flatMap(isCommitted(note!), (committed) => committed ? Effect.void : Effect.fail(lost))
        ),
        Effect.andThen(note === null ? Effect.void : shared.health.wrote)
      ))
  return (connection: Connection) =>
    Effect.flatMap(CountedCommit, (isCounted) => isCounted ? commitCounted(connection) : commit(connection))
}
