/**
 * A client of the operating API, for the commands and the demo. Effect derives its methods from the contract `http/Api.ts`;
 * this module adds the address, the token, time limits and errors with a hint.
 *
 * Gotchas
 * - Requests are sent unchecked: the server checks them, and its problem response names each fault with a hint.
 * - At run time every error is an `ApiClientError`, even where the derived types name other errors.
 */
import * as Effect from "effect/Effect"
import * as Sse from "effect/encoding/Sse"
import { flow, identity } from "effect/Function"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiClient from "effect/http-api/HttpApiClient"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type { HttpClientResponse } from "effect/http/HttpClientResponse"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Model } from "../../domain/Model.ts"
import { withoutValue } from "../../domain/Quote.ts"
import { Api } from "../../http/contract/Api.ts"
import { Fault, NotReady } from "../../http/contract/Problem.ts"
import { version } from "../../http/contract/Version.ts"
import type { EventData } from "../../publish/EventSchema.ts"
import { oneLine } from "../../telemetry/TerminalText.ts"
import type { EventView } from "../terminal/EventLines.ts"

/**
 * The process does not answer, refused the request, or is not Rollcall. `interrupted`: the connection ended after the request was sent, so
 * the process may have carried it out.
 */
export class ApiClientError extends Schema.TaggedError<ApiClientError>()("ApiClientError", {
  reason: Schema.Literals(["unreachable", "unresponsive", "interrupted", "foreign", "refused", "invalid"]),
  /** Of a refused request. */
  status: Schema.optionalKey(Schema.Number),
  message: Schema.String,
  hint: Schema.String
}) {}

/** One event as the API lists it. */
export interface FeedEvent {
  readonly position: string
  readonly data: EventView & Pick<EventData, "integration" | "generation">
}

/** Parses an event without validation, because it comes from our own API. */
export const parseEvent = (text: string): FeedEvent => JSON.parse(text)

export interface EventQuery {
  readonly after?: string
  readonly model?: ReadonlyArray<Model>
  readonly limit: number
}

export interface EventPage {
  readonly events: ReadonlyArray<FeedEvent>
  readonly next: string
}

const Problem = Schema.fromJsonString(Schema.Struct({
  detail: Schema.String,
  hint: Schema.optionalKey(Schema.String),
  faults: Schema.optionalKey(Schema.Array(Fault))
}))

const explain = ({ detail, faults = [], hint }: typeof Problem.Type): string =>
  [
    hint === undefined ? detail : `${detail}: ${hint}`,
    ...faults.map((fault) => `${fault.where}: ${fault.message}. ${fault.hint}.`)
  ].map(oneLine).join("\n  ")

/** The error of a refused request. Its hint contains the detail, the hint and the faults of the problem response. */
const refusal = Effect.fnUntraced(function*(response: HttpClientResponse) {
  const problem = yield* Effect.option(Effect.flatMap(response.text, Schema.decodeEffect(Problem)))
  return yield* new ApiClientError({
    reason: Option.isNone(problem) ? "foreign" : "refused",
    status: response.status,
    message: `the running process refused the request (HTTP ${response.status})`,
    hint: Option.match(problem, { onNone: () => "check ROLLCALL_HTTP_PORT", onSome: explain })
  })
})

/** The code of the innermost error in a chain of causes. */
export const codeOf = (error: unknown): string => {
  if (typeof error !== "object" || error === null) return ""
  const own = "code" in error && typeof error.code === "string" ? error.code : ""
  const inner = "reason" in error ? codeOf(error.reason) : "cause" in error ? codeOf(error.cause) : ""
  return inner === "" ? own : inner
}

/** Why an encrypted connection failed, or null if that is not the reason. */
const explainTls = (url: string, error: unknown): ApiClientError | null => {
  const code = codeOf(error)
  if (/WRONG_VERSION_NUMBER|^EPROTO$|PACKET_LENGTH/.test(code)) {
    return new ApiClientError({
      reason: "foreign",
      message: `the server at ${url} does not use TLS`,
      hint: "remove ROLLCALL_HTTP_TLS_CA_FILE, or start the process with ROLLCALL_HTTP_TLS_CERT_FILE"
    })
  }
  if (/ALERT/.test(code)) {
    return new ApiClientError({
      reason: "refused",
      message: `the server at ${url} does not accept the certificate of this command, or requires one (${code})`,
      hint: "set ROLLCALL_HTTP_TLS_CLIENT_CERT_FILE and ROLLCALL_HTTP_TLS_CLIENT_KEY_FILE to a certificate that the " +
        "authority in the server's ROLLCALL_HTTP_TLS_CLIENT_CA_FILE signed"
    })
  }
  if (!/CERT|SIGNATURE|ALTNAME/.test(code)) return null
  return new ApiClientError({
    reason: "foreign",
    message: `the certificate of the server at ${url} is not trusted (${code})`,
    hint: "set ROLLCALL_HTTP_TLS_CA_FILE to the certificate of the authority that signed it; " +
      "the certificate must contain the name or address in ROLLCALL_HTTP_HOST"
  })
}

/** The time limit of a request that only reads. Commands (POST) may take longer and have no limit. */
const responseTimeout = "30 seconds"

export interface ServerAddress {
  /** `http://127.0.0.1:8477` */
  readonly url: string
  readonly token: Redacted.Redacted | null
}

interface After {
  readonly after?: string
}

/** The pages of a list. */
export const pagesOf = <Page extends { readonly next: string | null }, E, R>(
  read: (after: After) => Effect.Effect<Page, E, R>
): Stream.Stream<Page, E, R> =>
  Stream.paginate({}, (after: After) =>
    Effect.map(
      read(after),
      (page) => [[page], Option.map(Option.fromNullOr(page.next), (after) => ({ after }))] as const
    ))

/** All items of a list. */
export const allItems = <A, E, R>(
  read: (after: After) => Effect.Effect<{ readonly items: ReadonlyArray<A>; readonly next: string | null }, E, R>
): Effect.Effect<ReadonlyArray<A>, E, R> =>
  Effect.map(Stream.runCollect(pagesOf(read)), (pages) => pages.flatMap(({ items }) => items))

const uncheckedApi = Api.annotate(HttpApi.ParseOptions, { disableChecks: true })

export const make = Effect.fnUntraced(function*({ token, url }: ServerAddress) {
  const shown = withoutValue(url, URL.parse(url)?.hostname ?? url)
  const isTls = url.startsWith("https:")
  // a server may close the connection of a client without a certificate before the client has read why
  const certificateHint = isTls
    ? "; if its clients need a certificate, set ROLLCALL_HTTP_TLS_CLIENT_CERT_FILE and ROLLCALL_HTTP_TLS_CLIENT_KEY_FILE"
    : ""
  const unreachable = new ApiClientError({
    reason: "unreachable",
    message: `no Rollcall process answers at ${shown}`,
    hint:
      "start it with `rollcall start`, or set ROLLCALL_HTTP_HOST and ROLLCALL_HTTP_PORT to the address it listens on" +
      (isTls ? certificateHint : "; if it uses TLS, set ROLLCALL_HTTP_TLS_CA_FILE")
  })
  const unresponsive = new ApiClientError({
    reason: "unresponsive",
    message: `the process at ${shown} accepts connections but does not answer`,
    hint: "the process is suspended or overloaded: resume it or wait, or restart it"
  })
  const interrupted = new ApiClientError({
    reason: "interrupted",
    message: `the connection to the process at ${shown} ended before it answered`,
    hint: "the process may have been restarted; the request may have been carried out, in whole or in part" +
      certificateHint
  })
  const notRollcall = new ApiClientError({
    reason: "foreign",
    message: `the server at ${shown} is not Rollcall`,
    hint: "check ROLLCALL_HTTP_PORT"
  })

  const httpClient = (yield* HttpClient.HttpClient).pipe(
    HttpClient.mapRequest(flow(
      HttpClientRequest.prependUrl(url),
      HttpClientRequest.setHeaders({ "user-agent": `rollcall/${version}`, "cache-control": "no-cache" }),
      token === null ? identity : HttpClientRequest.bearerToken(token)
    )),
    HttpClient.transform((response, request) =>
      response.pipe(
        Effect.mapError((error) =>
          explainTls(url, error) ?? (/^(ECONNRESET|EPIPE)$/.test(codeOf(error)) ? interrupted : unreachable)
        ),
        Effect.filterOrElse(
          ({ status }) => status === 200 || (status === 503 && request.url.endsWith("/health/ready")),
          refusal
        ),
        // the kernel accepts connections for a suspended process, so only a timeout detects it
        request.method === "GET" || request.url.endsWith("/progress")
          ? Effect.timeoutOrElse({ duration: responseTimeout, orElse: () => Effect.fail(unresponsive) })
          : identity
      )
    )
  )
  const api = yield* HttpApiClient.makeWith(uncheckedApi, {
    httpClient,
    transformResponse: Effect.mapError((error) => error instanceof NotReady ? error : notRollcall)
  })

  const readPage = Effect.fnUntraced(function*(query: EventQuery) {
    const response = yield* api.feed.events({ query, headers: {}, responseMode: "response-only" })
    const text = yield* Effect.mapError(response.text, () => unreachable)
    const page: EventPage = yield* Effect.try({ try: () => JSON.parse(text), catch: () => notRollcall })
    return page
  })
  const page = Effect.fnUntraced(function*(after: After) {
    const { events, next } = yield* readPage({ ...after, limit: 1000 })
    return [events, events.length === 0 ? Option.none() : Option.some({ after: next })] as const
  })

  const decodeIntegration = HttpApiClient.decodeResponse(Api, { group: "integrations", endpoint: "add" })

  return {
    ...api,
    url,
    readiness: api.health.ready().pipe(
      Effect.catchTag("NotReady", ({ checks }) => Effect.succeed({ checks, cause: null }))
    ),
    /** The response is text only for a request of server-sent events. */
    currentOverview: Effect.flatMap(
      api.overview.show(),
      (view) => typeof view === "string" ? Effect.fail(notRollcall) : Effect.succeed(view)
    ),
    /** The body is sent unchecked, so that the server reports all faults, including unknown names of models. */
    addIntegration: (body: unknown) =>
      httpClient.execute(HttpClientRequest.bodyJsonUnsafe(HttpClientRequest.post("/v1/integrations"), body)).pipe(
        Effect.flatMap((response) => Effect.mapError(decodeIntegration(response), () => notRollcall))
      ),
    /** Every stream, in the order of integration and model. */
    allStreams: allItems((after) => api.streams.streams({ query: { ...after, limit: 1000 } })),
    /** Position of the newest event. */
    newestPosition: Effect.map(readPage({ after: "latest", limit: 1 }), ({ next }) => next),
    eventPage: readPage,
    /** Every event from the oldest retained one to the newest one at the time of the call. */
    allEvents: Stream.paginate({}, page),
    /**
     * Events as they happen, as the JSON text that the API sends. The stream ends when the process stops, which does not complete its
     * response, or when the connection does. The query is sent unchecked, so that the server reports its faults.
     */
    follow: (query: Readonly<Record<string, string>>) => {
      const request = HttpClientRequest.get("/v1/events", { urlParams: query, accept: "text/event-stream" })
      return Stream.unwrap(Effect.map(httpClient.execute(request), ({ stream }) => stream)).pipe(
        Stream.decodeText(),
        Stream.pipeThroughChannel(Sse.decode()),
        Stream.map((event) => event.data),
        Stream.catch((error) => error instanceof ApiClientError ? Stream.fail(error) : Stream.empty)
      )
    }
  }
})

export type ApiClient = Effect.Success<ReturnType<typeof make>>
