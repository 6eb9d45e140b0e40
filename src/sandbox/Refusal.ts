/**
 * How the service says no: the error envelope and the status it comes under.
 *
 * Gotchas
 * - All four keys of an error are always present, all but `message` may be null.
 */
import * as Data from "effect/Data"
import * as HttpServerResponse from "effect/http/HttpServerResponse"

const titles: Readonly<Record<string, string>> = {
  "PLATFORM.AUTHENTICATION_INVALID": "The API key is missing or wrong",
  "PLATFORM.INTEGRATION_NOT_FOUND": "There is no such integration",
  "PLATFORM.INPUT_INVALID": "The request is not valid",
  "PLATFORM.RATE_LIMIT_EXCEEDED": "Too many requests",
  "PLATFORM.UNKNOWN_ERROR": "Something went wrong on our side",
  "REMOTE.SERVICE_UNAVAILABLE": "The connected system does not answer",
  "INTEGRATION.MODEL_NOT_AVAILABLE": "The integration does not offer this model"
}

/** A request that is not served. */
export class Refusal extends Data.TaggedError("Refusal")<{
  readonly status: number
  readonly code: string
  readonly message: string
  /** Seconds, or what the header says instead. */
  readonly retryAfter?: number | string
}> {
  get response(): HttpServerResponse.HttpServerResponse {
    return HttpServerResponse.jsonUnsafe({
      status: "error",
      error: { code: this.code, title: titles[this.code] ?? null, message: this.message, log_url: null }
    }, {
      status: this.status,
      ...(this.retryAfter !== undefined && { headers: { "retry-after": String(this.retryAfter) } })
    })
  }
}

/** 400: the caller must change the request. */
export const invalid = (message: string): Refusal =>
  new Refusal({ status: 400, code: "PLATFORM.INPUT_INVALID", message })
