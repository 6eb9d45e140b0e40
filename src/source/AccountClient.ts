/**
 * Sends the requests of one account.
 *
 * Invariants
 * 1. After a rate-limit response arrived, no request is sent until the requested wait is over   (R1)
 * 2. A request ends within its time limit (`timeoutOf`), measured until the last byte of its response
 * 3. A write is sent only while it has a slot. Its hooks run for every attempt, and only while the attempt has a slot
 *
 * Gotchas
 * - The wait for a slot is not part of the request's timeout, and is not an attempt.
 * - The rate limiter and the circuit breaker of Effect's HTTP client are not used: its limiter guesses windows and retries out of order,
 *   and its breaker does not see bodies, which contain the API's error codes. `RequestScheduler` and `CircuitBreakers` replace them.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import type * as Headers from "effect/http/Headers"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as Metric from "effect/Metric"
import * as Redacted from "effect/Redacted"
import { defaultConcurrency } from "../domain/RequestShare.ts"
import { withSendCheck } from "../network/OutgoingHttp.ts"
import { connectionTo, CurrentProxies, type Proxies } from "../network/Proxies.ts"
import type { ApiRequest } from "./ApiRequest.ts"
import * as ApiResponse from "./ApiResponse.ts"
import * as CircuitBreakers from "./CircuitBreakers.ts"
import * as Failures from "./Failures.ts"
import { stopwatch } from "./MonotonicClock.ts"
import * as Outages from "./Outages.ts"
import * as RequestScheduler from "./RequestScheduler.ts"
import * as ResponseHeaders from "./ResponseHeaders.ts"
import * as RetryPolicy from "./RetryPolicy.ts"
import * as SendAttempt from "./SendAttempt.ts"
import { Inactive, isRefused, RateLimited, SlotWaitAborted, SourceError, Transient, Unauthorized } from "./Source.ts"
import type * as Warnings from "./Warnings.ts"

/** Settings of an account that an integration may override. */
export interface RequestSettings {
  /** Largest number of rows on a page; 250 by default, which is the largest number that the API allows. */
  readonly pageSize?: number | undefined
  /** For one request including its response; a minute by default. */
  readonly requestTimeout?: Duration.Duration | undefined
}

export interface Account extends RequestSettings {
  /** Ends in `/v1`. */
  readonly url: string
  /** The current key. It is read for each request, and once more if the API rejects it. */
  readonly key: Effect.Effect<Redacted.Redacted>
  /** Name of the lists' cursor parameter; `cursor` by default. */
  readonly cursorParameter?: string
  /** Maximum number of requests in flight at once, of all processes that share a `RequestBudget`; 8 by default. */
  readonly concurrency?: number
  /** Null or undefined: the proxies of all other requests. */
  readonly proxies?: Proxies | null
}

/** The options that all accounts share. */
interface SharedOptions extends Omit<RequestScheduler.RequestSchedulerOptions, "account" | "concurrency"> {
  readonly noteWarnings: Warnings.NoteWarnings
  /** The time limit of requests of an integration (null: of the account itself); at most `timeout`. */
  readonly timeoutOf: (integration: string | null) => Duration.Duration
}

interface TimedResponse<A> {
  readonly data: A
  /** As in `Page`. */
  readonly serverTime: number | null
  readonly requestedAt: number
  readonly duration: number
  readonly world: string | null
}

const requests = Metric.counter("rollcall_api_requests_total", {
  description: "Requests to the unified API, by endpoint and outcome",
  incremental: true
})
const requestSeconds = Metric.histogram("rollcall_api_request_duration_seconds", {
  description: "Time from sending a request to the last byte of its response",
  boundaries: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
})
const circuitRejections = Metric.counter("rollcall_api_circuit_rejected_total", {
  description: "Requests that were not sent because the circuit breaker of their integration was open",
  incremental: true
})
const rateLimitRefusals = Metric.counter("rollcall_api_throttled_total", {
  description:
    "Rate-limit responses of the unified API. Each pauses its account; a pause of a minute or more is logged",
  incremental: true
})

const withMetrics =
  (endpoint: ApiRequest["endpoint"]) => <A, E extends SourceError, R>(request: Effect.Effect<A, E, R>) =>
    Effect.flatMap(stopwatch, (elapsed) =>
      Effect.onExit(
        request,
        Effect.fnUntraced(function*(exit) {
          const outcome = Failures.outcomeOf(exit)._tag
          yield* Metric.update(Metric.withAttributes(requests, { endpoint, outcome }), 1)
          yield* Metric.update(requestSeconds, (yield* elapsed) / 1000)
        })
      ))

// ---- not sent -----------------------------------------------------------------------------------------------------

const fromOpenCircuit = ({ answer, failure, left, message }: CircuitBreakers.CircuitOpen): SourceError =>
  new SourceError({
    reason: new Transient({
      code: null,
      message,
      ...answer,
      notSent: true,
      retryAfter: Duration.toMillis(left),
      openedBy: failure
    })
  })

const notSentNow = (message: string) =>
  new SourceError({
    reason: new RateLimited({ code: null, message: `not sent: ${message}`, retryAfter: null, notSent: true })
  })

/** Errors of a request whose slot was withdrawn before the request was sent. The request then waits for another slot. */
const withdrawn = {
  paused: notSentNow("a rate-limit response to another request has paused the account"),
  expired: notSentNow("the database did not answer in time, so other processes may use the request slots of this one")
}

/** Explains to the operator why no stream of the account makes progress. */
const logLongPause = (account: string, requested: Duration.Duration | null): Effect.Effect<void> =>
  requested === null || Duration.isLessThan(requested, Duration.minutes(1)) ? Effect.void : Effect.logWarning(
    "the API requested a long rate-limit pause: the account sends no requests until it ends"
  ).pipe(Effect.annotateLogs({
    account,
    requested: Duration.format(requested),
    waits: Duration.format(Duration.min(requested, RequestScheduler.maxPause))
  }))

// ---- requests -----------------------------------------------------------------------------------------------------

/** Whether a header can contain the text. For other text, node:http throws an error that would end the whole process. */
const isHeaderSafe = (text: string): boolean => !/[^\t\x20-\x7e\x80-\xff]/.test(text)

const toHttpRequest = (request: ApiRequest, url: string, key: Redacted.Redacted): HttpClientRequest.HttpClientRequest =>
  HttpClientRequest.make(request.method)(url + request.path, {
    urlParams: request.query,
    headers: {
      "accept-encoding": "gzip",
      ...(request.integration !== null && { "x-integration-id": request.integration })
    },
    acceptJson: true
  }).pipe(
    HttpClientRequest.bearerToken(key),
    request.body === null ? identity : HttpClientRequest.bodyText(request.body, "application/json")
  )

export const make = Effect.fnUntraced(function*(name: string, account: Account, options: SharedOptions) {
  const { noteWarnings, retryBase, timeoutOf } = options
  const client = yield* HttpClient.HttpClient
  const { concurrency = defaultConcurrency } = account
  const proxies = account.proxies ?? (yield* CurrentProxies)
  const connection = connectionTo(account.url, proxies)
  const scheduler = yield* RequestScheduler.make({ ...options, account: name, concurrency })
  const circuits = yield* CircuitBreakers.make({ firstPause: Duration.times(retryBase, 10) })
  const outages = yield* Outages.make(name)

  /** Handles a rate-limit response: pauses the whole account. */
  const pauseAccount = Effect.fnUntraced(function*(retryAfter: Duration.Duration | null) {
    yield* scheduler.onRateLimited(retryAfter)
    yield* Metric.update(rateLimitRefusals, 1)
    yield* logLongPause(name, retryAfter)
  })

  const applyLimits = Effect.fnUntraced(function*(request: ApiRequest, headers: Headers.Headers, now: number) {
    const resetAfter = ResponseHeaders.rateLimitResetAfter(headers, now)
    if (resetAfter !== null) yield* scheduler.pause(resetAfter)
    const concurrency = ResponseHeaders.concurrencyOf(headers)
    if (concurrency === null || !request.forwarded) return
    yield* scheduler.updateForwardedLimit(request.integration ?? "", concurrency.limit, concurrency.remaining)
  })

  const ready = Effect.flatMap(
    scheduler.obstacle,
    (obstacle) => obstacle === null ? Effect.void : Effect.fail(withdrawn[obstacle])
  )

  /** Sends one request. The limits in the response headers apply immediately, before the body is read. */
  const exchange = Effect.fnUntraced(function*<A>(
    request: ApiRequest,
    key: Redacted.Redacted,
    format: ApiResponse.ResponseFormat<A>,
    beforeSend: Effect.Effect<void, SourceError>
  ): Effect.fn.Return<TimedResponse<A>, SourceError | HttpClientError.HttpClientError> {
    if (!isHeaderSafe(Redacted.value(key))) {
      return yield* Failures.notSent(Unauthorized, "the key contains characters that are not allowed in an HTTP header")
    }
    const requestedAt = yield* Clock.currentTimeMillis
    const elapsed = yield* stopwatch
    const httpRequest = toHttpRequest(request, account.url, key)
    yield* beforeSend
    const response = yield* withSendCheck(Effect.andThen(ready, beforeSend))(client.execute(httpRequest))
    const { headers, status } = response
    const pauseForResponse = pauseAccount(ResponseHeaders.retryAfterOf(headers, requestedAt))
    if (status === 429) yield* pauseForResponse
    yield* applyLimits(request, headers, requestedAt)
    const { data, warnings } = yield* ApiResponse.read(response, { ...format, now: requestedAt }).pipe(
      Effect.tapError((error) => status !== 429 && RetryPolicy.isRateLimited(error) ? pauseForResponse : Effect.void)
    )
    yield* noteWarnings(request.endpoint, warnings)
    return {
      data,
      serverTime: ResponseHeaders.serverTimeOf(headers),
      requestedAt,
      duration: yield* elapsed,
      world: ResponseHeaders.worldOf(headers)
    }
  })

  /**
   * Sends the request until it succeeds, or until another attempt would not help. `makeRequest` is called for each attempt; all its requests
   * have the same path, integration and priority. `mayRepeat` may be called more than once for a failed attempt.
   */
  const send = Effect.fnUntraced(function*<A, E extends SendAttempt.HookFailed<unknown> = never>(
    makeRequest: () => ApiRequest,
    format: ApiResponse.ResponseFormat<A>,
    mayRepeat: (error: SourceError) => boolean = () => true,
    attempt: SendAttempt.SendAttempt<E> = SendAttempt.withoutHooks
  ): Effect.fn.Return<TimedResponse<A>, SourceError | E> {
    const request = makeRequest()
    const timeout = timeoutOf(request.integration)
    const integration = request.integration ?? ""
    if (!isHeaderSafe(integration)) {
      const message = `the integration id "${integration}" contains characters that are not allowed in an HTTP header`
      return yield* Failures.notSent(Inactive, message)
    }
    const mayRetry = (error: RetryPolicy.RequestError) => error._tag === "SourceError" && mayRepeat(error)
    let usedKey = Redacted.make("")
    /** The answer to an earlier attempt that may concern this request alone. It counts even if the circuit then rejects the next attempt. */
    let refused: SourceError | null = null

    const sendWith = (key: Redacted.Redacted) => (beforeSend: Effect.Effect<void, SourceError>) =>
      exchange(makeRequest(), key, format, beforeSend).pipe(
        Effect.provideService(CurrentProxies, proxies),
        Effect.catchTag("HttpClientError", (error) => Effect.fail(Failures.fromConnectionError(error, connection))),
        Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(Failures.timedOut(timeout)) }),
        withMetrics(request.endpoint),
        outages.watch(request.integration),
        Effect.tapError((error) =>
          Effect.sync(() => {
            if (isRefused(error)) refused = error
          })
        )
      )
    /** The key is read only when the request has its slot. The hooks run last, after the slot and the circuit are checked. */
    const sendInSlot = Effect.flatMap(account.key, (key) => {
      usedKey = key
      return attempt(sendWith(key), ready)
    })
    const isKeyReplaced = (error: RetryPolicy.RequestError) =>
      error._tag === "SourceError" && error.reason._tag === "Unauthorized" && mayRepeat(error)
        ? Effect.map(account.key, (current) => Redacted.value(current) !== Redacted.value(usedKey))
        : false
    return yield* sendInSlot.pipe(
      circuits.guard(integration),
      scheduler.run(integration, request.priority, request.forwarded),
      // No delay here: the scheduler has paused the account.
      Effect.retry({
        while: (error) => RetryPolicy.isRateLimited(error) && mayRetry(error),
        times: RetryPolicy.maxRateLimitRetries
      }),
      Effect.retry({ while: isKeyReplaced, times: 1 }),
      Effect.retry(RetryPolicy.backoff(retryBase, mayRetry)),
      Effect.tapError((error) => error._tag === "CircuitOpen" ? Metric.update(circuitRejections, 1) : Effect.void),
      Effect.mapError((error) =>
        error instanceof CircuitBreakers.CircuitOpen
          ? refused ?? fromOpenCircuit(error)
          : error instanceof SlotWaitAborted
          ? Failures.notSent(Transient, error.message)
          : error
      )
    )
  })

  return { send, pauseLeft: scheduler.pauseLeft, usage: scheduler.usage }
})

export type AccountClient = Effect.Success<ReturnType<typeof make>>
