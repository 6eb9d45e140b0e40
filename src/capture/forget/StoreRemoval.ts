/**
 * Removes a record from the whole store: from the records that repeat it, its own rows, deliveries, journals and the quarantine.
 *
 * Gotchas
 * - Every step can be repeated. A record that repeats the forgotten one may get a second pair of events after a crash.
 */
import * as Effect from "effect/Effect"
import { type ForgettableRecord, idAsJson } from "../../domain/Forgotten.ts"
import { derivedFrom, type Model } from "../../domain/Model.ts"
import type { Processing } from "../../domain/Processing.ts"
import type { Deliveries } from "../../store/Deliveries.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import type { Capture } from "../schedule/Capture.ts"
import { unlessErased } from "../Stream.ts"
import { deleteRecord, removeCopies, type Streams } from "./RecordRemoval.ts"
import { forgottenOnly, maxListedIds } from "./RecordSearch.ts"
import * as RecordSearch from "./RecordSearch.ts"

/** Records with copies per transaction. */
const chunk = 25

/** Removes the record from one place, and returns the number of running handlers that have it in memory. */
type Purge = Effect.Effect<number, StoreError>

export const make = ({ capture, deliveries, processing, store }: {
  readonly store: Store["Service"]
  readonly deliveries: Deliveries["Service"]
  readonly capture: Capture["Service"]
  readonly processing: (model: Model) => Processing
}) => {
  const { findCopies, findOwn, rowsIn, streamsOf } = RecordSearch.make(store)

  /** Removes the record from all places; returns the removals that are not complete, because handlers have the events in memory. */
  const remove = Effect.fnUntraced(function*(record: ForgettableRecord) {
    const { all, embedding, own } = yield* streamsOf(record)
    const models = all.filter(({ retired }) => retired !== true).map(({ model }) => model)
    const streams: Streams = {
      owner: capture.ownerOf(record.integration),
      processing,
      derivedProcessing: ({ model }) => {
        const derived = derivedFrom(model, models)
        return derived === undefined ? null : processing(derived)
      }
    }
    const forgotten = forgottenOnly(record)
    const incomplete: Array<Purge> = []
    const purge = Effect.fnUntraced(function*(one: Purge) {
      if ((yield* one) > 0) incomplete.push(one)
    })
    const { copies, unreadable } = yield* findCopies(record, embedding)
    const total = copies.reduce((sum, { ids }) => sum + ids.length, own === undefined ? 0 : 1)
    let done = 0
    const note = (changed: number) =>
      Effect.suspend(() => store.noteForgetting(streams.owner, record, { done: done += changed, total }))
    yield* note(0)
    for (const { ids, key, rows } of copies) {
      const logged = new Set(rows.flatMap(({ id, position }) => position === null ? [] : [id]))
      for (let from = 0; from < ids.length; from += chunk) {
        const some = ids.slice(from, from + chunk)
        const published = yield* unlessErased(
          key,
          [],
          removeCopies(streams, { key, ids: some, logged }, forgotten)
        ).pipe(Effect.provideService(Store, store))
        yield* purge(
          deliveries.purgeForgotten(key, published, { found: rowsIn(rows, new Set(published)), own: false })
        )
        yield* note(some.length)
      }
    }
    if (own !== undefined) {
      yield* unlessErased(own, undefined, deleteRecord(streams, own, record.id)).pipe(
        Effect.provideService(Store, store)
      )
      const found = rowsIn(yield* findOwn(record, own), new Set([record.id]))
      yield* purge(deliveries.purgeForgotten(own, [record.id], { found, own: true }))
      yield* note(1)
    }
    yield* purge(deliveries.purgeResults(record.integration, idAsJson(record.id)))
    yield* store.dropQuarantinedCopies(capture.ownerOf(record.integration), record.integration, idAsJson(record.id))
    if (unreadable.length > 0) {
      yield* Effect.logWarning("rows cannot be decrypted, so they may still repeat the forgotten record").pipe(
        Effect.annotateLogs({
          integration: record.integration,
          rows: unreadable.length,
          positions: unreadable.flatMap(({ position }) => position ?? []).slice(0, maxListedIds).join(", "),
          hint: "forget the records of these rows too, and allow them again: the next sweep then reads them"
        })
      )
    }
    return incomplete
  })

  return remove
}
