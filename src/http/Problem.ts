/**
 * What the operating API refuses, as problems (RFC 9457).
 *
 * Gotchas
 * - `type`s are URNs: they name a kind of problem and lead nowhere.
 */
import * as HttpApiError from "effect/http-api/HttpApiError"
import * as Schema from "effect/Schema"

/** 400: `after` or `Last-Event-ID` is no position. */
export class PositionMalformed extends HttpApiError.Problem<PositionMalformed>()("PositionMalformed", {
  type: "urn:rollcall:problem:position-malformed",
  status: 400,
  title: "This is no position"
}) {}

/** 400: `errors` has each fault; the first of its `path` is the part of the request: `query`, `params`, `payload`. */
export class RequestMalformed extends HttpApiError.Problem<RequestMalformed>()("RequestMalformed", {
  type: "urn:rollcall:problem:request-malformed",
  status: 400,
  title: "This request does not fit the API"
}, { hint: Schema.String, errors: Schema.Array(HttpApiError.ProblemIssue) }) {}

/** 415 */
export class UnsupportedMediaType extends HttpApiError.Problem<UnsupportedMediaType>()("UnsupportedMediaType", {
  type: "urn:rollcall:problem:unsupported-media-type",
  status: 415,
  title: "This kind of body is not read"
}, { hint: Schema.String }) {}

/** 410: the position belongs to another log, or what follows it is no longer kept. */
export class PositionGone extends HttpApiError.Problem<PositionGone>()("PositionGone", {
  type: "urn:rollcall:problem:position-gone",
  status: 410,
  title: "The log cannot be continued from this position"
}, { hint: Schema.String }) {}

/** 401 */
export class TokenRequired extends HttpApiError.Problem<TokenRequired>()("TokenRequired", {
  type: "urn:rollcall:problem:token-required",
  status: 401,
  title: "This API demands its token"
}) {}

/** 403: without a token only this machine is served, under its own names. */
export class HostNotAllowed extends HttpApiError.Problem<HostNotAllowed>()("HostNotAllowed", {
  type: "urn:rollcall:problem:host-not-allowed",
  status: 403,
  title: "This host name is not served without a token"
}) {}

/** 403: a web page that this machine's browser shows may look, if at all, but not act. */
export class OriginNotAllowed extends HttpApiError.Problem<OriginNotAllowed>()("OriginNotAllowed", {
  type: "urn:rollcall:problem:origin-not-allowed",
  status: 403,
  title: "A page of another origin may not act here"
}) {}

/** 404 */
export class NotFound extends HttpApiError.Problem<NotFound>()("NotFound", {
  type: "urn:rollcall:problem:not-found",
  status: 404,
  title: "There is no such thing here"
}) {}

/** 405 */
export class MethodNotAllowed extends HttpApiError.Problem<MethodNotAllowed>()("MethodNotAllowed", {
  type: "urn:rollcall:problem:method-not-allowed",
  status: 405,
  title: "This is not asked so"
}, { hint: Schema.String }) {}

/** One thing that is wrong with a request. */
export const Fault = Schema.Struct({ where: Schema.String, message: Schema.String, hint: Schema.String })
export type Fault = typeof Fault.Type

/** 400: all that is wrong with an integration that was to be added. */
export class IntegrationInvalid extends HttpApiError.Problem<IntegrationInvalid>()("IntegrationInvalid", {
  type: "urn:rollcall:problem:integration-invalid",
  status: 400,
  title: "This integration cannot be added"
}, { faults: Schema.Array(Fault) }) {}

/** 400: what is to be replayed is no stretch of the log. */
export class ReplayMalformed extends HttpApiError.Problem<ReplayMalformed>()("ReplayMalformed", {
  type: "urn:rollcall:problem:replay-malformed",
  status: 400,
  title: "This cannot be replayed"
}, { hint: Schema.String }) {}

/** 400: the answer to an unknown outcome does not fit the write. */
export class ResolutionMalformed extends HttpApiError.Problem<ResolutionMalformed>()("ResolutionMalformed", {
  type: "urn:rollcall:problem:resolution-malformed",
  status: 400,
  title: "This answer does not fit the write"
}, { hint: Schema.String }) {}

/** 409: not in this condition. */
export class Conflict extends HttpApiError.Problem<Conflict>()("Conflict", {
  type: "urn:rollcall:problem:conflict",
  status: 409,
  title: "This cannot be done in this condition"
}, { hint: Schema.String }) {}

/** 502: the API that is read did not answer, or refused. */
export class SourceUnavailable extends HttpApiError.Problem<SourceUnavailable>()("SourceUnavailable", {
  type: "urn:rollcall:problem:source-unavailable",
  status: 502,
  title: "The unified API could not be read"
}) {}

/** 500: a defect; it is in the log. */
export class InternalError extends HttpApiError.Problem<InternalError>()("InternalError", {
  type: "urn:rollcall:problem:internal-error",
  status: 500,
  title: "Rollcall made a mistake"
}) {}

/** 503: the store did not answer. */
export class StoreUnavailable extends HttpApiError.Problem<StoreUnavailable>()("StoreUnavailable", {
  type: "urn:rollcall:problem:store-unavailable",
  status: 503,
  title: "The store does not answer"
}) {}

export const ReadinessCheck = Schema.Struct({
  name: Schema.String,
  ok: Schema.Boolean,
  /** Why not, or what is going on. */
  reason: Schema.NullOr(Schema.String)
})

/** 503: not everything has started. */
export class NotReady extends HttpApiError.Problem<NotReady>()("NotReady", {
  type: "urn:rollcall:problem:not-ready",
  status: 503,
  title: "Rollcall is not ready"
}, { checks: Schema.Array(ReadinessCheck) }) {}
