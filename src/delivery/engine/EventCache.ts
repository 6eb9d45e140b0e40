/**
 * Turns rows of the log into events. The contents of an event are parsed once, on first access.
 *
 * Gotchas
 * - Handlers share the parsed contents and must not change them.
 * - A delete stays in the log when its record is forgotten, but without the content before it. So it is not kept in memory.
 * - The worker soon needs the rows that the dispatcher has just read, so the newest rows stay in memory   (I9: bounded).
 */
import * as Effect from "effect/Effect"
import { formatPosition, type LogEntry, type LogIdentity } from "../../domain/ChangeEvent.ts"
import type { PublishedEvent } from "../../plugin/EventMatching.ts"
import type { Deliveries } from "../../store/Deliveries.ts"
import type { StoreError } from "../../store/Store.ts"

const capacity = 2_000

/** Rollcall has written these texts itself, so they are valid JSON. */
const parseLazily = <A>(text: string): () => A => {
  let known: { readonly value: A } | undefined
  return () => (known ??= { value: JSON.parse(text) }).value
}

export const toPublishedEvent = (identity: LogIdentity, entry: LogEntry): PublishedEvent => {
  const { integration, kind, generation, model, origin, reason, remoteId, restored, version } = entry
  const before = parseLazily<PublishedEvent["before"]>(entry.before ?? "null")
  const after = parseLazily<PublishedEvent["after"]>(entry.after ?? "null")
  const cause = parseLazily<PublishedEvent["cause"]>(entry.cause ?? "null")
  const changes = parseLazily<PublishedEvent["changes"]>(entry.changes)
  const transitions = parseLazily<PublishedEvent["transitions"]>(entry.transitions)
  return {
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
    traceparent: entry.traceparent,
    get before() {
      return before()
    },
    get after() {
      return after()
    },
    get changes() {
      return changes()
    },
    get transitions() {
      return transitions()
    },
    get cause() {
      return cause()
    }
  }
}

export const make = (identity: LogIdentity, deliveries: Deliveries["Service"]) => {
  const known = new Map<number, PublishedEvent>()

  const add = (entry: LogEntry): PublishedEvent => {
    const event = toPublishedEvent(identity, entry)
    if (entry.kind === "deleted" && entry.before !== null) return event
    known.set(entry.position, event)
    for (const oldest of known.keys()) {
      if (known.size <= capacity) break
      known.delete(oldest)
    }
    return event
  }

  /** The events by position, without those that were erased. */
  const load = Effect.fnUntraced(function*(
    positions: Iterable<number>
  ): Effect.fn.Return<ReadonlyMap<number, PublishedEvent>, StoreError> {
    const found = new Map<number, PublishedEvent>()
    const missing = new Set<number>()
    for (const position of positions) {
      const event = known.get(position)
      if (event === undefined) missing.add(position)
      else found.set(position, event)
    }
    const entries = missing.size === 0 ? [] : yield* deliveries.entries([...missing])
    for (const entry of entries) found.set(entry.position, add(entry))
    return found
  })

  return { add, load }
}

export type EventCache = ReturnType<typeof make>
