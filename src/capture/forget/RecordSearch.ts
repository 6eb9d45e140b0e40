/** Finds the rows of a record that is to be forgotten, and the rows of other records that repeat it. Changes nothing. */
import * as Effect from "effect/Effect"
import { embeddingModels, type ForgettableRecord, type Forgotten, idAsJson, repeats } from "../../domain/Forgotten.ts"
import { type StreamKey, streamName } from "../../domain/Model.ts"
import type { FoundRow } from "../../store/Operators.ts"
import type { Store } from "../../store/Store.ts"
import { parseContent } from "../record/RecordWrite.ts"

/** How many ids or rows a plan or a message lists. */
export const maxListedIds = 100

export const forgottenOnly = ({ id, model }: ForgettableRecord): Forgotten => new Map([[model, new Set([id])]])

export const make = (store: Store["Service"]) => {
  /** The stream of the record itself, and the streams whose records may repeat it. */
  const streamsOf = Effect.fnUntraced(function*({ integration, model }: ForgettableRecord) {
    const all = yield* store.streamsOf(integration)
    const embedding = embeddingModels(model)
    return {
      all,
      own: all.find((stream) => stream.model === model),
      embedding: all.filter((stream) => embedding.includes(stream.model))
    }
  })

  /** The records that repeat the record now or did so in an earlier version, with the rows that contain the copies, by stream. */
  const findCopies = Effect.fnUntraced(function*(record: ForgettableRecord, embedding: ReadonlyArray<StreamKey>) {
    const found = yield* store.findRows(
      embedding,
      idAsJson(record.id),
      ({ changes, content, model }) => repeats(model, parseContent(content), JSON.parse(changes), forgottenOnly(record))
    )
    const readable = found.filter(({ unreadable }) => unreadable !== true)
    const copies = [...Map.groupBy(readable, streamName).values()].map((rows) => {
      const { integration, model } = rows[0]!
      return { key: { integration, model }, rows, ids: [...new Set(rows.map(({ id }) => id))] }
    })
    const removed = new Set(copies.flatMap(({ ids, key }) => ids.map((id) => `${key.model}/${id}`)))
    // the rows of these records are removed by their ids
    const isLeft = ({ id, model, unreadable }: FoundRow) => unreadable === true && !removed.has(`${model}/${id}`)
    return { copies, unreadable: found.filter(isLeft) }
  })

  /** Rows of the record itself. Some may be kept for a delivery although retention has deleted later rows. */
  const findOwn = (record: ForgettableRecord, own: StreamKey) =>
    Effect.map(
      store.findRows([own], idAsJson(record.id), ({ id }) => id === record.id),
      (rows) => rows.filter(({ id }) => id === record.id)
    )

  const rowsIn = (rows: ReadonlyArray<FoundRow>, ids: ReadonlySet<string>) =>
    rows.flatMap(({ id, position }) => position !== null && ids.has(id) ? [{ id, position }] : [])

  return { streamsOf, findCopies, findOwn, rowsIn }
}
