/**
 * What is answered where no route takes a request: 405 where the path is asked otherwise, 404 where nothing is.
 *
 * Gotchas
 * - HEAD is taken wherever GET is: the router answers it without the body.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as FindMyWay from "effect/http/FindMyWay"
import { HttpServerError } from "effect/http/HttpServerError"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { Api } from "./Api.ts"
import { MethodNotAllowed, NotFound } from "./Problem.ts"

/** What is served beside the API. */
const pages = ["/", "/docs", "/metrics", "/openapi.json"] as const

const known = FindMyWay.make<true>()
for (const { endpoints } of Object.values(Api.groups)) {
  for (const { method, path } of Object.values(endpoints)) known.on(method, path, true)
}
for (const page of pages) known.on("GET", page, true)

const methodsOf = (url: string): ReadonlyArray<string> => [
  ...(known.find("GET", url) === undefined ? [] : ["GET", "HEAD"]),
  ...(known.find("POST", url) === undefined ? [] : ["POST"])
]

/** Whether the router found nothing. */
export const isRouteNotFound = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) =>
    Cause.isFailReason(reason) && reason.error instanceof HttpServerError &&
    reason.error.reason._tag === "RouteNotFound"
  )

export const respond = Effect.gen(function*() {
  const { method, url } = yield* HttpServerRequest
  const methods = methodsOf(url)
  if (methods.length === 0) {
    return yield* HttpServerRespondable.toResponse(new NotFound({ detail: "GET /docs lists what there is" }))
  }
  const allowed = methods.join(", ")
  const problem = new MethodNotAllowed({ detail: `this path takes no ${method}`, hint: `ask with ${allowed}` })
  return HttpServerResponse.setHeader(yield* HttpServerRespondable.toResponse(problem), "allow", allowed)
})
