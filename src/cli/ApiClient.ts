/**
 * A client of the operating API, for the commands and the demo. Hides requests and decoding.
 */
import * as Effect from "effect/Effect"
import * as Sse from "effect/encoding/Sse"
import { flow } from "effect/Function"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type { HttpClientResponse } from "effect/http/HttpClientResponse"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { HoldView } from "../http/holds/HoldApi.ts"
import { Fault, ReadinessCheck } from "../http/Problem.ts"
import { StreamView } from "../http/streams/StreamApi.ts"
import type { EventView } from "./terminal/Terminal.ts"

/** The process does not answer, refused the request, or is not Rollcall. */
export class ApiClientError extends Schema.TaggedError<ApiClientError>()("ApiClientError", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** One event as the API lists it. */
export interface FeedEvent {
  readonly position: string
  readonly data: EventView & { readonly integration: string; readonly generation: number }
}

export interface ApiClient {
  /** `http://127.0.0.1:8477` */
  readonly url: string
  readonly streams: Effect.Effect<ReadonlyArray<StreamView>, ApiClientError>
  /** Holds that are neither approved nor cancelled, newest first. */
  readonly holds: Effect.Effect<ReadonlyArray<HoldView>, ApiClientError>
  readonly ready: Effect.Effect<ReadonlyArray<typeof ReadinessCheck.Type>, ApiClientError>
  /** Reads the resource at a path. */
  readonly get: <A>(path: string, schema: Schema.ConstraintDecoder<A>) => Effect.Effect<A, ApiClientError>
  /** Sends a command and waits for its response without a time limit. */
  readonly post: <A>(
    path: string,
    body: Schema.Json,
    schema: Schema.ConstraintDecoder<A>
  ) => Effect.Effect<A, ApiClientError>
  /** Every event from the oldest retained one to the newest one at the time of the call. */
  readonly allEvents: Stream.Stream<FeedEvent, ApiClientError>
  /** Events as they happen, after a position or `latest`, as the JSON text that the API sends. Ends when the process ends. */
  readonly follow: (after: string) => Stream.Stream<string, ApiClientError>
}

/** Parses an event without validation, because it comes from our own API. */
export const parseEvent = (text: string): FeedEvent => JSON.parse(text)

const Problem = Schema.fromJsonString(Schema.Struct({
  detail: Schema.String,
  hint: Schema.optionalKey(Schema.String),
  faults: Schema.optionalKey(Schema.Array(Fault))
}))

const explain = ({ detail, faults = [], hint }: typeof Problem.Type): string =>
  [
    hint === undefined ? detail : `${detail}: ${hint}`,
    ...faults.map((fault) => `${fault.where}: ${fault.message}. ${fault.hint}.`)
  ].join("\n  ")

/** Builds the error of a refused request. The hint contains the detail, the hint and the faults of the problem response. */
const toApiClientError = Effect.fnUntraced(function*(response: HttpClientResponse) {
  const problem = yield* Effect.option(Effect.flatMap(response.text, Schema.decodeEffect(Problem)))
  return new ApiClientError({
    message: `the running process refused the request (HTTP ${response.status})`,
    hint: Option.match(problem, { onNone: () => "check ROLLCALL_HTTP_PORT", onSome: explain })
  })
})

const HoldList = Schema.Struct({ items: Schema.Array(HoldView) })
const Streams = Schema.Struct({ items: Schema.Array(StreamView) })
const Readiness = Schema.Struct({ checks: Schema.Array(ReadinessCheck) })
interface EventPage {
  readonly events: ReadonlyArray<FeedEvent>
  readonly next: string
}

/** The time limit of a GET request. Commands (POST) may take longer and have no limit. */
const responseTimeout = "30 seconds"

export interface ServerAddress {
  /** `http://127.0.0.1:8477` */
  readonly url: string
  readonly token: Redacted.Redacted | null
}

export const make = Effect.fnUntraced(function*(options: ServerAddress) {
  const request = HttpClient.mapRequest(flow(
    HttpClientRequest.prependUrl(options.url),
    options.token === null ? (same) => same : HttpClientRequest.bearerToken(options.token)
  ))
  const client = request(yield* HttpClient.HttpClient)
  const unreachable = new ApiClientError({
    message: `no Rollcall process answers at ${options.url}`,
    hint:
      "start it with `rollcall start`, or set ROLLCALL_HTTP_HOST and ROLLCALL_HTTP_PORT to the address it listens on"
  })

  const unresponsive = new ApiClientError({
    message: `the process at ${options.url} accepts connections but does not answer`,
    hint: "the process is suspended or overloaded: resume it or wait, or restart it"
  })

  const send = Effect.fnUntraced(function*(
    request: HttpClientRequest.HttpClientRequest,
    accepted: ReadonlyArray<number>
  ) {
    const response = yield* Effect.mapError(client.execute(request), () => unreachable)
    return accepted.includes(response.status)
      ? response
      : yield* Effect.flatMap(toApiClientError(response), Effect.fail)
  })

  // the kernel accepts connections for a suspended process, so only a timeout detects it
  const get = (path: string, accepted: ReadonlyArray<number> = [200]) =>
    send(HttpClientRequest.get(path), accepted).pipe(
      Effect.timeoutOrElse({ duration: responseTimeout, orElse: () => Effect.fail(unresponsive) })
    )

  const decoded = <A>(
    request: Effect.Effect<HttpClientResponse, ApiClientError>,
    schema: Schema.ConstraintDecoder<A>
  ) =>
    Effect.gen(function*() {
      const response = yield* request
      return yield* Effect.mapError(
        Effect.flatMap(response.json, Schema.decodeUnknownEffect(schema)),
        () =>
          new ApiClientError({
            message: `the server at ${options.url} is not Rollcall`,
            hint: "check ROLLCALL_HTTP_PORT"
          })
      )
    })

  const page = Effect.fnUntraced(function*(after: string | null) {
    const response = yield* get(`/v1/events?limit=1000${after === null ? "" : `&after=${after}`}`)
    const { events, next }: EventPage = JSON.parse(yield* Effect.mapError(response.text, () => unreachable))
    return [events, events.length === 0 ? Option.none<string>() : Option.some(next)] as const
  })

  return {
    url: options.url,
    streams: Effect.map(decoded(get("/v1/streams"), Streams), ({ items }) => items),
    holds: Effect.map(decoded(get("/v1/holds?limit=1000"), HoldList), ({ items }) => items),
    ready: Effect.map(decoded(get("/health/ready", [200, 503]), Readiness), ({ checks }) => checks),
    get: (path, schema) => decoded(get(path), schema),
    post: (path, body, schema) =>
      decoded(send(HttpClientRequest.bodyJsonUnsafe(HttpClientRequest.post(path), body), [200]), schema),
    allEvents: Stream.paginate<string | null, FeedEvent, ApiClientError>(null, page),
    follow: (after) =>
      Stream.unwrap(Effect.map(
        client.get("/v1/events", { urlParams: { after }, accept: "text/event-stream" }).pipe(
          Effect.mapError(() => unreachable),
          Effect.filterOrElse((response) => response.status === 200, (response) =>
            Effect.flatMap(toApiClientError(response), Effect.fail))
        ),
        (response) =>
          response.stream
      )).pipe(
        Stream.decodeText(),
        Stream.mapError((error) => error instanceof ApiClientError ? error : unreachable),
        Stream.pipeThroughChannel(Sse.decode<ApiClientError, unknown>()),
        Stream.map((event) => event.data),
        Stream.mapError((error) => error instanceof ApiClientError ? error : unreachable)
      )
  } satisfies ApiClient
})
