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
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Scope from "effect/Scope"

const delay = Duration.seconds(1)
const maxWaiting = 64
const logInterval = Duration.minutes(1)

const wrongTokens = Metric.counter("rollcall_http_wrong_tokens_total", {
  description: "Requests to the operating API that were refused because their token is wrong",
  incremental: true
})

export class WrongTokens extends Context.Service<WrongTokens, {
  /** Notes one wrong token, and returns after the delay. False: too many wait, and the caller should say so. */
  readonly penalize: (address: string) => Effect.Effect<boolean>
}>()("rollcall/http/WrongTokens") {
  static readonly layer: Layer.Layer<WrongTokens> = Layer.effect(
    WrongTokens,
    Effect.gen(function*() {
      const scope = yield* Scope.Scope
      let waiting = 0
      /** Wrong tokens since the last log line; the line about them is due at the end of the interval. */
      let unlogged = 0
      let lastAddress = ""
      let quietUntil = 0

      const log = (count: number) =>
        Effect.logWarning("requests with a wrong token were refused").pipe(
          Effect.annotateLogs({ count, address: lastAddress })
        )

      const logRest = Effect.suspend(() => {
        const count = unlogged
        unlogged = 0
        return count === 0 ? Effect.void : log(count)
      }).pipe(Effect.delay(logInterval))

      const note = Effect.fnUntraced(function*(address: string) {
        lastAddress = address
        yield* Metric.update(wrongTokens, 1)
        const now = yield* Clock.currentTimeMillis
        if (now < quietUntil) {
          unlogged += 1
          return
        }
        quietUntil = now + Duration.toMillis(logInterval)
        yield* log(1)
        yield* Effect.forkIn(logRest, scope)
      })

      return WrongTokens.of({
        penalize: Effect.fnUntraced(function*(address) {
          yield* note(address)
          if (waiting >= maxWaiting) return false
          waiting += 1
          yield* Effect.ensuring(Effect.sleep(delay), Effect.sync(() => waiting -= 1))
          return true
        })
      })
    })
  )
}
