/**
 * Tells whoever waits that something happened in this process. Counts how often, so that who looked before it happened
 * misses nothing.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"

export const make = () => {
  let times = 0
  let next = Deferred.makeUnsafe<void>()
  return {
    /** It happened. */
    give: Effect.suspend(() => {
      const waiters = next
      times++
      next = Deferred.makeUnsafe<void>()
      return Deferred.succeed(waiters, undefined)
    }),
    /** How often it happened. */
    times: Effect.sync(() => times),
    /** Returns once it happened more than `seen` times, and gives how often. */
    after: (seen: number): Effect.Effect<number> =>
      Effect.suspend(() => times > seen ? Effect.void : Deferred.await(next)).pipe(
        Effect.andThen(Effect.sync(() => times))
      )
  }
}
