/**
 * Decides which events are delivered to a handler.
 *
 * Invariants
 * 1. Plugins that answer one another come to an end   (L1, L9)
 */
import * as Duration from "effect/Duration"
import { isOn } from "../plugin/Configured.ts"
import type { Handler, Plugin } from "../plugin/Plugin.ts"
import { type Published, received } from "../plugin/Reception.ts"

/** A handler under the key that the store gave it. */
export interface Subscription {
  readonly key: number
  readonly plugin: Plugin<unknown>
  readonly handler: Handler<unknown>
  /** How long an event waits for others to make a batch with, ms; 0 = not at all. */
  readonly gathering: number
}

export const gatheringOf = ({ occasion }: Handler<unknown>): number =>
  occasion._tag === "Batch" ? Duration.toMillis(Duration.fromInputUnsafe(occasion.within)) : 0

/** Most plugins in a row, each of which answered what the one before it did. */
export const deepest = 4

/** `loop`: it would be given to the handler, were the chain of plugins not too long already. */
export const accepts = ({ handler, plugin }: Subscription, event: Published): "yes" | "no" | "loop" => {
  if (!isOn(plugin, event.integration) || received(plugin.name, handler, event) === null) return "no"
  return event.cause !== null && event.cause.depth > deepest ? "loop" : "yes"
}
