/**
 * The unified API over HTTP: the adapter of `Source`. Hides addresses, keys, retries and whose turn it is.
 *
 * Invariants
 * 1. No request leaves after a refusal for the rate limit arrived and before its wait is over   (R1)
 * 2. The key goes to the account's own address and nowhere else: no redirect is followed
 * 3. A request ends within `timeout`, counted to the last byte of its answer
 * 4. A write is tried again only where nothing was done, or where doing it twice is safe
 * 5. A write leaves only while it has a turn, and each time its hooks are asked only then
 *
 * Gotchas
 * - Waiting for a turn counts neither as time of the request nor as a try.
 * - The HTTP client's own limiter guesses windows and retries out of turn, its own breaker sees no bodies, where the
 *   API's codes are: hence `RequestScheduler` and `CircuitBreakers`.
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
  /** As it is now; asked for each request, and once more when the API refuses it. */
  readonly key: Effect.Effect<Redacted.Redacted>
  /** Query name of the cursor of lists; `cursor` by default. */
  readonly cursorParameter?: string
}

export interface Options {
  readonly accounts: Readonly<Record<string, Account>>
  /**
   * First delay between two tries; it doubles up to half a minute, jittered by a fifth. An integration that keeps
   * failing is left alone for ten times as long, doubling up to a minute.
   */
  readonly retryBase: Duration.Input
  /** For one request, answer included; a minute by default. */
  readonly timeout?: Duration.Input
  /** Largest page of a list, unpacked; 32 MiB by default. Other answers may have an eighth of it. */
  readonly maxBytes?: number
  /** Most requests under way at once per account; 8 by default. */
  readonly concurrency?: number
}

interface AccountContext extends Account {
  readonly scheduler: RequestScheduler.RequestScheduler
  readonly circuits: CircuitBreakers.CircuitBreakers
  readonly outages: Outages.Outages
  /** A refusal for the rate limit slows down the whole account. */
  readonly slowDown: (retryAfter: Duration.Duration | null) => Effect.Effect<void>
}

interface ResponseFormat<A> {
  readonly meaning: ApiResponse.DataDecoder<A>
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
  description: "Time from sending a request to the last byte of its answer.",
  boundaries: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
})
const circuitRejections = Metric.counter("rollcall_api_circuit_rejected_total", {
  description: "Requests not sent because their integration keeps failing.",
  incremental: true
})
const rateLimitRefusals = Metric.counter("rollcall_api_throttled_total", {
  description: "Refusals of the unified API for its rate limit.",
  incremental: true
})

const maxRetryDelay = Duration.seconds(30)
const maxRetries: Partial<Record<SourceError["reason"]["_tag"], number>> = { Transient: 5, Unreadable: 2 }
/** Refusals one try waits out before it gives up; the account's pauses lie between them. */
const maxRateLimitRetries = 12

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

/** The wait a failed answer asked for itself (503 with `Retry-After`). */
const retryAfterOf = (error: RequestError): Duration.Duration =>
  error._tag === "SourceError" && error.reason._tag === "Transient"
    ? Duration.min(Duration.millis(error.reason.retryAfter ?? 0), RequestScheduler.maxPause)
    : Duration.zero

/** What is left alone, given up or withheld is not waited for. */
const retriesOf = (error: RequestError): number => error._tag === "SourceError" ? maxRetries[error.reason._tag] ?? 0 : 0

const isTooLarge = ({ reason }: SourceError): boolean => reason._tag === "Unreadable" && reason.tooLarge === true

const isRateLimited = (error: RequestError | HttpClientError.HttpClientError): boolean =>
  error._tag === "SourceError" && error.reason._tag === "RateLimited"

/**
 * `inTurn` waits for the request's turn and runs what it is given then: so the key is read. One that was exchanged while a
 * request was under way is no reason to stop: the new one is tried, in its turn.
 */
const withCurrentKey = <A, E>(
  key: Account["key"],
  mayRepeat: (error: SourceError) => boolean,
  send: (key: Redacted.Redacted) => Effect.Effect<A, SourceError | E>,
  inTurn: (
    send: Effect.Effect<A, SourceError | E>
  ) => Effect.Effect<A, SourceError | E | CircuitBreakers.CircuitOpen | SlotWaitAborted>
) =>
  Effect.suspend(() => {
    let used: Redacted.Redacted | null = null
    const sent = inTurn(Effect.flatMap(key, (current) => send(used = current)))
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
    message: "not sent: another answer has paused the account",
    retryAfter: null,
    notSent: true
  })
})

/** Without it nobody could tell why every stream of the account stands. */
const logLongPause = (account: string, asked: Duration.Duration | null): Effect.Effect<void> =>
  asked === null || Duration.isLessThan(asked, Duration.minutes(1)) ? Effect.void : Effect.logWarning(
    "the API asks for a long pause for its rate limit: nothing of the account is read meanwhile"
  ).pipe(Effect.annotateLogs({
    account,
    asked: Duration.format(asked),
    waits: Duration.format(Duration.min(asked, RequestScheduler.maxPause))
  }))

// ---- meanings -----------------------------------------------------------------------------------------------------

const decoderFor = <A>(name: string, schema: Schema.Codec<A, unknown>): ApiResponse.DataDecoder<A> => {
  const decode = Schema.decodeUnknownResult(schema)
  return (data) =>
    isDeeper(data, maxDepth)
      ? Result.fail(`its data is nested deeper than ${maxDepth} levels`)
      : Result.mapError(decode(data), () => `its data is not what ${name} answers`)
}

/** Where nothing is expected, nothing may be missing. */
const ignoreData: ApiResponse.DataDecoder<typeof Empty.Type> = () => Result.succeed({})

// ---- adapter ------------------------------------------------------------------------------------------------------

/** Milliseconds until we close an idle connection: before the server does, which might cut off a write just sent. */
const idleTimeoutMillis = 4_000

/** The client to provide: node:http, which follows no redirects; its agent keeps connections only when told to. */
export const httpClient: Layer.Layer<HttpClient.HttpClient> = NodeHttpClient.layerNodeHttpOptions({
  keepAlive: true,
  timeout: idleTimeoutMillis
})

/** Whether a header can carry it: node:http throws at anything else, which would end the whole process. */
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

/** `Source` over the accounts' addresses. Any `HttpClient` will do that does not follow redirects by itself. */
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

      /** One request. What its headers say of limits counts at once, before the body is read. */
      const sendOnce = Effect.fnUntraced(function*<A>(
        call: ApiRequest.ApiRequest,
        account: AccountContext,
        key: Redacted.Redacted,
        { meaning, maxBytes }: ResponseFormat<A>,
        leave: Effect.Effect<void, SourceError>
      ): Effect.fn.Return<TimedResponse<A>, SourceError | HttpClientError.HttpClientError> {
        if (!isHeaderSafe(Redacted.value(key))) {
          const message = "the key holds characters that no header can carry"
          return yield* new SourceError({ reason: new Unauthorized({ code: null, message, notSent: true }) })
        }
        const requestedAt = yield* Clock.currentTimeMillis
        const elapsed = yield* stopwatch
        const request = toHttpRequest(call, account.url, key)
        yield* leave
        const response = yield* client.execute(request)
        const { headers, status } = response
        const slowDown = account.slowDown(ApiResponse.retryAfterOf(headers, requestedAt))
        if (status === 429) yield* slowDown
        const empty = ApiResponse.rateLimitResetAfter(headers, requestedAt)
        if (empty !== null) yield* account.scheduler.pause(empty)
        const room = ApiResponse.concurrencyOf(headers)
        if (room !== null && call.live) {
          yield* account.scheduler.updateLiveLimit(call.integration ?? "", room.limit, room.remaining)
        }
        const { data, warnings } = yield* ApiResponse.read(response, { maxBytes, meaning, now: requestedAt }).pipe(
          Effect.tapError((error) => status !== 429 && isRateLimited(error) ? slowDown : Effect.void)
        )
        yield* noteWarnings(call.endpoint, warnings)
        return { data, serverTime: ApiResponse.serverTimeOf(headers), requestedAt, duration: yield* elapsed }
      })

      /** Sends until there is an answer, or no point in another try. */
      const sendWithRetries = Effect.fnUntraced(function*<A, E extends SendAttempt.HookFailed<unknown> = never>(
        call: ApiRequest.ApiRequest,
        expected: ResponseFormat<A>,
        mayRepeat: (error: SourceError) => boolean = () => true,
        tried: SendAttempt.SendAttempt<E> = SendAttempt.withoutHooks
      ): Effect.fn.Return<TimedResponse<A>, SourceError | E> {
        const account = accounts.get(call.account)
        if (account === undefined) {
          const message = `the configuration has no account "${call.account}"`
          return yield* new SourceError({ reason: new Unauthorized({ code: null, message, notSent: true }) })
        }
        const integration = call.integration ?? ""
        if (!isHeaderSafe(integration)) {
          const message = `"${integration}" holds characters that no header can carry`
          return yield* new SourceError({ reason: new Inactive({ code: null, message, notSent: true }) })
        }
        const mayRetry = (error: RequestError | CircuitBreakers.CircuitOpen) =>
          error._tag === "SourceError" && mayRepeat(error)
        const once = (key: Redacted.Redacted) => (leave: Effect.Effect<void, SourceError>) =>
          sendOnce(call, account, key, expected, leave).pipe(
            Effect.provideService(HttpClient.TracerPropagationEnabled, false),
            Effect.catchTag("HttpClientError", (error) => Effect.fail(Failures.fromConnectionError(error))),
            Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(Failures.timedOut(timeout)) }),
            withMetrics(call.endpoint),
            account.outages.watch(call.integration)
          )
        const ready = Effect.flatMap(account.scheduler.isPaused, (is) => is ? Effect.fail(paused) : Effect.void)
        const inTurn = (sending: Effect.Effect<TimedResponse<A>, SourceError | E>) =>
          sending.pipe(
            account.circuits.guard(integration), // whether it is asked at all
            account.scheduler.run(integration, call.priority, call.live), // whose turn it is
            // the account's pause is the wait
            Effect.retry({ while: (error) => isRateLimited(error) && mayRetry(error), times: maxRateLimitRetries })
          )
        const sendWith = (key: Redacted.Redacted) => tried(once(key), ready) // whether it may leave, asked last
        return yield* withCurrentKey(account.key, mayRepeat, sendWith, inTurn).pipe(
          Effect.retry(Schedule.while(backoff, ({ input }) => mayRetry(input))),
          Effect.tapError((error) => error._tag === "CircuitOpen" ? Metric.update(circuitRejections, 1) : Effect.void),
          Effect.mapError(Failures.fromUnsent)
        )
      })

      /** By list. Never more again: where a cursor counts pages, larger ones would skip rows. */
      const pageSizes = new Map<string, number>()

      const page = Effect.fn("Source.page")(function*(request: PageRequest) {
        const { account, integration, model } = request
        const meaning = model === "assessment.package" ? ApiResponse.decodePackages : ApiResponse.decodeList
        const list = `${integration}/${model}`
        for (;;) {
          const rows = pageSizes.get(list) ?? pageSize.max
          const call = ApiRequest.forPage(request, accounts.get(account)?.cursorParameter ?? cursorParameter, rows)
          const fewer = Math.ceil(rows / 5)
          const answer = yield* sendWithRetries(call, { meaning, maxBytes }, (error) => !isTooLarge(error)).pipe(
            Effect.map(({ data, ...answered }) => ({ ...data, ...answered })),
            Effect.catchIf(
              (error) => isTooLarge(error) && fewer < rows && "page_size" in call.query,
              () =>
                Effect.logWarning("a page was too large: fewer rows are asked for from now on").pipe(
                  Effect.annotateLogs({ integration, model, rows: fewer }),
                  Effect.as(null)
                )
            ),
            // not even one row fits: the number of rows was not to blame
            Effect.tapError((error) => Effect.sync(() => isTooLarge(error) && pageSizes.delete(list)))
          )
          if (answer !== null) return answer
          pageSizes.set(list, fewer)
        }
      })

      const read = Effect.fn("Source.read")(function*<R extends ReadName>(request: ReadRequest<R>) {
        const call = yield* ApiRequest.forRead(request)
        const meaning = decoderFor<ReadData<R>>(request.read, readSchemas[request.read])
        return (yield* sendWithRetries(call, { meaning, maxBytes: maxBytes / 8 })).data
      })

      const write = Effect.fn("Source.write")(function*<W extends WriteName, E>(
        request: WriteRequest<W>,
        hooks: SendHooks<E>
      ): Effect.fn.Return<WriteData<W>, WriteError | Invalid | E> {
        const call = yield* ApiRequest.forWrite(request)
        const { data } = writeSchemas[request.write]
        const { resendPolicy } = writes[request.write]
        const meaning: ApiResponse.DataDecoder<WriteData<W>> = data === Empty
          ? ignoreData
          : decoderFor(request.write, data)
        const answered = sendWithRetries(
          call,
          { meaning, maxBytes: maxBytes / 8 },
          resendPolicy === "safe" ? undefined : Failures.hasNoEffect,
          SendAttempt.withHooks(hooks)
        )
        const failed = Failures.toWriteError(resendPolicy)
        return (yield* Effect.mapError(answered, (error) => error._tag === "HookFailed" ? error.by : failed(error)))
          .data
      })

      return { page, read, write }
    })
  )
