/**
 * Reports the HTTP requests of a plugin to other servers, however it sends them: with the capability `fetch`, with the global one, or with a
 * library. Node.js publishes each request on diagnostics channels, so nothing is replaced.
 *
 * Gotchas
 * - The query of an address is left out, because it may contain a secret.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import type { ClientRequest } from "node:http"
import { oneLine, paint, timeOfDay } from "../../telemetry/TerminalText.ts"

/** A request that has a response, or has failed. */
export interface SentRequest {
  /** When it ended, in ms. */
  readonly at: number
  readonly method: string
  /** Without its query. */
  readonly url: string
  /** The status of the response; null if none arrived. */
  readonly status: number | null
}

const line = (at: number, plugin: string, name: string, ...details: ReadonlyArray<string>): string =>
  [paint("gray", timeOfDay(at)), paint("bold", `→ ${plugin}`.padEnd(29)), name.padEnd(24), ...details].join("  ")

/** `14:02:12Z  → tag-hires  live ats.application  4uSvWq`: a read of the unified API. */
export const readText = (plugin: string, read: string, id: string | null, at: number): string =>
  line(at, plugin, read, ...id === null ? [] : [id])

/** `14:02:12Z  → tag-hires  POST  https://chat.example/hook  200` */
export const requestText = (plugin: string, { at, method, status, url }: SentRequest): string =>
  line(
    at,
    plugin,
    method,
    url,
    status === null ? paint("red", "no response") : paint(status < 400 ? "green" : "red", String(status))
  )

/** `14:02:12Z  → tag-hires  addTag  {"tag":{"name":"hired"}}  not sent`: a request of a dry run. */
export const plannedText = (plugin: string, what: string, body: unknown, at: number): string =>
  line(at, plugin, what, oneLine(JSON.stringify(body) ?? ""), paint("gray", "not sent"))

/** A request of the global `fetch`. */
interface FetchRequest {
  readonly origin: string | URL
  readonly path: string
  readonly method: string
}

const addressOf = (request: FetchRequest | ClientRequest): URL | null =>
  "origin" in request
    ? URL.parse(request.path, request.origin)
    : URL.parse(request.path, `${request.protocol}//${String(request.getHeader("host") ?? request.host)}`)

/** A message of the channels. */
interface Published {
  readonly request: FetchRequest | ClientRequest
  readonly response?: { readonly statusCode?: number | undefined }
}

const channels = [
  "undici:request:headers",
  "undici:request:error",
  "http.client.response.finish",
  "http.client.request.error"
]

/** Shows each request to another server than `own` until the scope ends. `own`: the origin of the simulated API. */
export const showRequests = (
  own: string,
  show: (request: SentRequest) => void
): Effect.Effect<void, never, Scope.Scope> => {
  const seen = new WeakSet<object>()
  const listener = (message: unknown) => {
    // each of these channels publishes messages of this form
    const { request, response } = message as Published
    const address = addressOf(request)
    if (address === null || address.origin === own || seen.has(request)) return
    seen.add(request)
    show({
      at: Date.now(),
      method: request.method,
      url: `${address.origin}${address.pathname}`,
      status: response?.statusCode ?? null
    })
  }
  return Effect.acquireRelease(
    Effect.sync(() => {
      for (const channel of channels) subscribe(channel, listener)
    }),
    () =>
      Effect.sync(() => {
        for (const channel of channels) unsubscribe(channel, listener)
      })
  )
}
