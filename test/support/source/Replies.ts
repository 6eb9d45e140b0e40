/** The adapter of `Source` over prepared replies, in virtual time; records the requests that were sent. */
import { assert } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientError from "effect/http/HttpClientError"
import type * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import { RequestBudget } from "../../../src/source/RequestBudget.ts"
import { type Page, type PageRequest, Source, type SourceError } from "../../../src/source/Source.ts"
import * as UnifiedApi from "../../../src/source/UnifiedApi.ts"

export interface Reply {
  readonly status?: number
  readonly headers?: Record<string, string>
  readonly body?: unknown
  /** The connection fails with this error. */
  readonly failure?: Error
  /** The response never arrives. */
  readonly silent?: boolean
}

export interface Sent {
  /** Virtual ms. */
  readonly at: number
  readonly url: URL
  readonly request: HttpClientRequest.HttpClientRequest
}

export const success: Reply = { body: { status: "success", data: { next: null, results: [] } } }
export const refusal = (status: number, code: string | null, headers: Record<string, string> = {}): Reply => ({
  status,
  headers,
  body: { status: "error", error: { code, title: "Refused", message: "Ada Lovelace, ada@example.org", log_url: null } }
})
export const limited = (headers: Record<string, string> = {}) => refusal(429, "PLATFORM.RATE_LIMIT_EXCEEDED", headers)

/** The adapter over replies that are returned in order; the last one is repeated. */
export const withReplies = (...replies: ReadonlyArray<Reply>) =>
  withKey(Effect.succeed(Redacted.make("eu-key")), ...replies)

/** Like `withReplies`, with a key that may change from one request to the next. */
export const withKey = (key: Effect.Effect<Redacted.Redacted>, ...replies: ReadonlyArray<Reply>) =>
  withBudget(RequestBudget.local, key, ...replies)

/** Like `withKey`, with a request budget that may change. */
export const withBudget = (
  budget: Layer.Layer<RequestBudget>,
  key: Effect.Effect<Redacted.Redacted>,
  ...replies: ReadonlyArray<Reply>
) => {
  const answer = (_: Sent, before: number) => replies[Math.min(before, replies.length - 1)] ?? success
  return withAnswers(answer, {}, budget, key)
}

/** The adapter over a function that answers each request. `before`: the number of requests before it. `options` override those of the adapter. */
export const withAnswers = (
  answer: (sent: Sent, before: number) => Reply,
  options: Partial<UnifiedApi.Options> = {},
  budget: Layer.Layer<RequestBudget> = RequestBudget.local,
  key: Effect.Effect<Redacted.Redacted> = Effect.succeed(Redacted.make("eu-key"))
) => {
  const sent: Array<Sent> = []
  const client = HttpClient.make((request, url) =>
    Effect.gen(function*() {
      const one = { at: yield* Clock.currentTimeMillis, url, request }
      const reply = answer(one, sent.push(one) - 1)
      if (reply.silent === true) return yield* Effect.never
      if (reply.failure !== undefined) {
        return yield* new HttpClientError.HttpClientError({
          reason: new HttpClientError.TransportError({ request, cause: reply.failure })
        })
      }
      const { body: content } = reply
      const isText = typeof content === "string" || content === null
      const body = isText || content instanceof Uint8Array ? content : JSON.stringify(content)
      return HttpClientResponse.fromWeb(
        request,
        new Response(body instanceof Uint8Array ? Uint8Array.from(body) : body, {
          status: reply.status ?? 200,
          headers: reply.headers ?? {}
        })
      )
    })
  )
  const layer = UnifiedApi.layer({
    accounts: {
      eu: { url: "https://api.example.org/v1", key },
      us: {
        url: "https://us.example.org/v1",
        key: Effect.succeed(Redacted.make("us-key")),
        cursorParameter: "page_token",
        concurrency: 20
      }
    },
    retryBase: "1 second",
    ...options
  }).pipe(Layer.provide([Layer.succeed(HttpClient.HttpClient, client), budget]))
  return { sent, layer }
}

export const macrotask = Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
/** Ends after the work that the thread pool has now, such as the decompression of a body. */
const threadPool = Effect.promise(() => promisify(gzip)(""))
export const step = 100

/** Advances virtual time in steps of 100 ms, with time to read and decompress bodies in between, until the fiber ends. */
export const finished = <A, E>(fiber: Fiber.Fiber<A, E>, remaining = 60_000): Effect.Effect<Exit.Exit<A, E>> =>
  Effect.gen(function*() {
    for (let i = 0; i < remaining; i++) {
      yield* macrotask
      // a body that is still decompressed after many steps would count as late
      if (i % 10 === 9) yield* threadPool
      const exit = fiber.pollUnsafe()
      if (exit !== undefined) return exit
      yield* TestClock.adjust(step)
    }
    return yield* Effect.die("the fiber did not end")
  })

/** A poll of the applications. */
export const request: PageRequest = {
  account: "eu",
  integration: "greenhouse:acme",
  model: "ats.application",
  priority: "poll",
  cursor: null,
  updatedAfter: null,
  ids: null
}

/** Requests one page, with these overrides. */
export const read = (overrides: Partial<PageRequest> = {}) =>
  Effect.gen(function*() {
    const source = yield* Source
    return yield* finished(yield* Effect.forkChild(source.page({ ...request, ...overrides })))
  })

export const reasonOf = (exit: Exit.Exit<Page, SourceError>) =>
  exit.pipe(Exit.findErrorOption, (error) => {
    assert.strictEqual(error._tag, "Some")
    return error._tag === "Some" ? error.value.reason : assert.fail("no error")
  })

/** The times between the requests, virtual ms. */
export const gaps = (sent: ReadonlyArray<Sent>) => sent.slice(1).map(({ at }, index) => at - (sent[index]?.at ?? 0))

/** The sum of a counter, over all series with these attributes. */
export const count = (id: string, attributes: Record<string, string>) =>
  Effect.map(
    Metric.snapshot,
    (metrics) =>
      metrics.flatMap((metric) =>
        metric.id === id && metric.type === "Counter" &&
          Object.entries(attributes).every(([key, value]) => metric.attributes?.[key] === value)
          ? [Number(metric.state.count)]
          : []
      ).reduce((sum, each) => sum + each, 0)
  )
