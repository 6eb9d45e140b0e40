/** Ends the HTTP requests of a handler when it ends. */
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Scope from "effect/Scope"
import type { HandlerEffect } from "./Capabilities.ts"

/**
 * Closes the connections of the handler's requests when it ends. Otherwise a response whose body the handler does not read, and that the other
 * server does not end, would keep its connection open as long as the process runs.
 */
export const endingRequests = (handler: HandlerEffect): HandlerEffect =>
  Effect.scopedWith((scope) =>
    Effect.updateService(
      handler,
      HttpClient.HttpClient,
      (client) => HttpClient.transformResponse(HttpClient.withScope(client), Effect.provideService(Scope.Scope, scope))
    )
  )
