/** Handlers for the state of the whole installation, once or as a stream of server-sent events, and its history. */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Stream from "effect/Stream"
import { formatTime } from "../../domain/Watermark.ts"
import { historyInterval, historySlots } from "../../store/Operators.ts"
import { Store } from "../../store/Store.ts"
import { Api } from "../contract/Api.ts"
import { eventResponse, wantsEvents } from "../request/ServerSentEvents.ts"
import { SharedOverview } from "./SharedOverview.ts"
import { select } from "./StreamRows.ts"

const isFresh = ({ headers }: HttpServerRequest): boolean => headers["cache-control"]?.includes("no-cache") === true

/** Each new state. While the store was never read, or a read fails, a comment keeps the connection. */
const states = Effect.gen(function*() {
  const shared = yield* SharedOverview
  const wait = Effect.flatMap(shared.pause, (pause) => Effect.sleep(Duration.millis(pause)))
  const next = shared.get(false).pipe(
    Effect.map(({ text }) => `event: overview\ndata: ${text}\n\n`),
    Effect.catch(() => Effect.succeed(": the store does not answer\n\n"))
  )
  const body = Stream.unfold(
    true,
    (isFirst: boolean) => Effect.map(isFirst ? next : Effect.andThen(wait, next), (text) => [text, false] as const)
  )
  return eventResponse(Stream.encodeText(body))
})

const current = Effect.gen(function*() {
  const request = yield* HttpServerRequest
  if (wantsEvents(request.headers["accept"])) return yield* states
  const { text } = yield* (yield* SharedOverview).get(isFresh(request))
  return HttpServerResponse.text(text, { contentType: "application/json" })
})

const orNull = (value: number | undefined): number | null => value ?? null

export const layer = HttpApiBuilder.group(Api, "overview", (handlers) =>
  handlers
    .handle("show", () => current)
    .handle("streams", ({ query }) =>
      Effect.gen(function*() {
        const { get } = yield* SharedOverview
        const { rows, view } = yield* get(isFresh(yield* HttpServerRequest))
        return { as_of: view.as_of, ...select(rows, query) }
      }))
    .handle("history", ({ query: { since } }) =>
      Effect.gen(function*() {
        const { history } = yield* Store
        const now = yield* Clock.currentTimeMillis
        const samples = yield* history(Math.max(since ?? 0, now - historySlots * historyInterval))
        return {
          interval_seconds: historyInterval / 1000,
          samples: samples.map(({ at, median, p95, worst, ...sample }) => ({
            ...sample,
            at: formatTime(at),
            median_seconds: orNull(median),
            p95_seconds: orNull(p95),
            worst_seconds: orNull(worst),
            dead_letters: sample.deadLetters
          }))
        }
      })))
