/**
 * The unified API over HTTP: the adapter of `Source`. Hides URLs, keys, retries and the order of requests.
 *
 * Invariants
 * 1. After a rate-limit response arrived, no request is sent until the requested wait is over   (R1)
 * 2. The key is sent only to the account's own URL: redirects are not followed
 * 3. A request ends within `timeout`, measured until the last byte of its response
 * 4. A write is sent again only if the API certainly did nothing, or if sending it twice is safe
 * 5. A write is sent only while it has a slot, and its hooks run only then, for every attempt
 *
 * Gotchas
 * - Waiting for a slot counts neither toward the request's timeout nor as an attempt.
 * - `RequestScheduler` and `CircuitBreakers` replace those of Effect's HTTP client: its limiter guesses windows and
 *   retries out of order, and its breaker does not see bodies, which contain the API's error codes.
 */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { identity } from "effect/Function"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { cursorParameter, pageSize } from "../api/Lists.ts"
import type { EndpointName } from "../api/Permissions.ts"
import { type ReadName, readSchemas } from "../api/Reads.ts"
import { Empty, type WriteData, type WriteName, writes, writeSchemas } from "../api/Writes.ts"
import { isDeeper, maxDepth } from "../domain/Canonical.ts"
import * as ApiRequest from "./ApiRequest.ts"
import * as ApiResponse from "./ApiResponse.ts"
import * as CircuitBreakers from "./CircuitBreakers.ts"
import * as Failures from "./Failures.ts"
import * as Outages from "./Outages.ts"
import * as RequestScheduler from "./RequestScheduler.ts"
import * as SendAttempt from "./SendAttempt.ts"
import {
  Inactive,
  type Invalid,
  type PageRequest,
  RateLimited,
  type ReadData,
  type ReadRequest,
  type SendHooks,
  type SlotWaitAborted,
  Source,
  SourceError,
  Unauthorized,
  type WriteError,
  type WriteRequest
} from "./Source.ts"
import * as Warnings from "./Warnings.ts"

export interface Account {
  /** Ends in `/v1`. */
  readonly url: string
  /** The current key; read for each request, and once more if the API rejects it. */
  readonly key: Effect.Effect<Redacted.Redacted>
  /** Name of the lists' cursor parameter; `cursor` by default. */
  readonly cursorParameter?: string
}

export interface Options {
  readonly accounts: Readonly<Record<string, Account>>
  /**
   * First delay between two attempts; it doubles up to 30 seconds, with a jitter of 20 %. The circuit of a failing
   * integration opens for ten times this duration, doubling up to a minute.
   */
  readonly retryBase: Duration.Input
  /** For one request including its response; a minute by default. */
  readonly timeout?: Duration.Input
  /** Largest page of a list, decompressed; 32 MiB by default. Other responses may have an eighth of this size. */
  readonly maxBytes?: number
  /** Maximum number of requests in flight at once per account; 8 by default. */
  readonly concurrency?: number
}

interface AccountContext extends Account {
  readonly scheduler: RequestScheduler.RequestScheduler
  readonly circuits: CircuitBreakers.CircuitBreakers
  readonly outages: Outages.Outages
  /** Handles a rate-limit response, which slows down the whole account. */
  readonly slowDown: (retryAfter: Duration.Duration | null) => Effect.Effect<void>
}

interface ResponseFormat<A> {
  readonly decode: ApiResponse.DataDecoder<A>
  readonly maxBytes: number
}

interface TimedResponse<A> {
  readonly data: A
  /** As in `Page`. */
  readonly serverTime: number | null
  readonly requestedAt: number
  readonly duration: number
}

const requests = Metric.counter("rollcall_api_requests_total", {
  description: "Requests to the unified API by endpoint and outcome.",
  incremental: true
})
const requestSeconds = Metric.histogram("rollcall_api_request_seconds", {
  description: "Time from sending a request to the last byte of its response.",
  boundaries: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
})
const circuitRejections = Metric.counter("rollcall_api_circuit_rejected_total", {
  description: "Requests not sent because the circuit of their integration is open.",
  incremental: true
})
const rateLimitRefusals = Metric.counter("rollcall_api_throttled_total", {
  description: "Rate-limit responses of the unified API.",
  incremental: true
})

const maxRetryDelay = Duration.seconds(30)
const maxRetries: Partial<Record<SourceError["reason"]["_tag"], number>> = { Transient: 5, Unreadable: 2 }
/** How often one attempt is repeated after a rate-limit response; the account's pause separates the repetitions. */
const maxRateLimitRetries = 12

const outcomeOf = (exit: Exit.Exit<unknown, SourceError>): string =>
  Exit.match(exit, {
    onSuccess: () => "ok",
    onFailure: (cause) =>
      Option.match(Cause.findErrorOption(cause), { onNone: () => "interrupted", onSome: (error) => error.reason._tag })
  })

/** Starts a stopwatch; the inner effect returns the elapsed milliseconds of the monotonic clock   (W4). */
const stopwatch = Effect.map(
  Clock.monotonicTimeNanos,
  (start) => Effect.map(Clock.monotonicTimeNanos, (end) => Number(end - start) / 1e6)
)

const withMetrics = (endpoint: EndpointName) => <A, E extends SourceError, R>(request: Effect.Effect<A, E, R>) =>
  Effect.gen(function*() {
    const elapsed = yield* stopwatch
    return yield* Effect.onExit(request, (exit) =>
      Effect.gen(function*() {
        const outcome = outcomeOf(exit)
        yield* Metric.update(Metric.withAttributes(requests, { endpoint, outcome }), 1)
        yield* Metric.update(requestSeconds, (yield* elapsed) / 1000)
      }))
  })

/** Why a request ends without data. */
type RequestError = SourceError | CircuitBreakers.CircuitOpen | SlotWaitAborted | SendAttempt.HookFailed<unknown>

/** The wait that an error response requested (503 with `Retry-After`), else zero. */
const retryAfterOf = (error: RequestError): Duration.Duration =>
  error._tag === "SourceError" && error.reason._tag === "Transient"
    ? Duration.min(Duration.millis(error.reason.retryAfter ?? 0), RequestScheduler.maxPause)
    : Duration.zero

/** Requests that were rejected by an open circuit, aborted while waiting, or stopped by a hook are not retried. */
const retriesOf = (error: RequestError): number => error._tag === "SourceError" ? maxRetries[error.reason._tag] ?? 0 : 0

const isTooLarge = ({ reason }: SourceError): boolean => reason._tag === "Unreadable" && reason.tooLarge === true

const isRateLimited = (error: RequestError | HttpClientError.HttpClientError): boolean =>
  error._tag === "SourceError" && error.reason._tag === "RateLimited"

/**
 * `inSlot` waits for a slot and then runs its argument, so the key is read only when the request has its slot. If the API
 * rejects the key and the key has been replaced in the meantime, the request is sent again with the new key.
 */
const withCurrentKey = <A, E>(
  key: Account["key"],
  mayRepeat: (error: SourceError) => boolean,
  send: (key: Redacted.Redacted) => Effect.Effect<A, SourceError | E>,
  inSlot: (
    send: Effect.Effect<A, SourceError | E>
  ) => Effect.Effect<A, SourceError | E | CircuitBreakers.CircuitOpen | SlotWaitAborted>
) =>
  Effect.suspend(() => {
    let used: Redacted.Redacted | null = null
    const sent = inSlot(Effect.flatMap(key, (current) => send(used = current)))
    return Effect.catchReason(sent, "SourceError", "Unauthorized", (_, error) =>
      Effect.flatMap(
        key,
        (current) =>
          used === null || Redacted.value(current) === Redacted.value(used) || !mayRepeat(error)
            ? Effect.fail(error)
            : sent
      ))
  })

const paused = new SourceError({
  reason: new RateLimited({
    code: null,
    message: "not sent: a rate-limit response to another request has paused the account",
    retryAfter: null,
    notSent: true
  })
})

/** Explains to the operator why all streams of the account make no progress. */
const logLongPause = (account: string, requested: Duration.Duration | null): Effect.Effect<void> =>
  requested === null || Duration.isLessThan(requested, Duration.minutes(1)) ? Effect.void : Effect.logWarning(
    "the API requested a long rate-limit pause: the account sends no requests until it ends"
  ).pipe(Effect.annotateLogs({
    account,
    requested: Duration.format(requested),
    waits: Duration.format(Duration.min(requested, RequestScheduler.maxPause))
  }))

// ---- decoders -----------------------------------------------------------------------------------------------------

const decoderFor = <A>(name: string, schema: Schema.Codec<A, unknown>): ApiResponse.DataDecoder<A> => {
  const decode = Schema.decodeUnknownResult(schema)
  return (data) =>
    isDeeper(data, maxDepth)
      ? Result.fail(`the data is nested deeper than ${maxDepth} levels`)
      : Result.mapError(decode(data), () => `the data does not match the schema of ${name}`)
}

/** For writes without a result: any data, or none, is accepted. */
const ignoreData: ApiResponse.DataDecoder<typeof Empty.Type> = () => Result.succeed({})

// ---- adapter ------------------------------------------------------------------------------------------------------

/** Idle connections are closed after this time (ms), before the server closes them and cuts off a write just sent. */
const idleTimeoutMillis = 4_000

/** The client to provide: node:http, which follows no redirects. Its agent reuses connections only with `keepAlive`. */
export const httpClient: Layer.Layer<HttpClient.HttpClient> = NodeHttpClient.layerNodeHttpOptions({
  keepAlive: true,
  timeout: idleTimeoutMillis
})

/** Whether a header can contain the text. For other text node:http throws, which would end the whole process. */
const isHeaderSafe = (text: string): boolean => !/[^\t\x20-\x7e\x80-\xff]/.test(text)

const toHttpRequest = (
  call: ApiRequest.ApiRequest,
  url: string,
  key: Redacted.Redacted
): HttpClientRequest.HttpClientRequest =>
  HttpClientRequest.make(call.method)(url + call.path, {
    urlParams: call.query,
    headers: {
      "accept-encoding": "gzip",
      ...(call.integration !== null && { "x-integration-id": call.integration })
    },
    acceptJson: true
  }).pipe(
    HttpClientRequest.bearerToken(key),
    call.body === null ? identity : HttpClientRequest.bodyText(call.body, "application/json")
  )

/** `Source` over HTTP. Requires an `HttpClient` that does not follow redirects. */
export const layer = (options: Options): Layer.Layer<Source, never, HttpClient.HttpClient> =>
  Layer.effect(
    Source,
    Effect.gen(function*() {
      const client = yield* HttpClient.HttpClient
      const timeout = Duration.fromInputUnsafe(options.timeout ?? "1 minute")
      const retryBase = Duration.fromInputUnsafe(options.retryBase)
      const maxBytes = options.maxBytes ?? 32 * 1024 * 1024
      const accounts = new Map<string, AccountContext>()
      for (const [name, account] of Object.entries(options.accounts)) {
        const scheduler = yield* RequestScheduler.make({ concurrency: options.concurrency ?? 8, retryBase })
        const circuits = yield* CircuitBreakers.make({ firstPause: Duration.times(retryBase, 10) })
        const outages = yield* Outages.make(name)
        const throttled = Metric.update(Metric.withAttributes(rateLimitRefusals, { account: name }), 1)
        const slowDown = (retryAfter: Duration.Duration | null) =>
          Effect.all([scheduler.onRateLimited(retryAfter), throttled, logLongPause(name, retryAfter)], {
            discard: true
          })
        accounts.set(name, { ...account, scheduler, circuits, outages, slowDown })
      }
      const noteWarnings = Warnings.make()

      const backoff = Schedule.min([Schedule.exponential(retryBase), Schedule.spaced(maxRetryDelay)]).pipe(
        Schedule.jittered,
        Schedule.setInputType<RequestError>(),
        Schedule.modifyDelay(({ duration, input }) => Effect.succeed(Duration.max(duration, retryAfterOf(input)))),
        Schedule.while(({ attempt, input }) => attempt <= retriesOf(input))
      )

      /** Sends one request. The limits in the response headers apply immediately, before the body is read. */
      const sendOnce = Effect.fnUntraced(function*<A>(
        call: ApiRequest.ApiRequest,
        account: AccountContext,
        key: Redacted.Redacted,
        { decode, maxBytes }: ResponseFormat<A>,
        beforeSend: Effect.Effect<void, SourceError>
      ): Effect.fn.Return<TimedResponse<A>, SourceError | HttpClientError.HttpClientError> {
        if (!isHeaderSafe(Redacted.value(key))) {
          const message = "the key contains characters that are not allowed in an HTTP header"
          return yield* new SourceError({ reason: new Unauthorized({ code: null, message, notSent: true }) })
        }
        const requestedAt = yield* Clock.currentTimeMillis
        const elapsed = yield* stopwatch
        const request = toHttpRequest(call, account.url, key)
        yield* beforeSend
        const response = yield* client.execute(request)
        const { headers, status } = response
        const slowDown = account.slowDown(ApiResponse.retryAfterOf(headers, requestedAt))
        if (status === 429) yield* slowDown
        const resetAfter = ApiResponse.rateLimitResetAfter(headers, requestedAt)
        if (resetAfter !== null) yield* account.scheduler.pause(resetAfter)
        const concurrency = ApiResponse.concurrencyOf(headers)
        if (concurrency !== null && call.live) {
          const { limit, remaining } = concurrency
          yield* account.scheduler.updateLiveLimit(call.integration ?? "", limit, remaining)
        }
        const { data, warnings } = yield* ApiResponse.read(response, { maxBytes, decode, now: requestedAt }).pipe(
          Effect.tapError((error) => status !== 429 && isRateLimited(error) ? slowDown : Effect.void)
        )
        yield* noteWarnings(call.endpoint, warnings)
        return { data, serverTime: ApiResponse.serverTimeOf(headers), requestedAt, duration: yield* elapsed }
      })

      /** Sends until the request succeeds or another attempt would not help. */
      const sendWithRetries = Effect.fnUntraced(function*<A, E extends SendAttempt.HookFailed<unknown> = never>(
        call: ApiRequest.ApiRequest,
        format: ResponseFormat<A>,
        mayRepeat: (error: SourceError) => boolean = () => true,
        attempt: SendAttempt.SendAttempt<E> = SendAttempt.withoutHooks
      ): Effect.fn.Return<TimedResponse<A>, SourceError | E> {
        const account = accounts.get(call.account)
        if (account === undefined) {
          const message = `the configuration has no account "${call.account}"`
          return yield* new SourceError({ reason: new Unauthorized({ code: null, message, notSent: true }) })
        }
        const integration = call.integration ?? ""
        if (!isHeaderSafe(integration)) {
          const message =
            `the integration id "${integration}" contains characters that are not allowed in an HTTP header`
          return yield* new SourceError({ reason: new Inactive({ code: null, message, notSent: true }) })
        }
        const mayRetry = (error: RequestError | CircuitBreakers.CircuitOpen) =>
          error._tag === "SourceError" && mayRepeat(error)
        const sendWith = (key: Redacted.Redacted) => (beforeSend: Effect.Effect<void, SourceError>) =>
          sendOnce(call, account, key, format, beforeSend).pipe(
            Effect.provideService(HttpClient.TracerPropagationEnabled, false),
            Effect.catchTag("HttpClientError", (error) => Effect.fail(Failures.fromConnectionError(error))),
            Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(Failures.timedOut(timeout)) }),
            withMetrics(call.endpoint),
            account.outages.watch(call.integration)
          )
        const ready = Effect.flatMap(account.scheduler.isPaused, (is) => is ? Effect.fail(paused) : Effect.void)
        const inSlot = (send: Effect.Effect<TimedResponse<A>, SourceError | E>) =>
          send.pipe(
            account.circuits.guard(integration),
            account.scheduler.run(integration, call.priority, call.live),
            // No delay here: the scheduler has paused the account.
            Effect.retry({ while: (error) => isRateLimited(error) && mayRetry(error), times: maxRateLimitRetries })
          )
        // The hooks run last, after the slot and the circuit are checked.
        const attemptWith = (key: Redacted.Redacted) => attempt(sendWith(key), ready)
        return yield* withCurrentKey(account.key, mayRepeat, attemptWith, inSlot).pipe(
          Effect.retry(Schedule.while(backoff, ({ input }) => mayRetry(input))),
          Effect.tapError((error) => error._tag === "CircuitOpen" ? Metric.update(circuitRejections, 1) : Effect.void),
          Effect.mapError(Failures.fromUnsent)
        )
      })

      /** Page size per list. It never grows again: if the API's cursor counts pages, larger pages would skip rows. */
      const pageSizes = new Map<string, number>()

      const page = Effect.fn("Source.page")(function*(request: PageRequest) {
        const { account, integration, model } = request
        const decode = model === "assessment.package" ? ApiResponse.decodePackages : ApiResponse.decodeList
        const list = `${integration}/${model}`
        for (;;) {
          const rows = pageSizes.get(list) ?? pageSize.max
          const call = ApiRequest.forPage(request, accounts.get(account)?.cursorParameter ?? cursorParameter, rows)
          const fewer = Math.ceil(rows / 5)
          const page = yield* sendWithRetries(call, { decode, maxBytes }, (error) => !isTooLarge(error)).pipe(
            Effect.map(({ data, ...times }) => ({ ...data, ...times })),
            Effect.catchIf(
              (error) => isTooLarge(error) && fewer < rows && "page_size" in call.query,
              () =>
                Effect.logWarning("a page was too large: later pages of this list are requested with fewer rows").pipe(
                  Effect.annotateLogs({ integration, model, rows: fewer }),
                  Effect.as(null)
                )
            ),
            // Even a page of one row is too large, so the number of rows was not the cause.
            Effect.tapError((error) => Effect.sync(() => isTooLarge(error) && pageSizes.delete(list)))
          )
          if (page !== null) return page
          pageSizes.set(list, fewer)
        }
      })

      const read = Effect.fn("Source.read")(function*<R extends ReadName>(request: ReadRequest<R>) {
        const call = yield* ApiRequest.forRead(request)
        const decode = decoderFor<ReadData<R>>(request.read, readSchemas[request.read])
        return (yield* sendWithRetries(call, { decode, maxBytes: maxBytes / 8 })).data
      })

      const write = Effect.fn("Source.write")(function*<W extends WriteName, E>(
        request: WriteRequest<W>,
        hooks: SendHooks<E>
      ): Effect.fn.Return<WriteData<W>, WriteError | Invalid | E> {
        const call = yield* ApiRequest.forWrite(request)
        const { data } = writeSchemas[request.write]
        const { resendPolicy } = writes[request.write]
        const decode: ApiResponse.DataDecoder<WriteData<W>> = data === Empty
          ? ignoreData
          : decoderFor(request.write, data)
        const response = sendWithRetries(
          call,
          { decode, maxBytes: maxBytes / 8 },
          resendPolicy === "safe" ? undefined : Failures.hasNoEffect,
          SendAttempt.withHooks(hooks)
        )
        const toWriteError = Failures.toWriteError(resendPolicy)
        return (yield* Effect.mapError(
          response,
          (error) => error._tag === "HookFailed" ? error.by : toWriteError(error)
        )).data
      })

      return { page, read, write }
    })
  )
