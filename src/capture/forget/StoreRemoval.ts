/**
 * Finds a record in the whole store, and removes it: from the records that repeat it, its own rows, deliveries, journals and the quarantine.
 *
 * Gotchas
 * - Every step can be repeated. A record that repeats the forgotten one may get a second pair of events after a crash.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import {
  embeddingModels,
  type ForgettableRecord,
  type Forgotten,
  idAsJson,
  mentions,
  repeats
} from "../../domain/Forgotten.ts"
import { derivedFrom, type Model, type Models, type StreamKey, streamName } from "../../domain/Model.ts"
import type { Processing } from "../../domain/Processing.ts"
import type { Deliveries } from "../../store/Deliveries.ts"
import type { FoundRow } from "../../store/Operators.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { parseContent } from "../record/RecordWrite.ts"
import type { Capture } from "../schedule/Capture.ts"
import { unlessErased } from "../Stream.ts"
import { deleteRecord, removeCopies, type Streams } from "./RecordRemoval.ts"

/** How many ids or rows a plan or a message lists. */
export const maxListedIds = 100

/** Records with copies per transaction. */
const chunk = 25

/** Removes the record from one place, and returns the number of running handlers that have it in memory. */
type Purge = Effect.Effect<number, StoreError>

const forgottenOnly = ({ id, model }: ForgettableRecord): Forgotten => new Map([[model, new Set([id])]])

const rowsIn = (rows: ReadonlyArray<FoundRow>, ids: ReadonlyArray<string>) => {
  const wanted = new Set(ids)
  return rows.flatMap(({ id, position }) => position !== null && wanted.has(id) ? [{ id, position }] : [])
}

/** The records of these rows, by stream. */
const recordsIn = (rows: ReadonlyArray<FoundRow>) =>
  [...Map.groupBy(rows, streamName).values()].map((rows) => {
    const { integration, model } = rows[0]!
    return { key: { integration, model }, rows, ids: [...new Set(rows.map(({ id }) => id))] }
  })

export const make = ({ capture, deliveries, models, processing, store }: {
  readonly store: Store["Service"]
  readonly deliveries: Deliveries["Service"]
  readonly capture: Capture["Service"]
  readonly models: Models
  readonly processing: (model: Model) => Processing
}) => {
  /** The stream of the record itself, the streams whose records may repeat it, and all others. */
  const streamsOf = Effect.fnUntraced(function*({ integration, model }: ForgettableRecord) {
    const all = yield* store.streamsOf(integration)
    const embedding = embeddingModels(models, model)
    return {
      all,
      own: all.find((stream) => stream.model === model),
      embedding: all.filter((stream) => embedding.includes(stream.model)),
      others: all.filter((stream) => !embedding.includes(stream.model))
    }
  })

  /** The records that repeat the record now or did so in an earlier version, with the rows that contain the copies, by stream. */
  const findCopies = Effect.fnUntraced(function*(record: ForgettableRecord, embedding: ReadonlyArray<StreamKey>) {
    const found = yield* store.findRows(
      embedding,
      idAsJson(record.id),
      ({ changes, content, model }) =>
        repeats(models, model, parseContent(content), JSON.parse(changes), forgottenOnly(record))
    )
    const readable = found.filter(({ unreadable }) => unreadable !== true)
    const copies = recordsIn(readable)
    const removed = new Set(copies.flatMap(({ ids, key }) => ids.map((id) => `${key.model}/${id}`)))
    // If a record has copies in other rows, its unreadable rows are removed together with these, because the removal uses the record's id.
    const isLeft = ({ id, model, unreadable }: FoundRow) => unreadable === true && !removed.has(`${model}/${id}`)
    return { copies, unreadable: found.filter(isLeft) }
  })

  /** The records of other streams that contain an object with the id of the record: no entry of a model says that they repeat it. */
  const findMentions = ({ id, model }: ForgettableRecord, others: ReadonlyArray<StreamKey>) =>
    Effect.map(
      store.findRows(others, idAsJson(id), ({ content }) => mentions(parseContent(content), id)),
      (rows) => recordsIn(rows.filter((row) => row.unreadable !== true && (row.id !== id || row.model !== model)))
    )

  /** Rows of the record itself. Some may be kept for a delivery although retention has deleted later rows. */
  const findOwn = (record: ForgettableRecord, own: StreamKey) =>
    Effect.map(
      store.findRows([own], idAsJson(record.id), ({ id }) => id === record.id),
      (rows) => rows.filter(({ id }) => id === record.id)
    )

  /** Removes the record from all places; returns the removals that are not complete, because handlers have the events in memory. */
  const remove = Effect.fnUntraced(function*(record: ForgettableRecord) {
    const { all, embedding, own } = yield* streamsOf(record)
    const active = all.filter(({ retired }) => retired !== true).map(({ model }) => model)
    const streams: Streams = {
      owner: capture.ownerOf(record.integration),
      processing,
      derivedProcessing: ({ model }) => {
        const derived = derivedFrom(models, model, active)
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
      for (const some of Arr.chunksOf(ids, chunk)) {
        const published = yield* unlessErased(key, [], removeCopies(streams, { key, ids: some, logged }, forgotten))
        yield* purge(deliveries.purgeForgotten(key, published, { found: rowsIn(rows, published), own: false }))
        yield* note(some.length)
      }
    }
    if (own !== undefined) {
      yield* unlessErased(own, undefined, deleteRecord(streams, own, record.id))
      const found = rowsIn(yield* findOwn(record, own), [record.id])
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
  }, Effect.provideService(Store, store))

  return { streamsOf, findCopies, findMentions, findOwn, remove }
}
