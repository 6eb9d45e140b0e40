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
import * as Layer from "effect/Layer"
import { Agent } from "node:http"
import { Agent as HttpsAgent, type AgentOptions } from "node:https"
import { checking } from "./SendCheck.ts"

const clientOf = ({ http, https }: NodeHttpClient.HttpAgent["Service"]) =>
  Effect.map(
    Effect.provideService(NodeHttpClient.makeNodeHttp, NodeHttpClient.HttpAgent, {
      http: checking(http),
      https: checking(https)
    }),
    HttpClient.transformResponse(Effect.provideService(HttpClient.TracerDisabledWhen, () => true))
  )

/**
 * The client for other servers. It verifies certificates even if the variable NODE_TLS_REJECT_UNAUTHORIZED turns verification off for
 * the process. `options`: of its connections.
 */
export const layer = (options: AgentOptions = {}): Layer.Layer<HttpClient.HttpClient> =>
  Layer.effect(
    HttpClient.HttpClient,
    Effect.flatMap(NodeHttpClient.makeAgent({ ...options, rejectUnauthorized: true }), clientOf)
  )

/** A client for the operating API of a running process. It keeps no connection open. `options`: of its connections over TLS. */
export const makeForOperatingApi = (options: AgentOptions = {}): Effect.Effect<HttpClient.HttpClient> =>
  clientOf({ http: new Agent(), https: new HttpsAgent(options) })
