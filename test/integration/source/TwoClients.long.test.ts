import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import type { RequestListener } from "node:http"
import { monitorEventLoopDelay } from "node:perf_hooks"
import { type Priority, Source } from "../../../src/source/Source.ts"
import * as UnifiedApi from "../../../src/source/UnifiedApi.ts"
import { noHooks } from "../../support/source/Doubles.ts"
import { clientOf, json, Loopback, refusal } from "./Loopback.ts"

const limit = 120
const window = 4000
const windows = 4
const transitTime = 100
const page = JSON.stringify({ status: "success", data: { next: null, results: [] } })
const tagged = JSON.stringify({ status: "success", data: {} })
interface Seen {
  readonly at: number
  readonly ours: boolean
  readonly accepted: boolean
  /** The wait that a rate-limit response requests, in ms. */
  readonly wait: number
}

/** A budget per window and key, shared by all clients. A rejection names the whole seconds until the next window. */
const budgeted = (seen: Array<Seen>): RequestListener => {
  const start = performance.now()
  let current = -1
  let left = 0
  return (request, response) => {
    const at = performance.now() - start
    const index = Math.floor(at / window)
    if (index !== current) {
      current = index
      left = limit
    }
    const accepted = left > 0
    if (accepted) left--
    const wait = Math.ceil(((index + 1) * window - at) / 1000)
    seen.push({ at, ours: request.headers["x-integration-id"] !== "foreign:1", accepted, wait: 1000 * wait })
    if (accepted) return void setTimeout(() => json(response, request.method === "GET" ? page : tagged), 5)
    response.setHeader("retry-after", String(wait))
    json(response, refusal("PLATFORM.RATE_LIMIT_EXCEEDED"), 429)
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Another client: sends requests in a loop, and waits after a rate-limit response. */
const foreign = async (url: string, signal: AbortSignal) => {
  while (!signal.aborted) {
    const response = await fetch(`${url}/ats/tags`, {
      headers: { authorization: "Bearer the-key", "x-integration-id": "foreign:1" }
    })
    await response.text()
    if (response.status === 429) await pause(1000 * Number(response.headers.get("retry-after")))
  }
}

interface Refused {
  readonly at: number
  readonly until: number
}

/** Records when each of our requests is sent, and when each rate-limit response arrives. */
const observed = (sent: Array<number>, refused: Array<Refused>) =>
  Layer.effect(
    HttpClient.HttpClient,
    Effect.map(
      HttpClient.HttpClient,
      HttpClient.transform((response) =>
        Effect.suspend(() => {
          sent.push(performance.now())
          return Effect.tap(response, ({ headers, status }) =>
            Effect.sync(() => {
              const at = performance.now()
              if (status === 429) refused.push({ at, until: at + 1000 * Number(headers["retry-after"]) })
            }))
        })
      )
    )
  ).pipe(Layer.provide(UnifiedApi.httpClient))

const integrations = ["a:1", "b:2", "c:3"]
const classes = ["write", "poll", "refresh", "sweep", "backfill"] as const satisfies ReadonlyArray<Priority>

it.live(
  "beside a foreign client on the same key, no request is sent during a wait, no priority starves, and the limit is used (R1, R2)",
  () =>
    Effect.gen(function*() {
      const seen: Array<Seen> = []
      const sent: Array<number> = []
      const refused: Array<Refused> = []
      const served = new Map<string, number>()
      const server = yield* Loopback.serving(budgeted(seen))
      const client = clientOf(server.url, { retryBase: "100 millis" }, observed(sent, refused))

      const ours = Effect.gen(function*() {
        const source = yield* Source
        const request = (integration: string, priority: Priority): Effect.Effect<unknown, unknown> =>
          priority === "write"
            ? source.write({
              account: "default",
              integration,
              write: "addTag",
              params: { candidate_id: "1" },
              body: { tag: { name: "x" } }
            }, noHooks)
            : source.page({
              account: "default",
              integration,
              model: "ats.tag",
              priority,
              cursor: null,
              updatedAfter: null,
              ids: null
            })
        yield* Effect.forEach(
          integrations.flatMap((integration) => classes.map((priority) => ({ integration, priority }))),
          ({ integration, priority }) =>
            request(integration, priority).pipe(
              Effect.tap(() => {
                const key = `${integration} ${priority}`
                served.set(key, (served.get(key) ?? 0) + 1)
                return Effect.void
              }),
              Effect.ignore,
              Effect.forever
            ),
          { concurrency: "unbounded" }
        )
      })
      const theirs = Effect.promise((signal) => foreign(server.url, signal))
      const stalls = monitorEventLoopDelay({ resolution: 5 })
      stalls.enable()
      yield* Effect.all([ours, theirs, theirs], { concurrency: "unbounded" }).pipe(
        Effect.provide(client),
        Effect.timeoutOption((windows + 0.5) * window)
      )

      assert.isAtLeast(refused.length, windows - 1)
      const tooSoon = sent.filter((at) => refused.some((refusal) => refusal.at < at && at < refusal.until - 2))
      assert.deepStrictEqual(tooSoon, [])
      // The same check with the server's times, which must allow for requests in transit while this process does not run.
      stalls.disable()
      const longest = transitTime + stalls.max / 1e6
      const own = seen.filter(({ ours }) => ours)
      const hasty = own.filter(({ at }) =>
        own.some((refusal) => !refusal.accepted && refusal.at + longest < at && at < refusal.at + refusal.wait)
      )
      assert.deepStrictEqual(hasty, [])

      const accepted = seen.filter(({ accepted, at }) => accepted && at < windows * window)
      assert.isAtLeast(accepted.length, 0.9 * limit * windows)
      assert.isAtLeast(accepted.filter(({ ours }) => ours).length, 0.1 * accepted.length)

      for (const integration of integrations) {
        for (const priority of classes) assert.isAtLeast(served.get(`${integration} ${priority}`) ?? 0, 2, priority)
      }
    })
)
