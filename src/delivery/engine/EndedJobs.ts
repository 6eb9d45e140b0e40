/** The outcomes of ended jobs until the store has settled them. */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HandlerCircuit from "../../domain/HandlerCircuit.ts"
import type { AttemptOutcome, Claimed, ClaimResult } from "../../store/DeliveryClaims.ts"
import type { OwnedShard } from "./DeliveryShards.ts"
import type { HandlerQueue, OwnedJob } from "./HandlerQueue.ts"

export interface OwnedOutcome {
  readonly owned: OwnedShard
  readonly outcome: AttemptOutcome
}

export const released = (members: ReadonlyArray<Claimed>): AttemptOutcome => ({
  _tag: "Released",
  deliveries: members.map(({ id }) => id)
})

export const make = () => {
  let outcomes: Array<OwnedOutcome> = []
  let some = Deferred.makeUnsafe<void>()

  const push = (owned: OwnedShard, outcome: AttemptOutcome) => {
    outcomes.push({ owned, outcome })
    Deferred.doneUnsafe(some, Exit.void)
  }
  const finishJob = (handlerQueue: HandlerQueue, { owned }: OwnedJob, outcome: AttemptOutcome) => {
    handlerQueue.inFlight--
    owned.jobs--
    push(owned, outcome)
  }
  const release = (handlerQueue: HandlerQueue, job: OwnedJob) => finishJob(handlerQueue, job, released(job.members))
  /** Releases the queued jobs for which this is true. */
  const releaseQueued = (handlerQueue: HandlerQueue, isReleased: (job: OwnedJob) => boolean) => {
    for (const job of handlerQueue.queued.splice(0)) {
      if (isReleased(job)) release(handlerQueue, job)
      else handlerQueue.queued.push(job)
    }
  }
  const releaseQueue = (handlerQueue: HandlerQueue) => releaseQueued(handlerQueue, () => true)

  return {
    push,
    finishJob,
    release,
    releaseQueued,
    releaseQueue,
    /** Outcomes that `settled` has not removed yet, oldest first. */
    all: (): ReadonlyArray<OwnedOutcome> => outcomes,
    settled: (settled: ReadonlyArray<OwnedOutcome>) => {
      const done = new Set(settled)
      outcomes = outcomes.filter((outcome) => !done.has(outcome))
      if (outcomes.length === 0) some = Deferred.makeUnsafe()
    },
    /** Returns once there are outcomes and no further one follows immediately, or `most` of them. */
    awaitSome: Effect.fnUntraced(function*(most: number) {
      yield* Deferred.await(some)
      for (let count = 0; outcomes.length > count && count < most;) {
        count = outcomes.length
        yield* Effect.yieldNow
      }
    })
  }
}

export type EndedJobs = ReturnType<typeof make>

/** Updates this process's circuits of all handlers from the store's result, once the store has settled the outcomes `settled`. */
export const circuitUpdate = (queues: ReadonlyMap<number, HandlerQueue>, { all, releaseQueue }: EndedJobs) =>
  Effect.fnUntraced(function*(
    settled: ReadonlyArray<OwnedOutcome>,
    circuits: ClaimResult["circuits"]
  ) {
    const now = yield* Clock.currentTimeMillis
    const unsettled = all().filter(({ owned }) => owned.state !== "lost")
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
