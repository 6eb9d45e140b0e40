/**
 * Slows down, counts and logs requests with a wrong token.
 *
 * Invariants
 * 1. The right token is never delayed and never refused, whatever others send
 * 2. Memory is bounded: a fixed number of requests wait, and nothing is stored per client   (I9)
 * 3. A wrong token is never logged: it may be the right one with a typing error   (I11)
 *
 * Gotchas
 * - While `maxWaiting` wrong tokens wait, further ones are refused at once. The delay only makes guessing slow and visible; the
 *   length of the token makes it hopeless.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as BoundedLog from "../limits/BoundedLog.ts"

const delay = Duration.seconds(1)
const maxWaiting = 64

const wrongTokens = Metric.counter("rollcall_http_wrong_tokens_total", {
  description: "Requests to the operating API that were refused because their token is wrong",
  incremental: true
})

const make = Effect.gen(function*() {
  const log = yield* BoundedLog.make("requests with a wrong token were refused")
  let waiting = 0

  return {
    /**
     * Notes one wrong token, and returns true after the delay. Returns false at once if too many requests wait; the response should then
     * state that.
     */
    penalize: Effect.fnUntraced(function*(address: string) {
      yield* Metric.update(wrongTokens, 1)
      yield* log(address)
      if (waiting >= maxWaiting) return false
      waiting += 1
      yield* Effect.ensuring(Effect.sleep(delay), Effect.sync(() => waiting -= 1))
      return true
    })
  }
})

export class WrongTokens extends Context.Service<WrongTokens>()("rollcall/http/WrongTokens", { make }) {
  static readonly layer: Layer.Layer<WrongTokens> = Layer.effect(WrongTokens, make)
}
