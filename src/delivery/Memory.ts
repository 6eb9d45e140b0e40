/** What was read of the log lately, parsed: the dispatcher's rows are the ones the worker needs next   (I9: bounded). */
import * as Effect from "effect/Effect"
import type { LogEntry } from "../domain/ChangeEvent.ts"
import type { Deliveries } from "../store/Deliveries.ts"
import type { StoreError } from "../store/Store.ts"
import { type Occurrence, occurrenceOf } from "./Occurrence.ts"

const most = 2_000

export const make = (deliveries: Deliveries["Service"]) => {
  const known = new Map<number, Occurrence>()

  const remember = (entry: LogEntry): Occurrence => {
    const occurrence = occurrenceOf(entry)
    known.set(entry.position, occurrence)
    for (const oldest of known.keys()) {
      if (known.size <= most) break
      known.delete(oldest)
    }
    return occurrence
  }

  /** By position; what was erased is missing. */
  const recall = Effect.fnUntraced(function*(
    positions: Iterable<number>
  ): Effect.fn.Return<ReadonlyMap<number, Occurrence>, StoreError> {
    const found = new Map<number, Occurrence>()
    const missing = new Set<number>()
    for (const position of positions) {
      const occurrence = known.get(position)
      if (occurrence === undefined) missing.add(position)
      else found.set(position, occurrence)
    }
    const entries = missing.size === 0 ? [] : yield* deliveries.entries([...missing])
    for (const entry of entries) found.set(entry.position, remember(entry))
    return found
  })

  return { remember, recall }
}

export type Memory = ReturnType<typeof make>
