/**
 * The HTTP clients of Rollcall: every request that it sends to another program goes through one of these.
 *
 * Invariants
 * 1. Redirects are not followed: what a request contains goes only to the server that is configured
 * 2. The clients add no header about traces: Effect's tracing is off in Rollcall, so the ids in such a header would not be valid
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import type { HttpClientError } from "effect/http/HttpClientError"
import type { HttpClientRequest } from "effect/http/HttpClientRequest"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { Agent } from "node:http"
import { Agent as HttpsAgent, type AgentOptions } from "node:https"
import { CurrentProxies, proxyFor } from "./Proxies.ts"
import { checking } from "./SendCheck.ts"

const clientOf = ({ http, https }: NodeHttpClient.HttpAgent["Service"]) =>
  Effect.map(
    Effect.provideService(NodeHttpClient.makeNodeHttp, NodeHttpClient.HttpAgent, {
      http: checking(http),
      https: checking(https)
    }),
    HttpClient.transformResponse(Effect.provideService(HttpClient.TracerDisabledWhen, () => true))
  )

const make = Effect.fnUntraced(function*(options: AgentOptions) {
  const scope = yield* Scope.Scope
  /** By the address of the proxy; "" is the client without one. */
  const clients = new Map<string, HttpClient.HttpClient>()
  const clientVia = Effect.fnUntraced(function*(proxy: string) {
    const made = clients.get(proxy)
    if (made !== undefined) return made
    const proxyEnv = proxy === "" ? {} : { proxyEnv: { HTTP_PROXY: proxy, HTTPS_PROXY: proxy } }
    const agent = NodeHttpClient.makeAgent({ ...options, ...proxyEnv })
    const client = yield* Effect.flatMap(Scope.provide(agent, scope), clientOf)
    clients.set(proxy, client)
    return client
  })
  const send = Effect.fnUntraced(function*(request: HttpClientRequest) {
    const proxy = proxyFor(request.url, yield* CurrentProxies)
    const client = yield* clientVia(proxy === null ? "" : Redacted.value(proxy))
    return yield* client.execute(request)
  })
  return HttpClient.makeWith<never, never, HttpClientError, never>(
    (request) => Effect.flatMap(request, send),
    Effect.succeed
  )
})

/**
 * The client for other servers. A request goes through the proxy that `CurrentProxies` has for its address. Certificates of these servers
 * are verified even if the variable NODE_TLS_REJECT_UNAUTHORIZED turns verification off for the process. `options`: of the connections.
 */
export const layer = (options: AgentOptions = {}): Layer.Layer<HttpClient.HttpClient> =>
  Layer.effect(HttpClient.HttpClient, make({ ...options, rejectUnauthorized: true }))

/**
 * A client for the operating API of a running process. It never uses a proxy, and keeps no connection open. `options`: of its connections
 * over TLS.
 */
export const makeForOperatingApi = (options: AgentOptions = {}): Effect.Effect<HttpClient.HttpClient> =>
  clientOf({ http: new Agent(), https: new HttpsAgent(options) })
