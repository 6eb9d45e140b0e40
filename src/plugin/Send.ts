/**
 * Sends HTTP requests to servers other than the unified API.
 *
 * Gotchas
 * - Messages contain only the host, because the rest of the URL may contain a secret.
 * - A request that failed may have taken effect. Its delivery is nevertheless tried again, so the request may be sent twice.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Headers from "effect/http/Headers"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import type { HttpClientRequest } from "effect/http/HttpClientRequest"
import type { HttpClientResponse } from "effect/http/HttpClientResponse"
import { isLoopback } from "../domain/Loopback.ts"
import { type HandlerError, Permanent, RateLimited, Transient } from "./Failure.ts"

const defaultRetryAfter = Duration.minutes(1)
const longestWait = Duration.days(1)

/** NaN if the text is absent or no date. */
const timeOf = (text = ""): number => /[a-z]/i.test(text) ? Date.parse(text) : Number.NaN

/**
 * `Retry-After` in seconds or as a date, at most a day; null if absent, unreadable, or not in the future. A date is compared with the clock
 * of the server, if the response has it.
 */
const retryAfterOf = (headers: Headers.Headers, ours: number): Duration.Duration | null => {
  const text = headers["retry-after"]?.trim() ?? ""
  const date = timeOf(headers["date"])
  const wait = /^\d+$/.test(text) ? Number(text) * 1000 : timeOf(text) - (Number.isNaN(date) ? ours : date)
  return wait > 0 ? Duration.min(Duration.millis(wait), longestWait) : null
}

const hostOf = ({ url }: HttpClientRequest): string => URL.parse(url)?.host ?? "the server"

const isSuccess = (status: number): boolean => status >= 200 && status < 300

/** Why a request has no response, without the address and the cause, which may contain secrets. */
export const describeNoResponse = ({ _tag }: HttpClientError.HttpClientErrorReason): string =>
  _tag === "InvalidUrlError"
    ? "the URL is invalid"
    : _tag === "EncodeError"
    ? "the body cannot be encoded"
    : _tag === "TransportError"
    ? "the connection failed"
    : "the response cannot be read"

/**
 * Why a plugin must not be configured to send to this address; null if it may be. The text continues a sentence that begins with the name of
 * the setting. It contains no part of the address, which may be a secret. Others on the network can read a request to `http://` on another
 * machine, so the operator must accept that with the setting `allowedBy`.
 */
export const addressFault = (
  url: string,
  { allowPlaintext, allowedBy }: { readonly allowPlaintext: boolean; readonly allowedBy: string }
): string | null => {
  const parsed = URL.parse(url)
  if (parsed?.protocol === "https:") return null
  if (parsed?.protocol !== "http:") return "is not an address that starts with https:// or http://"
  return allowPlaintext || isLoopback(parsed.hostname)
    ? null
    : "starts with http:// and is on another machine, so others on the network could read the messages: write https://, or set " +
      `${allowedBy} if you accept that`
}

/**
 * Sends a request and returns the response if its status is accepted (by default 2xx). Otherwise it fails: status 410 is
 * `Permanent`; status 429, or any response whose `Retry-After` names a wait, is `RateLimited`; anything else, including redirects, is
 * `Transient`.
 */
export const send = Effect.fnUntraced(function*(
  request: HttpClientRequest,
  isAccepted: (status: number) => boolean = isSuccess
): Effect.fn.Return<HttpClientResponse, HandlerError, HttpClient.HttpClient> {
  const host = hostOf(request)
  const response = yield* HttpClient.execute(request).pipe(
    Effect.mapError(({ reason }) =>
      new Transient({ message: `no response from ${host}: ${describeNoResponse(reason)}` })
    )
  )
  const { headers, status } = response
  if (isAccepted(status)) return response
  if (status === 410) return yield* new Permanent({ message: `${host} answered 410: the receiver is gone` })
  const wait = retryAfterOf(headers, yield* Clock.currentTimeMillis)
  if (status === 429 || wait !== null) return yield* new RateLimited({ retryAfter: wait ?? defaultRetryAfter })
  return yield* new Transient({ message: `${host} answered ${status}` })
})
