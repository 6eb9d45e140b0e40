/**
 * Decides which events are delivered to a handler.
 *
 * Invariants
 * 1. A chain of plugins that react to each other's writes always ends   (L1, L9)
 */
import * as Duration from "effect/Duration"
import { toDuration } from "../../domain/DurationText.ts"
import { type PublishedEvent, triggerFor } from "../../plugin/EventMatching.ts"
import type { Handler, Plugin } from "../../plugin/Plugin.ts"
import { isEnabledIn } from "../../plugin/PluginConfiguration.ts"

/** A handler, with the key that the store has assigned to it. */
export interface Subscription {
  readonly key: number
  readonly plugin: Plugin<unknown>
  readonly handler: Handler<unknown>
  /** How long an event waits for others to form a batch, in ms; 0 if it does not wait. */
  readonly batchWindow: number
}

export const batchWindowOf = ({ activation }: Handler<unknown>): number =>
  activation._tag === "Batch" ? Duration.toMillis(toDuration(activation.within)) : 0

/** The longest allowed chain of plugins that react to each other's writes. */
export const maxCauseDepth = 4

/** `loop`: the handler accepts the event, but the chain of plugins that led to it is too long. */
export const matchEvent = ({ handler, plugin }: Subscription, event: PublishedEvent): "yes" | "no" | "loop" => {
  if (!isEnabledIn(plugin, event.integration) || triggerFor(plugin.name, handler, event) === null) return "no"
  return event.cause !== null && event.cause.depth > maxCauseDepth ? "loop" : "yes"
}
