/**
 * Adds a sample of the installation to its history once a minute. Every process tries; the store takes the first sample of a minute.
 *
 * Gotchas
 * - While the store does not answer, there are no samples, so that a plot has a gap and not a line.
 * - If a read takes longer than a request waits for it, each request gets the state of the read before. Its sample belongs to the minute in
 *   which it was read.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { historyInterval } from "../../store/Operators.ts"
import { Store } from "../../store/Store.ts"
import { SharedOverview } from "./SharedOverview.ts"

/** An older state is what was read last, before the store stopped answering. */
const longestAge = 2 * historyInterval

const sample = Effect.gen(function*() {
  const { get } = yield* SharedOverview
  const { recordSample } = yield* Store
  const startedAt = yield* Clock.currentTimeMillis
  const snapshot = yield* get(true)
  if (startedAt - snapshot.at < longestAge) yield* recordSample(snapshot.sample)
})

export const layer: Layer.Layer<never, never, SharedOverview | Store> = Layer.effectDiscard(
  Effect.forkScoped(
    Effect.forever(Effect.delay(Effect.ignore(sample), Duration.millis(historyInterval)), { disableYield: true })
  )
)
