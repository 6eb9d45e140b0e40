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
import { GivenUp } from "../source/Source.ts"

const now = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

export const make = () => {
  const idle = Latch.makeUnsafe(true)
  const stopping = Latch.makeUnsafe(false)
  const answered = Latch.makeUnsafe(true)
  let unanswered = 0
  let waiting = 0
  let since = 0
  let waited = 0
  let gaveUp = false

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
    gaveUp = true
    return Effect.fail(new GivenUp({ message: "not sent: the process stops, the next one delivers anew" }))
  })

  /** Runs `body`, which waits until it runs what it is given. */
  const standing = <A, E, R>(body: (go: Effect.Effect<void>) => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      let isStanding = true
      const go = Effect.suspend(() => {
        if (!isStanding) return Effect.void
        isStanding = false
        return end
      })
      return Effect.acquireUseRelease(begin, () => body(go), () => go)
    })

  return {
    standing,
    /** Runs a wait during which the handler's time stands still; fails once `giveUp` was called and every write is answered. */
    waiting: (wait: Effect.Effect<void>): Effect.Effect<void, GivenUp> =>
      standing(() => Effect.raceFirst(Effect.andThen(Effect.andThen(stopping.await, answered.await), givenUp), wait)),
    /** A write leaves; to be called again with -1 once it is over. A wait that failed meanwhile might interrupt it. */
    leaves: (by: 1 | -1) => {
      unanswered += by
      if (unanswered === 0) answered.openUnsafe()
      else answered.closeUnsafe()
    },
    /** Returns once every write that left is answered. */
    answered: answered.await,
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
    giveUp: () => stopping.openUnsafe(),
    /** Whether a wait was ended that way. */
    gaveUp: () => gaveUp
  }
}

export type HandlerTime = ReturnType<typeof make>
