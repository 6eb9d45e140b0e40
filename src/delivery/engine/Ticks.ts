/**
 * Decides when scheduled handlers are due: at the multiples of their interval, in each integration where they are on.
 *
 * Gotchas
 * - Missed ticks are not delivered one by one. Only the latest past moment is due, and its span covers the missed ones   (L8).
 */
import * as Duration from "effect/Duration"
import { toDuration } from "../../domain/DurationText.ts"
import { isEnabledIn } from "../../plugin/PluginConfiguration.ts"
import type { Tick, TickSchedule } from "../../store/Delivery.ts"
import type { Subscription } from "../handler/Subscription.ts"

const intervalOf = ({ handler: { activation } }: Subscription): number =>
  activation._tag === "Tick" ? Duration.toMillis(toDuration(activation.every)) : Infinity

const deferredRecheckMillis = 60_000

const nameOf = ({ handler, integration }: Pick<Tick, "handler" | "integration">) => `${handler} ${integration}`

/** Times are our clock, in ms. `startedAt`: when this process started to deliver. */
export const make = (subscriptions: ReadonlyArray<Subscription>, startedAt: number) => {
  const scheduled = subscriptions.filter(({ handler }) => handler.activation._tag === "Tick")
  /** When the last created tick was scheduled, by handler and integration. */
  const lastCreated = new Map<string, number>()
  let lastCheckedAt = startedAt
  let hasDeferred = false
  /** The active integrations of the last schedule that the store has recorded; null if none yet. */
  let known: string | null = null
  const nextScheduledAt = (now: number): number =>
    Math.min(...scheduled.map((subscription) => {
      const interval = intervalOf(subscription)
      return (Math.floor(now / interval) + 1) * interval
    }))

  return {
    isUsed: scheduled.length > 0,
    /** The ticks that the store has to record now. Null if no tick is due, and the active integrations are the same as before. */
    planDue: (integrations: ReadonlyArray<string>, now: number): TickSchedule | null => {
      const pairs = scheduled.flatMap((subscription) =>
        integrations.map((integration) => ({ subscription, integration }))
      )
      const { off = [], on = [] } = Object.groupBy(
        pairs,
        ({ integration, subscription }) => isEnabledIn(subscription.plugin, integration) ? "on" : "off"
      )
      const due = on.map(({ integration, subscription }): Tick => {
        const interval = intervalOf(subscription)
        return { handler: subscription.key, integration, scheduledAt: Math.floor(now / interval) * interval, interval }
      }).filter((tick) => lastCreated.get(nameOf(tick)) !== tick.scheduledAt)
      if (due.length === 0 && integrations.join("\n") === known) {
        lastCheckedAt = now
        return null
      }
      return {
        due,
        // depends only on the configuration and the integrations, so the store needs it only when the integrations change
        off: integrations.join("\n") === known
          ? []
          : off.map(({ integration, subscription }) => ({ handler: subscription.key, integration })),
        integrations,
        lastCheckedAt
      }
    },
    /** Notes that the store recorded this schedule at `now`. `deferred`: ticks not created, because the previous one is not settled. */
    markCreated: ({ due, integrations }: TickSchedule, deferred: ReadonlyArray<Tick>, now: number) => {
      hasDeferred = deferred.length > 0
      const waiting = new Set(deferred.map(nameOf))
      for (const tick of due) if (!waiting.has(nameOf(tick))) lastCreated.set(nameOf(tick), tick.scheduledAt)
      known = integrations.join("\n")
      lastCheckedAt = now
    },
    /** Whether a due tick waits until the previous one is settled. */
    hasDeferred: () => hasDeferred,
    /** The next time at which any handler has a tick. */
    nextScheduledAt,
    /** When the next tick of any handler is due, or a deferred one is looked at again: another process may settle the tick before it. */
    nextDueAt: (now: number): number =>
      Math.min(hasDeferred ? now + deferredRecheckMillis : Infinity, nextScheduledAt(now))
  }
}

export type Ticks = ReturnType<typeof make>
