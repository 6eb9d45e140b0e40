/**
 * Requests to the HTTP servers beside Kafka: the token endpoint and the schema registry.
 *
 * Invariants
 * 1. A login is sent only to the server that is configured, whose certificate is verified: redirects are not followed
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as Option from "effect/Option"
import * as OutgoingHttp from "../../network/OutgoingHttp.ts"
import { CurrentProxies, describe, proxyFor } from "../../network/Proxies.ts"

export interface ServerResponse {
  readonly status: number
  /** The JSON; none if the body is something else. */
  readonly body: Option.Option<unknown>
}

const timeout = Duration.seconds(10)
const client = OutgoingHttp.layer()

/** The code of the error, or of an error that it wraps. */
const codeOf = (error: unknown, depth = 0): string | null => {
  if (typeof error !== "object" || error === null || depth > 5) return null
  if ("code" in error && typeof error.code === "string") return error.code
  return (["reason", "cause"] as const).reduce<string | null>(
    (found, name) => found ?? (name in error ? codeOf((error as Record<string, unknown>)[name], depth + 1) : null),
    null
  )
}

/** Fails with a few words about why there is no response. */
export const send = (request: HttpClientRequest.HttpClientRequest): Effect.Effect<ServerResponse, string> =>
  HttpClient.execute(request).pipe(
    Effect.flatMap((response) =>
      Effect.map(Effect.option(response.json), (body) => ({ status: response.status, body }))
    ),
    Effect.provide(client),
    Effect.catch((error) =>
      Effect.flatMap(CurrentProxies, (proxies) => {
        const proxy = proxyFor(request.url, proxies)
        return Effect.fail(
          `${codeOf(error) ?? "unknown error"}${proxy === null ? "" : `, through the proxy ${describe(proxy)}`}`
        )
      })
    ),
    Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail("no response within 10 seconds") })
  )
