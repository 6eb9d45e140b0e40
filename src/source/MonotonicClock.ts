/** The monotonic clock in milliseconds: a jump of the wall clock does not change it   (W4). */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

export const millisOf = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1e6

/** Starts a stopwatch; the inner effect returns the elapsed milliseconds. */
export const stopwatch = Effect.map(
  Clock.monotonicTimeNanos,
  (start) => Effect.map(Clock.monotonicTimeNanos, (end) => Number(end - start) / 1e6)
)
