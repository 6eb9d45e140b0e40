/**
 * Headers that limit what a browser may do with a response.
 *
 * Gotchas
 * - `Referrer-Policy: no-referrer` would be stricter, but with it browsers send `Origin: null` with forms of our own pages.
 * - A response that sets its own `Content-Security-Policy` keeps it.
 * - JSON that a user opens by a link is shown; otherwise a browser saves it. Without the file name a browser would take the name from
 *   the address, so a link could make a user save a response as `setup.bat`.
 */
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { isNavigation, ownOriginOf, type Reachability } from "./RequestOrigin.ts"

const headers = {
  "cache-control": "no-store",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "same-origin",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY"
}

/** For responses that are not pages: a browser must not execute, embed or submit anything in them. */
const nothing = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** The name under which a browser saves JSON. */
const file = `filename="api.json"`

/** For a response that no handler sends, as JSON: a browser saves it. */
export const withoutHandler: Readonly<Record<string, string>> = {
  ...headers,
  "content-disposition": `attachment; ${file}`,
  "content-security-policy": nothing
}

/** For a year, and only for this host, because other hosts of the domain may not use TLS. */
const transportSecurity = { "strict-transport-security": "max-age=31536000" }

const isJson = (contentType: string | undefined): boolean =>
  /^application\/(?:[a-z-]+\+)?json\b/.test(contentType ?? "")

/** The middleware that adds these headers to every response. */
export const add =
  (reachability: Reachability) => <E, R>(handler: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    Effect.gen(function*() {
      const request = yield* HttpServerRequest
      const { host } = request.headers
      const isSecure = ownOriginOf({ host }, reachability)?.isSecure ?? reachability.encrypted
      const response = yield* handler
      const disposition = `${isNavigation(request.headers) ? "inline" : "attachment"}; ${file}`
      return HttpServerResponse.setHeaders(response, {
        ...headers,
        ...(isSecure ? transportSecurity : {}),
        ...(isJson(response.headers["content-type"]) ? { "content-disposition": disposition } : {}),
        "content-security-policy": response.headers["content-security-policy"] ?? nothing
      })
    })
