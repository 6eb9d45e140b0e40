/**
 * The error responses of the operating API, as problem details (RFC 9457).
 *
 * Gotchas
 * - Each `type` is a URN: it identifies a kind of problem and cannot be opened as a link.
 */
import * as HttpApiError from "effect/http-api/HttpApiError"
import * as Schema from "effect/Schema"

/** 400: `after` or `Last-Event-ID` is not a position. */
export class PositionMalformed extends HttpApiError.Problem<PositionMalformed>()("PositionMalformed", {
  type: "urn:rollcall:problem:position-malformed",
  status: 400,
  title: "Invalid position"
}) {}

/** 400: `errors` lists each fault. The first item of its `path` is the part of the request: `query`, `params` or `payload`. */
export class RequestMalformed extends HttpApiError.Problem<RequestMalformed>()("RequestMalformed", {
  type: "urn:rollcall:problem:request-malformed",
  status: 400,
  title: "Invalid request"
}, { hint: Schema.String, errors: Schema.Array(HttpApiError.ProblemIssue) }) {}

/** 415 */
export class UnsupportedMediaType extends HttpApiError.Problem<UnsupportedMediaType>()("UnsupportedMediaType", {
  type: "urn:rollcall:problem:unsupported-media-type",
  status: 415,
  title: "Unsupported media type"
}, { hint: Schema.String }) {}

/** 410: the position belongs to another log, or the events after it are no longer retained. */
export class PositionGone extends HttpApiError.Problem<PositionGone>()("PositionGone", {
  type: "urn:rollcall:problem:position-gone",
  status: 410,
  title: "The event log cannot be resumed from this position"
}, { hint: Schema.String }) {}

/** 401 */
export class TokenRequired extends HttpApiError.Problem<TokenRequired>()("TokenRequired", {
  type: "urn:rollcall:problem:token-required",
  status: 401,
  title: "Token required"
}) {}

/** 403: without a token the API serves only this machine, under its loopback names. */
export class HostNotAllowed extends HttpApiError.Problem<HostNotAllowed>()("HostNotAllowed", {
  type: "urn:rollcall:problem:host-not-allowed",
  status: 403,
  title: "Host name not allowed without a token"
}) {}

/** 403: a web page of another origin, open in a browser on this machine, must not send commands. */
export class OriginNotAllowed extends HttpApiError.Problem<OriginNotAllowed>()("OriginNotAllowed", {
  type: "urn:rollcall:problem:origin-not-allowed",
  status: 403,
  title: "Commands from a page of another origin are not allowed"
}) {}

/** 404 */
export class NotFound extends HttpApiError.Problem<NotFound>()("NotFound", {
  type: "urn:rollcall:problem:not-found",
  status: 404,
  title: "Not found"
}) {}

/** 405 */
export class MethodNotAllowed extends HttpApiError.Problem<MethodNotAllowed>()("MethodNotAllowed", {
  type: "urn:rollcall:problem:method-not-allowed",
  status: 405,
  title: "Method not allowed"
}, { hint: Schema.String }) {}

/** One error in a request. */
export const Fault = Schema.Struct({ where: Schema.String, message: Schema.String, hint: Schema.String })
export type Fault = typeof Fault.Type

/** 400: the integration cannot be added; `faults` lists every error. */
export class IntegrationInvalid extends HttpApiError.Problem<IntegrationInvalid>()("IntegrationInvalid", {
  type: "urn:rollcall:problem:integration-invalid",
  status: 400,
  title: "Invalid integration"
}, { faults: Schema.Array(Fault) }) {}

/** 400: `from` and `to` of the replay are not a range of the event log. */
export class ReplayMalformed extends HttpApiError.Problem<ReplayMalformed>()("ReplayMalformed", {
  type: "urn:rollcall:problem:replay-malformed",
  status: 400,
  title: "Invalid replay request"
}, { hint: Schema.String }) {}

/** 400: the resolution of an unknown outcome does not fit the write. */
export class ResolutionMalformed extends HttpApiError.Problem<ResolutionMalformed>()("ResolutionMalformed", {
  type: "urn:rollcall:problem:resolution-malformed",
  status: 400,
  title: "The resolution does not fit the write"
}, { hint: Schema.String }) {}

/** 409: the request is valid, but not in the current state. */
export class Conflict extends HttpApiError.Problem<Conflict>()("Conflict", {
  type: "urn:rollcall:problem:conflict",
  status: 409,
  title: "Not possible in the current state"
}, { hint: Schema.String }) {}

/** 502: the unified API did not answer, or refused the request. */
export class SourceUnavailable extends HttpApiError.Problem<SourceUnavailable>()("SourceUnavailable", {
  type: "urn:rollcall:problem:source-unavailable",
  status: 502,
  title: "The unified API could not be read"
}) {}

/** 500: a defect; the log has the details. */
export class InternalError extends HttpApiError.Problem<InternalError>()("InternalError", {
  type: "urn:rollcall:problem:internal-error",
  status: 500,
  title: "Internal error"
}) {}

/** 503: the store did not answer. */
export class StoreUnavailable extends HttpApiError.Problem<StoreUnavailable>()("StoreUnavailable", {
  type: "urn:rollcall:problem:store-unavailable",
  status: 503,
  title: "The store is unavailable"
}) {}

export const ReadinessCheck = Schema.Struct({
  name: Schema.String,
  ok: Schema.Boolean,
  /** Why the check fails, or a remark on a check that passes; null if there is nothing to report. */
  reason: Schema.NullOr(Schema.String)
})

/** 503: a readiness check fails. */
export class NotReady extends HttpApiError.Problem<NotReady>()("NotReady", {
  type: "urn:rollcall:problem:not-ready",
  status: 503,
  title: "Rollcall is not ready"
}, { checks: Schema.Array(ReadinessCheck) }) {}
