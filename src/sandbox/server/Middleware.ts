/**
 * The code around every endpoint: authorization, limits, faults, envelopes and the request log.
 *
 * Source: docs/contract.md, "Authentication".
 *
 * Invariants
 * 1. A request passes these checks in this order before the endpoint handles it: key, rate limit, integration, offered
 *    endpoints, permission, concurrency limit, faults. A failed check responds with the error envelope.
 * 2. A concurrency slot is always released when the request ends.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import { toolOf } from "../../api/Tools.ts"
import { ApiError, apiError, invalidInput, notFound, statusOf } from "../world/ApiError.ts"
import { allowedMethods, type Endpoint } from "./Endpoints.ts"
import type { InjectedFault } from "./FaultInjection.ts"
import type { SandboxState } from "./SandboxState.ts"

export interface EndpointResult {
  /** A JSON object. */
  readonly data: object
  /** Null if this endpoint never sends warnings, so the response has no `warnings` key. */
  readonly warnings: ReadonlyArray<string> | null
}

type Response = HttpServerResponse.HttpServerResponse
type Request = HttpServerRequest.HttpServerRequest

/** The route of an endpoint; `handler` receives the integration of an authorized request ("" if the endpoint takes none). */
export const route = <R>(
  state: SandboxState,
  endpoint: Endpoint,
  handler: (integration: string) => Effect.Effect<EndpointResult, ApiError, R>
) =>
  HttpRouter.route(
    endpoint.method,
    endpoint.path,
    withRequestLog(
      state,
      Effect.gen(function*() {
        const { headers } = yield* HttpServerRequest.HttpServerRequest
        yield* authenticate(state.key, headers)
        const { exceeded, headers: limitHeaders, reset } = state.account.countRequest(yield* state.now)
        const response = exceeded
          ? Effect.fail(apiError("PLATFORM.RATE_LIMIT_EXCEEDED", rateLimitMessage, { retryAfter: reset }))
          : withAuthorization(state, endpoint, headers, handler)
        const named = { ...limitHeaders, "sandbox-world": state.id }
        return HttpServerResponse.setHeaders(yield* toErrorResponse(response), named)
      })
    )
  )

const rateLimitMessage = "The request budget of this key is used up."

/** Rejects every key except `key`. */
const authenticate = (key: string, headers: Request["headers"]): Effect.Effect<void, ApiError> => {
  const given = headers["authorization"]
  const [, token] = /^bearer +(.*)$/i.exec(given ?? "") ?? []
  if (token === key) return Effect.void
  return Effect.fail(apiError(
    "PLATFORM.AUTHENTICATION_INVALID",
    given === undefined ? "Send the API key as `Authorization: Bearer <key>`." : "The API key is not valid."
  ))
}

/** The requested integration, null if the endpoint belongs to the account; or the error that rejects the request. */
const authorize = (
  { account, world }: SandboxState,
  endpoint: Endpoint,
  headers: Request["headers"]
): Effect.Effect<string | null, ApiError> => {
  if (endpoint.category === null) return Effect.succeed(null)
  const id = headers["x-integration-id"]
  if (id === undefined || id === "") return Effect.fail(invalidInput("Send the header X-Integration-Id."))
  const integration = world.integrations.find((integration) => integration.id === id)
  if (integration === undefined) {
    return Effect.fail(apiError("PLATFORM.INTEGRATION_NOT_FOUND", `There is no integration "${id}".`))
  }
  if (!integration.categories.includes(endpoint.category) || !account.hasEndpoint(toolOf(id), endpoint)) {
    const what = endpoint.kind === "write" ? "ACTION" : "MODEL"
    const message = `"${id}" does not offer ${endpoint.method} ${endpoint.path.slice("/v1".length)}.`
    return Effect.fail(apiError(`INTEGRATION.${what}_NOT_AVAILABLE`, message))
  }
  if (account.isMissingPermission(endpoint)) {
    const message = `The permission "${endpoint.permission}" is not enabled in the scope configuration.`
    return Effect.fail(apiError("INTEGRATION.PERMISSION_MISSING", message))
  }
  return Effect.succeed(id)
}

/** The response for a path or a method that does not exist. */
export const routeNotFound = (state: SandboxState) =>
  HttpRouter.route(
    "*",
    "/*",
    withRequestLog(
      state,
      Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ method, url }) => {
        const path = url.split("?", 1)[0] ?? ""
        const methods = allowedMethods(path)
        return Effect.fail(
          methods.length === 0
            ? notFound(`There is no ${method} ${path}. Paths begin with /v1.`)
            : apiError("PLATFORM.INPUT_INVALID", `There is no ${method} ${path}.`, {
              status: 405,
              allow: methods.join(", ")
            })
        )
      })
    )
  )

const withAuthorization = <R>(
  state: SandboxState,
  endpoint: Endpoint,
  headers: Request["headers"],
  handler: (integration: string) => Effect.Effect<EndpointResult, ApiError, R>
): Effect.Effect<Response, ApiError, R | Request> =>
  Effect.flatMap(authorize(state, endpoint, headers), (integration) => {
    const response = withFaults(state, endpoint, integration, handler(integration ?? ""))
    return endpoint.forwarded && integration !== null ? withConcurrencyLimit(state, integration, response) : response
  })

const withConcurrencyLimit = <R>(
  state: SandboxState,
  integration: string,
  response: Effect.Effect<Response, ApiError, R>
) =>
  Effect.suspend(() => {
    const slot = state.account.acquireSlot(integration)
    const limited = slot.exceeded
      ? Effect.fail(apiError("PLATFORM.CONCURRENCY_LIMIT_EXCEEDED", "Wait until a request in flight is answered."))
      : Effect.ensuring(response, Effect.sync(slot.release))
    return Effect.map(toErrorResponse(limited), HttpServerResponse.setHeaders(slot.headers))
  })

/** The response, changed by a fault if one was picked. */
const withFaults = <R>(
  state: SandboxState,
  { name }: Endpoint,
  integration: string | null,
  handled: Effect.Effect<EndpointResult, ApiError, R>
): Effect.Effect<Response, ApiError, R | Request> =>
  Effect.gen(function*() {
    const fault = state.faults.pickFault(integration, name)
    if (fault !== null) yield* applyFaultBefore(state, fault)
    const { data, warnings } = yield* handled
    const messages = warnings &&
      [...warnings, ...(state.faults.shouldWarn() ? ["The connected system answered slowly."] : [])]
    const text = JSON.stringify({
      status: "success",
      data,
      ...(messages && { warnings: messages.map((message) => ({ message })) })
    })
    if (fault?.kind === "drop_response") yield* dropConnection
    return corruptResponse(text, fault)
  })

/** Breaks the connection; the client gets no response. */
const dropConnection = Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
  NodeHttpServerRequest.toServerResponse(request).destroy()
  return Effect.never
})

/** Applies the faults that act before the endpoint runs. */
const applyFaultBefore = (state: SandboxState, fault: InjectedFault): Effect.Effect<void, ApiError, Request> => {
  const refuse = (status: number, code: string, message: string) => {
    const retryAfter = fault.retryAfter === undefined && status === 429 ? 1 : fault.retryAfter
    return Effect.fail(apiError(code, message, { status, ...(retryAfter != null && { retryAfter }) }))
  }
  switch (fault.kind) {
    case "rate_limit":
      return refuse(429, "PLATFORM.RATE_LIMIT_EXCEEDED", rateLimitMessage)
    case "server_error": {
      const status = fault.status ?? state.faults.pickServerErrorStatus()
      const code = status === 500 ? "PLATFORM.UNKNOWN_ERROR" : "REMOTE.SERVICE_UNAVAILABLE"
      return refuse(status, code, "The request could not be served.")
    }
    case "api_error": {
      const code = fault.code ?? "PLATFORM.UNKNOWN_ERROR"
      return refuse(fault.status ?? statusOf(code), code, "The request is rejected by an injected fault.")
    }
    case "delay":
      return Effect.sleep(fault.delay ?? 1000)
    case "drop_request":
      return dropConnection
    default:
      return Effect.void
  }
}

const corruptResponse = (text: string, fault: InjectedFault | null): Response => {
  if (fault?.kind === "html") {
    return HttpServerResponse.html("<!doctype html><title>Maintenance</title><h1>Back soon</h1>")
  }
  const sent = fault?.kind === "truncated" ? text.slice(0, Math.floor(text.length * 0.7)) : text
  return HttpServerResponse.text(sent, { contentType: "application/json" })
}

/** Responds to an `ApiError` with the error envelope. */
export const toErrorResponse = <E, R>(
  effect: Effect.Effect<Response, ApiError | E, R>
): Effect.Effect<Response, Exclude<E, ApiError>, R> =>
  Effect.catchIf(
    effect,
    (error): error is ApiError => error instanceof ApiError,
    ({ allow, envelope, retryAfter, status }) =>
      Effect.succeed(HttpServerResponse.jsonUnsafe(envelope, {
        status,
        headers: {
          ...(status === 401 && { "www-authenticate": "Bearer" }),
          ...(retryAfter !== undefined && { "retry-after": String(retryAfter) }),
          ...(allow !== undefined && { allow })
        }
      }))
  ) as Effect.Effect<Response, Exclude<E, ApiError>, R>

/** Adds every request, with its response status, to the request log. */
const withRequestLog = <R>(state: SandboxState, effect: Effect.Effect<Response, ApiError, R>) =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    const at = new Date(yield* state.now).toISOString()
    const [path = "", query = ""] = request.url.split("?", 2)
    const write = (status: number | null) =>
      state.recordRequest({
        at,
        method: request.method,
        path,
        query,
        integration: request.headers["x-integration-id"] ?? null,
        status
      })
    return yield* toErrorResponse(effect).pipe(
      Effect.tap((response) => write(response.status)),
      Effect.onInterrupt(() => write(null))
    )
  })
