/**
 * The errors of the simulated API: the error envelope, and the HTTP status and title of each code.
 *
 * Gotchas
 * - All four keys of an error are always present; every key except `message` may be null.
 */
import * as Data from "effect/Data"
import { errorTitles } from "../../api/ErrorClassification.ts"

const statuses: Readonly<Record<string, number>> = {
  "PLATFORM.AUTHENTICATION_INVALID": 401,
  "PLATFORM.IP_NOT_WHITELISTED": 403,
  "PLATFORM.INTEGRATION_NOT_FOUND": 404,
  "PLATFORM.INPUT_INVALID": 400,
  "PLATFORM.RATE_LIMIT_EXCEEDED": 429,
  "PLATFORM.CONCURRENCY_LIMIT_EXCEEDED": 429,
  "PLATFORM.TASK_TIMED_OUT": 504,
  "PLATFORM.UNKNOWN_ERROR": 500,
  "REMOTE.SERVICE_UNAVAILABLE": 503,
  "REMOTE.RATE_LIMIT_EXCEEDED": 429,
  "REMOTE.INPUT_INVALID": 400,
  "INTEGRATION.PERMISSION_MISSING": 403,
  "INTEGRATION.MODEL_NOT_AVAILABLE": 404,
  "INTEGRATION.MODEL_DISABLED": 403,
  "INTEGRATION.ACTION_NOT_AVAILABLE": 404,
  "INTEGRATION.ACTION_DISABLED": 403,
  "INTEGRATION.SETUP_SYNC_PENDING": 409,
  "INTEGRATION.SETUP_INCOMPLETE": 409,
  "INTEGRATION.QA_FAILED": 409,
  "INTEGRATION.INACTIVE": 403,
  "INTEGRATION.AUTHENTICATION_INVALID": 403,
  "ATS.JOB_CLOSED": 409,
  "ATS.APPLICATION_ALREADY_EXISTS": 409,
  "HRIS.EMPLOYEE_ALREADY_EXISTS": 409,
  "HRIS.STAFFING_ENTITY_CLOSED": 409
}

/** The HTTP status of an error code; 400 if the code is unknown. */
export const statusOf = (code: string): number => statuses[code] ?? 400

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
    return { status: "error", error: { code, title: errorTitles[code] ?? null, message, log_url: null } }
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
