/**
 * Measures the time of a handler against its time-out. The timer is paused while a request of the attempt waits for a slot at the API,
 * because an account may be paused for minutes, and the handler cannot change that.
 *
 * Gotchas
 * - If several requests wait at the same time, their waiting time is subtracted once.
 * - Time is read from the monotonic clock: setting the wall clock ends no attempt   (W4).
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
  const writesDone = Latch.makeUnsafe(true)
  let openWrites = 0
  let waiting = 0
  let since = 0
  let waited = 0
  let hasEndedWait = false

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

  const abort = Effect.suspend(() => {
    hasEndedWait = true
    return Effect.fail(
      new SlotWaitAborted({ message: "not sent: the process is stopping, and the next process repeats the delivery" })
    )
  })

  /** Runs `body` with the timer paused until `body` runs the effect `resume` or ends. */
  const whilePaused = <A, E, R>(
    body: (resume: Effect.Effect<void>) => Effect.Effect<A, E, R>
  ): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      let isPaused = true
      const resume = Effect.suspend(() => {
        if (!isPaused) return Effect.void
        isPaused = false
        return end
      })
      return Effect.acquireUseRelease(begin, () => body(resume), () => resume)
    })

  return {
    whilePaused,
    /** Runs a wait with the timer paused. Fails once `endWaits` was called and every write that was sent has its response. */
    waiting: (wait: Effect.Effect<void>): Effect.Effect<void, SlotWaitAborted> =>
      whilePaused(() =>
        Effect.raceFirst(Effect.andThen(Effect.andThen(stopping.await, writesDone.await), abort), wait)
      ),
    /**
     * Call this with 1 when a write is sent, and with -1 when it has its response. No wait is ended in between, because that could
     * interrupt the write.
     */
    trackSent: (by: 1 | -1) => {
      openWrites += by
      if (openWrites === 0) writesDone.openUnsafe()
      else writesDone.closeUnsafe()
    },
    /** Returns once every write that was sent has its response. */
    writesDone: writesDone.await,
    /** Never succeeds. Fails with the result of `late` once `duration` has passed, not counting waits. */
    limit: <E>(duration: Duration.Duration, late: () => E): Effect.Effect<never, E> =>
      Effect.gen(function*() {
        const startedAt = yield* now
        for (;;) {
          yield* idle.await
          const at = yield* now
          const left = Duration.toMillis(duration) - (at - startedAt - waitedBy(at))
          if (left <= 0) return yield* Effect.fail(late())
          yield* Effect.sleep(Duration.millis(Math.ceil(left)))
        }
      }),
    /** Ends every wait, including later ones. */
    endWaits: () => stopping.openUnsafe(),
    /** Whether `endWaits` ended a wait. */
    hasEndedWait: () => hasEndedWait
  }
}

export type HandlerTimer = ReturnType<typeof make>
