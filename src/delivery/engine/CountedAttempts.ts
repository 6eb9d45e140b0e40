/**
 * Counts the attempts of each handler in memory, and adds them to the store every ten seconds, so that settling a delivery costs no further
 * write.
 *
 * Gotchas
 * - A process that is killed loses the counts of its last ten seconds. If the store's response to an addition is lost, its attempts may be
 *   counted twice.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type { Deliveries } from "../../store/Deliveries.ts"
import { type AttemptCounts, type CountedFailure, countedStep } from "../../store/Delivery.ts"

const saveInterval = Duration.seconds(10)

type Counts = AttemptCounts & { readonly key: number }

/** Saves in the background for as long as the scope lives, and once more when it closes. */
export const make = Effect.fnUntraced(function*({ addAttempts }: Pick<Deliveries["Service"], "addAttempts">) {
  let counts = new Map<string, Counts>()
  const hasCounts = Latch.makeUnsafe()

  const merge = (one: Counts) => {
    const name = `${one.key} ${one.at}`
    const { attempts = 0, failed = 0, failure = null, settled = 0 } = counts.get(name) ?? {}
    counts.set(name, {
      ...one,
      attempts: attempts + one.attempts,
      failed: failed + one.failed,
      settled: settled + one.settled,
      failure: failure === null || (one.failure !== null && one.failure.at >= failure.at) ? one.failure : failure
    })
    hasCounts.openUnsafe()
  }

  const save = Effect.suspend(() => {
    const saved = [...counts.values()]
    counts = new Map()
    hasCounts.closeUnsafe()
    return saved.length === 0
      ? Effect.void
      : Effect.catch(addAttempts(saved), () => Effect.sync(() => saved.forEach(merge)))
  }).pipe(Effect.uninterruptible)

  yield* Effect.addFinalizer(() => save)
  yield* Effect.forkScoped(
    Effect.forever(Effect.andThen(hasCounts.await, Effect.delay(save, saveInterval)), { disableYield: true })
  )

  return {
    /** `settled`: how many deliveries the attempt settled. `failure`: null if it succeeded. */
    add: (key: number, now: number, settled: number, failure: CountedFailure | null = null) =>
      merge({
        key,
        at: now - now % countedStep,
        attempts: 1,
        failed: failure === null ? 0 : 1,
        settled,
        failure
      })
  }
})

export type CountedAttempts = Effect.Success<ReturnType<typeof make>>
