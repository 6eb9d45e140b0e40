/** Keeps the circuits of all handlers of this process as the store has them. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HandlerCircuit from "../../domain/HandlerCircuit.ts"
import type { ClaimResult } from "../../store/DeliveryClaims.ts"
import type { EndedJobs, OwnedOutcome } from "./EndedJobs.ts"
import type { HandlerQueue } from "./HandlerQueue.ts"

export const make = (queues: ReadonlyMap<number, HandlerQueue>, { all, releaseQueue }: EndedJobs) =>
  /** Takes the circuits of the store, after it has settled these outcomes. */
  Effect.fnUntraced(function*(
    settled: ReadonlyArray<OwnedOutcome>,
    circuits: ClaimResult["circuits"]
  ) {
    const now = yield* Clock.currentTimeMillis
    const unsettled = all().filter(({ owned }) => owned.state !== "gone")
    for (const [key, handlerQueue] of queues) {
      const { breaker, handler, plugin } = handlerQueue
      const own = unsettled.flatMap(({ outcome: { result } }) => result?.handler === key ? [result.failed] : [])
      const hasOpened = breaker.update(circuits.get(key) ?? HandlerCircuit.closed, own, now)
      if (!breaker.isClosed()) releaseQueue(handlerQueue)
      const failure = settled.findLast(({ outcome: { result } }) => result?.handler === key && result.failed !== null)
      if (!hasOpened || failure === undefined || !("failedAttempt" in failure.outcome)) continue
      yield* Effect.logWarning("handler circuit opened: it fails for one record after another").pipe(
        Effect.annotateLogs({
          plugin: plugin.name,
          handler: handler.name,
          why: failure.outcome.failedAttempt.failure.message
        })
      )
    }
  })
