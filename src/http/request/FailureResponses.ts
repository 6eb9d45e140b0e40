/** The responses to a request that the store does not answer, and to a command that another process should have executed. */
import * as Effect from "effect/Effect"
import * as HttpEffect from "effect/http/HttpEffect"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { CallError } from "../../fleet/Calls.ts"
import type { StoreError } from "../../store/Store.ts"
import { NotTaken, OutcomeUnknown, StoreUnavailable } from "../contract/Problem.ts"

/** Answers 503. An outage of the store is logged once, where it is detected. Other store errors are logged here. */
export const toStoreUnavailable = (error: StoreError) =>
  Effect.fail(new StoreUnavailable({ detail: error.reason.hint })).pipe(
    error.reason.retryable ?
      (response) => response :
      Effect.tapError(() =>
        Effect.annotateLogs(Effect.logError("request failed: store error"), { error: error.message })
      )
  )

/** In seconds. A shard that is moving between processes arrives within this time. */
const retryAfter = "5"

const withRetryAfter = HttpEffect.appendPreResponseHandler((_, response) =>
  Effect.succeed(HttpServerResponse.setHeader(response, "retry-after", retryAfter))
)

export const toCallProblem = ({ reason }: CallError) => {
  const { hint, message } = reason
  return reason._tag === "NotTaken"
    ? Effect.andThen(withRetryAfter, Effect.fail(new NotTaken({ detail: message, hint })))
    : Effect.fail(new OutcomeUnknown({ detail: message, hint }))
}
