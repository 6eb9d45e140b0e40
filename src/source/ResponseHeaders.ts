/**
 * Reads times and limits from the headers of the API's responses. Times are compared with the server's clock, if the response has a `Date`.
 */
import * as Duration from "effect/Duration"
import type * as Headers from "effect/http/Headers"

/**
 * The end of the last year that the format of a header can express. Near the earliest and the latest time of JavaScript, a time minus an
 * overlap is invalid, and formatting it would throw.
 */
const latest = Date.UTC(9999, 11, 31, 23, 59, 59, 999)

const dateOf = (text: string | undefined): number | null => {
  const time = text === undefined || !/[a-z]/i.test(text) ? Number.NaN : Date.parse(text)
  return time >= 0 && time <= latest ? time : null
}

/** The `Date` header in ms, null if missing or unreadable. */
export const serverTimeOf = (headers: Headers.Headers): number | null => dateOf(headers["date"])

/** The simulated world that answers, if the API is the sandbox. */
export const worldOf = (headers: Headers.Headers): string | null =>
  /^[\w-]{1,64}$/.exec(headers["sandbox-world"] ?? "")?.[0] ?? null

/** The encoding of a body that Rollcall did not request; null for none and for gzip. Only known names are repeated. */
export const foreignEncodingOf = (headers: Headers.Headers): string | null => {
  const names = (headers["content-encoding"] ?? "").toLowerCase().split(",").map((name) => name.trim())
  const foreign = names.filter((name) => !["", "identity", "gzip", "x-gzip"].includes(name))
  if (foreign.length === 0) return null
  return foreign.find((name) => ["br", "deflate", "zstd", "compress"].includes(name)) ?? "of an unknown name"
}

const maxProducts = 3
const product = /[a-z][a-z0-9._-]{0,39}/i

/** The product of one entry of `Via`: its comment, such as `(CloudFront)`, because the name of the host may differ in each response. */
const viaProduct = (entry: string): string | undefined =>
  product.exec(/\(([^)]*)/.exec(entry)?.[1] ?? /^\s*\S+\s+(\S*)/.exec(entry)?.[1] ?? "")?.[0]

const named = (header: string, products: ReadonlyArray<string | undefined>): ReadonlyArray<string> => {
  const known = [...new Set(products.filter((name) => name !== undefined))].slice(0, maxProducts)
  return known.length === 0 ? [] : [`${header}: ${known.join(", ")}`]
}

/**
 * The servers on the way of a response, by the names of their products without versions: `["Server: nginx", "Via: varnish"]`. At most
 * three names of 40 characters for each header.
 */
export const productsOf = (headers: Headers.Headers): ReadonlyArray<string> => [
  ...named(
    "Server",
    (headers["server"] ?? "").replace(/\([^)]*\)/g, "").split(/\s+/).map((part) => product.exec(part)?.[0])
  ),
  ...named("Via", (headers["via"] ?? "").split(",").map(viaProduct))
]

const parseNumber = (text: string | undefined): number | null =>
  text !== undefined && /^\d+(\.\d+)?$/.test(text.trim()) ? Number(text) : null

/**
 * `Retry-After`, given in seconds or as a date; a date is compared with the server's clock. Null if the header is missing or unreadable;
 * zero if the date has passed.
 */
export const retryAfterOf = (headers: Headers.Headers, now: number): Duration.Duration | null => {
  const text = headers["retry-after"]
  const delta = parseNumber(text)
  if (delta !== null) return Duration.seconds(delta)
  const date = dateOf(text)
  return date === null ? null : Duration.millis(Math.max(0, date - (serverTimeOf(headers) ?? now)))
}

/** How many forwarded requests the integration allows at once, and how many more it allows now; null if a header is missing. */
export const concurrencyOf = (
  headers: Headers.Headers
): { readonly limit: number; readonly remaining: number } | null => {
  const limit = parseNumber(headers["concurrency-limit"])
  const remaining = parseNumber(headers["concurrency-remaining"])
  return limit === null || remaining === null ? null : { limit, remaining }
}

const firstEpochSecond = 1_000_000_000

/** Time until the account's rate limit resets; null if requests remain or if the headers are missing. */
export const rateLimitResetAfter = (headers: Headers.Headers, now: number): Duration.Duration | null => {
  const remaining = parseNumber(headers["ratelimit-remaining"])
  const reset = parseNumber(headers["ratelimit-reset"])
  if (remaining === null || remaining > 0 || reset === null) return null
  return reset < firstEpochSecond
    ? Duration.seconds(reset)
    : Duration.millis(Math.max(0, reset * 1000 - (serverTimeOf(headers) ?? now)))
}
