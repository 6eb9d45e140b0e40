/**
 * Decides which events a handler is given.
 *
 * Invariants
 * 1. A plugin is not given what is wholly its own doing, unless it asks   (L1)
 * 2. Plugins that answer one another come to an end   (L9)
 */
import * as Duration from "effect/Duration"
import type { Origin } from "../domain/ChangeEvent.ts"
import { isOn } from "../plugin/Configured.ts"
import type { Trigger } from "../plugin/Event.ts"
import type { Handler, Plugin } from "../plugin/Plugin.ts"
import { isOf, type Occurrence, partsOf } from "./Occurrence.ts"

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

const usual: ReadonlyArray<Origin> = ["poll", "sweep", "refresh"]

const isOwnDoing = ({ cause, changes }: Occurrence, plugin: string): boolean =>
  cause !== null && cause.plugin === plugin && changes.every(({ path }) => cause.paths.includes(path))

/** The first of a handler's triggers that an event is one of. */
export const triggerOf = ({ occasion }: Handler<unknown>, occurrence: Occurrence): Trigger | undefined => {
  if (occasion._tag === "Tick") return undefined
  const narrowed = occasion._tag === "Event" ? occasion.changed : null
  const touches = narrowed === null || occurrence.changed.some((name) => narrowed.includes(name))
  return occasion.triggers.find((trigger) =>
    isOf(trigger, occurrence) && (touches || partsOf(trigger).what !== "updated")
  )
}

/** `loop`: it would be given to the handler, were the chain of plugins not too long already. */
export const accepts = ({ handler, plugin }: Subscription, occurrence: Occurrence): "yes" | "no" | "loop" => {
  const { options } = handler
  if (triggerOf(handler, occurrence) === undefined) return "no"
  const { cause, entry } = occurrence
  if (!(options.origins ?? usual).includes(entry.origin) || !isOn(plugin, entry.integration)) return "no"
  if (options.echo !== "deliver" && isOwnDoing(occurrence, plugin.name)) return "no"
  return cause !== null && cause.depth > deepest ? "loop" : "yes"
}
