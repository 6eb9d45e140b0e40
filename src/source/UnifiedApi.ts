/**
 * The unified API over HTTP: the adapter of `Source`. Hides addresses, keys, retries and whose turn it is.
 *
 * Invariants
 * 1. Every request of a reading carries all its filters; the cursor comes on top
 * 2. The key goes to the account's own address and nowhere else: no redirect is followed
 * 3. A request ends within `timeout`, counted to the last byte of its answer
 *
 * Gotchas
 * - Waiting for a turn counts neither as time of the request nor as a try.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { type IncrementalModel, lists, pageSize } from "../api/Lists.ts"
import * as Answer from "./Answer.ts"
import * as Governor from "./Governor.ts"
import { type Page, type PageRequest, Source, SourceError, Transient } from "./Source.ts"
import * as Warnings from "./Warnings.ts"

export interface Account {
  /** Ends in `/v1`. */
  readonly url: string
  readonly key: Redacted.Redacted<string>
}

export interface Options {
  readonly accounts: Readonly<Record<string, Account>>
  /** First delay between two tries; it doubles up to half a minute, jittered by a fifth. */
  readonly retryBase: Duration.Input
  /** For one request, answer included; a minute by default. */
  readonly timeout?: Duration.Input
  /** Largest answer, unpacked; 32 MiB by default. */
  readonly maxBytes?: number
  /** Most requests under way at once per account; 8 by default. */
  readonly concurrency?: number
}

interface Governed extends Account {
  readonly governor: Governor.Governor
}

const requests = Metric.counter("rollcall_api_requests_total", {
  description: "Requests to the unified API by model and outcome.",
  incremental: true
})
const requestSeconds = Metric.histogram("rollcall_api_request_seconds", {
  description: "Time from sending a request to the last byte of its answer.",
  boundaries: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
})
const throttles = Metric.counter("rollcall_api_throttled_total", {
  description: "Refusals of the unified API for its rate limit.",
  incremental: true
})

const longestDelay = Duration.seconds(30)
const retries: Partial<Record<SourceError["reason"]["_tag"], number>> = { Transient: 5, Unreadable: 2 }
/** Refusals one try waits out before it gives up; the account's pauses lie between them. */
const patience = 12

const outcomeOf = (exit: Exit.Exit<unknown, SourceError>): string =>
  Exit.match(exit, {
    onSuccess: () => "ok",
    onFailure: (cause) =>
      Option.match(Cause.findErrorOption(cause), { onNone: () => "interrupted", onSome: (error) => error.reason._tag })
  })

/** Milliseconds since it was made, on a clock that nobody sets   (W4). */
const stopwatch = Effect.map(
  Clock.monotonicTimeNanos,
  (start) => Effect.map(Clock.monotonicTimeNanos, (end) => Number(end - start) / 1e6)
)

const measured = (model: IncrementalModel) => <A, E extends SourceError, R>(request: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const elapsed = yield* stopwatch
    return yield* Effect.onExit(request, (exit) =>
      Effect.gen(function*() {
        const outcome = outcomeOf(exit)
        yield* Metric.update(Metric.withAttributes(requests, { model, outcome }), 1)
        yield* Metric.update(requestSeconds, (yield* elapsed) / 1000)
      }))
  })

/** A refusal for the rate limit slows down the whole account, before its turn is given to the next. */
const slowDown = (account: string, governor: Governor.Governor) => ({ reason }: SourceError): Effect.Effect<void> =>
  reason._tag === "RateLimited"
    ? Effect.andThen(
      governor.throttled(reason.retryAfter === null ? null : Duration.millis(reason.retryAfter)),
      Metric.update(Metric.withAttributes(throttles, { account }), 1)
    )
    : Effect.void

/** The wait a failed answer asked for itself (503 with `Retry-After`). */
const asked = ({ reason }: SourceError): Duration.Duration =>
  reason._tag === "Transient"
    ? Duration.min(Duration.millis(reason.retryAfter ?? 0), Governor.longestPause)
    : Duration.zero

const isRateLimited = (error: SourceError): boolean => error.reason._tag === "RateLimited"

const disconnected = (error: HttpClientError.HttpClientError): SourceError => {
  const cause = error.reason.cause
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : error.reason._tag
  return new SourceError({ reason: new Transient({ code: null, message: `the connection failed (${code})` }) })
}

const timedOut = (timeout: Duration.Duration): SourceError =>
  new SourceError({
    reason: new Transient({ code: null, message: `no complete answer within ${Duration.format(timeout)}` })
  })

const queryOf = (request: PageRequest): Record<string, string> => ({
  page_size: String(pageSize.max),
  include_deleted: "true",
  ignore_unsupported_filters: "true",
  ...(request.updatedAfter === null ? {} : { updated_after: new Date(request.updatedAfter).toISOString() }),
  ...(request.ids === null ? {} : { ids: request.ids.join(",") }),
  ...(request.cursor === null ? {} : { cursor: request.cursor })
})

/** The client to provide: node:http, which follows no redirects; its agent keeps connections only when told to. */
export const httpClient: Layer.Layer<HttpClient.HttpClient> = NodeHttpClient.layerNodeHttpOptions({ keepAlive: true })

/** `Source` over the accounts' addresses. Any `HttpClient` will do that does not follow redirects by itself. */
export const layer = (options: Options): Layer.Layer<Source, never, HttpClient.HttpClient> =>
  Layer.effect(
    Source,
    Effect.gen(function*() {
      const client = yield* HttpClient.HttpClient
      const timeout = Duration.fromInputUnsafe(options.timeout ?? "1 minute")
      const retryBase = Duration.fromInputUnsafe(options.retryBase)
      const maxBytes = options.maxBytes ?? 32 * 1024 * 1024
      const accounts = new Map<string, Governed>()
      for (const [name, account] of Object.entries(options.accounts)) {
        const governor = yield* Governor.make({ concurrency: options.concurrency ?? 8, retryBase })
        accounts.set(name, { ...account, governor })
      }
      const noteWarnings = Warnings.make()

      const backoff = Schedule.min([Schedule.exponential(retryBase), Schedule.spaced(longestDelay)]).pipe(
        Schedule.jittered,
        Schedule.setInputType<SourceError>(),
        Schedule.modifyDelay(({ duration, input }) => Effect.succeed(Duration.max(duration, asked(input)))),
        Schedule.while(({ attempt, input }) => attempt <= (retries[input.reason._tag] ?? 0))
      )

      const send = Effect.fnUntraced(function*(
        request: PageRequest,
        account: Governed
      ): Effect.fn.Return<Page, SourceError | HttpClientError.HttpClientError> {
        const requestedAt = yield* Clock.currentTimeMillis
        const elapsed = yield* stopwatch
        const response = yield* client.execute(
          HttpClientRequest.get(account.url + lists[request.model].path, {
            urlParams: queryOf(request),
            headers: { "x-integration-id": request.integration, "accept-encoding": "gzip" },
            acceptJson: true
          }).pipe(HttpClientRequest.bearerToken(account.key))
        )
        const empty = Answer.budgetEmptyFor(response.headers, requestedAt)
        if (empty !== null) yield* account.governor.pause(empty)
        const { next, results, warnings } = yield* Answer.read(response, maxBytes, requestedAt)
        yield* noteWarnings(request.model, warnings)
        const duration = yield* elapsed
        return { results, next, serverTime: Answer.serverTimeOf(response.headers), requestedAt, duration }
      })

      const page = Effect.fn("Source.page")(function*(request: PageRequest) {
        const account = accounts.get(request.account)
        if (account === undefined) return yield* Effect.die(new Error(`there is no account "${request.account}"`))
        return yield* send(request, account).pipe(
          Effect.provideService(HttpClient.TracerPropagationEnabled, false),
          Effect.catchTag("HttpClientError", (error) => Effect.fail(disconnected(error))),
          Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(timedOut(timeout)) }),
          measured(request.model),
          Effect.tapError(slowDown(request.account, account.governor)),
          account.governor.run(request.integration, request.priority), // whose turn it is
          Effect.retry({ while: isRateLimited, times: patience }), // the account's pause is the wait
          Effect.retry(backoff)
        )
      })

      return { page }
    })
  )
