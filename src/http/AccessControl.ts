/**
 * Refuses requests to the operating API without the token or, if none is configured, from another host or web page.
 *
 * Invariants
 * 1. If a token is configured, a request without the token gets an answer only from `/health/*`   (I11)
 * 2. If no token is configured, only this machine is served, and only under its loopback names. A web page that makes a
 *    local browser send a request gets no data (DNS rebinding) and cannot run a command (forged POST)
 */
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Redacted from "effect/Redacted"
import { createHash, timingSafeEqual } from "node:crypto"
import { HostNotAllowed, OriginNotAllowed, TokenRequired } from "./Problem.ts"

const digest = (text: string) => createHash("sha256").update(text).digest()

/** Compares in constant time, so that the duration reveals nothing about the token. */
const isToken = (token: Redacted.Redacted, authorization: string | undefined): boolean =>
  timingSafeEqual(
    digest(`Bearer ${Redacted.value(token)}`),
    digest((authorization ?? "").replace(/^bearer +/i, "Bearer "))
  )

const loopbackHost = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/i

const isLoopbackOrigin = (origin: string): boolean => loopbackHost.test(origin.replace(/^https?:\/\//, ""))

/** Checks every request before its handler runs. */
export const layer = (token: Redacted.Redacted | null) =>
  HttpRouter.middleware((handler) =>
    Effect.gen(function*() {
      const request = yield* HttpServerRequest
      if (request.url.startsWith("/health/")) return yield* handler
      if (token === null && !loopbackHost.test(request.headers["host"] ?? "localhost")) {
        return yield* HttpServerRespondable.toResponse(
          new HostNotAllowed({ detail: "use 127.0.0.1 or localhost as the host name, or set ROLLCALL_HTTP_TOKEN" })
        )
      }
      const { origin } = request.headers
      if (token === null && request.method === "POST" && origin !== undefined && !isLoopbackOrigin(origin)) {
        return yield* HttpServerRespondable.toResponse(
          new OriginNotAllowed({ detail: "send the request from outside a browser, or set ROLLCALL_HTTP_TOKEN" })
        )
      }
      if (token !== null && !isToken(token, request.headers["authorization"])) {
        const problem = new TokenRequired({
          detail:
            "send `Authorization: Bearer <ROLLCALL_HTTP_TOKEN>`; the rollcall command does this if that variable is set"
        })
        const response = yield* HttpServerRespondable.toResponse(problem)
        return HttpServerResponse.setHeader(response, "www-authenticate", "Bearer")
      }
      return yield* handler
    }), { global: true })
