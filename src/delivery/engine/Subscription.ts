/**
 * Decides which events are delivered to a handler.
 *
 * Invariants
 * 1. Plugins that answer one another come to an end   (L1, L9)
 */
import * as Duration from "effect/Duration"
import { eventFor, type PublishedEvent } from "../../plugin/EventMatching.ts"
import type { Handler, Plugin } from "../../plugin/Plugin.ts"
import { isEnabledIn } from "../../plugin/PluginConfiguration.ts"

/** A handler under the key that the store gave it. */
export interface Subscription {
  readonly key: number
  readonly plugin: Plugin<unknown>
  readonly handler: Handler<unknown>
  /** How long an event waits for others to make a batch with, ms; 0 = not at all. */
  readonly batchWindow: number
}

export const batchWindowOf = ({ activation }: Handler<unknown>): number =>
  activation._tag === "Batch" ? Duration.toMillis(Duration.fromInputUnsafe(activation.within)) : 0

/** Most plugins in a row, each of which answered what the one before it did. */
export const maxCauseDepth = 4

/** `loop`: it would be given to the handler, were the chain of plugins not too long already. */
export const matchEvent = ({ handler, plugin }: Subscription, event: PublishedEvent): "yes" | "no" | "loop" => {
  if (!isEnabledIn(plugin, event.integration) || eventFor(plugin.name, handler, event) === null) return "no"
  return event.cause !== null && event.cause.depth > maxCauseDepth ? "loop" : "yes"
}
