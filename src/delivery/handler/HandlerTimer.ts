/**
 * The time a handler may take. It stands still while a request of the attempt waits for its turn: an account may be paused
 * for minutes, and the handler can do nothing about that.
 *
 * Gotchas
 * - Of requests that wait side by side the time of all is counted once.
 * - Time is read from the monotonic clock: a wall clock that is set ends no attempt   (W4).
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import { SlotWaitAborted } from "../../source/Source.ts"

const now = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

export const make = () => {
  const idle = Latch.makeUnsafe(true)
  const stopping = Latch.makeUnsafe(false)
  const allAnswered = Latch.makeUnsafe(true)
  let unanswered = 0
  let waiting = 0
  let since = 0
  let waited = 0
  let hasAbandoned = false

  const begin = Effect.map(now, (at) => {
    if (waiting++ > 0) return
    since = at
    idle.closeUnsafe()
  })
  const end = Effect.map(now, (at) => {
    if (--waiting > 0) return
    waited += at - since
    idle.openUnsafe()
  })
  const waitedBy = (at: number): number => waiting === 0 ? waited : waited + at - since

  const givenUp = Effect.suspend(() => {
    hasAbandoned = true
    return Effect.fail(new SlotWaitAborted({ message: "not sent: the process stops, the next one delivers anew" }))
  })

  /** Runs `body`, which waits until it runs what it is given. */
  const whilePaused = <A, E, R>(body: (go: Effect.Effect<void>) => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      let isPaused = true
      const go = Effect.suspend(() => {
        if (!isPaused) return Effect.void
        isPaused = false
        return end
      })
      return Effect.acquireUseRelease(begin, () => body(go), () => go)
    })

  return {
    whilePaused,
    /** Runs a wait during which the handler's time stands still; fails once `giveUp` was called and every write is answered. */
    waiting: (wait: Effect.Effect<void>): Effect.Effect<void, SlotWaitAborted> =>
      whilePaused(() =>
        Effect.raceFirst(Effect.andThen(Effect.andThen(stopping.await, allAnswered.await), givenUp), wait)
      ),
    /** A write leaves; to be called again with -1 once it is over. A wait that failed meanwhile might interrupt it. */
    trackSent: (by: 1 | -1) => {
      unanswered += by
      if (unanswered === 0) allAnswered.openUnsafe()
      else allAnswered.closeUnsafe()
    },
    /** Returns once every write that left is answered. */
    allAnswered: allAnswered.await,
    /** Never returns; fails with what `late` gives once so much time has passed outside of waits. */
    limit: <E>(duration: Duration.Duration, late: () => E): Effect.Effect<never, E> =>
      Effect.gen(function*() {
        const begun = yield* now
        for (;;) {
          yield* idle.await
          const at = yield* now
          const left = Duration.toMillis(duration) - (at - begun - waitedBy(at))
          if (left <= 0) return yield* Effect.fail(late())
          yield* Effect.sleep(Duration.millis(Math.ceil(left)))
        }
      }),
    /** Ends every wait, those to come too. */
    abandonWaits: () => stopping.openUnsafe(),
    /** Whether a wait was ended that way. */
    hasAbandoned: () => hasAbandoned
  }
}

export type HandlerTimer = ReturnType<typeof make>
