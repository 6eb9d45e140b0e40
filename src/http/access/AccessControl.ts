/**
 * Checks every request to the operating API before its handler runs.
 *
 * Invariants
 * 1. If a token is configured, a request without a token gets an answer only from `/health/*` and the login page, and that
 *    answer names neither a stream nor a reason   (I11)
 * 2. The read token allows GET and HEAD only
 * 3. A command needs `Content-Type: application/json`. A browser sends a CORS preflight before a page of another origin may do that, and
 *    this server refuses every preflight. A command without a body may leave the type out. There is one exception: if a browser sends it
 *    without a header that names the page, it needs the type, because a beacon from a page of another origin looks the same
 *
 * Gotchas
 * - `/health/*` is answered under every name, because probes use the address of a container as its name.
 */
import * as Effect from "effect/Effect"
import * as HttpBody from "effect/http/HttpBody"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Metric from "effect/Metric"
import * as Stream from "effect/Stream"
import { type Actor, CurrentActor } from "../../store/Operators.ts"
import {
  HostNotAllowed,
  OperateTokenRequired,
  OriginNotAllowed,
  StoreUnavailable,
  TokenRequired,
  TooManyWrongTokens,
  UnsupportedMediaType
} from "../contract/Problem.ts"
import * as BoundedLog from "../limits/BoundedLog.ts"
import { addressOf, type Caller, CurrentCaller } from "../request/Caller.ts"
import { toStoreUnavailable } from "../request/FailureResponses.ts"
import {
  isForeign,
  isFromUnnamedPage,
  type OwnOrigin,
  ownOriginOf,
  type Reachability
} from "../request/RequestOrigin.ts"
import { forms, wantsPage } from "../request/RouteNotFound.ts"
import { cookieFor, Sessions } from "./Sessions.ts"
import { bearerOf, Tokens } from "./Tokens.ts"
import { WrongTokens } from "./WrongTokens.ts"

/**
 * True for all methods except GET and HEAD, whether or not the path exists, because a path that is not recognized here must not pass
 * unchecked.
 */
const isCommand = ({ method, url }: HttpServerRequest): boolean =>
  method !== "GET" && method !== "HEAD" && !forms.includes(url)

const isJson = (contentType: string): boolean => /^application\/json\s*(;|$)/i.test(contentType.trim())

/** Whether the content type of a command proves that no form and no beacon of another origin sent it. */
const isTyped = ({ headers }: HttpServerRequest): boolean => {
  const type = headers["content-type"]
  if (type !== undefined) return isJson(type)
  const isEmpty = headers["transfer-encoding"] === undefined && Number(headers["content-length"] ?? 0) === 0
  return isEmpty && !isFromUnnamedPage(headers)
}

const hostNotAllowed = new HostNotAllowed({
  detail:
    "the API does not answer under this host name: allow the name with ROLLCALL_HTTP_HOSTS, or use 127.0.0.1 or localhost"
})
const originNotAllowed = new OriginNotAllowed({
  detail: "a web page of another origin sent this request. If a proxy in front of Rollcall terminates TLS, " +
    "list its address as https://<name> in ROLLCALL_HTTP_HOSTS"
})
const notJson = new UnsupportedMediaType({
  detail: "a command must be JSON",
  hint: "send it with `Content-Type: application/json`; a browser sends that even if the body is empty"
})
const operateTokenRequired = new OperateTokenRequired({
  detail: "the read token allows GET only: send ROLLCALL_HTTP_TOKEN to run a command"
})
const tokenRequired = new TokenRequired({
  detail: "send `Authorization: Bearer <ROLLCALL_HTTP_TOKEN>`; the rollcall command does this if that variable is set"
})
const wrongToken = new TokenRequired({
  detail: "the token is wrong, or was replaced: send the token that this process was started with " +
    "(ROLLCALL_HTTP_TOKEN or ROLLCALL_HTTP_READ_TOKEN, or the file that holds it)"
})
const tooManyWrongTokens = new TooManyWrongTokens({
  detail: "too many requests with a wrong token are waiting; the right token is answered at once"
})

const refuseToken = (problem: TokenRequired | TooManyWrongTokens) =>
  Effect.map(HttpServerRespondable.toResponse(problem), HttpServerResponse.setHeader("www-authenticate", "Bearer"))

/** Refuses requests that a page of another origin, or of a name that an attacker owns, makes a browser send. */
const refuseForeign = (request: HttpServerRequest, own: OwnOrigin | null) => {
  if (own === null) return hostNotAllowed
  if (isForeign(request.method, request.headers, own)) return originNotAllowed
  if (request.method === "POST" && isCommand(request) && !isTyped(request)) return notJson
  return null
}

export const redirectTo = (location: string) => HttpServerResponse.empty({ status: 303, headers: { location } })

/** The path to open after signing in. A path of another server, such as `//attacker.example`, becomes `/`. */
export const localPath = (path: string | undefined): string =>
  path !== undefined && /^\/(?![/\\])[\x21-\x7e]*$/.test(path) && !path.includes("\\") && !path.startsWith("/log")
    ? path
    : "/"

/** Redirects a browser without a session to the login page. */
const loginFor = (url: string) => redirectTo(`/login?to=${encodeURIComponent(localPath(url))}`)

/** These paths answer everyone: probes, and users who have no session yet. */
const isPublic = ({ method, url }: HttpServerRequest): boolean =>
  url.startsWith("/health/") || /^\/login(\?|$)/.test(url) || (method === "POST" && forms.includes(url))

/** False for requests that the console repeats automatically, because they must not keep a session open forever. */
const isActivity = ({ headers }: HttpServerRequest): boolean => headers["rollcall-refresh"] !== "automatic"

const secretOf = (request: HttpServerRequest, own: OwnOrigin | null): string | undefined =>
  own === null ? undefined : request.cookies[cookieFor(own).name]

/** Interval at which the session or the token of an open stream of events is checked. */
const proofCheck = "5 seconds"

/** Ends a stream of events soon after its session has ended, or after its token was replaced. */
const endWithProof = (
  response: HttpServerResponse.HttpServerResponse,
  isValid: Effect.Effect<boolean>
): HttpServerResponse.HttpServerResponse => {
  const { body } = response
  if (body._tag !== "Stream") return response
  const ended = Effect.repeat(Effect.delay(isValid, proofCheck), { until: (valid) => !valid })
  return HttpServerResponse.setBody(
    response,
    HttpBody.stream(Stream.interruptWhen(body.stream, ended), body.contentType, body.contentLength)
  )
}

/** The sender of a request, and a later check whether its token or session is still valid. */
interface Identity {
  readonly caller: Caller
  readonly isValid: Effect.Effect<boolean>
}

/** The command line identifies itself by its user agent. Any other client could send the same one. */
const actorOf = (request: HttpServerRequest, caller: Caller | null): Actor => ({
  actor: `${caller?.authenticatedBy ?? "no token"}${
    request.headers["user-agent"]?.startsWith("rollcall/") === true ? " (cli)" : ""
  }`,
  address: addressOf(request)
})

const refused = Metric.counter("rollcall_http_refused_total", {
  description:
    "Requests to the operating API that were refused, by reason: host, origin, or a command with the read_token",
  incremental: true
})

/** Makes the middleware. */
export const make = Effect.fnUntraced(function*(access: Reachability) {
  const log = yield* BoundedLog.make("requests were refused by their host name, their origin or the read token")
  const { penalize } = yield* WrongTokens
  const sessions = yield* Sessions
  const tokens = yield* Tokens
  const anyone: Identity = { caller: { scope: "operate", authenticatedBy: "no token" }, isValid: Effect.succeed(true) }

  const refuse = Effect.fnUntraced(
    function*(
      request: HttpServerRequest,
      problem: HostNotAllowed | OriginNotAllowed | OperateTokenRequired | UnsupportedMediaType
    ) {
      if (problem !== notJson) {
        const reason = problem === hostNotAllowed ? "host" : problem === originNotAllowed ? "origin" : "read_token"
        yield* Metric.update(Metric.withAttributes(refused, { reason }), 1)
        yield* log(addressOf(request))
      }
      return yield* HttpServerRespondable.toResponse(problem)
    }
  )

  /** The sender; null if the request has no valid session and no token. For a wrong token, the response that refuses it. */
  const identify = Effect.fnUntraced(function*(request: HttpServerRequest, own: OwnOrigin | null) {
    if (!access.guarded) return anyone
    const sent = bearerOf(request.headers["authorization"])
    if (sent === null) {
      const secret = secretOf(request, own)
      const caller = yield* sessions.find(secret, isActivity(request)).pipe(
        // a public path needs no session
        Effect.catch((error) => isPublic(request) ? Effect.succeed(null) : Effect.flip(toStoreUnavailable(error)))
      )
      if (caller instanceof StoreUnavailable) return yield* HttpServerRespondable.toResponse(caller)
      const isValid = Effect.map(sessions.find(secret, false), (found) => found !== null)
      return caller && { caller, isValid: Effect.catch(isValid, () => Effect.succeed(true)) }
    }
    const grant = tokens.check(sent)
    if (grant !== null) return { caller: grant.caller, isValid: Effect.sync(grant.isValid) }
    const waited = yield* penalize(addressOf(request))
    return yield* refuseToken(waited ? wrongToken : tooManyWrongTokens)
  })

  return Effect.fnUntraced(function*<E, R>(handler: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) {
    const request = yield* HttpServerRequest
    const own = ownOriginOf(request.headers, access)
    const problem = refuseForeign(request, own)
    if (problem !== null) {
      return request.url.startsWith("/health/")
        ? yield* Effect.provideService(handler, CurrentCaller, null)
        : yield* refuse(request, problem)
    }
    const identity = yield* identify(request, own)
    if (HttpServerResponse.isHttpServerResponse(identity)) return identity
    const caller = identity?.caller ?? null
    if (caller === null && !isPublic(request)) {
      return wantsPage(request) ? loginFor(request.url) : yield* refuseToken(tokenRequired)
    }
    if (caller?.scope === "read" && isCommand(request)) {
      return yield* refuse(request, operateTokenRequired)
    }
    const response = yield* handler.pipe(
      Effect.provideService(CurrentCaller, caller),
      Effect.provideService(CurrentActor, actorOf(request, caller))
    )
    return identity === null || identity === anyone ? response : endWithProof(response, identity.isValid)
  })
})
