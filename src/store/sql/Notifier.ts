/**
 * Wakes waiting fibers when something happens in this process. The occurrences are counted, so that a fiber that read the count before an
 * occurrence does not miss the occurrence.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"

export const make = () => {
  let times = 0
  let next = Deferred.makeUnsafe<void>()
  return {
    /** Counts an occurrence and wakes the waiting fibers. */
    give: Effect.suspend(() => {
      const waiters = next
      times++
      next = Deferred.makeUnsafe<void>()
      return Deferred.succeed(waiters, undefined)
    }),
    /** Number of occurrences. */
    times: Effect.sync(() => times),
    /** Waits until there are more than `seen` occurrences; returns their number. */
    after: (seen: number): Effect.Effect<number> =>
      Effect.suspend(() => times > seen ? Effect.void : Deferred.await(next)).pipe(
        Effect.andThen(Effect.sync(() => times))
      )
  }
}

export type Notifier = ReturnType<typeof make>
