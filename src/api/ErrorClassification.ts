/**
 * What the unified API's refusals mean: one table from error codes, and one from HTTP statuses, to our classes.
 *
 * Invariants
 * 1. The code decides; the status only where the code is absent or unknown.
 * 2. Only a known code proves that a write did nothing   (L5)
 *
 * Gotchas
 * - 409 and the older 503 both announce an unfinished set-up: with its code a 503 is `NotReady`, without one `Transient`.
 */
import * as Schema from "effect/Schema"

/** What a reader does next; each is a reason of the source's error. */
export type ErrorClass =
  | "RateLimited"
  | "Transient"
  | "Unauthorized"
  | "Forbidden"
  | "Unsupported"
  | "NotReady"
  | "Inactive"
  | "Rejected"

/** Known codes. A code that is missing here is classed by its status. */
export const errorCodes: Readonly<Record<string, ErrorClass>> = {
  "PLATFORM.RATE_LIMIT_EXCEEDED": "RateLimited",
  "PLATFORM.CONCURRENCY_LIMIT_EXCEEDED": "RateLimited",
  "REMOTE.RATE_LIMIT_EXCEEDED": "RateLimited",
  "REMOTE.SERVICE_UNAVAILABLE": "Transient",
  "PLATFORM.TASK_TIMED_OUT": "Transient",
  "PLATFORM.UNKNOWN_ERROR": "Transient",
  "PLATFORM.AUTHENTICATION_INVALID": "Unauthorized",
  "PLATFORM.IP_NOT_WHITELISTED": "Unauthorized",
  "INTEGRATION.PERMISSION_MISSING": "Forbidden",
  "INTEGRATION.MODEL_NOT_AVAILABLE": "Unsupported",
  "INTEGRATION.MODEL_DISABLED": "Unsupported",
  "INTEGRATION.ACTION_NOT_AVAILABLE": "Unsupported",
  "INTEGRATION.ACTION_DISABLED": "Unsupported",
  "INTEGRATION.SETUP_SYNC_PENDING": "NotReady",
  "INTEGRATION.SETUP_INCOMPLETE": "NotReady",
  "INTEGRATION.QA_FAILED": "NotReady",
  "INTEGRATION.INACTIVE": "Inactive",
  "INTEGRATION.AUTHENTICATION_INVALID": "Inactive",
  "PLATFORM.INTEGRATION_NOT_FOUND": "Inactive",
  "PLATFORM.INPUT_INVALID": "Rejected",
  "REMOTE.INPUT_INVALID": "Rejected",
  "ATS.JOB_CLOSED": "Rejected",
  "ATS.APPLICATION_ALREADY_EXISTS": "Rejected",
  "HRIS.EMPLOYEE_ALREADY_EXISTS": "Rejected",
  "HRIS.STAFFING_ENTITY_CLOSED": "Rejected"
}

/** Statuses that mean more than their hundred: other 5xx are `Transient`, other 4xx `Rejected`. */
export const errorStatuses: Readonly<Record<number, ErrorClass>> = {
  401: "Unauthorized",
  403: "Forbidden",
  404: "Unsupported",
  405: "Unsupported",
  408: "Transient",
  409: "NotReady",
  425: "Transient",
  429: "RateLimited",
  501: "Unsupported"
}

const byCode = (code: string | null): ErrorClass | undefined =>
  code !== null && Object.hasOwn(errorCodes, code) ? errorCodes[code] : undefined

/** The class of an answer that is no success: by code first, by status second. */
export const classifyError = (
  { code, status }: { readonly status: number; readonly code: string | null }
): ErrorClass => byCode(code) ?? errorStatuses[status] ?? (status >= 500 ? "Transient" : "Rejected")

/**
 * Whether an answer with this code proves that the API did nothing. A status proves nothing: proxies and gateways answer
 * 408, 409, 413 or 499, and 5xx, after they have passed the request on.
 */
export const provesNoEffect = (code: string | null): boolean => (byCode(code) ?? "Transient") !== "Transient"

/** The body of every refusal: all four keys present, all but `message` nullable. */
export const ErrorEnvelope = Schema.Struct({
  status: Schema.Literal("error"),
  error: Schema.Struct({
    code: Schema.NullOr(Schema.String),
    title: Schema.NullOr(Schema.String),
    message: Schema.String,
    log_url: Schema.NullOr(Schema.String)
  })
}).annotate({ identifier: "ErrorEnvelope" })
