/**
 * Names the route of a request, and answers requests that match no route: 405 if the path exists with another method, 404 otherwise. A
 * browser that opens an unknown path gets a page (`console/ConsolePage.ts`).
 *
 * Gotchas
 * - HEAD is allowed wherever GET is: the router answers it without a body.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as FindMyWay from "effect/http/FindMyWay"
import { HttpServerError } from "effect/http/HttpServerError"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { Api } from "../contract/Api.ts"
import { MethodNotAllowed, NotFound } from "../contract/Problem.ts"
import { assetPaths, consolePaths } from "./ConsolePaths.ts"

/** Paths that are served but are not part of the API contract. */
const pages = [...consolePaths, ...assetPaths, "/docs", "/login", "/metrics", "/openapi.json"] as const
/** The forms of these pages, which are not commands. */
export const forms: ReadonlyArray<string> = ["/login", "/logout", "/logout/everywhere"]
/**
 * Paths contain percent-encoded integration ids. With the router's default limit of 100, integrations with long ids could not be removed.
 */
export const maxParameterLength = 3 * 255

const known = FindMyWay.make<string>({ maxParamLength: maxParameterLength })
for (const { endpoints } of Object.values(Api.groups)) {
  for (const { method, path } of Object.values(endpoints)) known.on(method, path, path)
}
for (const page of pages) known.on("GET", page, page)

const methodsOf = (url: string): ReadonlyArray<string> => [
  ...(known.find("GET", url) === undefined ? [] : ["GET", "HEAD"]),
  ...(known.find("POST", url) === undefined && !forms.includes(url) ? [] : ["POST"]),
  ...(known.find("DELETE", url) === undefined ? [] : ["DELETE"])
]

const methods = ["GET", "POST", "DELETE"] as const

/** The path of the route of a request, such as `/v1/holds/:id`, even if it does not support the method; `none` if there is no such path. */
export const routeOf = ({ method, url }: HttpServerRequest): string => {
  for (const one of [...methods.filter((own) => own === method), ...methods]) {
    const found = known.find(one, url)
    if (found !== undefined) return found.handler
  }
  return forms.find((form) => form === url) ?? "none"
}

/** Whether the router found no route. */
export const isRouteNotFound = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) =>
    Cause.isFailReason(reason) && reason.error instanceof HttpServerError &&
    reason.error.reason._tag === "RouteNotFound"
  )

/** Whether a browser opens the path as a page. */
export const wantsPage = ({ headers, method }: HttpServerRequest): boolean =>
  method === "GET" && headers["accept"]?.includes("text/html") === true

/** Whether the path is served with some method. */
export const isKnown = ({ url }: HttpServerRequest): boolean => methodsOf(url).length > 0

export const respond = Effect.gen(function*() {
  const { method, url } = yield* HttpServerRequest
  const methods = methodsOf(url)
  if (methods.length === 0) {
    return yield* HttpServerRespondable.toResponse(
      new NotFound({ detail: "no resource has this path; GET /docs lists every path" })
    )
  }
  const allowed = methods.join(", ")
  const problem = new MethodNotAllowed({ detail: `this path does not support ${method}`, hint: `use ${allowed}` })
  return HttpServerResponse.setHeader(yield* HttpServerRespondable.toResponse(problem), "allow", allowed)
})
