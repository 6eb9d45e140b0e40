/**
 * Turns one HTTP response of the API into its data or into an error with a reason.
 *
 * Invariants
 * 1. At most `maxBytes` are kept in memory, before and after decompression, and at most `maxRows` rows are found in them
 * 2. The status of an error response counts only with the API's error envelope. Any other error response comes from something between
 *    Rollcall and the API, whatever its status is: it says nothing about the key, the permission or the model
 * 3. An error names the status, code and kind of the response, never its content   (I11)
 *
 * Gotchas
 * - gzip is recognized by the first two bytes: a client that already decompressed the body may leave the header in place.
 * - A 404 without the API's error envelope means that the base URL is wrong, not that the model is missing.
 * - The rows of a list are not parsed here, but the whole response is checked for valid JSON. A broken response is requested again, so
 *   parsing a row later cannot fail.
 * - JSON is decoded as UTF-8, whatever the `charset` is. Invalid bytes are an error; replacement characters would be
 *   published as content.
 * - The header of an encoding that was not requested counts only if the body is not JSON, because a client that decompressed the body may
 *   leave that header in place.
 */
import * as NodeStream from "@effect/platform-node/NodeStream"
import * as ByteSize from "effect/ByteSize"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Headers from "effect/http/Headers"
import type * as HttpClientError from "effect/http/HttpClientError"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { isUtf8 } from "node:buffer"
import { promisify } from "node:util"
import { gunzip as gunzipWithCallback } from "node:zlib"
import { classifyError, type ErrorClass, stoppedBeforeApi } from "../api/ErrorClassification.ts"
import { isDeeper, maxDepth } from "../domain/Canonical.ts"
import { scanList } from "../domain/JsonScan.ts"
import { parseExactly, RawRow } from "../domain/RawRow.ts"
import { codeOf, logUrlOf, titleOf } from "./Masking.ts"
import { foreignEncodingOf, productsOf, retryAfterOf } from "./ResponseHeaders.ts"
import {
  Forbidden,
  Inactive,
  NotReady,
  RateLimited,
  Rejected,
  SourceError,
  Transient,
  Unauthorized,
  Unreadable,
  Unsupported
} from "./Source.ts"

export interface ApiResponse<A> {
  readonly data: A
  /** `warnings[].message`, unmasked. */
  readonly warnings: ReadonlyArray<string>
}

/**
 * Decodes the `data` of a response. `rows`: the rows of its list; `data` has an empty array in place of the list. Fails with a description
 * of the problem, which contains no value of the response.
 */
export type DataDecoder<A> = (data: unknown, rows: ReadonlyArray<RawRow>) => Result.Result<A, string>

/** How a response is read. */
export interface ResponseFormat<A> {
  readonly decode: DataDecoder<A>
  readonly maxBytes: number
  /** Name of the property of `data` that has the list, whose rows are not parsed; absent if the response has no list. */
  readonly list?: string
  /** Largest number of rows in the list. */
  readonly maxRows?: number
}

export interface ListData {
  readonly results: ReadonlyArray<RawRow>
  readonly next: string | null
}

const unreadable = (message: string) => new SourceError({ reason: new Unreadable({ code: null, message }) })
const gunzip = promisify(gunzipWithCallback)
const utf8 = new TextDecoder("utf-8", { fatal: true })
const lenient = new TextDecoder()
const emptyList = Buffer.from("[]")

// ---- body ---------------------------------------------------------------------------------------------------------

const beyondLimit = (message: string) =>
  new SourceError({ reason: new Unreadable({ code: null, message, tooLarge: true }) })

const tooLarge = (maxBytes: number) =>
  beyondLimit(`the response is larger than the limit of ${maxBytes} bytes; the rest was not read`)

/** `response.stream` costs much more: it aborts each request that has already ended. */
const readBytes = (
  response: HttpClientResponse.HttpClientResponse,
  maxBytes: number
): Effect.Effect<Buffer, SourceError | HttpClientError.HttpClientError> =>
  response.arrayBuffer.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(maxBytes)),
    Effect.mapError((error) => error.reason.cause instanceof NodeStream.MaxBytesError ? tooLarge(maxBytes) : error),
    // only the client of Node applies `MaxBodySize`
    Effect.filterOrFail((bytes) => bytes.byteLength <= maxBytes, () => tooLarge(maxBytes)),
    Effect.map((bytes) => Buffer.from(bytes))
  )

const decompress = (bytes: Buffer, maxBytes: number): Effect.Effect<Buffer, SourceError> =>
  bytes[0] === 0x1f && bytes[1] === 0x8b
    ? Effect.tryPromise({
      try: () => gunzip(bytes, { maxOutputLength: maxBytes }),
      catch: (cause) =>
        cause instanceof RangeError ? tooLarge(maxBytes) : unreadable("the response has corrupt gzip data")
    })
    : Effect.succeed(bytes)

/** The part of a response that describes where it comes from. */
export type ResponseHead = Pick<HttpClientResponse.HttpClientResponse, "status" | "headers">

/** Text that is not UTF-8 is decoded leniently, and then contains this character. */
const replacement = "\ufffd"

const kindOf = (headers: Headers.Headers, text: string): string => {
  const start = text.slice(0, 200).trimStart().toLowerCase()
  if (start === "") return "an empty body"
  if (start.startsWith("<!doctype html") || start.startsWith("<html")) return "an HTML page"
  if (start.startsWith("<")) return "markup"
  const isText = !text.includes(replacement)
  const encoding = isText ? null : foreignEncodingOf(headers)
  if (encoding !== null) return `a body in the encoding ${encoding}, which Rollcall did not request`
  if (!isText) return "data that is not UTF-8"
  return start.startsWith("{") || start.startsWith("[") ? "broken or unexpected JSON" : "text that is not JSON"
}

/**
 * Describes the response without repeating its content. The text does not depend on the size of the response, because streams with equal
 * messages are shown as one.
 */
const describeResponse = ({ headers, status }: ResponseHead, text: string): string => {
  const type = /^(text|application|image)\/[\w.+-]{1,40}/.exec(headers["content-type"] ?? "")?.[0] ?? "no content type"
  return `status ${status} with ${kindOf(headers, text)} (${[type, ...productsOf(headers)].join("; ")})`
}

const parse = (text: string): unknown => {
  try {
    return parseExactly(text)
  } catch {
    return undefined
  }
}

/**
 * The response without the rows of its list, and the rows; null if it does not have the list, or is not valid JSON. `long`: the list has
 * more than `maxRows` rows.
 */
export const parseList = (
  bytes: Buffer,
  list: string,
  maxRows = Infinity
): { readonly body: unknown; readonly rows: ReadonlyArray<RawRow> } | "long" | null => {
  const found = isUtf8(bytes) ? scanList(bytes, list, maxRows) : null
  if (found === null || found === "none") return null
  if (found === "long") return found
  const { from, members, to } = found
  const body = parse(utf8.decode(Buffer.concat([bytes.subarray(0, from), emptyList, bytes.subarray(to)])))
  return { body, rows: members.map((member) => new RawRow(bytes, member)) }
}

// ---- decoding -----------------------------------------------------------------------------------------------------

const property = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined

const reasons = { Unauthorized, Forbidden, Unsupported, NotReady, Inactive, Rejected } as const

const reasonOf = (
  errorClass: ErrorClass,
  detail: { readonly code: string | null; readonly message: string; readonly logUrl?: string },
  status: number,
  wait: Duration.Duration | null
): SourceError["reason"] => {
  const retryAfter = wait === null ? null : Duration.toMillis(wait)
  if (errorClass === "RateLimited") return new RateLimited({ ...detail, retryAfter })
  if (errorClass === "Transient") return new Transient({ ...detail, status, retryAfter })
  return errorClass === "Rejected" && status === 404
    ? new Rejected({ ...detail, status })
    : new reasons[errorClass](detail)
}

const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

/** Describes an error response that something between Rollcall and the API made. */
const explainIntercepted = (status: number): string =>
  status === 404
    ? "the path does not exist at this URL"
    : redirects.has(status)
    ? "the URL redirects to another address, which Rollcall does not follow"
    : status === 304
    ? "a cache between Rollcall and the API answered as if Rollcall had a copy"
    : "not the API's error format, so something between Rollcall and the API answered"

/** The error of a response without the API's envelope. A requested pause is observed. */
const interceptedError = (response: ResponseHead, text: string, now: number): SourceError => {
  const { headers, status } = response
  const message = `${describeResponse(response, text)}: ${explainIntercepted(status)}`
  if (status === 404 || redirects.has(status)) return unreadable(message)
  const wait = retryAfterOf(headers, now)
  const retryAfter = wait === null ? null : Duration.toMillis(wait)
  return new SourceError({
    reason: status === 429 ? new RateLimited({ code: null, message, retryAfter }) : new Transient({
      code: null,
      message,
      status,
      intercepted: true,
      retryAfter,
      ...(stoppedBeforeApi(status, headers) && { notSent: true })
    })
  })
}

/** The error of a response that is not a success. `body`: its JSON; undefined if it is not JSON. */
export const errorOf = (response: ResponseHead, text: string, body: unknown, now: number): SourceError => {
  const { headers, status } = response
  const error = property(body, "error")
  if (property(body, "status") !== "error" || typeof error !== "object" || error === null) {
    return interceptedError(response, text, now)
  }
  const code = codeOf(property(error, "code"))
  const message = [`status ${status}`, code, titleOf(code, property(error, "title"))].filter((part) => part !== null)
  const logUrl = logUrlOf(property(error, "log_url"))
  const detail = { code, message: message.join(" · "), ...(logUrl !== null && { logUrl }) }
  return new SourceError({
    reason: reasonOf(classifyError({ status, code }), detail, status, retryAfterOf(headers, now))
  })
}

/** Data that matches a schema; `name`: the request, for the description of the problem. */
export const decoderFor = <A>(name: string, schema: Schema.Codec<A, unknown>): DataDecoder<A> => {
  const decode = Schema.decodeUnknownResult(schema)
  return (data) =>
    isDeeper(data, maxDepth)
      ? Result.fail(`the data is nested deeper than ${maxDepth} levels`)
      : Result.mapError(decode(data), () => `the data does not match the schema of ${name}`)
}

/** So many records of the usual size are larger than the largest response. Only tiny rows would take much longer to process. */
const maxRows = 100_000

/** The list of assessment packages, which has no pages. */
export const packageList = {
  list: "packages",
  maxRows,
  decode: (_: unknown, results: ReadonlyArray<RawRow>) => Result.succeed({ results, next: null })
}

/** Most servers refuse an address that is longer. A cursor is stored with each page. */
const longestCursor = 16_384

const decodePage: DataDecoder<ListData> = (data, results) => {
  const next = property(data, "next")
  if (next !== undefined && next !== null && typeof next !== "string") return Result.fail("data.next is not a string")
  if (typeof next === "string" && next.length > longestCursor) {
    return Result.fail(`data.next is longer than ${longestCursor} characters`)
  }
  return Result.succeed({ results, next: next || null })
}

/** One page of a list. An API that ignores `page_size` may return more rows than requested. */
export const listPage = { list: "results", maxRows, decode: decodePage }

const warningsOf = (body: unknown): ReadonlyArray<string> => {
  const warnings = property(body, "warnings")
  return Array.isArray(warnings)
    ? warnings.map((warning) => property(warning, "message")).filter((message) => typeof message === "string")
    : []
}

/** Reads the whole response, parses it once and decodes its data. */
export const read = Effect.fnUntraced(function*<A>(
  response: HttpClientResponse.HttpClientResponse,
  options: ResponseFormat<A> & { readonly now: number }
): Effect.fn.Return<ApiResponse<A>, SourceError | HttpClientError.HttpClientError> {
  const { decode, list, maxBytes, maxRows, now } = options
  const bytes = Effect.flatMap(readBytes(response, maxBytes), (packed) => decompress(packed, maxBytes))
  const ok = response.status >= 200 && response.status < 300
  const whole = ok ? yield* bytes : yield* Effect.orElseSucceed(bytes, () => Buffer.alloc(0))
  const listed = ok && list !== undefined ? parseList(whole, list, maxRows) : null
  if (listed === "long") return yield* beyondLimit(`the list has more than ${maxRows} rows; the rest was not read`)
  const text = listed === null ? lenient.decode(whole) : ""
  const body = listed !== null ? listed.body : isUtf8(whole) ? parse(text) : undefined
  const status = property(body, "status")
  const stopped = status !== "success" && stoppedBeforeApi(response.status, response.headers)
  if (!ok || status === "error" || stopped) return yield* errorOf(response, text, body, now)
  const cut = body === undefined && /^\s*[{[]/.test(text)
  const broken = (problem: string) => {
    const description = describeResponse(response, listed === null ? text : utf8.decode(whole))
    return new SourceError({
      reason: new Unreadable({ code: null, message: `${description}: ${problem}`, ...(cut && { cut }) })
    })
  }
  if (status !== "success") return yield* broken("not a response of the API")
  if (list !== undefined && listed === null) return yield* broken(`data.${list} is missing`)
  const data = decode(property(body, "data"), listed?.rows ?? [])
  if (Result.isFailure(data)) return yield* broken(data.failure)
  return { data: data.success, warnings: warningsOf(body) }
})
