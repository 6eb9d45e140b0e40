/**
 * The errors of the simulated API: the error envelope, and the HTTP status and title of each code.
 *
 * Gotchas
 * - All four keys of an error are always present; every key except `message` may be null.
 */
import * as Data from "effect/Data"

const codes: Readonly<Record<string, readonly [status: number, title: string]>> = {
  "PLATFORM.AUTHENTICATION_INVALID": [401, "The API key is missing or wrong"],
  "PLATFORM.IP_NOT_WHITELISTED": [403, "Requests from this address are not allowed"],
  "PLATFORM.INTEGRATION_NOT_FOUND": [404, "There is no such integration"],
  "PLATFORM.INPUT_INVALID": [400, "The request is not valid"],
  "PLATFORM.RATE_LIMIT_EXCEEDED": [429, "Too many requests"],
  "PLATFORM.CONCURRENCY_LIMIT_EXCEEDED": [429, "Too many requests at once"],
  "PLATFORM.TASK_TIMED_OUT": [504, "The request took too long"],
  "PLATFORM.UNKNOWN_ERROR": [500, "Something went wrong on our side"],
  "REMOTE.SERVICE_UNAVAILABLE": [503, "The connected system does not answer"],
  "REMOTE.RATE_LIMIT_EXCEEDED": [429, "The connected system wants fewer requests"],
  "REMOTE.INPUT_INVALID": [400, "The connected system refuses the request"],
  "INTEGRATION.PERMISSION_MISSING": [403, "The scope configuration does not allow this"],
  "INTEGRATION.MODEL_NOT_AVAILABLE": [404, "The integration does not offer this model"],
  "INTEGRATION.MODEL_DISABLED": [403, "This model is switched off"],
  "INTEGRATION.ACTION_NOT_AVAILABLE": [404, "The integration does not offer this action"],
  "INTEGRATION.ACTION_DISABLED": [403, "This action is switched off"],
  "INTEGRATION.SETUP_SYNC_PENDING": [409, "The first synchronization is not finished"],
  "INTEGRATION.SETUP_INCOMPLETE": [409, "The integration is not set up yet"],
  "INTEGRATION.QA_FAILED": [409, "The integration did not pass its checks"],
  "INTEGRATION.INACTIVE": [403, "The integration is switched off"],
  "INTEGRATION.AUTHENTICATION_INVALID": [403, "The connected system refuses our credentials"],
  "ATS.JOB_CLOSED": [409, "The job is closed"],
  "ATS.APPLICATION_ALREADY_EXISTS": [409, "The candidate has applied for this job already"],
  "HRIS.EMPLOYEE_ALREADY_EXISTS": [409, "The employee exists already"],
  "HRIS.STAFFING_ENTITY_CLOSED": [409, "The staffing entity is closed"]
}

/** The HTTP status of an error code; 400 if the code is unknown. */
export const statusOf = (code: string): number => codes[code]?.[0] ?? 400

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
    return { status: "error", error: { code, title: codes[code]?.[1] ?? null, message, log_url: null } }
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
