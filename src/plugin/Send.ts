/**
 * Requests to whoever is not the unified API: hides what an HTTP answer means for what happens next.
 *
 * Gotchas
 * - Messages name the host only: the rest of an address may be a secret.
 * - A request that fails may have taken effect all the same, and is sent again.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Headers from "effect/http/Headers"
import * as HttpClient from "effect/http/HttpClient"
import type { HttpClientRequest } from "effect/http/HttpClientRequest"
import type { HttpClientResponse } from "effect/http/HttpClientResponse"
import { type HandlerError, Permanent, RateLimited, Transient } from "./Failure.ts"

const defaultRetryAfter = Duration.minutes(1)
const longestWait = Duration.days(1)

/** `Retry-After` in seconds or as a date, at most a day; null if absent or unreadable. */
const retryAfterOf = (headers: Headers.Headers, now: number): Duration.Duration | null => {
  const text = headers["retry-after"]?.trim() ?? ""
  const wait = /^\d+$/.test(text) ? Number(text) * 1000 : /[a-z]/i.test(text) ? Date.parse(text) - now : Number.NaN
  return Number.isNaN(wait) ? null : Duration.min(Duration.millis(Math.max(0, wait)), longestWait)
}

const hostOf = ({ url }: HttpClientRequest): string => URL.parse(url)?.host ?? "the given address"

const isSuccess = (status: number): boolean => status >= 200 && status < 300

/**
 * Sends a request and gives the answer, if its status is fine (2xx unless told). Else: 410 is `Permanent`; 429, and
 * whatever says `Retry-After`, is `RateLimited`; anything more, redirects too, is `Transient`.
 */
export const send = Effect.fnUntraced(function*(
  request: HttpClientRequest,
  isAccepted: (status: number) => boolean = isSuccess
): Effect.fn.Return<HttpClientResponse, HandlerError, HttpClient.HttpClient> {
  const host = hostOf(request)
  const response = yield* HttpClient.execute(request).pipe(
    Effect.mapError(({ reason }) => new Transient({ message: `no answer from ${host} (${reason._tag})` }))
  )
  const { headers, status } = response
  if (isAccepted(status)) return response
  if (status === 410) return yield* new Permanent({ message: `${host} answered 410: nobody listens there any more` })
  const wait = retryAfterOf(headers, yield* Clock.currentTimeMillis)
  if (status === 429 || wait !== null) return yield* new RateLimited({ retryAfter: wait ?? defaultRetryAfter })
  return yield* new Transient({ message: `${host} answered ${status}` })
})
