/**
 * Decides whether a failed request is sent again, and after which delay. `RequestScheduler.ts` decides how long the account pauses after a
 * rate-limit response, `CircuitBreakers.ts` whether the integration gets requests at all, and `Failures.ts` what a failure means.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as Schedule from "effect/Schedule"
import { refusesEveryRequest } from "../api/ErrorClassification.ts"
import type { CircuitOpen } from "./CircuitBreakers.ts"
import { maxPause } from "./RequestScheduler.ts"
import type { HookFailed } from "./SendAttempt.ts"
import type { SlotWaitAborted, SourceError } from "./Source.ts"

/** Why a request failed. */
export type RequestError = SourceError | CircuitOpen | SlotWaitAborted | HookFailed<unknown>

/** The longest delay between two attempts, unless the API requests a longer one. */
const maxBackoff = Duration.seconds(30)
const maxRetries: Partial<Record<SourceError["reason"]["_tag"], number>> = { Transient: 5, Unreadable: 2 }
/** Maximum number of repetitions of one attempt after rate-limit responses. Each repetition waits until the account's pause is over. */
export const maxRateLimitRetries = 12

export const isRateLimited = (error: RequestError | HttpClientError.HttpClientError): boolean =>
  error._tag === "SourceError" && error.reason._tag === "RateLimited"

/** The wait that an error response requested (503 with `Retry-After`); zero if it requested none. */
const requestedWaitOf = (error: RequestError): Duration.Duration =>
  error._tag === "SourceError" && error.reason._tag === "Transient"
    ? Duration.min(Duration.millis(error.reason.retryAfter ?? 0), maxPause)
    : Duration.zero

/** Maximum number of repetitions of a failed attempt. After an open circuit, an aborted wait or a failed hook there is none. */
const retriesOf = (error: RequestError): number => {
  if (error._tag !== "SourceError") return 0
  const { reason } = error
  const isRefused = reason._tag === "Transient" && reason.intercepted === true &&
    refusesEveryRequest(reason.status ?? 0)
  return maxRetries[isRefused ? "Unreadable" : reason._tag] ?? 0
}

/** The delays before the repetitions of a failed attempt: they double, from `retryBase`, with jitter. */
export const backoff = (retryBase: Duration.Duration, mayRetry: (error: RequestError) => boolean) =>
  Schedule.min([Schedule.exponential(retryBase), Schedule.spaced(maxBackoff)]).pipe(
    Schedule.jittered,
    Schedule.setInputType<RequestError>(),
    Schedule.modifyDelay(({ duration, input }) => Effect.succeed(Duration.max(duration, requestedWaitOf(input)))),
    Schedule.while(({ attempt, input }) => mayRetry(input) && attempt <= retriesOf(input))
  )
