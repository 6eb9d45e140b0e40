/**
 * How many attempts of each handler ended, and its last failure, in steps of ten minutes. For each handler a ring that the newest step
 * overwrites.
 *
 * Invariants
 * 1. A handler never has more than `countedSteps` rows   (I9)
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { type AttemptCounts, type CountedFailure, countedStep, countedSteps, type HandlerName } from "../../Delivery.ts"
import { inBatches } from "../Rows.ts"
import { insertion } from "../RowValues.ts"

type Row = Omit<AttemptCounts, "failure"> & Pick<HandlerName, "handler"> & { readonly failure: string | null }

const toCounts = ({ failure, ...row }: Row) => ({
  ...row,
  // this program wrote the JSON, so it is parsed unchecked
  failure: failure === null ? null : JSON.parse(failure) as CountedFailure
})

export const make = (sql: SqlClient) => ({
  /** Adds to the counts of each handler. Any process may call this. */
  addAttempts: (counts: ReadonlyArray<AttemptCounts & { readonly key: number }>) => {
    /** The stored count of the same step, or 0 if the stored row is the one of the day before. */
    const stored = (column: string) =>
      sql.literal(`CASE attempt_counts.at WHEN excluded.at THEN attempt_counts.${column} ELSE 0 END`)
    return inBatches(
      counts.map(({ failure, key, ...count }) => ({
        handler: key,
        slot: (count.at / countedStep) % countedSteps,
        ...count,
        failure: failure === null ? null : JSON.stringify(failure)
      })),
      (some) =>
        sql`
          INSERT INTO attempt_counts ${insertion(sql, some)} ON CONFLICT (handler, slot) DO UPDATE SET
            attempts = ${stored("attempts")} + excluded.attempts,
            failed = ${stored("failed")} + excluded.failed,
            settled = ${stored("settled")} + excluded.settled,
            failure = CASE WHEN excluded.failure IS NULL AND attempt_counts.at = excluded.at
              THEN attempt_counts.failure ELSE excluded.failure END,
            at = excluded.at`
    )
  },
  /** The counts of a plugin's handlers in the steps that start at `since` (our clock, in ms) or later, oldest first. */
  attemptCounts: (plugin: string, since: number) =>
    Effect.map(
      sql<Row>`
        SELECT h.handler, c.at, c.attempts, c.failed, c.settled, c.failure
        FROM handlers h JOIN attempt_counts c ON c.handler = h.key
        WHERE h.plugin = ${plugin} AND c.at >= ${since} ORDER BY c.at, h.handler`,
      Arr.map(toCounts)
    )
})
