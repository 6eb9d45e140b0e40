/** The records of a stream outside a transaction: published content, ids of live records, pending rows, and old quarantined rows. */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { genesis } from "../../../domain/ChangeEvent.ts"
import type { StreamKey } from "../../../domain/Model.ts"
import type { HeldRow, LiveRecord } from "../../Records.ts"
import * as Checksum from "../Checksum.ts"
import type { Content } from "../Checksum.ts"
import { type ContentCipher, pendingPlace } from "../ContentCipher.ts"
import { inBatches, listedPendings, pendings, type Row } from "../Rows.ts"
import { among } from "../RowValues.ts"
import { isStream } from "./StreamTable.ts"

const idsOf = Arr.map(({ id }: { readonly id: string }) => id)

export const make = (sql: SqlClient, cipher: ContentCipher) => {
  const { checked } = Checksum.make(cipher)
  const is = isStream(sql)
  const keyOf = (key: StreamKey) => sql`(SELECT key FROM streams WHERE ${is(key)})`

  return {
    /** Live records that no run has seen since run `runId` started, in id order. */
    liveNotSeenSince: (key: StreamKey, runId: number, after: string | null, limit: number) =>
      sql<{ id: string }>`
        SELECT id FROM heads
        WHERE stream = ${keyOf(key)} AND id > ${after ?? ""} AND live = 1 AND last_run_id < ${runId}
        ORDER BY id LIMIT ${limit}`.pipe(Effect.map(idsOf)),
    /** The live records among these. */
    liveIds: (key: StreamKey, ids: ReadonlyArray<string>) =>
      inBatches(ids, (some) =>
        sql<{ id: string }>`
          SELECT id FROM heads WHERE stream = ${keyOf(key)} AND id ${among(sql, some)} AND live = 1`).pipe(
          Effect.map((rows) => new Set(idsOf(rows)))
        ),
    /**
     * The first and the last `limit` ids of live records that run `runId` or a later one has seen, in id order. A confirmation uses these
     * records, which should still exist, as controls.
     */
    controlIds: (key: StreamKey, runId: number, limit: number) => {
      const seen = sql`SELECT id FROM heads WHERE stream = ${keyOf(key)} AND live = 1 AND last_run_id >= ${runId}`
      return sql<{ id: string }>`
        SELECT id FROM (${seen} ORDER BY id LIMIT ${limit}) AS first
        UNION
        SELECT id FROM (${seen} ORDER BY id DESC LIMIT ${limit}) AS last
        ORDER BY id`.pipe(Effect.map(idsOf))
    },
    // one statement, so that the position and the records are read at one moment
    /**
     * Current published content of a stream's live records in id order, with the newest position, read at one moment. `id`: of this record
     * only; the list is empty if the record is not live.
     */
    records: (key: StreamKey, after: string | null, limit: number, id?: string) =>
      sql<Content & Omit<LiveRecord, "id"> & { id: string | null; newest: number; chain: string }>`
        SELECT c.position AS newest, c.chain, r.id, r.version, r.generation, r.position, r.content, r.content_sum, r.redaction
        FROM log_counter c LEFT JOIN (
          SELECT h.id, h.version, e.generation, e.position, e.content, e.content_sum, e.redaction
          FROM heads h JOIN events e ON e.position = h.position
          WHERE h.stream = ${keyOf(key)} AND h.id > ${after ?? ""} AND h.live = 1 AND e.content IS NOT NULL
            ${id === undefined ? sql.literal("") : sql`AND h.id = ${id}`}
          ORDER BY h.id LIMIT ${limit}
        ) r ON TRUE ORDER BY r.id`.pipe(
        Effect.flatMap(checked),
        Effect.map((rows) => ({
          position: Number(rows[0]?.newest),
          chain: rows[0]?.chain ?? genesis,
          records: rows.flatMap(({ content, id, generation, redaction, version }) =>
            id === null ? [] : [{ id, version, generation, content, redaction }]
          )
        }))
      ),
    /** Pending rows without their content, in key order: of all streams, or of one stream. */
    pendingRows: ({ key, limit }: { readonly key?: StreamKey | undefined; readonly limit: number }) =>
      sql<Row>`
        SELECT ${listedPendings.columns()} FROM pending p JOIN streams s ON s.key = p.stream
        WHERE ${
        key === undefined ? sql.literal("1 = 1") : is(key)
      } ORDER BY s.integration, s.model, p.id LIMIT ${limit}`
        .pipe(Effect.map(Arr.map(listedPendings.fromRow))),
    /** The rows of a hold in id order, those after `after`, with their content and the published content of their records. */
    heldRows: (hold: number, after: string | null, limit: number) =>
      sql<Row & { id: string; stream: number; position: number | null; published: string | null; content_sum: number }>`
        SELECT p.*, e.position, e.content AS published, e.content_sum
        FROM pending p
        LEFT JOIN heads h ON h.stream = p.stream AND h.id = p.id AND h.live = 1
        LEFT JOIN events e ON e.position = h.position
        WHERE p.hold = ${hold} AND p.id > ${after ?? ""} ORDER BY p.id LIMIT ${limit}`.pipe(
        Effect.flatMap((rows) =>
          Effect.zipWith(
            checked(rows.map((row): Content => ({ ...row, content: row.published }))),
            cipher.openRows(rows, "a pending row", (row, open) => {
              const pending = pendings.fromRow(row)
              return { ...pending, content: open(pendingPlace(Number(row.stream), row.id), pending.content) }
            }),
            (contents, found): ReadonlyArray<HeldRow> =>
              found.map((row, index) => ({ ...row, published: contents[index]?.content ?? null }))
          )
        )
      ),
    /** Deletes quarantined rows that were last read before `before` (our clock, in ms); returns how many. */
    pruneQuarantine: (before: number) =>
      sql`DELETE FROM quarantine WHERE last_at < ${before} RETURNING stream`.pipe(Effect.map((rows) => rows.length))
  }
}
