/**
 * Keeps the newest events of the log in memory, because the worker soon needs those that the dispatcher has just read.
 *
 * Gotchas
 * - Handlers share the parsed contents and must not change them. These are parsed for each claim, and live only as long as its deliveries:
 *   objects that lived as long as the texts would be most of the work of the garbage collector.
 * - A delete stays in the log when its record is forgotten, but without the content before it. So it is not kept in memory.
 * - The number of events in memory is bounded   (I9).
 */
import * as Effect from "effect/Effect"
import type { LogEntry, LogIdentity } from "../../domain/ChangeEvent.ts"
import { type PublishedEvent, toPublishedEvent } from "../../plugin/EventMatching.ts"
import type { Deliveries } from "../../store/Deliveries.ts"
import type { StoreError } from "../../store/Store.ts"

const capacity = 500

export const make = (identity: LogIdentity, deliveries: Deliveries["Service"]) => {
  let newer = new Map<number, LogEntry>()
  let older = newer

  const add = (entry: LogEntry): PublishedEvent => {
    if (newer.size >= capacity / 2) {
      older = newer
      newer = new Map()
    }
    if (entry.kind !== "deleted" || entry.before === null) newer.set(entry.position, entry)
    return toPublishedEvent(identity, entry)
  }

  /** The events by position, without those that were erased. */
  const load = Effect.fnUntraced(function*(
    positions: Iterable<number>
  ): Effect.fn.Return<ReadonlyMap<number, PublishedEvent>, StoreError> {
    const found = new Map<number, PublishedEvent>()
    const missing = new Set<number>()
    for (const position of positions) {
      const entry = newer.get(position) ?? older.get(position)
      if (entry === undefined) missing.add(position)
      else found.set(position, toPublishedEvent(identity, entry))
    }
    const entries = missing.size === 0 ? [] : yield* deliveries.entries([...missing])
    for (const entry of entries) found.set(entry.position, add(entry))
    return found
  })

  return { add, load }
}

export type EventCache = ReturnType<typeof make>
