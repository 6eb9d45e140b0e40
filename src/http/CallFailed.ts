/** The response to a command that another process should have executed. */
import * as Effect from "effect/Effect"
import * as HttpEffect from "effect/http/HttpEffect"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { CallError } from "../fleet/Calls.ts"
import { NotTaken, OutcomeUnknown } from "./Problem.ts"

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
