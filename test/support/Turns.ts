import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"

/** The result, and how often another fiber, which is always ready, ran meanwhile. */
export const withTurns = Effect.fnUntraced(function*<A, E, R>(effect: Effect.Effect<A, E, R>) {
  let turns = 0
  const other = yield* Effect.forkChild(Effect.forever(Effect.sync(() => void turns++)))
  const result = yield* effect
  const ofOther = turns
  yield* Fiber.interrupt(other)
  return { result, turns: ofOther }
})
