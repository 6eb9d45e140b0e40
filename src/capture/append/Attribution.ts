/**
 * Sets the cause of events that a plugin's write caused, before they are appended, and finds writes that never became visible.
 *
 * Gotchas
 * - A write causes no change if the record already had the written values. The published content is therefore checked before
 *   a write is reported as unconfirmed.
 * - The change that an expectation waits for may be in a hold. While a hold is open, sweeps are not counted.
 */
import * as Effect from "effect/Effect"
import { attributeEvent, canShowWrites, isFulfilled, keysOf, type RecordEvent } from "../../domain/Echo.ts"
import { candidateIdIn, type OpenExpectation, recordIdIn } from "../../domain/Expectation.ts"
import type { Model } from "../../domain/Model.ts"
import { anyHash, queryFor, type RecordWrite } from "../../store/Records.ts"
import type { StoreError, StreamTx } from "../../store/Store.ts"
import { parseContent } from "../record/RecordWrite.ts"

const recordEventsIn = ({ events }: RecordWrite): ReadonlyArray<RecordEvent> =>
  events.map(({ after, changes, id, kind }) => ({ id, kind, changes: JSON.parse(changes), after: parseContent(after) }))

/** Returns the writes with the cause set on each event that a plugin write caused. */
export const attributeWrites = Effect.fnUntraced(function*(
  tx: StreamTx,
  writes: ReadonlyArray<RecordWrite>
): Effect.fn.Return<ReadonlyArray<RecordWrite>, StoreError> {
  const { model } = tx.state
  if (!tx.hasExpectations || !canShowWrites(model) || writes.every(({ events }) => events.length === 0)) return writes
  const seen = writes.map((write) =>
    recordEventsIn(write).map((event) => ({ event, keys: keysOf(model, event.id, event.after) }))
  )
  const keys = new Set(seen.flatMap((events) => events.flatMap(({ keys }) => keys)))
  let open = yield* tx.openExpectations([...keys])
  const attributed: Array<RecordWrite> = []
  for (const [index, write] of writes.entries()) {
    const causes: Array<string | null> = []
    for (const { event, keys } of seen[index] ?? []) {
      const { cause, fulfilled } = attributeEvent(event, open.filter(({ key }) => keys.includes(key)))
      causes.push(cause === null ? null : JSON.stringify(cause))
      for (const one of fulfilled) {
        yield* tx.recordMatch(one, event.id)
        const left = one.everywhere ? [{ ...one, fulfilledIn: [...one.fulfilledIn, event.id] }] : []
        open = open.flatMap((other) => other.id === one.id ? left : [other])
      }
    }
    attributed.push(
      causes.every((cause) => cause === null) ? write : {
        ...write,
        events: write.events.map((event, at) => ({ ...event, cause: causes[at] ?? null }))
      }
    )
  }
  return attributed
})

/** True if published content already shows the written values, without a change event. */
const isAlreadyPublished = Effect.fnUntraced(function*(tx: StreamTx, expectation: OpenExpectation) {
  const id = recordIdIn(expectation.key)
  const candidate = candidateIdIn(expectation.key)
  const { contents, heads } = yield* tx.read(queryFor(id === null ? [] : [id], anyHash))
  const live = [...contents].flatMap(([id, content]) => heads.get(id)?.live === true ? content ?? [] : [])
  const query = { changed: [], copies: [{ id: candidate ?? "", parent: "", textHash: null }], limit: 1 }
  const sources = candidate === null ? [] : [...(yield* tx.sources("ats.candidate", query)).live.values()].flat()
  return [...live, ...sources.map(({ content }) => content)].some((content) =>
    isFulfilled(expectation, parseContent(content?.content))
  )
})

/**
 * Counts a complete sweep for the open expectations. Returns and closes the expectations that have reached the limit and that no record
 * shows. `derived`: the model that is derived from the stream, if there is one.
 */
export const takeUnconfirmedWrites = Effect.fnUntraced(function*(
  tx: StreamTx,
  runId: number,
  derived: Model | null
): Effect.fn.Return<ReadonlyArray<OpenExpectation>, StoreError> {
  if (!canShowWrites(tx.state.model)) return []
  if ((yield* tx.holds).some(({ state }) => state === "open" || state === "approving")) return []
  const unconfirmed: Array<OpenExpectation> = []
  for (const one of derived === null ? [tx] : [tx, yield* tx.derived]) {
    if (!one.hasExpectations) continue
    yield* one.countSweep(runId)
    for (let overdue = yield* one.overdueExpectations; overdue.length > 0; overdue = yield* one.overdueExpectations) {
      const shown: Array<OpenExpectation> = []
      const never: Array<OpenExpectation> = []
      for (const expectation of overdue) {
        const which = (yield* isAlreadyPublished(one, expectation)) ? shown : never
        which.push(expectation)
      }
      yield* one.closeExpectations(shown, never)
      unconfirmed.push(...never)
    }
  }
  return unconfirmed
})
