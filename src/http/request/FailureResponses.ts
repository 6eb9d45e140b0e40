/** The responses to a request that the store does not answer, and to a command that another process should have executed. */
import * as Effect from "effect/Effect"
import * as HttpEffect from "effect/http/HttpEffect"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import type { CallError } from "../../fleet/Calls.ts"
import { StoreError } from "../../store/Store.ts"
import { NotTaken, OutcomeUnknown } from "../contract/Problem.ts"
import { StoreFailures, toProblem } from "../contract/StoreFailures.ts"

/** An outage of the store is logged once, where it is detected. Other store errors are logged here. */
const logUnexpected = ({ message, reason }: StoreError) =>
  reason.retryable
    ? Effect.void
    : Effect.annotateLogs(Effect.logError("request failed: store error"), { error: message })

/** Answers 503. */
export const toStoreUnavailable = (error: StoreError) =>
  Effect.andThen(logUnexpected(error), Effect.fail(toProblem(error)))

/** Handlers fail with `StoreError`; the contract turns it into the problem. */
export const layer = Layer.succeed(
  StoreFailures,
  Effect.tapError((error) => error instanceof StoreError ? logUnexpected(error) : Effect.void)
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
