/**
 * The HTTP client of one OTLP exporter.
 *
 * Invariants
 * 1. An export ends within its time-out, and at most four are in progress. Further ones fail, so a slow collector cannot fill the memory
 * 2. The first failure is logged, and so is the first success after it; the failures in between are not
 * 3. Nothing that was configured is sent to another server: redirects are not followed   (I11)
 *
 * Gotchas
 * - After a failure, Effect's exporter drops what it has, and exports nothing for a minute.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Schedule from "effect/Schedule"
import { connectionTo, CurrentProxies } from "../network/Proxies.ts"

export interface OtlpClientOptions {
  readonly signal: "traces" | "metrics"
  readonly url: string
  /** Headers of each request, which may contain a key; a string says why there are none. */
  readonly headers: Effect.Effect<Readonly<Record<string, string>> | string>
  /** Limit of one export with all of its retries. */
  readonly timeout: Duration.Duration
}

const maxInProgress = 4
const retries = { times: 3, schedule: Schedule.jittered(Schedule.exponential("500 millis")) }

/** The address without its query, which may contain a key. */
export const placeOf = (url: string): string => {
  const { origin, pathname } = new URL(url)
  return `${origin}${pathname}`
}

const reasonOf = (error: HttpClientError.HttpClientError, connection: string): string => {
  if (error.response !== undefined) return `the collector answered with status ${error.response.status}`
  const { cause } = error.reason
  return `${connection} failed${cause instanceof Error && "code" in cause ? ` (${String(cause.code)})` : ""}`
}

export const make = Effect.fnUntraced(function*({ headers, signal, timeout, url }: OtlpClientOptions) {
  const client = HttpClient.filterStatusOk(yield* HttpClient.HttpClient)
  const connection = connectionTo(url, yield* CurrentProxies)
  let inProgress = 0
  /** When the failure that was logged occurred last; null if it is over. Nanoseconds of the monotonic clock. */
  let failedAt: bigint | null = null

  const failed = Effect.fnUntraced(function*(why: string): Effect.fn.Return<never> {
    if (failedAt === null) {
      yield* Effect.annotateLogs(
        Effect.logWarning(`${signal} are not exported; they are dropped until the collector accepts them`),
        {
          endpoint: placeOf(url),
          why,
          hint: "check OTEL_EXPORTER_OTLP_ENDPOINT and the collector; capture, publishing and delivery are not affected"
        }
      )
    }
    failedAt = yield* Clock.monotonicTimeNanos
    return yield* Effect.die(`${signal} are not exported: ${why}`)
  })

  const succeeded = (startedAt: bigint) =>
    Effect.suspend(() => {
      if (failedAt === null || startedAt < failedAt) return Effect.void
      failedAt = null
      return Effect.annotateLogs(Effect.logInfo(`${signal} are exported again`), { endpoint: placeOf(url) })
    })

  const send = Effect.fnUntraced(function*(
    request: HttpClientRequest.HttpClientRequest
  ): Effect.fn.Return<HttpClientResponse.HttpClientResponse> {
    const startedAt = yield* Clock.monotonicTimeNanos
    const own = yield* headers
    if (typeof own === "string") return yield* failed(own)
    if (inProgress >= maxInProgress) return yield* failed(`${maxInProgress} earlier exports are still in progress`)
    inProgress++
    let why = `the collector did not answer within ${Duration.format(timeout)}`
    const retrying = client.pipe(
      HttpClient.tapError((error) => Effect.sync(() => why = reasonOf(error, connection))),
      HttpClient.retryTransient(retries)
    )
    const result = yield* retrying.execute(HttpClientRequest.setHeaders(request, own)).pipe(
      Effect.tap((response) => Effect.ignore(response.arrayBuffer)),
      Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.fail(why) }),
      Effect.mapError(() => why),
      Effect.ensuring(Effect.sync(() => inProgress--)),
      Effect.result
    )
    if (result._tag === "Failure") return yield* failed(result.failure)
    yield* succeeded(startedAt)
    return result.success
  })

  return HttpClient.make((request) => send(request))
})
