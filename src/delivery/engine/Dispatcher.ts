/**
 * Walks the event log and creates a delivery for each event and each handler that accepts it.
 *
 * Invariants
 * 1. The deliveries of a chunk of the log and the handlers' new positions are committed together, so that no delivery is
 *    missed or created twice   (I2)
 *
 * Gotchas
 * - Handlers may have different positions. The dispatcher starts at the lowest one and skips handlers that are further ahead.
 * - A handler that took ticks before gets no event that one of these ticks spanned.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { type LogEntry, partitionKey } from "../../domain/ChangeEvent.ts"
import type { PublishedEvent } from "../../plugin/EventMatching.ts"
import type { Deliveries } from "../../store/Deliveries.ts"
import type { NewDelivery, RegisteredHandler } from "../../store/Delivery.ts"
import type { Owner } from "../../store/State.ts"
import type { Store, StoreError } from "../../store/Store.ts"
import { loopFailure } from "../handler/AttemptFailure.ts"
import { matchEvent, maxCauseDepth, type Subscription } from "../handler/Subscription.ts"
import { maxClaimedPerHandler } from "./ClaimRequests.ts"
import type { EventCache } from "./EventCache.ts"

/** Rows of the log per step: as many as one claim takes, so that the worker finds their events in memory. */
const rows = maxClaimedPerHandler

export const deliveriesOf = (
  subscriptions: ReadonlyArray<Subscription>,
  entry: LogEntry,
  event: PublishedEvent,
  now: number
): ReadonlyArray<NewDelivery> =>
  subscriptions.flatMap((subscription): ReadonlyArray<NewDelivery> => {
    const accepted = matchEvent(subscription, event)
    if (accepted === "no") return []
    return [{
      handler: subscription.key,
      integration: entry.integration,
      orderingKey: partitionKey(entry),
      subject: { _tag: "Event", position: entry.position },
      dueAt: now + subscription.batchWindow,
      dead: accepted === "loop" ? loopFailure(maxCauseDepth, now) : null,
      fresh: null
    }]
  })

export const make = (
  services: { readonly store: Store["Service"]; readonly deliveries: Deliveries["Service"] },
  eventCache: EventCache,
  owner: Owner,
  subscriptions: ReadonlyArray<Subscription & { position: number }>,
  /** By handler; see `RegisteredHandler`. */
  ticked: ReadonlyMap<number, RegisteredHandler["ticked"]>
) => {
  const { deliveries, store } = services
  const lowestPosition = () => Math.min(...subscriptions.map(({ position }) => position))

  return {
    /** Every event up to this position is dispatched to all handlers. */
    position: lowestPosition,
    /** Dispatches the next rows of the log. Returns whether there may be more. */
    step: Effect.fn("Dispatcher.step")(function*(): Effect.fn.Return<boolean, StoreError> {
      if (subscriptions.length === 0) return false
      const { newest, oldest } = yield* store.logRange
      if (lowestPosition() >= newest) return false
      // if every row up to `newest` is pruned, nothing is read, and the handlers still move there
      const after = Math.max(lowestPosition(), oldest - 1)
      const entries = yield* store.readLog({ after, limit: rows })
      const now = yield* Clock.currentTimeMillis
      // readers never get silent rows: a short page means that only silent rows remain up to `newest`
      const last = entries.at(-1)?.position ?? 0
      const upTo = entries.length < rows ? Math.max(newest, last) : last
      const found: Array<NewDelivery> = []
      for (const entry of entries) {
        const event = eventCache.add(entry)
        const waiting = subscriptions.filter(({ key, position }) =>
          Math.max(position, ticked.get(key)?.get(entry.integration) ?? 0) < entry.position
        )
        found.push(...deliveriesOf(waiting, entry, event, now))
      }
      const moved = subscriptions.filter(({ position }) => position < upTo)
      yield* deliveries.dispatch(owner, {
        deliveries: found,
        handlers: moved.map(({ key }) => key),
        position: upTo
      })
      for (const subscription of moved) subscription.position = upTo
      return upTo < newest || entries.length === rows
    })
  }
}

export type Dispatcher = ReturnType<typeof make>
