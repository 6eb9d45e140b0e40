/** The errors of requests to the unified API. `Source.ts` exports them. */
import * as Schema from "effect/Schema"
import { classifyError, refusesEveryRequest } from "../api/ErrorClassification.ts"

const errorFields = {
  code: Schema.NullOr(Schema.String),
  message: Schema.String,
  /** Present if the request certainly did not reach the API. */
  notSent: Schema.optionalKey(Schema.Literal(true)),
  /** The page of the API's own log about the request, if the error response names one. It differs for each request. */
  logUrl: Schema.optionalKey(Schema.String)
}

const answerFields = {
  /** The HTTP status; absent without an answer. */
  status: Schema.optionalKey(Schema.Int),
  /** Present if the answer has an error status and not the API's error envelope. */
  intercepted: Schema.optionalKey(Schema.Literal(true))
}

/** Still rate limited after every retry. `retryAfter`: the wait that the API requested, in ms. */
export class RateLimited extends Schema.TaggedError<RateLimited>()("RateLimited", {
  ...errorFields,
  retryAfter: Schema.NullOr(Schema.Number)
}) {
  readonly retryable = true
  readonly hint =
    "the account's rate limit is used up; Rollcall slows down automatically. If this continues, lengthen the intervals."
}
/**
 * 5xx, a broken connection, a time-out, an open circuit, or an answer of something between Rollcall and the API. `retryAfter`: requested
 * by the answer, or until the probe, in ms.
 */
export class Transient extends Schema.TaggedError<Transient>()("Transient", {
  ...errorFields,
  ...answerFields,
  retryAfter: Schema.optionalKey(Schema.NullOr(Schema.Number)),
  /** Present if an open circuit did not send the request: the message of the failure that opened the circuit, with its hint. */
  openedBy: Schema.optionalKey(Schema.String)
}) {
  readonly retryable = true
  get hint(): string {
    if (this.intercepted !== true) {
      return "the API or the network has a problem; Rollcall retries automatically and no changes are lost."
    }
    return this.status === 401 || this.status === 403
      ? "there are two readings: a gateway, firewall or proxy refuses the request, or the API refuses the account's key. Rollcall " +
        "retries automatically and no changes are lost. If this lasts for minutes, check the key first, and then what is between " +
        "Rollcall and the API."
      : "a gateway, firewall or proxy answered in place of the API; Rollcall retries automatically and no changes are lost. If this " +
        "lasts, check what is between Rollcall and the API."
  }
}
/** 401 of the API: the key is invalid, or the account does not allow our IP address. */
export class Unauthorized extends Schema.TaggedError<Unauthorized>()("Unauthorized", errorFields) {
  readonly retryable = false
  readonly hint =
    "check three things: the account's key (ROLLCALL_API_KEY, or the secret named in the configuration file), that the key " +
    "belongs to the region of the URL, and the account's IP allow-list."
}
/** 403 of the API: the account's scope configuration does not allow this request. */
export class Forbidden extends Schema.TaggedError<Forbidden>()("Forbidden", errorFields) {
  readonly retryable = false
  readonly hint =
    "enable the permission in the account's scope configuration, or remove the model from Rollcall's configuration."
}
/** The integration does not offer this model or endpoint. */
export class Unsupported extends Schema.TaggedError<Unsupported>()("Unsupported", errorFields) {
  readonly retryable = false
  readonly hint =
    "this integration does not offer it. Rollcall tries a model again once a day; to stop that, remove the model from the " +
    "configuration. With models `auto`, Rollcall stops that itself once the API's tool catalog lists it as unsupported."
}
/** The API is still setting up the integration. This must never be treated as an empty list. */
export class NotReady extends Schema.TaggedError<NotReady>()("NotReady", errorFields) {
  readonly retryable = true
  readonly hint =
    "the integration's first synchronization is not finished; Rollcall starts reading automatically afterwards."
}
/** The integration is unknown or switched off, or its login to the third-party system is broken. */
export class Inactive extends Schema.TaggedError<Inactive>()("Inactive", errorFields) {
  readonly retryable = false
  readonly hint =
    "the customer's connection is broken, switched off or unknown; check the integration id and reconnect the integration."
}
/** The API rejected our request. For a request with a cursor this usually means that the cursor expired. */
export class Rejected extends Schema.TaggedError<Rejected>()("Rejected", {
  ...errorFields,
  /** Present if the API answered 404: it has nothing at this path. */
  status: Schema.optionalKey(Schema.Literal(404))
}) {
  readonly retryable = false
  readonly hint =
    "the API rejected the request; a poll or sweep in progress starts over. If it happens again, report it."
}
/** The response is not JSON, not UTF-8, incomplete, of an unexpected shape, too large or too deeply nested. */
export class Unreadable extends Schema.TaggedError<Unreadable>()("Unreadable", {
  ...errorFields,
  tooLarge: Schema.optionalKey(Schema.Literal(true)),
  /** Present if the response begins as JSON and does not end as JSON. */
  cut: Schema.optionalKey(Schema.Literal(true))
}) {
  readonly retryable = true
  readonly hint =
    "the response does not match the API's contract; check that the account's URL (ROLLCALL_API_URL, or in the " +
    "configuration file) is the API's base URL (it ends in /v1), and that no proxy answers instead of the API."
}

const sharedReasons = [
  RateLimited,
  Unauthorized,
  Forbidden,
  Unsupported,
  NotReady,
  Inactive,
  Rejected,
  Unreadable
] as const

/** The message of an error with this reason. */
export const withHint = ({ hint, message }: { readonly hint: string; readonly message: string }): string =>
  `${message.replace(/\.$/, "")}. ${hint.slice(0, 1).toUpperCase()}${hint.slice(1).replace(/\.$/, "")}`

/** Callers decide by the reason, never by the message. Messages contain no key and no personal data. */
export class SourceError extends Schema.TaggedError<SourceError>()("SourceError", {
  reason: Schema.Union([Transient, ...sharedReasons])
}) {
  override get message(): string {
    return withHint(this.reason)
  }
}

export const isTooLarge = ({ reason }: SourceError): boolean => reason._tag === "Unreadable" && reason.tooLarge === true

/** True if a shorter response might have arrived whole. */
export const isCut = ({ reason }: SourceError): boolean => reason._tag === "Unreadable" && reason.cut === true

/** The statuses of a gateway if the server behind it takes too long; 524 is one of Cloudflare. */
const slowStatuses: ReadonlySet<number> = new Set([408, 502, 503, 504, 524])

/**
 * True if the API may have needed too long for the response: a time-out, a connection that broke, or an error response that means one of
 * these. A 503 with `Retry-After` is maintenance.
 */
export const isSlow = ({ reason }: SourceError): boolean => {
  if (reason._tag !== "Transient" || reason.notSent === true) return false
  const { code, retryAfter, status } = reason
  return status === undefined || code === "PLATFORM.TASK_TIMED_OUT" ||
    (slowStatuses.has(status) && (status !== 503 || (retryAfter ?? null) === null))
}

/**
 * True if the answer may concern this request alone, such as its cursor or its length. It is then not repeated as it is: a sweep starts
 * over, and a request by id proves nothing.
 */
export const isRefused = ({ reason }: SourceError): boolean => {
  if (reason._tag !== "Transient") return reason._tag === "Rejected"
  const { intercepted, notSent, status = 0 } = reason
  // an open circuit repeats the answer to another request
  const isAnswer = intercepted === true && notSent !== true
  return isAnswer && !refusesEveryRequest(status) && classifyError({ status, code: null }) === "Rejected"
}

/** The request is invalid and was not sent. Lists every problem without repeating a value. */
export class Invalid extends Schema.TaggedError<Invalid>()("Invalid", {
  faults: Schema.Array(Schema.Struct({
    /** JSON Pointer into the request: `/params/job_id`, `/body/candidate/first_name`. */
    path: Schema.String,
    /** `shape`, `size`, `scale`, or the violated rule of the form (`required`, `bounds`, …). */
    rule: Schema.String,
    message: Schema.String
  }))
}) {
  readonly retryable = false
  readonly hint = "correct the request before sending it again; the same request would fail the same check."
  override get message(): string {
    return this.faults.map(({ message, path }) => `${path}: ${message}`).join("; ")
  }
}

/** The job no longer accepts applications. */
export class JobClosed extends Schema.TaggedError<JobClosed>()("JobClosed", errorFields) {
  readonly retryable = false
  readonly hint = "the job is closed; choose another job."
}
/** The candidate has already applied for this job. */
export class ApplicationAlreadyExists
  extends Schema.TaggedError<ApplicationAlreadyExists>()("ApplicationAlreadyExists", errorFields)
{
  readonly retryable = false
  readonly hint = "the application already exists; find it instead of creating it."
}
/** The employee already exists. */
export class EmployeeAlreadyExists
  extends Schema.TaggedError<EmployeeAlreadyExists>()("EmployeeAlreadyExists", errorFields)
{
  readonly retryable = false
  readonly hint = "the employee already exists; find the employee instead of creating one."
}
/** The staffing entity no longer accepts hires. */
export class StaffingEntityClosed
  extends Schema.TaggedError<StaffingEntityClosed>()("StaffingEntityClosed", errorFields)
{
  readonly retryable = false
  readonly hint = "the staffing entity is closed; choose an open one."
}
/** No attempt reached the API: it is unreachable, or the circuit is open. `retryAfter`: ms, if known. */
export class NotSent extends Schema.TaggedError<NotSent>()("NotSent", {
  ...errorFields,
  ...answerFields,
  retryAfter: Schema.NullOr(Schema.Number)
}) {
  readonly retryable = true
  readonly hint = "the request did not reach the API, so nothing was changed; try again later."
}
/**
 * The write was sent, and nothing proves that it had no effect: a broken connection, a time-out or an incomplete
 * response. For a write that must not be repeated, every error response without a documented code is included.
 */
export class OutcomeUnknown
  extends Schema.TaggedError<OutcomeUnknown>()("OutcomeUnknown", { ...errorFields, ...answerFields })
{
  readonly retryable = false
  readonly hint = "the write may have taken effect; check that before sending it again."
}

/** Why a write did not succeed. For every reason except `OutcomeUnknown` it is certain that the API did nothing. */
export class WriteError extends Schema.TaggedError<WriteError>()("WriteError", {
  reason: Schema.Union([
    NotSent,
    OutcomeUnknown,
    JobClosed,
    ApplicationAlreadyExists,
    EmployeeAlreadyExists,
    StaffingEntityClosed,
    ...sharedReasons
  ])
}) {
  override get message(): string {
    return withHint(this.reason)
  }
}
