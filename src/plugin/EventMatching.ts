/**
 * Turns rows of the log into published events, decides whether a handler receives an event, and builds the event that it receives. Pure.
 * The service and the test kit both use it, so they cannot differ.
 *
 * Invariants
 * 1. A plugin receives a change that was caused entirely by its own writes only with `echo: "deliver"`
 */
import { isObject, type JsonObject, type JsonValue } from "../domain/Canonical.ts"
import { formatPosition, type LogEntry, type LogIdentity } from "../domain/ChangeEvent.ts"
import { segments } from "../domain/Diff.ts"
import { isOwnChangeOnly } from "../domain/Echo.ts"
import type { Model } from "../domain/Model.ts"
import type { Transition } from "../domain/Transition.ts"
import type { Envelope } from "./Event.ts"
import type { Handler } from "./Handler.ts"

/** An event as stored in the log, with its contents parsed. */
export interface PublishedEvent extends Envelope<Model> {
  readonly before: JsonObject | null
  readonly after: JsonObject | null
  readonly transitions: ReadonlyArray<Transition>
  /** The span that appended the event; null if its trace is not recorded. Not for handlers. */
  readonly traceparent: string | null
}

/** The contents are parsed once, on first access. Rollcall has written these texts itself, so they are valid JSON. */
class Contents {
  readonly #entry: LogEntry
  #before: PublishedEvent["before"] | undefined
  #after: PublishedEvent["after"] | undefined
  #changes: PublishedEvent["changes"] | undefined
  #transitions: PublishedEvent["transitions"] | undefined
  #cause: PublishedEvent["cause"] | undefined

  constructor(entry: LogEntry) {
    this.#entry = entry
  }
  get before(): PublishedEvent["before"] {
    return this.#before ??= JSON.parse(this.#entry.before ?? "null")
  }
  get after(): PublishedEvent["after"] {
    return this.#after ??= JSON.parse(this.#entry.after ?? "null")
  }
  get changes(): PublishedEvent["changes"] {
    return this.#changes ??= JSON.parse(this.#entry.changes)
  }
  get transitions(): PublishedEvent["transitions"] {
    return this.#transitions ??= JSON.parse(this.#entry.transitions)
  }
  get cause(): PublishedEvent["cause"] {
    return this.#cause ??= JSON.parse(this.#entry.cause ?? "null")
  }
}

export const toPublishedEvent = (identity: LogIdentity, entry: LogEntry): PublishedEvent => {
  const { integration, kind, generation, model, origin, reason, remoteId, restored, traceparent, version } = entry
  return Object.assign(new Contents(entry), {
    id: entry.eventId,
    model,
    integration,
    recordId: entry.id,
    remoteId,
    generation,
    version,
    kind,
    origin,
    reason,
    restored,
    changedAt: entry.changedAt,
    detectedAt: new Date(entry.detectedAt),
    position: formatPosition(identity, entry.position),
    traceparent
  })
}

/** The top-level properties that changed. */
const changedProperties = ({ changes }: PublishedEvent): ReadonlyArray<string> => [
  ...new Set(changes.flatMap(({ path }) => segments(path).slice(0, 1)))
]

const valueAt = (record: JsonObject | null, name: string): JsonValue | undefined =>
  isObject(record) && Object.hasOwn(record, name) ? record[name] : undefined

const isOwn = (plugin: string, { cause, changes }: PublishedEvent): boolean =>
  cause !== null && cause.plugin === plugin && isOwnChangeOnly(cause, changes)

/** The event as handlers receive it: plain data, without its transitions and its trace. */
export const envelopeOf = (event: PublishedEvent): Envelope<Model> & Pick<PublishedEvent, "before" | "after"> => ({
  id: event.id,
  model: event.model,
  integration: event.integration,
  recordId: event.recordId,
  remoteId: event.remoteId,
  generation: event.generation,
  version: event.version,
  kind: event.kind,
  origin: event.origin,
  reason: event.reason,
  restored: event.restored,
  changedAt: event.changedAt,
  detectedAt: event.detectedAt,
  position: event.position,
  before: event.before,
  after: event.after,
  changes: event.changes,
  cause: event.cause
})

const isKindOf = (trigger: string, { kind, model }: PublishedEvent) => trigger === `${model}.${kind}`
const isTransitionOf = (trigger: string, { model }: PublishedEvent, { name }: Transition) =>
  trigger === `${model}.${name}`

/** Whether the trigger matches the event, and at least one of the `wanted` properties changed. */
const matches = (trigger: string, wanted: ReadonlyArray<string> | null, event: PublishedEvent): boolean =>
  isKindOf(trigger, event)
    ? event.kind !== "updated" || wanted === null || changedProperties(event).some((name) => wanted.includes(name))
    : event.transitions.some((transition) => isTransitionOf(trigger, event, transition))

/** The event as a handler receives it for a trigger that matches. */
const eventForTrigger = (
  trigger: string,
  wanted: ReadonlyArray<string> | null,
  event: PublishedEvent
): object => {
  if (!isKindOf(trigger, event)) {
    return { ...envelopeOf(event), transition: event.transitions.find((each) => isTransitionOf(trigger, event, each)) }
  }
  if (event.kind !== "updated") return envelopeOf(event)
  const properties = changedProperties(event)
  const changed = wanted === null ? properties : properties.filter((name) => wanted.includes(name))
  const change = Object.fromEntries(
    properties.map((name) => [name, { before: valueAt(event.before, name), after: valueAt(event.after, name) }])
  )
  return { ...envelopeOf(event), change, changed }
}

/** Options with which a handler receives every event that matches its triggers. */
export const unfiltered = { origins: ["backfill", "poll", "sweep", "refresh"], echo: "deliver" } as const

type Receiver = Pick<Handler<never>, "activation" | "options">

const wantedBy = ({ activation }: Receiver) => activation._tag === "Event" ? activation.changed : null

/** The first trigger of a handler of `plugin` that matches; null if the handler does not receive the event. Contents are not parsed. */
export const triggerFor = (plugin: string, handler: Receiver, event: PublishedEvent): string | null => {
  const { activation, options } = handler
  if (activation._tag === "Tick") return null
  const { origins } = options
  if (origins === undefined ? event.origin === "backfill" : !origins.includes(event.origin)) return null
  if (options.echo !== "deliver" && isOwn(plugin, event)) return null
  return activation.triggers.find((trigger) => matches(trigger, wantedBy(handler), event)) ?? null
}

/** The event as a handler of `plugin` receives it, for the first trigger that matches; null if the handler does not receive it. */
export const eventFor = (plugin: string, handler: Receiver, event: PublishedEvent): object | null => {
  const trigger = triggerFor(plugin, handler, event)
  return trigger === null ? null : eventForTrigger(trigger, wantedBy(handler), event)
}
