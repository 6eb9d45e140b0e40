/**
 * What follows an attempt that failed: pure.
 *
 * Invariants
 * 1. A delivery is given up only for itself: a batch of several is halved first   (L7)
 * 2. Being rate limited costs no attempt
 */
import * as Duration from "effect/Duration"
import type { HandlerOptions } from "../../plugin/Plugin.ts"
import type { AttemptOutcome, FailedAttempt, Failure } from "../../store/Deliveries.ts"

const defaults = { attempts: 8, first: Duration.seconds(1), longest: Duration.minutes(10) }

/** Wait after the nth failure in a row, ms. */
export const backoff = ({ retry }: Pick<HandlerOptions, "retry">, failures: number): number => {
  const first = Duration.toMillis(Duration.fromInputUnsafe(retry?.first ?? defaults.first))
  const longest = Duration.toMillis(Duration.fromInputUnsafe(retry?.longest ?? defaults.longest))
  return Math.min(longest, first * 2 ** Math.min(failures - 1, 40))
}

/** ms, however long one is told to wait. */
export const longestWait = Duration.toMillis("7 days")

/** How far ahead a delivery is due at most, ms: one that is due later was made so by a clock that was set back since   (W4). */
export const maxDueAhead = ({ retry }: Pick<HandlerOptions, "retry">, batchWindow: number): number =>
  Math.max(longestWait, batchWindow, Duration.toMillis(Duration.fromInputUnsafe(retry?.longest ?? defaults.longest)))

const notRetryable: ReadonlySet<Failure["reason"]> = new Set(["Permanent", "LoopDetected", "ProcessEnded"])

export const outcomeOf = (
  /** Members of one batch, or one delivery. */
  members: ReadonlyArray<{ readonly id: number; readonly attempts: number; readonly batch: string | null }>,
  attempted: FailedAttempt,
  options: HandlerOptions,
  /** Of `RateLimited`, ms. */
  retryAfter: number
): AttemptOutcome => {
  const { failure } = attempted
  const deliveries = members.map(({ id }) => id)
  const before = members[0]?.attempts ?? 0
  if (failure.reason === "RateLimited") {
    return {
      _tag: "Retry",
      deliveries,
      dueAt: failure.at + Math.min(retryAfter, longestWait),
      attempts: before,
      attempted
    }
  }
  const attempts = before + 1
  if (!notRetryable.has(failure.reason) && attempts < (options.attempts ?? defaults.attempts)) {
    return { _tag: "Retry", deliveries, dueAt: failure.at + backoff(options, attempts), attempts, attempted }
  }
  const batch = members[0]?.batch ?? null
  return batch !== null && members.length > 1
    ? { _tag: "Split", deliveries, batch, dueAt: failure.at, attempted }
    : { _tag: "Dead", deliveries, attempts, attempted }
}
