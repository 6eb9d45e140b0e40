/**
 * Limits the memory of pages that clients have requested and not received yet, over all connections.
 *
 * Invariants
 * 1. A page is made only while there is memory for the largest possible page, so the limit is kept whatever the size of the page is   (I9)
 * 2. While a request waits for memory, a page that another client receives slowly keeps its memory for at most `pageReceipt`
 *
 * Gotchas
 * - An unread page of 8 MiB takes about 29 MiB: its rows, its text and its bytes.
 * - Node.js reports the end of a response even when the client leaves before it starts.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Semaphore from "effect/Semaphore"
import { TooManyPages } from "../contract/Problem.ts"
import * as BoundedLog from "./BoundedLog.ts"
import { readersCut } from "./Connections.ts"
import { type Limits, maxPageBytes, retryAfter } from "./Limits.ts"

const busy = Effect.map(
  HttpServerRespondable.toResponse(
    new TooManyPages({
      detail: "clients have not yet received the pages that they requested earlier",
      hint: "try again, with a smaller `limit`"
    })
  ),
  HttpServerResponse.setHeader("retry-after", retryAfter)
)

/** Interval at which a waiting request looks for memory (ms). */
const retryInterval = 50

const make = Effect.fnUntraced(function*({ pageBytes, pageReceipt, pageWait }: Limits) {
  const log = yield* BoundedLog.make(
    "a client that receives its page too slowly was disconnected: other requests need the memory"
  )
  const maxTries = Duration.toMillis(pageWait) / retryInterval
  const maxAge = Duration.toNanosUnsafe(pageReceipt)
  const memory = Semaphore.makeUnsafe(Math.max(pageBytes, maxPageBytes))
  /** By response: when its page was made (monotonic ns), the oldest first. */
  const unread = new Map<ReturnType<typeof NodeHttpServerRequest.toServerResponse>, bigint>()

  const cutOldest = Effect.gen(function*() {
    const [oldest] = unread
    if (oldest === undefined) return
    const [response, since] = oldest
    if ((yield* Clock.monotonicTimeNanos) - since < maxAge) return
    unread.delete(response)
    const { socket } = response.req
    yield* Metric.update(readersCut, 1)
    yield* log(socket.remoteAddress ?? "unknown")
    socket.destroy()
  })

  return {
    /**
     * Makes a page as soon as there is memory for it. The memory is released when the response has ended. If there is no memory in time,
     * the response is 503.
     */
    hold: <E, R>(page: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
      Effect.uninterruptibleMask((restore) =>
        Effect.gen(function*() {
          for (let tries = 0; !(yield* memory.takeIfAvailable(maxPageBytes)); tries++) {
            yield* cutOldest
            if (tries >= maxTries) return yield* busy
            yield* restore(Effect.sleep(retryInterval))
          }
          const made = yield* Effect.onError(restore(page), () => memory.release(maxPageBytes))
          const held = made.body._tag === "Uint8Array" ? Math.min(made.body.contentLength, maxPageBytes) : 0
          yield* memory.release(maxPageBytes - held)
          const response = NodeHttpServerRequest.toServerResponse(yield* HttpServerRequest)
          const release = () => {
            unread.delete(response)
            Effect.runSync(memory.release(held))
          }
          unread.set(response, yield* Clock.monotonicTimeNanos)
          if (response.closed) release()
          else response.once("close", release)
          return made
        })
      )
  }
})

export class PageBudget extends Context.Service<PageBudget, Effect.Success<ReturnType<typeof make>>>()(
  "rollcall/http/PageBudget"
) {}

export const layer = (limits: Limits): Layer.Layer<PageBudget> => Layer.effect(PageBudget, make(limits))
