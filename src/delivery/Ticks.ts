/**
 * When handlers that run regularly are due: at the multiples of their interval, in each integration where they are on.
 *
 * Gotchas
 * - What was missed is not made up for one by one: the latest moment that is past is due, the rest is in its span   (L8).
 */
import * as Duration from "effect/Duration"
import { isOn } from "../plugin/Configured.ts"
import type { Tick } from "../store/Deliveries.ts"
import type { Subscription } from "./Subscription.ts"

const intervalOf = ({ handler: { occasion } }: Subscription): number =>
  occasion._tag === "Tick" ? Duration.toMillis(Duration.fromInputUnsafe(occasion.every)) : Infinity

/** Times are our clock, ms. */
export const make = (subscriptions: ReadonlyArray<Subscription>) => {
  const regular = subscriptions.filter(({ handler }) => handler.occasion._tag === "Tick")
  const made = new Map<string, number>()
  const nameOf = ({ handler, integration }: Tick) => `${handler} ${integration}`

  return {
    isUsed: regular.length > 0,
    /** Not made yet, of the latest moments that are past. */
    due: (integrations: ReadonlyArray<string>, now: number): ReadonlyArray<Tick> =>
      regular.flatMap((subscription) => {
        const interval = intervalOf(subscription)
        const scheduledAt = Math.floor(now / interval) * interval
        return integrations
          .filter((integration) => isOn(subscription.plugin, integration))
          .map((integration): Tick => ({ handler: subscription.key, integration, scheduledAt }))
          .filter((tick) => made.get(nameOf(tick)) !== scheduledAt)
      }),
    /** These were made, but for those that wait for the one before. */
    done: (ticks: ReadonlyArray<Tick>, owed: ReadonlyArray<Tick>) => {
      const waiting = new Set(owed.map(nameOf))
      for (const tick of ticks) if (!waiting.has(nameOf(tick))) made.set(nameOf(tick), tick.scheduledAt)
    },
    /** The next moment of any. */
    next: (now: number): number =>
      Math.min(...regular.map((subscription) => {
        const interval = intervalOf(subscription)
        return (Math.floor(now / interval) + 1) * interval
      }))
  }
}

export type Ticks = ReturnType<typeof make>
