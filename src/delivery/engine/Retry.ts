/**
 * Decides what happens after a failed attempt: retry, split the batch, or dead letter. Pure.
 *
 * Details
 * | failure                                     | is retried                                     |
 * | ------------------------------------------- | ---------------------------------------------- |
 * | `RateLimited`                               | without limit, at most once a second           |
 * | `Blocked`                                   | without limit, once a minute                   |
 * | `Permanent`, `LoopDetected`, `ProcessEnded` | never                                          |
 * | any other                                   | until the attempts are used up: 8 by default   |
 *
 * Invariants
 * 1. A delivery becomes a dead letter only because of its own failure: a batch of several is halved first   (L7)
 * 2. `RateLimited` and `Blocked` use up no attempt
 */
import * as Duration from "effect/Duration"
import { toDuration } from "../../domain/DurationText.ts"
import type { HandlerOptions } from "../../plugin/Handler.ts"
import type { FailedAttempt, Failure } from "../../store/Delivery.ts"
import type { AttemptOutcome } from "../../store/DeliveryClaims.ts"

const defaults = { attempts: 8, first: Duration.seconds(1), longest: Duration.minutes(10) }

/** The wait after the nth failure in a row, in ms. */
export const backoff = ({ retry }: Pick<HandlerOptions, "retry">, failures: number): number => {
  const first = Duration.toMillis(toDuration(retry?.first ?? defaults.first))
  const longest = Duration.toMillis(toDuration(retry?.longest ?? defaults.longest))
  return Math.min(longest, first * 2 ** Math.min(failures - 1, 40))
}

/** Lower limit of a wait that a `RateLimited` failure requests, in ms. It uses up no attempt, so a wait of 0 would be a busy loop. */
const shortestWait = Duration.toMillis("1 second")

/** The wait after a `Blocked` failure, in ms. */
export const blockedWait = Duration.toMillis("1 minute")

/** Upper limit of a wait that a `RateLimited` failure or `redrive --over` requests, in ms. */
export const longestWait = Duration.toMillis("7 days")

/** How far in the future a delivery can be due, in ms. One that is due later was scheduled by a clock that has since been set back   (W4). */
export const maxDueAhead = ({ retry }: Pick<HandlerOptions, "retry">, batchWindow: number): number =>
  Math.max(longestWait, batchWindow, Duration.toMillis(toDuration(retry?.longest ?? defaults.longest)))

const notRetryable: ReadonlySet<Failure["reason"]> = new Set(["Permanent", "LoopDetected", "ProcessEnded"])

export const outcomeOf = (
  /** Members of one batch, or one delivery. */
  members: ReadonlyArray<{ readonly id: number; readonly attempts: number; readonly batch: string | null }>,
  failedAttempt: FailedAttempt,
  options: HandlerOptions,
  /** Used for `RateLimited`, in ms. */
  retryAfter: number
): AttemptOutcome => {
  const { failure } = failedAttempt
  const deliveries = members.map(({ id }) => id)
  const failedSoFar = members[0]?.attempts ?? 0
  if (failure.reason === "RateLimited" || failure.reason === "Blocked") {
    const wait = failure.reason === "Blocked" ? blockedWait : Math.min(Math.max(retryAfter, shortestWait), longestWait)
    return {
      _tag: "Retry",
      deliveries,
      dueAt: failure.at + wait,
      attempts: failedSoFar,
      failedAttempt
    }
  }
  const attempts = failedSoFar + 1
  if (!notRetryable.has(failure.reason) && attempts < (options.attempts ?? defaults.attempts)) {
    return { _tag: "Retry", deliveries, dueAt: failure.at + backoff(options, attempts), attempts, failedAttempt }
  }
  const batch = members[0]?.batch ?? null
  return batch !== null && members.length > 1
    ? { _tag: "Split", deliveries, batch, dueAt: failure.at, failedAttempt }
    : { _tag: "Dead", deliveries, attempts, failedAttempt }
}
