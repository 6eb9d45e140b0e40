/**
 * A clock that jumps to its next timer as soon as no other work is ready to run.
 *
 * Gotchas
 * - Work inside a promise is invisible to the clock. Virtual time may jump ahead while code waits for a promise.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

interface Timer {
  readonly at: number
  /** True for a `sleep`, whose timer makes time pass; false for a callback set with `at`. */
  readonly awaited: boolean
  readonly fire: () => void
}

export class VirtualClock implements Clock.Clock {
  #now: number
  #pumping = false
  readonly #timers = new Set<Timer>()

  constructor(now: number) {
    this.#now = now
  }

  currentTimeMillisUnsafe = (): number => this.#now
  currentTimeNanosUnsafe = (): bigint => BigInt(this.#now) * 1_000_000n
  monotonicTimeNanosUnsafe = (): bigint => this.currentTimeNanosUnsafe()
  readonly currentTimeMillis = Effect.sync(this.currentTimeMillisUnsafe)
  readonly currentTimeNanos = Effect.sync(this.currentTimeNanosUnsafe)
  readonly monotonicTimeNanos = Effect.sync(this.monotonicTimeNanosUnsafe)

  sleep(duration: Duration.Duration): Effect.Effect<void> {
    const millis = Duration.toMillis(duration)
    if (!Number.isFinite(millis)) return Effect.never
    return Effect.callback((resume) => {
      const timer = { at: this.#now + millis, awaited: true, fire: () => resume(Effect.void) }
      this.#timers.add(timer)
      this.#pump()
      return Effect.sync(() => void this.#timers.delete(timer))
    })
  }

  /** Calls `fire` when virtual time reaches `at`. Does not make time pass by itself. */
  at(at: number, fire: () => void): void {
    this.#timers.add({ at, awaited: false, fire })
  }

  stop(): void {
    this.#timers.clear()
  }

  /** Jumps to the timer that is due first, and fires it. */
  #jump(): void {
    const next = [...this.#timers].reduce<Timer | undefined>(
      (first, timer) => first === undefined || timer.at < first.at ? timer : first,
      undefined
    )
    if (next === undefined) return
    this.#timers.delete(next)
    this.#now = Math.max(this.#now, next.at)
    next.fire()
    this.#pump()
  }

  #pump(): void {
    if (this.#pumping || ![...this.#timers].some(({ awaited }) => awaited)) return
    this.#pumping = true
    // waits two turns of the event loop, so that work that became ready in this turn has run
    setImmediate(() =>
      setImmediate(() => {
        this.#pumping = false
        this.#jump()
      })
    )
  }
}
