/**
 * One try of a delivery: in whose name the capabilities act, and what they did.
 *
 * Invariants
 * 1. Once it is over nothing is asked or written in its name any more   (X16)
 *
 * Gotchas
 * - The store's fence stops other processes and later claims. What this process gave up itself, and what a handler left
 *   running behind, is stopped here first.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import type { Model } from "../../domain/Model.ts"
import { type HandlerError, Transient } from "../../plugin/Failure.ts"
import type { Deliveries, FencingToken, SentRequest } from "../../store/Deliveries.ts"
import type { Subscription } from "../engine/Subscription.ts"
import * as ErrorMapping from "./ErrorMapping.ts"
import * as HandlerTimer from "./HandlerTimer.ts"

/** What steps are done once for, and the names of the steps around. */
export interface StepContext {
  readonly dedupKeys: readonly [string, ...ReadonlyArray<string>]
  readonly keepForever: boolean
  /** Ends with a slash, or is empty. */
  readonly path: string
  /** Requests to others than the API that left and were not answered yet. */
  unanswered: number
}

/** The step that is being run, if one is. */
export const CurrentStep: Context.Reference<StepContext | null> = Context.Reference<StepContext | null>(
  "rollcall/delivery/CurrentStep",
  { defaultValue: () => null }
)

/** Requests that the story of a dead letter lists. */
const maxListedRequests = 50

export interface AttemptInfo {
  readonly subscription: Subscription
  readonly fence: FencingToken
  readonly integration: string
  /** Of a batch: its own, and those of the batches it was a part of. */
  readonly dedupKeys: StepContext["dedupKeys"]
  /** What `oncePerRecord` counts by; null: there is more than one record. */
  readonly record: { readonly model: Model; readonly id: string } | "tick" | null
  /** Of what its writes cause. */
  readonly depth: number
}

/** What a step is done once for that is done once per record for ever, or once per integration by the clock. */
export const recordDedupKeyOf = (integration: string, record: NonNullable<AttemptInfo["record"]>): string =>
  record === "tick" ? `r:${integration}` : `r:${integration}/${record.model}/${record.id}`

export const make = (about: AttemptInfo, deliveries: Deliveries["Service"]) => {
  const requests: Array<SentRequest> = []
  const locks = new Map<string, Semaphore.Semaphore>()
  const completed = new Map<string, number>()
  let over = false
  let stopped = false

  /** Fails once this process has ended the attempt. */
  const ensureRunning: Effect.Effect<void, HandlerError> = Effect.suspend(() =>
    over ? Effect.fail(new Transient({ message: "this attempt is over" })) : Effect.void
  )

  /** Fails unless this attempt still has the delivery. */
  const ensureClaimed: Effect.Effect<void, HandlerError> = Effect.andThen(
    ensureRunning,
    Effect.mapError(deliveries.check(about.fence), ErrorMapping.fromStore)
  )

  const recordRequest = (
    what: string,
    integration: string | null,
    outcome: SentRequest["outcome"]
  ): Effect.Effect<void> =>
    Effect.map(Clock.currentTimeMillis, (at) => {
      if (requests.length < maxListedRequests) requests.push({ what, integration, at, outcome })
    })

  /**
   * Numbers equal requests: the next one is another only after the one before was done. Two at once are done one after
   * the other, and a request that is tried again is the same.
   */
  const withRequestNumber = <A, E, R>(
    name: string,
    run: (number: number) => Effect.Effect<A, E, R>
  ): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      const lock = locks.get(name) ?? Semaphore.makeUnsafe(1)
      locks.set(name, lock)
      return Effect.suspend(() => {
        const number = completed.get(name) ?? 0
        return Effect.tap(run(number), () => Effect.sync(() => completed.set(name, number + 1)))
      }).pipe(lock.withPermits(1))
    })

  /** Where a step is that is begun now. */
  const stepContext: Effect.Effect<StepContext> = Effect.map(
    CurrentStep,
    (step) => step ?? { dedupKeys: about.dedupKeys, keepForever: false, path: "", unanswered: 0 }
  )

  return {
    ...about,
    requests,
    timer: HandlerTimer.make(),
    ensureRunning,
    ensureClaimed,
    recordRequest,
    withRequestNumber,
    stepContext,
    end: () => {
      over = true
    },
    isOver: () => over,
    /** A write of it was refused because all writes are stopped. */
    noteWritesStopped: () => {
      stopped = true
    },
    hasMetWriteStop: () => stopped
  }
}

export type Attempt = ReturnType<typeof make>
