/**
 * A clock that jumps to the next moment at which something is due as soon as nothing else is going on.
 *
 * Gotchas
 * - What is going on inside a promise cannot be seen: whoever waits for one sleeps no longer than the event loop's turn.
 */
import type * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"

interface Timer {
  readonly at: number
  /** Somebody waits for it: time passes. */
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

  /** Calls back when time comes there by itself; does not make it pass. */
  at(at: number, fire: () => void): void {
    this.#timers.add({ at, awaited: false, fire })
  }

  stop(): void {
    this.#timers.clear()
  }

  /** To whatever is due next. */
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
    // Two turns: what became ready in this one has been run by then.
    setImmediate(() =>
      setImmediate(() => {
        this.#pumping = false
        this.#jump()
      })
    )
  }
}
