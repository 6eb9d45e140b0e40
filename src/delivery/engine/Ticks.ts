/**
 * When handlers that run regularly are due: at the multiples of their interval, in each integration where they are on.
 *
 * Gotchas
 * - What was missed is not made up for one by one: the latest moment that is past is due, the rest is in its span   (L8).
 */
import * as Duration from "effect/Duration"
import { isEnabledIn } from "../../plugin/PluginConfiguration.ts"
import type { Tick, TickSchedule } from "../../store/Deliveries.ts"
import type { Subscription } from "./Subscription.ts"

const intervalOf = ({ handler: { activation } }: Subscription): number =>
  activation._tag === "Tick" ? Duration.toMillis(Duration.fromInputUnsafe(activation.every)) : Infinity

const nameOf = ({ handler, integration }: Pick<Tick, "handler" | "integration">) => `${handler} ${integration}`

/** Times are our clock, ms; `startedAt`: when this process began to deliver. */
export const make = (subscriptions: ReadonlyArray<Subscription>, startedAt: number) => {
  const regular = subscriptions.filter(({ handler }) => handler.activation._tag === "Tick")
  const made = new Map<string, number>()
  let lastCheckedAt = startedAt
  /** The active integrations of the last look that was written down; null: none was. */
  let known: string | null = null

  return {
    isUsed: regular.length > 0,
    /** What is to be written down now; null: no tick is due, and the same integrations are active. */
    planDue: (integrations: ReadonlyArray<string>, now: number): TickSchedule | null => {
      const places = regular.flatMap((subscription) =>
        integrations.map((integration) => ({ subscription, integration }))
      )
      const { off = [], on = [] } = Object.groupBy(
        places,
        ({ integration, subscription }) => isEnabledIn(subscription.plugin, integration) ? "on" : "off"
      )
      const due = on.map(({ integration, subscription }): Tick => {
        const interval = intervalOf(subscription)
        return { handler: subscription.key, integration, scheduledAt: Math.floor(now / interval) * interval }
      }).filter((tick) => made.get(nameOf(tick)) !== tick.scheduledAt)
      if (due.length === 0 && integrations.join("\n") === known) {
        lastCheckedAt = now
        return null
      }
      return {
        due,
        // this follows from the configuration and from which integrations there are
        off: integrations.join("\n") === known
          ? []
          : off.map(({ integration, subscription }) => ({ handler: subscription.key, integration })),
        integrations,
        lastCheckedAt
      }
    },
    /** This was written down at `now`: its ticks were made, but for those that wait for the one before. */
    markCreated: ({ due, integrations }: TickSchedule, deferred: ReadonlyArray<Tick>, now: number) => {
      const waiting = new Set(deferred.map(nameOf))
      for (const tick of due) if (!waiting.has(nameOf(tick))) made.set(nameOf(tick), tick.scheduledAt)
      known = integrations.join("\n")
      lastCheckedAt = now
    },
    /** The next moment of any. */
    nextDueAt: (now: number): number =>
      Math.min(...regular.map((subscription) => {
        const interval = intervalOf(subscription)
        return (Math.floor(now / interval) + 1) * interval
      }))
  }
}

export type Ticks = ReturnType<typeof make>
