/**
 * One attempt at a delivery. The capabilities of a handler check the attempt before they act, and record their requests in it.
 *
 * Invariants
 * 1. Once an attempt is over, its handler can send no more requests and no more writes   (X16)
 *
 * Gotchas
 * - The store's fencing stops attempts of replaced processes and of earlier claims. This module stops an attempt that this process has
 *   ended, and code that the handler left running.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import type { Model } from "../../domain/Model.ts"
import { type HandlerError, Transient } from "../../plugin/Failure.ts"
import type { AttemptJournal, FencingToken } from "../../store/AttemptJournal.ts"
import type { SentRequest } from "../../store/Delivery.ts"
import * as ErrorMapping from "./ErrorMapping.ts"
import { HandlerTimer } from "./HandlerTimer.ts"
import type { Subscription } from "./Subscription.ts"

/** The deduplication keys and the name prefix that a new step gets. */
export interface StepContext {
  /** A step that has a result under one of these keys is not run again. The first key has the narrowest scope. */
  readonly dedupKeys: readonly [string, ...ReadonlyArray<string>]
  readonly keepForever: boolean
  /** Names of the enclosing steps. Ends with a slash, or is empty. */
  readonly path: string
  /** Requests to other services than the API that were sent and have no response yet. */
  unanswered: number
}

/** The step that is running, if any. */
export const CurrentStep: Context.Reference<StepContext | null> = Context.Reference<StepContext | null>(
  "rollcall/delivery/CurrentStep",
  { defaultValue: () => null }
)

/** Maximum number of requests that the detail page of a dead letter lists. */
const maxListedRequests = 50

export interface AttemptInfo {
  readonly subscription: Subscription
  readonly fence: FencingToken
  readonly integration: string
  /** For a batch, the first key is its own; the others belong to the larger batches that contain it. */
  readonly dedupKeys: StepContext["dedupKeys"]
  /** The scope of `oncePerRecord`; null if the batch has more than one record. */
  readonly record: { readonly model: Model; readonly id: string } | "tick" | null
  /** The depth that events caused by the attempt's writes get in `cause`. */
  readonly depth: number
}

export const make = (info: AttemptInfo, journal: Pick<AttemptJournal, "check">) => {
  const requests: Array<SentRequest> = []
  const locks = new Map<string, Semaphore.Semaphore>()
  const completed = new Map<string, number>()
  let over = false
  let hasMetWriteStop = false

  /** Fails if this process has ended the attempt. */
  const ensureRunning: Effect.Effect<void, HandlerError> = Effect.suspend(() =>
    over ? Effect.fail(new Transient({ message: "this attempt is over" })) : Effect.void
  )

  /** Fails if this attempt no longer has the claim of the delivery. */
  const ensureClaimed: Effect.Effect<void, HandlerError> = Effect.andThen(
    ensureRunning,
    Effect.mapError(journal.check(info.fence), ErrorMapping.fromStore)
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
   * Numbers equal requests, so that two equal writes of one attempt are two writes. A request gets the next number only after
   * the previous one has succeeded; a retry of a failed request keeps its number. Concurrent equal requests run one at a time.
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

  /** The context of a step that starts now. */
  const stepContext: Effect.Effect<StepContext> = Effect.map(
    CurrentStep,
    (step) => step ?? { dedupKeys: info.dedupKeys, keepForever: false, path: "", unanswered: 0 }
  )

  return {
    ...info,
    requests,
    timer: new HandlerTimer(),
    ensureRunning,
    ensureClaimed,
    recordRequest,
    withRequestNumber,
    stepContext,
    end: () => {
      over = true
    },
    /** Notes that a write was refused because an operator has stopped all writes. */
    noteWritesStopped: () => {
      hasMetWriteStop = true
    },
    hasMetWriteStop: () => hasMetWriteStop
  }
}

export type Attempt = ReturnType<typeof make>
