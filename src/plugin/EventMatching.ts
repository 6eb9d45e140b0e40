/**
 * Which handlers of a plugin receive a published event, and what they are given. Pure, so that the service and the test
 * kit cannot disagree.
 *
 * Invariants
 * 1. A change that is wholly the plugin's own doing reaches it only if it asks for it
 */
import * as Struct from "effect/Struct"
import { isObject, type JsonObject, type JsonValue } from "../domain/Canonical.ts"
import { segments } from "../domain/Diff.ts"
import { isOwnChangeOnly } from "../domain/Echo.ts"
import type { Model } from "../domain/Model.ts"
import type { Transition } from "../domain/Transition.ts"
import type { Envelope, Trigger } from "./Event.ts"
import type { Handler } from "./Plugin.ts"

/** An event as it is in the log, its contents parsed. */
export interface PublishedEvent extends Envelope<Model> {
  readonly before: JsonObject | null
  readonly after: JsonObject | null
  readonly transitions: ReadonlyArray<Transition>
}

/** The properties of the record that a change touched. */
const changedProperties = ({ changes }: PublishedEvent): ReadonlyArray<string> => [
  ...new Set(changes.flatMap(({ path }) => segments(path).slice(0, 1)))
]

const valueAt = (record: JsonObject | null, name: string): JsonValue | undefined =>
  isObject(record) && Object.hasOwn(record, name) ? record[name] : undefined

const isOwn = (plugin: string, { cause, changes }: PublishedEvent): boolean =>
  cause !== null && cause.plugin === plugin && isOwnChangeOnly(cause, changes)

/** What every event carries. */
const envelopeOf = Struct.omit<PublishedEvent, ["transitions"]>(["transitions"])

/** What a handler is given of `event` by one of its triggers; null if it is none of these, or touched nothing it asks for. */
const eventForTrigger = (
  trigger: Trigger,
  wanted: ReadonlyArray<string> | null,
  event: PublishedEvent
): object | null => {
  if (trigger === `${event.model}.${event.kind}`) {
    if (event.kind !== "updated") return envelopeOf(event)
    const properties = changedProperties(event)
    const changed = wanted === null ? properties : properties.filter((name) => wanted.includes(name))
    if (wanted !== null && changed.length === 0) return null
    const change = Object.fromEntries(
      properties.map((name) => [name, { before: valueAt(event.before, name), after: valueAt(event.after, name) }])
    )
    return { ...envelopeOf(event), change, changed }
  }
  const transition = event.transitions.find(({ name }) => trigger === `${event.model}.${name}`)
  return transition === undefined ? null : { ...envelopeOf(event), transition }
}

/** What a handler of `plugin` is given of `event`, by the first of its triggers that matches; null if it does not receive it. */
export const eventFor = (
  plugin: string,
  { activation, options }: Pick<Handler<never>, "activation" | "options">,
  event: PublishedEvent
): object | null => {
  if (activation._tag === "Tick") return null
  const { origins } = options
  if (origins === undefined ? event.origin === "backfill" : !origins.includes(event.origin)) return null
  if (options.echo !== "deliver" && isOwn(plugin, event)) return null
  const wanted = activation._tag === "Event" ? activation.changed : null
  for (const trigger of activation.triggers) {
    const given = eventForTrigger(trigger, wanted, event)
    if (given !== null) return given
  }
  return null
}
