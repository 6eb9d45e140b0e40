/**
 * The error responses of the operating API, as problem details (RFC 9457).
 *
 * Gotchas
 * - Each `type` is a URN: it identifies a kind of problem and cannot be opened as a link.
 */
import * as Effect from "effect/Effect"
import * as HttpApiError from "effect/http-api/HttpApiError"
import * as Schema from "effect/Schema"

/** A class of problems whose `type` is made of its name: `PositionGone` becomes `urn:rollcall:problem:position-gone`. */
const problem =
  <Self>() =>
  <const Tag extends string, const Status extends number, Fields extends HttpApiError.ProblemExtensionFields = {}>(
    tag: Tag,
    status: Status,
    title: string,
    fields?: Fields
  ) => {
    const type = `urn:rollcall:problem:${tag.replaceAll(/\B[A-Z]/g, "-$&").toLowerCase()}`
    return HttpApiError.Problem<Self>()(tag, { type, status, title }, fields)
  }

const withHint = { hint: Schema.String }

/** 400: `after` or `Last-Event-ID` is not a position. */
export class PositionMalformed extends problem<PositionMalformed>()("PositionMalformed", 400, "Invalid position") {}

/** 400: `errors` lists each fault. The first item of its `path` is the part of the request: `query`, `params` or `payload`. */
export class RequestMalformed extends problem<RequestMalformed>()("RequestMalformed", 400, "Invalid request", {
  hint: Schema.String,
  errors: Schema.Array(
    Schema.Struct({ path: Schema.Array(Schema.Union([Schema.String, Schema.Int])), message: Schema.String })
  )
}) {}

/** 413 */
export class PayloadTooLarge extends problem<PayloadTooLarge>()("PayloadTooLarge", 413, "Body too large", withHint) {}

/** 415 */
export class UnsupportedMediaType
  extends problem<UnsupportedMediaType>()("UnsupportedMediaType", 415, "Unsupported media type", withHint)
{}

/** 400: Node.js cannot read the request. */
export class RequestUnreadable
  extends problem<RequestUnreadable>()("RequestUnreadable", 400, "The request cannot be read", withHint)
{}

/** 408 */
export class RequestTimeout
  extends problem<RequestTimeout>()("RequestTimeout", 408, "The request did not arrive in time", withHint)
{}

/** 431: the request line and the headers together are too long. */
export class HeadersTooLarge
  extends problem<HeadersTooLarge>()("HeadersTooLarge", 431, "Request line and headers too long", withHint)
{}

/** 410: the position belongs to another log, or the events after it are no longer retained. */
export class PositionGone
  extends problem<PositionGone>()("PositionGone", 410, "The event log cannot be resumed from this position", withHint)
{}

/** 401 */
export class TokenRequired extends problem<TokenRequired>()("TokenRequired", 401, "Token required") {}

/** 429 */
export class TooManyWrongTokens
  extends problem<TooManyWrongTokens>()("TooManyWrongTokens", 429, "Too many wrong tokens")
{}

/** 403: a command with the read token, or in a session that was started with it. */
export class OperateTokenRequired
  extends problem<OperateTokenRequired>()("OperateTokenRequired", 403, "The read token does not allow commands")
{}

/**
 * 403: the request used a host name that is not allowed. A name that an attacker points at this address must not become an origin of this
 * server.
 */
export class HostNotAllowed extends problem<HostNotAllowed>()("HostNotAllowed", 403, "Host name not allowed") {}

/** 403: a web page of another origin sent the request from a browser that reaches this server. */
export class OriginNotAllowed
  extends problem<OriginNotAllowed>()("OriginNotAllowed", 403, "Requests from a page of another origin are not allowed")
{}

/** 404 */
export class NotFound extends problem<NotFound>()("NotFound", 404, "Not found") {}

/** 405 */
export class MethodNotAllowed
  extends problem<MethodNotAllowed>()("MethodNotAllowed", 405, "Method not allowed", withHint)
{}

/** One error in a request. */
export const Fault = Schema.Struct({ where: Schema.String, message: Schema.String, hint: Schema.String })
export type Fault = typeof Fault.Type

/** 400: the integration cannot be added; `faults` lists every error. */
export class IntegrationInvalid
  extends problem<IntegrationInvalid>()("IntegrationInvalid", 400, "Invalid integration", {
    faults: Schema.Array(Fault)
  })
{}

/** 400: `from` and `to` of the replay are not a range of the event log. */
export class ReplayMalformed
  extends problem<ReplayMalformed>()("ReplayMalformed", 400, "Invalid replay request", withHint)
{}

/** 400: the resolution of an unknown outcome does not fit the write. */
export class ResolutionMalformed
  extends problem<ResolutionMalformed>()("ResolutionMalformed", 400, "The resolution does not fit the write", withHint)
{}

/** 409: the request is valid, but not in the current state. */
export class Conflict extends problem<Conflict>()("Conflict", 409, "Not possible in the current state", withHint) {}

/** A request that was refused: the reason in words, and a hint. */
interface Refusal {
  readonly message: string
  readonly hint: string
}

export const toConflict = ({ hint, message }: Refusal): Conflict => new Conflict({ detail: message, hint })

export const toNotFound = ({ hint, message }: Refusal): NotFound => new NotFound({ detail: `${message}: ${hint}` })

/** 404 if the request names something unknown, otherwise 409. */
export const toNotFoundOrConflict = (
  refusal: Refusal & { readonly reason: string }
): Effect.Effect<never, NotFound | Conflict> =>
  Effect.fail(refusal.reason === "unknown" ? toNotFound(refusal) : toConflict(refusal))

/** 502: the unified API did not answer, or refused the request. */
export class SourceUnavailable
  extends problem<SourceUnavailable>()("SourceUnavailable", 502, "The unified API could not be read")
{}

/** 500: a defect; the log has the details. */
export class InternalError extends problem<InternalError>()("InternalError", 500, "Internal error") {}

/** 503: too many clients follow the event log. */
export class TooManyReaders
  extends problem<TooManyReaders>()("TooManyReaders", 503, "Too many readers of the event stream", withHint)
{}

/** 503: clients have requested too many pages that they have not received. */
export class TooManyPages extends problem<TooManyPages>()("TooManyPages", 503, "Too many unread pages", withHint) {}

/** 503: the store did not answer. */
export class StoreUnavailable
  extends problem<StoreUnavailable>()("StoreUnavailable", 503, "The store is unavailable")
{}

/**
 * 503: the streams are moving to another process. Nothing was changed; the header `Retry-After` contains the time
 * after which to repeat the request.
 */
export class NotTaken extends problem<NotTaken>()("NotTaken", 503, "The streams are moving", withHint) {}

/** 504: the process that executed the command ended. */
export class OutcomeUnknown
  extends problem<OutcomeUnknown>()("OutcomeUnknown", 504, "The outcome of the command is unknown", withHint)
{}

/** The problems of a command that another process may have to execute. */
export const callProblems = [NotTaken, OutcomeUnknown] as const

export const ReadinessCheck = Schema.Struct({
  name: Schema.String,
  ok: Schema.Boolean,
  /** Why the check fails, or a remark on a check that passes; null if there is nothing to report. */
  reason: Schema.NullOr(Schema.String)
})

/** 503: a readiness check fails. */
export class NotReady
  extends problem<NotReady>()("NotReady", 503, "Rollcall is not ready", { checks: Schema.Array(ReadinessCheck) })
{}
