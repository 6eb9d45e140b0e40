/**
 * The HTTP clients of Rollcall: every request that it sends to another program goes through one of these.
 *
 * Invariants
 * 1. Redirects are not followed: what a request contains goes only to the server that is configured
 * 2. The clients add no header about traces: Effect's tracing is off in Rollcall, so the ids in such a header would not be valid
 * 3. A request with a check is checked again when its connection is open: `withSendCheck`
 *
 * Gotchas
 * - node:http gives a request to a socket that is still connecting, and the socket sends it as soon as it is connected. The check is the
 *   first listener of that event, so if it fails, nothing is sent.
 * - A connection that is reused is open already, so its requests need no second check.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import type { HttpClientError } from "effect/http/HttpClientError"
import type { HttpClientRequest } from "effect/http/HttpClientRequest"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { Agent } from "node:http"
import { Agent as HttpsAgent, type AgentOptions } from "node:https"
import { CurrentProxies, proxyFor } from "./Proxies.ts"

// ---- the check when the connection is open -----------------------------------------------------------------------------

/** Returns why the request of this fiber must no longer be sent, or null. */
const SendCheck = Context.Reference<() => unknown>("rollcall/network/SendCheck", { defaultValue: () => () => null })

/**
 * Checks a request again when its connection is open. While the request waited for the address of the host, for the connection and for
 * TLS, its account may have been paused, or its slot may have expired. `check` must be synchronous. If it fails, the request fails, and its
 * `cause` is the error of the check.
 */
export const withSendCheck = (check: Effect.Effect<void, Error>) => <A, E, R>(request: Effect.Effect<A, E, R>) =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.provideService(request, SendCheck, () => {
      const exit = Effect.runSyncExitWith(context)(check)
      return Exit.isSuccess(exit) ? null : Cause.squash(exit.cause)
    })
  )

/** An agent that runs the check of `withSendCheck`. */
const checking = <A extends Agent>(agent: A): A => {
  const connect = agent.createConnection.bind(agent)
  agent.createConnection = (options, done) => {
    const check = Fiber.getCurrent()?.getRef(SendCheck)
    const run = (socket: ReturnType<typeof connect>) => {
      const obstacle = check?.()
      if (obstacle instanceof Error) socket?.destroy(obstacle)
    }
    // The callback gets a tunnel through a proxy when the tunnel is open. If the proxy refuses it, nothing is sent, and an error of its
    // socket would have no listener and end the process.
    // Without the time after which the agent closes idle connections: for node:https it is also the limit for opening a tunnel.
    const socket = connect({ ...options, timeout: undefined }, (error, tunnel) => {
      if (!(error instanceof Error)) run(tunnel)
      done?.(error, tunnel)
    })
    // over TLS, the first of these events comes too early: the request is sent after the second one
    for (const event of ["connect", "secureConnect"]) socket?.once(event, () => run(socket))
    return socket
  }
  return agent
}

// ---- clients -----------------------------------------------------------------------------------------------------------

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
