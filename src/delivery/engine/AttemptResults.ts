/**
 * Records how an attempt ended: its outcome, its metrics and its result for the handler's circuit. Switches off a plugin whose deliveries
 * keep ending the process.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import type { Deliveries } from "../../store/Deliveries.ts"
import type { Failure } from "../../store/Delivery.ts"
import type * as Attempt from "../handler/Attempt.ts"
import type { CountedAttempts } from "./CountedAttempts.ts"
import type { EndedJobs } from "./EndedJobs.ts"
import { deliveriesCounter, type HandlerQueue, type OwnedJob } from "./HandlerQueue.ts"
import { outcomeOf } from "./Retry.ts"

/** A plugin is switched off when this many of its deliveries are dead letters because the process ended while they ran. */
const crashesUntilSwitchedOff = 3

const failedCounter = Metric.counter("rollcall_delivery_attempts_failed_total", {
  description: "Failed attempts, by plugin, handler and reason",
  incremental: true
})

export const make = (
  { counted, deliveries }: {
    readonly deliveries: Pick<Deliveries["Service"], "deadLetters" | "setSwitch">
    readonly counted: CountedAttempts
  },
  { finishJob, releaseQueue }: Pick<EndedJobs, "finishJob" | "releaseQueue">
) => {
  const succeed = Effect.fnUntraced(function*(handlerQueue: HandlerQueue, job: OwnedJob, now: number) {
    const { events, members } = job
    handlerQueue.breaker.noteResult(null, now)
    yield* Metric.update(handlerQueue.metrics.settled, members.length)
    counted.add(handlerQueue.key, now, members.length)
    for (const { detectedAt } of events) {
      yield* Metric.update(handlerQueue.metrics.delay, (now - detectedAt.getTime()) / 1000)
    }
    finishJob(handlerQueue, job, {
      _tag: "Settled",
      deliveries: members.map(({ id }) => id),
      result: { handler: handlerQueue.key, failed: null }
    })
  })

  /** Switches off a plugin whose deliveries keep ending the process: each of its events would end it again. */
  const switchOff = Effect.fnUntraced(
    function*({ plugin }: HandlerQueue, at: number) {
      const endedBefore = yield* deliveries.deadLetters({
        plugin: plugin.name,
        reason: "ProcessEnded",
        limit: crashesUntilSwitchedOff
      })
      // the current dead letter is not settled yet, so the store does not list it
      if (endedBefore.length + 1 < crashesUntilSwitchedOff) return
      const detail = `the process ended while ${crashesUntilSwitchedOff} of its deliveries ran`
      yield* deliveries.setSwitch(
        { _tag: "Plugin", plugin: plugin.name, integration: null },
        false,
        { at, command: "plugins.off", target: plugin.name, detail }
      )
      yield* Effect.logError("plugin switched off: the process kept ending while its deliveries ran").pipe(
        Effect.annotateLogs({
          plugin: plugin.name,
          hint: "fix the plugin, then run `rollcall plugins on` and redrive its dead letters"
        })
      )
    },
    Effect.catch((error) =>
      Effect.annotateLogs(Effect.logWarning("plugin could not be switched off"), { why: error.message })
    )
  )

  const fail = Effect.fnUntraced(function*(
    handlerQueue: HandlerQueue,
    job: OwnedJob,
    attempt: Attempt.Attempt,
    startedAt: number,
    failure: Failure,
    retryAfter: number
  ) {
    const { handler, plugin } = handlerQueue
    const { members } = job
    const labels = { plugin: plugin.name, handler: handler.name }
    const first = members[0]
    const number = first.claim
    counted.add(handlerQueue.key, failure.at, 0, { ...failure, integration: first.integration })
    const next = outcomeOf(
      members,
      { number, startedAt, failure, requests: attempt.requests },
      handler.options,
      retryAfter
    )
    const stopped = attempt.hasMetWriteStop() && failure.reason === "RateLimited"
    const outcome = stopped && next._tag === "Retry" ? { ...next, stopped } : next
    yield* Metric.update(Metric.withAttributes(failedCounter, { ...labels, reason: failure.reason }), 1)
    if (outcome._tag === "Dead") {
      yield* Metric.update(Metric.withAttributes(deliveriesCounter, { ...labels, outcome: "dead" }), members.length)
      yield* Effect.logWarning("delivery became a dead letter").pipe(
        Effect.annotateLogs({ ...labels, deadLetter: first.id, reason: failure.reason, why: failure.message })
      )
      if (failure.reason === "ProcessEnded") yield* switchOff(handlerQueue, failure.at)
    }
    if (failure.reason === "RateLimited" || failure.reason === "Blocked") return finishJob(handlerQueue, job, outcome)
    const failed = first.orderingKey
    handlerQueue.breaker.noteResult(failed, failure.at)
    if (!handlerQueue.breaker.isClosed()) releaseQueue(handlerQueue)
    finishJob(handlerQueue, job, { ...outcome, result: { handler: handlerQueue.key, failed } })
  })

  return { succeed, fail }
}
