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
import type { Model } from "../domain/Model.ts"
import { type HandlerError, Transient } from "../plugin/Failure.ts"
import type { Asked, Deliveries, Fence } from "../store/Deliveries.ts"
import * as HandlerTime from "./HandlerTime.ts"
import * as Refusals from "./Refusals.ts"
import type { Subscription } from "./Subscription.ts"

/** What steps are done once for, and the names of the steps around. */
export interface Place {
  readonly occasions: readonly [string, ...ReadonlyArray<string>]
  readonly lasting: boolean
  /** Ends with a slash, or is empty. */
  readonly path: string
  /** Requests to others than the API that left and were not answered yet. */
  unanswered: number
}

/** The step that is being run, if one is. */
export const CurrentStep: Context.Reference<Place | null> = Context.Reference<Place | null>(
  "rollcall/delivery/CurrentStep",
  { defaultValue: () => null }
)

/** Requests that the story of a dead letter lists. */
const mostAsked = 50

export interface About {
  readonly subscription: Subscription
  readonly fence: Fence
  readonly integration: string
  /** Of a batch: its own, and those of the batches it was a part of. */
  readonly occasions: Place["occasions"]
  /** What `oncePer` counts by; null: there is more than one record. */
  readonly record: { readonly model: Model; readonly id: string } | "tick" | null
  /** Of what its writes cause. */
  readonly depth: number
}

/** What a step is done once for that is done once per record for ever, or once per integration by the clock. */
export const lastingOf = (integration: string, record: NonNullable<About["record"]>): string =>
  record === "tick" ? `r:${integration}` : `r:${integration}/${record.model}/${record.id}`

export const make = (about: About, deliveries: Deliveries["Service"]) => {
  const asked: Array<Asked> = []
  const locks = new Map<string, Semaphore.Semaphore>()
  const concluded = new Map<string, number>()
  let over = false
  let stopped = false

  /** Fails once this process has ended the attempt. */
  const live: Effect.Effect<void, HandlerError> = Effect.suspend(() =>
    over ? Effect.fail(new Transient({ message: "this attempt is over" })) : Effect.void
  )

  /** Fails unless this attempt still has the delivery. */
  const check: Effect.Effect<void, HandlerError> = Effect.andThen(
    live,
    Effect.mapError(deliveries.check(about.fence), Refusals.ofStore)
  )

  const note = (what: string, integration: string | null, outcome: Asked["outcome"]): Effect.Effect<void> =>
    Effect.map(Clock.currentTimeMillis, (at) => {
      if (asked.length < mostAsked) asked.push({ what, integration, at, outcome })
    })

  /**
   * Numbers equal requests: the next one is another only after the one before was done. Two at once are done one after
   * the other, and a request that is tried again is the same.
   */
  const numbered = <A, E, R>(name: string, run: (number: number) => Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.suspend(() => {
      const lock = locks.get(name) ?? Semaphore.makeUnsafe(1)
      locks.set(name, lock)
      return Effect.suspend(() => {
        const number = concluded.get(name) ?? 0
        return Effect.tap(run(number), () => Effect.sync(() => concluded.set(name, number + 1)))
      }).pipe(lock.withPermits(1))
    })

  /** Where a step is that is begun now. */
  const place: Effect.Effect<Place> = Effect.map(
    CurrentStep,
    (step) => step ?? { occasions: about.occasions, lasting: false, path: "", unanswered: 0 }
  )

  return {
    ...about,
    asked,
    time: HandlerTime.make(),
    live,
    check,
    note,
    numbered,
    place,
    end: () => {
      over = true
    },
    isOver: () => over,
    /** A write of it was refused because all writes are stopped. */
    meetStop: () => {
      stopped = true
    },
    metStop: () => stopped
  }
}

export type Attempt = ReturnType<typeof make>
