/**
 * Counts every request that the server answers, and logs requests that are refused because they are invalid.
 *
 * Gotchas
 * - Labels and log lines contain the path of a route, never the path that was sent: there are few routes, and a path may contain
 *   the id of a record   (I11)
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import type * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Metric from "effect/Metric"
import { addressOf, CurrentCaller, type Scope } from "../request/Caller.ts"
import { routeOf } from "../request/RouteNotFound.ts"
import * as BoundedLog from "./BoundedLog.ts"

const requests = Metric.counter("rollcall_http_requests_total", {
  description:
    "Requests to the operating API by method, route (none: no such path), status (closed: the client disconnected before the response) "
    + "and right of the caller (operate, read, none). GET /v1/audit/reads shows the callers behind unusual numbers",
  incremental: true
})

const methods: ReadonlySet<string> = new Set(["GET", "HEAD", "POST", "DELETE"])

/** Wrong tokens, missing rights and foreign pages are logged where they are refused. */
const isInvalid = (status: number, route: string): boolean =>
  status === 400 || status === 405 || status === 413 || status === 415 || status === 422 ||
  (status === 404 && route === "none")

/** The right of the caller, which only the inner middleware knows. */
const Right = Context.Reference<{ scope: Scope | "none" }>("rollcall/http/Right", {
  defaultValue: () => ({ scope: "none" })
})

type Handler<E, R> = Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>

/** The inner middleware. Its requests have passed the access control. */
export const noteRight = <E, R>(handler: Handler<E, R>) =>
  Effect.gen(function*() {
    const right = yield* Right
    right.scope = (yield* CurrentCaller)?.scope ?? "none"
    return yield* handler
  })

/**
 * Makes the outer middleware, which gets the final response. A request whose client disconnected before the response has the status
 * `closed`.
 */
export const make = Effect.map(
  BoundedLog.make("requests were refused because they are invalid"),
  (log) => <E, R>(handler: Handler<E, R>) =>
    Effect.gen(function*() {
      const request = yield* HttpServerRequest
      const right = { scope: "none" as const }
      const route = routeOf(request)
      return yield* Effect.onExit(Effect.provideService(handler, Right, right), (exit) => {
        const status = Exit.isSuccess(exit) ? exit.value.status : null
        const labels = {
          method: methods.has(request.method) ? request.method : "other",
          route,
          status: status === null ? "closed" : String(status),
          right: right.scope
        }
        const counted = Metric.update(Metric.withAttributes(requests, labels), 1)
        return status !== null && isInvalid(status, route)
          ? Effect.andThen(counted, log(addressOf(request), { status, route }))
          : counted
      })
    })
)
