/**
 * Classifies error responses of the unified API: one table maps error codes to classes, another maps HTTP statuses.
 *
 * Invariants
 * 1. The class follows from the code. The status is used only if the code is missing or unknown
 * 2. Only a known code, or an answer that is given only in front of the API, proves that a write had no effect   (L5)
 * 3. Codes and statuses count only in a response with the API's error envelope. All other error responses come from something between
 *    Rollcall and the API (`source/ApiResponse.ts`)
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

/**
 * Known codes: the class, and the status and title as the sandbox sends them. The API may have other statuses and titles. An error with
 * another code is classified by its status. These titles contain no values, so they are shown whole.
 */
export const errorCodes: Readonly<Record<string, readonly [errorClass: ErrorClass, status: number, title: string]>> = {
  "PLATFORM.RATE_LIMIT_EXCEEDED": ["RateLimited", 429, "Too many requests"],
  "PLATFORM.CONCURRENCY_LIMIT_EXCEEDED": ["RateLimited", 429, "Too many requests at once"],
  "REMOTE.RATE_LIMIT_EXCEEDED": ["RateLimited", 429, "The connected system wants fewer requests"],
  "REMOTE.SERVICE_UNAVAILABLE": ["Transient", 503, "The connected system does not answer"],
  "PLATFORM.TASK_TIMED_OUT": ["Transient", 504, "The request took too long"],
  "PLATFORM.UNKNOWN_ERROR": ["Transient", 500, "Something went wrong on our side"],
  "PLATFORM.AUTHENTICATION_INVALID": ["Unauthorized", 401, "The API key is missing or wrong"],
  "PLATFORM.IP_NOT_WHITELISTED": ["Unauthorized", 403, "Requests from this address are not allowed"],
  "INTEGRATION.PERMISSION_MISSING": ["Forbidden", 403, "The scope configuration does not allow this"],
  "INTEGRATION.MODEL_NOT_AVAILABLE": ["Unsupported", 404, "The integration does not offer this model"],
  "INTEGRATION.MODEL_DISABLED": ["Unsupported", 403, "This model is switched off"],
  "INTEGRATION.ACTION_NOT_AVAILABLE": ["Unsupported", 404, "The integration does not offer this action"],
  "INTEGRATION.ACTION_DISABLED": ["Unsupported", 403, "This action is switched off"],
  "INTEGRATION.SETUP_SYNC_PENDING": ["NotReady", 409, "The first synchronization is not finished"],
  "INTEGRATION.SETUP_INCOMPLETE": ["NotReady", 409, "The integration is not set up yet"],
  "INTEGRATION.QA_FAILED": ["NotReady", 409, "The integration did not pass its checks"],
  "INTEGRATION.INACTIVE": ["Inactive", 403, "The integration is switched off"],
  "INTEGRATION.AUTHENTICATION_INVALID": ["Inactive", 403, "The connected system refuses our credentials"],
  "PLATFORM.INTEGRATION_NOT_FOUND": ["Inactive", 404, "There is no such integration"],
  "PLATFORM.INPUT_INVALID": ["Rejected", 400, "The request is not valid"],
  "REMOTE.INPUT_INVALID": ["Rejected", 400, "The connected system refuses the request"],
  "ATS.JOB_CLOSED": ["Rejected", 409, "The job is closed"],
  "ATS.APPLICATION_ALREADY_EXISTS": ["Rejected", 409, "The candidate has applied for this job already"],
  "HRIS.EMPLOYEE_ALREADY_EXISTS": ["Rejected", 409, "The employee exists already"],
  "HRIS.STAFFING_ENTITY_CLOSED": ["Rejected", 409, "The staffing entity is closed"]
}

export const knownError = (code: string | null) => {
  const known = code !== null && Object.hasOwn(errorCodes, code) ? errorCodes[code] : undefined
  if (known === undefined) return undefined
  const [errorClass, status, title] = known
  return { errorClass, status, title }
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

/** The class of an error response: by its code, else by its status. */
export const classifyError = (
  { code, status }: { readonly status: number; readonly code: string | null }
): ErrorClass => knownError(code)?.errorClass ?? errorStatuses[status] ?? (status >= 500 ? "Transient" : "Rejected")

/**
 * Whether a response with this code proves that the API did nothing. A status proves nothing: proxies and gateways answer
 * 408, 409, 413, 499 or 5xx even after they forwarded the request.
 */
export const provesNoEffect = (code: string | null): boolean =>
  (knownError(code)?.errorClass ?? "Transient") !== "Transient"

/** Headers of a challenge or a captcha: the firewall that sends it has stopped the request (Cloudflare, AWS WAF). */
const challengeHeaders = ["cf-mitigated", "x-amzn-waf-action"]

/**
 * Whether a response without the API's envelope proves that the request did not reach the API. That is certain only for a challenge of a
 * firewall, and for the two statuses that servers must not send: 407, by which a proxy requires credentials, and 511, by which a network
 * requires a login. It is not certain for others: firewalls also check responses and then answer 403, nginx turns the error page of a
 * failed POST into 405, and a proxy may repeat a request, so that its 401, 429 or 503 belongs to the second try.
 */
export const stoppedBeforeApi = (status: number, headers: Readonly<Record<string, string | undefined>>): boolean =>
  status === 407 || status === 511 || challengeHeaders.some((name) => headers[name] !== undefined)

const refusingStatuses: ReadonlySet<number> = new Set([401, 403, 405, 407, 451, 501, 511])

/**
 * Whether something between Rollcall and the API that answers with this status refuses requests whatever they contain, until a person
 * changes it. With 5xx the API is out of reach for a while, and other statuses may concern one request.
 */
export const refusesEveryRequest = (status: number): boolean => refusingStatuses.has(status)

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
