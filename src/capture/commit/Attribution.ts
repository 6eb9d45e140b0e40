/**
 * Says of events, where they are made, which of their changes plugins wrote, and of writes that they were never seen.
 *
 * Gotchas
 * - Most streams expect nothing: finding that out is one look-up per transaction with events, and none for models in which
 *   no write shows.
 * - A write may be seen without a change, where the record was so before: its content is looked at before anybody is told.
 * - What is held may be what is waited for: while a hold is open, no sweep counts.
 */
import * as Effect from "effect/Effect"
import { attributeEvent, canShowWrites, isFulfilled, keysOf, type RecordEvent } from "../../domain/Echo.ts"
import { candidateIdIn, type OpenExpectation, recordIdIn } from "../../domain/Expectation.ts"
import { derivedFrom, type Model } from "../../domain/Model.ts"
import type { RecordWrite, StoreError, StreamTx } from "../../store/Store.ts"
import { parseContent } from "./RecordWrite.ts"

const recordEventsIn = ({ events }: RecordWrite): ReadonlyArray<RecordEvent> =>
  events.map(({ after, changes, id, kind }) => ({ id, kind, changes: JSON.parse(changes), after: parseContent(after) }))

/** The same writes, each event with its cause. */
export const attributeWrites = Effect.fnUntraced(function*(
  tx: StreamTx,
  writes: ReadonlyArray<RecordWrite>
): Effect.fn.Return<ReadonlyArray<RecordWrite>, StoreError> {
  const { model } = tx.state
  if (!canShowWrites(model) || writes.every(({ events }) => events.length === 0) || !(yield* tx.hasExpectations)) {
    return writes
  }
  const seen = writes.map((write) =>
    recordEventsIn(write).map((shown) => ({ shown, keys: keysOf(model, shown.id, shown.after) }))
  )
  const keys = new Set(seen.flatMap((events) => events.flatMap(({ keys }) => keys)))
  let open = yield* tx.openExpectations([...keys])
  const attributed: Array<RecordWrite> = []
  for (const [index, write] of writes.entries()) {
    const causes: Array<string | null> = []
    for (const { keys, shown } of seen[index] ?? []) {
      const { cause, fulfilled } = attributeEvent(shown, open.filter(({ key }) => keys.includes(key)))
      causes.push(cause === null ? null : JSON.stringify(cause))
      for (const one of fulfilled) {
        yield* tx.recordMatch(one, shown.id)
        const left = one.everywhere ? [{ ...one, fulfilledIn: [...one.fulfilledIn, shown.id] }] : []
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

/** Whether what is published shows it, without ever having changed to it. */
const isAlreadyPublished = Effect.fnUntraced(function*(tx: StreamTx, expectation: OpenExpectation) {
  const id = recordIdIn(expectation.key)
  const candidate = candidateIdIn(expectation.key)
  const heads = yield* tx.heads(id === null ? [] : [id])
  const parents = yield* tx.liveSources(candidate === null ? [] : [candidate], 1)
  const positions = [...[...heads.values()].filter(({ live }) => live), ...[...parents.values()].flat()]
    .flatMap(({ position }) => position ?? [])
  const contents = yield* tx.contents(positions)
  return [...contents.values()].some((content) => isFulfilled(expectation, parseContent(content)))
})

/**
 * What a complete sweep passed by once too often and no record shows: it is told once, and no longer waited for. `models`:
 * what is derived beside the stream.
 */
export const takeUnconfirmedWrites = Effect.fnUntraced(function*(
  tx: StreamTx,
  runId: number,
  models: ReadonlyArray<Model>
): Effect.fn.Return<ReadonlyArray<OpenExpectation>, StoreError> {
  if (!canShowWrites(tx.state.model)) return []
  if ((yield* tx.holds).some(({ state }) => state === "open" || state === "approving")) return []
  const told: Array<OpenExpectation> = []
  const derived = derivedFrom(tx.state.model, models)
  for (const one of derived === undefined ? [tx] : [tx, yield* tx.derived(derived)]) {
    if (!(yield* one.hasExpectations)) continue
    yield* one.countSweep(runId)
    for (let overdue = yield* one.overdueExpectations; overdue.length > 0; overdue = yield* one.overdueExpectations) {
      const shown: Array<OpenExpectation> = []
      const never: Array<OpenExpectation> = []
      for (const expectation of overdue) {
        const which = (yield* isAlreadyPublished(one, expectation)) ? shown : never
        which.push(expectation)
      }
      yield* one.closeExpectations(shown, never)
      told.push(...never)
    }
  }
  return told
})
