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

export class HandlerTimer {
  readonly #idle = Latch.makeUnsafe(true)
  readonly #stopping = Latch.makeUnsafe(false)
  readonly #writesDone = Latch.makeUnsafe(true)
  #openWrites = 0
  #waiting = 0
  #since = 0
  #waited = 0
  #hasEndedWait = false

  /** Returns once every write that was sent has its response. */
  readonly writesDone = this.#writesDone.await

  #begin(at: number): void {
    if (this.#waiting++ > 0) return
    this.#since = at
    this.#idle.closeUnsafe()
  }

  #end(at: number): void {
    if (--this.#waiting > 0) return
    this.#waited += at - this.#since
    this.#idle.openUnsafe()
  }

  /** Runs `body` with the timer paused until `body` runs the effect `resume` or ends. */
  whilePaused<A, E, R>(body: (resume: Effect.Effect<void>) => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      let isPaused = true
      const resume = Effect.suspend(() => {
        if (!isPaused) return Effect.void
        isPaused = false
        return Effect.map(now, (at) => this.#end(at))
      })
      return Effect.acquireUseRelease(Effect.map(now, (at) => this.#begin(at)), () => body(resume), () => resume)
    })
  }

  /** Runs a wait with the timer paused. Fails once `endWaits` was called and every write that was sent has its response. */
  waiting(wait: Effect.Effect<void>): Effect.Effect<void, SlotWaitAborted> {
    const abort = Effect.suspend(() => {
      this.#hasEndedWait = true
      return Effect.fail(
        new SlotWaitAborted({ message: "not sent: the process is stopping, and the next process repeats the delivery" })
      )
    })
    const stopped = Effect.andThen(this.#stopping.await, this.writesDone)
    return this.whilePaused(() => Effect.raceFirst(Effect.andThen(stopped, abort), wait))
  }

  /**
   * Call this with 1 when a write is sent, and with -1 when it has its response. No wait is ended in between, because that could
   * interrupt the write.
   */
  trackSent(by: 1 | -1): void {
    this.#openWrites += by
    if (this.#openWrites === 0) this.#writesDone.openUnsafe()
    else this.#writesDone.closeUnsafe()
  }

  /** Never succeeds. Fails with the result of `late` once `duration` has passed, not counting waits. */
  limit<E>(duration: Duration.Duration, late: () => E): Effect.Effect<never, E> {
    const idle = this.#idle
    const waitedBy = (at: number) => this.#waiting === 0 ? this.#waited : this.#waited + at - this.#since
    return Effect.gen(function*() {
      const startedAt = yield* now
      for (;;) {
        yield* idle.await
        const at = yield* now
        const left = Duration.toMillis(duration) - (at - startedAt - waitedBy(at))
        if (left <= 0) return yield* Effect.fail(late())
        yield* Effect.sleep(Duration.millis(Math.ceil(left)))
      }
    })
  }

  /** Ends every wait, including later ones. */
  endWaits(): void {
    this.#stopping.openUnsafe()
  }

  /** Whether `endWaits` ended a wait. */
  hasEndedWait(): boolean {
    return this.#hasEndedWait
  }
}
