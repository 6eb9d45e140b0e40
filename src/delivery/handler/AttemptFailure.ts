/**
 * What an attempt that failed is said to have failed with.
 *
 * Gotchas
 * - The words of errors that nobody wrote on purpose may repeat values: they are left out   (I11).
 */
import type * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import { type HandlerError, Uncaught } from "../../plugin/Failure.ts"
import type { Failure } from "../../store/Deliveries.ts"

/** The attempt took longer than its handler may. */
export class TimedOut {
  readonly _tag = "TimedOut"
}

/** Of the engine's own errors the words name properties, not values. */
const describeDefect = (defect: unknown): string => {
  if (!(defect instanceof Error)) return "the handler threw something that is no error"
  if (defect instanceof Uncaught) {
    return defect.cause === undefined ? defect.message : `${defect.message}: ${describeDefect(defect.cause)}`
  }
  const spoken = defect instanceof TypeError || defect instanceof ReferenceError ? `: ${defect.message}` : ""
  const place = /\(?([^\s(/]+:\d+:\d+)\)?$/m.exec(defect.stack ?? "")?.[1]
  return `${defect.name}${spoken}${place === undefined ? "" : ` at ${place}`}`
}

export const failureOf = (
  cause: Cause.Cause<HandlerError | TimedOut>,
  timeout: Duration.Duration,
  at: number
): Failure => {
  const failure = { refusal: null, faults: [], at }
  const reason = cause.reasons.find(({ _tag }) => _tag !== "Interrupt")
  if (reason?._tag === "Fail") {
    const { error } = reason
    switch (error._tag) {
      case "TimedOut":
        return { ...failure, reason: "TimedOut", message: `not done within ${Duration.format(timeout)}` }
      case "RateLimited":
        return { ...failure, reason: "RateLimited", message: "to be tried later" }
      case "Permanent":
        return { reason: "Permanent", message: error.message, refusal: error.refusal, faults: error.faults, at }
      case "Transient":
        return { ...failure, reason: "Transient", message: error.message }
    }
  }
  return {
    ...failure,
    reason: "Defect",
    message: reason?._tag === "Die" ? describeDefect(reason.defect) : "the handler interrupted itself"
  }
}

/** Of a delivery that was running each time its process ended, the last time alone; it is not run again. */
export const processEndedFailure = (times: number, at: number): Failure => ({
  reason: "ProcessEnded",
  message: `the process ended ${times} times while this was running, the last time with no other delivery beside it`,
  refusal: null,
  faults: [],
  at
})

/** Of a delivery that ran alone and waited for its turn at the API for longer than the others can wait for it. */
export const isolatedWaitFailure = (at: number): Failure => ({
  reason: "RateLimited",
  message: "it waited for its turn at the API while no other delivery could run: to be tried later",
  refusal: null,
  faults: [],
  at
})

/** Of `RateLimited`, ms. */
export const retryAfterOf = (cause: Cause.Cause<HandlerError | TimedOut>): number => {
  const limited = cause.reasons.find((reason) => reason._tag === "Fail" && reason.error._tag === "RateLimited")
  return limited?._tag === "Fail" && limited.error._tag === "RateLimited"
    ? Duration.toMillis(limited.error.retryAfter)
    : 0
}
