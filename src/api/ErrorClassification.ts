/**
 * Classifies error responses of the unified API: one table maps error codes to classes, another maps HTTP statuses.
 *
 * Invariants
 * 1. The class follows from the code. The status is used only if the code is missing or unknown
 * 2. Only a known code proves that a write had no effect   (L5)
 *
 * Gotchas
 * - While an integration is being set up, the API responds with 409 (older versions: 503). A 409 without a known code is
 *   therefore `NotReady`. A 503 is `NotReady` only if its code is in that class.
 */
import * as Schema from "effect/Schema"

/** The class of an error response; each class is a reason of `SourceError`. */
export type ErrorClass =
  | "RateLimited"
  | "Transient"
  | "Unauthorized"
  | "Forbidden"
  | "Unsupported"
  | "NotReady"
  | "Inactive"
  | "Rejected"

/** Known codes. An error with another code is classified by its status. */
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

/** Statuses with a class of their own: all other 5xx are `Transient`, all other 4xx are `Rejected`. */
const errorStatuses: Readonly<Record<number, ErrorClass>> = {
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

/** The class of an error response: by its code, else by its status. */
export const classifyError = (
  { code, status }: { readonly status: number; readonly code: string | null }
): ErrorClass => byCode(code) ?? errorStatuses[status] ?? (status >= 500 ? "Transient" : "Rejected")

/**
 * Whether a response with this code proves that the API did nothing. A status proves nothing: proxies and gateways answer
 * 408, 409, 413, 499 or 5xx even after they forwarded the request.
 */
export const provesNoEffect = (code: string | null): boolean => (byCode(code) ?? "Transient") !== "Transient"

/** The body of every error response: all four keys are present, and all except `message` may be null. */
export const ErrorEnvelope = Schema.Struct({
  status: Schema.Literal("error"),
  error: Schema.Struct({
    code: Schema.NullOr(Schema.String),
    title: Schema.NullOr(Schema.String),
    message: Schema.String,
    log_url: Schema.NullOr(Schema.String)
  })
}).annotate({ identifier: "ErrorEnvelope" })
