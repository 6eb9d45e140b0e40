/**
 * The errors of the simulated API: a code of the contract in its error envelope.
 *
 * Gotchas
 * - All four keys of an error are always present; every key except `message` may be null.
 */
import * as Data from "effect/Data"
import { knownError } from "../../api/ErrorClassification.ts"

/** The HTTP status of an error code; 400 if the code is unknown. */
export const statusOf = (code: string): number => knownError(code)?.status ?? 400

/** A request that the sandbox rejects. */
export class ApiError extends Data.TaggedError("ApiError")<{
  readonly status: number
  readonly code: string
  readonly message: string
  /** The value of `Retry-After`: seconds, or any text. */
  readonly retryAfter?: number | string
  /** The value of `Allow`: the methods that exist at this path. */
  readonly allow?: string
}> {
  /** The body of the response. */
  get envelope() {
    const { code, message } = this
    return { status: "error", error: { code, title: knownError(code)?.title ?? null, message, log_url: null } }
  }
}

/** An error with the HTTP status that belongs to its code, unless another one is given. */
export const apiError = (
  code: string,
  message: string,
  more: { readonly status?: number; readonly retryAfter?: number | string; readonly allow?: string } = {}
): ApiError => new ApiError({ status: statusOf(code), code, message, ...more })

/** The caller must change the request. */
export const invalidInput = (message: string, status = 400): ApiError =>
  apiError("PLATFORM.INPUT_INVALID", message, { status })

/** The path names a record that does not exist. */
export const notFound = (message: string): ApiError => invalidInput(message, 404)
