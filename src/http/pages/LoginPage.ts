/**
 * Signing in and out: `GET /login`, `POST /login`, `POST /logout` and `POST /logout/everywhere`.
 *
 * Gotchas
 * - The body of the form is not JSON. A page of another origin cannot send it, because `AccessControl` compares the origins.
 * - After a click on a link on another site, the browser does not send the session's cookie (`SameSite=Strict`): the user sees this
 *   page although the session is open. The page then offers to continue.
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as UrlParams from "effect/http/UrlParams"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { localPath, redirectTo } from "../access/AccessControl.ts"
import { cookieFor, endSessions, Sessions } from "../access/Sessions.ts"
import { Tokens } from "../access/Tokens.ts"
import { WrongTokens } from "../access/WrongTokens.ts"
import { StoreUnavailable } from "../contract/Problem.ts"
import { addressOf, CurrentCaller } from "../request/Caller.ts"
import { toStoreUnavailable } from "../request/FailureResponses.ts"
import { type OwnOrigin, ownOriginOf, type Reachability } from "../request/RequestOrigin.ts"
import { escape, render } from "./Page.ts"

interface Form {
  readonly to: string
  readonly problem?: string
  /** Whether a link on another site led here, so a session may be open. */
  readonly fromElsewhere?: boolean
  readonly status?: number
}

const form = ({ fromElsewhere = false, problem, status = 200, to }: Form) =>
  render(
    "Sign in to Rollcall",
    `<main class="login">
<h1>Rollcall</h1>
${problem === undefined ? "" : `<p role="alert">${escape(problem)}</p>\n`}<form method="post" action="/login">
<input type="hidden" name="to" value="${escape(to)}">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus>
<button>Sign in</button>
</form>
<p>The token is the value of <code>ROLLCALL_HTTP_TOKEN</code> in the environment of Rollcall.
The value of <code>ROLLCALL_HTTP_READ_TOKEN</code> allows reading only.
A session ends half an hour after the last action, even if a page stays open, and at the latest after twelve hours.</p>
${fromElsewhere ? `<p>Already signed in? <a href="${escape(to)}">Continue</a></p>\n` : ""}</main>
`,
    status
  )

const show = Effect.gen(function*() {
  const { headers, url } = yield* HttpServerRequest
  const to = localPath(new URL(url, "http://localhost").searchParams.get("to") ?? undefined)
  const site = headers["sec-fetch-site"]
  return form({ to, fromElsewhere: site === "cross-site" || site === "same-site" })
})

const fields = Effect.gen(function*() {
  const { urlParamsBody } = yield* HttpServerRequest
  const params = yield* urlParamsBody
  const one = (name: string) => Option.getOrUndefined(UrlParams.getFirst(params, name))
  return { token: one("token")?.trim() ?? "", to: localPath(one("to")) }
})

const isForm = (contentType: string | undefined): boolean =>
  /^application\/x-www-form-urlencoded\s*(;|$)/i.test(contentType?.trim() ?? "")

export const layer = (access: Reachability) => {
  const cookieOf = (request: HttpServerRequest) => {
    const own: OwnOrigin = ownOriginOf(request.headers, access) ?? { origin: null, isSecure: access.encrypted }
    return cookieFor(own)
  }

  const signIn = Effect.gen(function*() {
    const request = yield* HttpServerRequest
    const sessions = yield* Sessions
    const { penalize } = yield* WrongTokens
    const { name, options } = cookieOf(request)
    const { to, token } = isForm(request.headers["content-type"]) ? yield* fields : { to: "/", token: "" }
    if (token === "") return form({ to, problem: "Enter a token.", status: 400 })
    const grant = (yield* Tokens).check(token)
    if (grant === null) {
      const waited = yield* penalize(addressOf(request))
      return waited
        ? form({ to, problem: "This token is wrong.", status: 401 })
        : form({ to, problem: "Too many wrong tokens are being entered. Try again.", status: 429 })
    }
    const started = yield* sessions.end(request.cookies[name]).pipe(
      Effect.andThen(sessions.start(grant, addressOf(request))),
      Effect.catch((error) => Effect.flip(toStoreUnavailable(error)))
    )
    if (started instanceof StoreUnavailable) {
      return form({
        to,
        problem: `You are not signed in, because the store does not answer: ${started.detail}`,
        status: 503
      })
    }
    const { id, secret } = started
    yield* Effect.annotateLogs(Effect.logInfo("signed in"), {
      token: grant.caller.authenticatedBy,
      address: addressOf(request),
      session: id
    })
    return HttpServerResponse.setCookieUnsafe(redirectTo(to), name, secret, options)
  })

  const signOut = Effect.gen(function*() {
    const request = yield* HttpServerRequest
    const { name, options } = cookieOf(request)
    const { end } = yield* Sessions
    const failure = yield* end(request.cookies[name]).pipe(
      Effect.as(null),
      Effect.catch((error) => Effect.flip(toStoreUnavailable(error)))
    )
    if (failure !== null) {
      const problem = `The store does not answer, so your session stays open until it expires: ${failure.detail}`
      return HttpServerResponse.expireCookieUnsafe(form({ to: "/", problem, status: 503 }), name, options)
    }
    yield* Effect.annotateLogs(Effect.logInfo("signed out"), { address: addressOf(request) })
    return HttpServerResponse.expireCookieUnsafe(redirectTo("/login"), name, options)
  })

  /** Ends all sessions if the caller has the operate right; else only the sessions with the read right. */
  const signOutEverywhere = Effect.gen(function*() {
    const caller = yield* CurrentCaller
    if (caller?.scope === "operate") yield* endSessions("all", {})
    if (caller?.scope === "read") yield* endSessions("all with the read token", { scope: "read" })
    return yield* signOut
  }).pipe(
    Effect.catchTag(
      "StoreError",
      (error) => Effect.flatMap(Effect.flip(toStoreUnavailable(error)), HttpServerRespondable.toResponse)
    )
  )

  // without a token every request from this machine may do everything, so there is nothing to sign in to
  const { guarded } = access
  return Layer.mergeAll(
    HttpRouter.add("GET", "/login", guarded ? show : Effect.succeed(redirectTo("/"))),
    HttpRouter.add("POST", "/login", guarded ? signIn : Effect.succeed(redirectTo("/"))),
    HttpRouter.add("POST", "/logout", signOut),
    HttpRouter.add("POST", "/logout/everywhere", signOutEverywhere)
  )
}
