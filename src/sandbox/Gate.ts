/**
 * What every endpoint of the API has around it: hides admission, limits, faults, envelopes and the log of requests.
 *
 * Invariants
 * 1. A request passes key, rate limit, integration, subset, permission, limit of concurrency and faults, in this
 *    order, before its endpoint sees it; whichever refuses, the answer is the error envelope.
 * 2. A place in flight is given back however the request ends.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { admit, authenticate } from "./Admission.ts"
import { type Endpoint, methodsAt } from "./Endpoints.ts"
import type { Fault } from "./Faults.ts"
import { absent, Refusal, refused, statusOf } from "./Refusal.ts"
import type { Stage } from "./Stage.ts"

export interface Answer {
  /** A JSON object. */
  readonly data: object
  /** null: this endpoint never warns, the key is left out. */
  readonly warnings: ReadonlyArray<string> | null
}

type Response = HttpServerResponse.HttpServerResponse
type Request = HttpServerRequest.HttpServerRequest

/** The route of an endpoint; `answer` sees what was admitted, with the integration ("" where none is asked). */
export const route = <R>(
  stage: Stage,
  endpoint: Endpoint,
  answer: (integration: string) => Effect.Effect<Answer, Refusal, R>
) =>
  HttpRouter.route(
    endpoint.method,
    endpoint.path,
    recorded(
      stage,
      Effect.gen(function*() {
        const { headers } = yield* HttpServerRequest.HttpServerRequest
        yield* Effect.fromResult(authenticate(stage.key, headers))
        const spent = stage.account.spend(yield* stage.now)
        const served = spent.exceeded
          ? Effect.succeed(overspent(spent.reset))
          : admitted(stage, endpoint, headers, answer)
        return HttpServerResponse.setHeaders(yield* served, spent.headers)
      })
    )
  )

/** The answer to every path and method that is none. */
export const unknown = (stage: Stage) =>
  HttpRouter.route(
    "*",
    "/*",
    recorded(
      stage,
      Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ method, url }) => {
        const path = url.split("?", 1)[0] ?? ""
        const methods = methodsAt(path)
        if (methods.length === 0) return Effect.fail(absent(`There is no ${method} ${path}. Paths begin with /v1.`))
        return Effect.fail(
          new Refusal({
            status: 405,
            code: "PLATFORM.INPUT_INVALID",
            message: `There is no ${method} ${path}.`,
            allow: methods.join(", ")
          })
        )
      })
    )
  )

const overspent = (reset: number): Response =>
  new Refusal({
    status: 429,
    code: "PLATFORM.RATE_LIMIT_EXCEEDED",
    message: "The request budget of this key is used up.",
    retryAfter: reset
  }).response

const admitted = <R>(
  stage: Stage,
  endpoint: Endpoint,
  headers: Request["headers"],
  answer: (integration: string) => Effect.Effect<Answer, Refusal, R>
): Effect.Effect<Response, never, R | Request> =>
  Effect.fromResult(admit(stage.world, stage.account, endpoint, headers)).pipe(
    Effect.flatMap((integration) => {
      const served = struck(stage, endpoint, integration, answer(integration ?? ""))
      return endpoint.live && integration !== null ? inFlight(stage, integration, served) : served
    }),
    enveloped
  )

const inFlight = <R>(stage: Stage, integration: string, served: Effect.Effect<Response, Refusal, R>) =>
  Effect.suspend(() => {
    const slot = stage.account.enter(integration)
    const within = slot.exceeded
      ? Effect.fail(refused("PLATFORM.CONCURRENCY_LIMIT_EXCEEDED", "Wait until a request in flight is answered."))
      : Effect.ensuring(served, Effect.sync(slot.leave))
    return Effect.map(enveloped(within), HttpServerResponse.setHeaders(slot.headers))
  })

/** The answer, or what a fault makes of it. */
const struck = <R>(
  stage: Stage,
  { name }: Endpoint,
  integration: string | null,
  answer: Effect.Effect<Answer, Refusal, R>
): Effect.Effect<Response, Refusal, R | Request> =>
  Effect.gen(function*() {
    const fault = stage.faults.strike(integration, name)
    if (fault !== null) yield* before(stage, fault)
    const { data, warnings } = yield* answer
    const messages = warnings &&
      [...warnings, ...(stage.faults.warns() ? ["The connected system answered slowly."] : [])]
    const text = JSON.stringify({
      status: "success",
      data,
      ...(messages && { warnings: messages.map((message) => ({ message })) })
    })
    if (fault?.kind === "lost") yield* broken
    return spoilt(text, fault)
  })

/** Breaks the connection: nobody gets an answer any more. */
const broken = Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
  NodeHttpServerRequest.toServerResponse(request).destroy()
  return Effect.never
})

/** Faults that need no answer to spoil. */
const before = (stage: Stage, fault: Fault): Effect.Effect<void, Refusal, Request> => {
  const refuse = (status: number, code: string, message: string) => {
    const retryAfter = fault.retryAfter === undefined && status === 429 ? 1 : fault.retryAfter
    return Effect.fail(new Refusal({ status, code, message, ...(retryAfter != null && { retryAfter }) }))
  }
  switch (fault.kind) {
    case "rate_limit":
      return refuse(429, "PLATFORM.RATE_LIMIT_EXCEEDED", "The request budget of this key is used up.")
    case "server_error": {
      const status = fault.status ?? stage.faults.serverError()
      const code = status === 500 ? "PLATFORM.UNKNOWN_ERROR" : "REMOTE.SERVICE_UNAVAILABLE"
      return refuse(status, code, "The request could not be served.")
    }
    case "refusal": {
      const code = fault.code ?? "PLATFORM.UNKNOWN_ERROR"
      return refuse(fault.status ?? statusOf(code), code, "The request is refused, as was asked for.")
    }
    case "delay":
      return Effect.sleep(fault.delay ?? 1000)
    case "drop":
      return broken
    default:
      return Effect.void
  }
}

const spoilt = (text: string, fault: Fault | null): Response => {
  switch (fault?.kind) {
    case "truncated":
      return HttpServerResponse.text(text.slice(0, Math.floor(text.length * 0.7)), { contentType: "application/json" })
    case "html":
      return HttpServerResponse.text("<!doctype html><title>Maintenance</title><h1>Back soon</h1>", {
        contentType: "text/html"
      })
    default:
      return HttpServerResponse.text(text, { contentType: "application/json" })
  }
}

const enveloped = <R>(effect: Effect.Effect<Response, Refusal, R>): Effect.Effect<Response, never, R> =>
  Effect.catch(effect, (refusal) => Effect.succeed(refusal.response))

/** What was answered is written down. */
const recorded = <R>(stage: Stage, effect: Effect.Effect<Response, Refusal, R>) =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const at = new Date(yield* stage.now).toISOString()
    const [path = "", query = ""] = request.url.split("?", 2)
    const write = (status: number | null) =>
      stage.record({
        at,
        method: request.method,
        path,
        query,
        integration: request.headers["x-integration-id"] ?? null,
        status
      })
    return yield* enveloped(effect).pipe(
      Effect.tap((response) => write(response.status)),
      Effect.onInterrupt(() => write(null))
    )
  })
