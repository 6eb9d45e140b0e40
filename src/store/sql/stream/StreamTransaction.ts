/**
 * `StreamTx` over SQL: the operations on a stream inside the body of a `transact`.
 *
 * Invariants
 * 1. `streams.live_records` is the number of the stream's live heads: whatever changes `heads.live` changes it in the same transaction
 *
 * Gotchas
 * - A page has 250 records, but callers may pass more: all work is split into statements of 250 rows.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import type { StreamState } from "../../State.ts"
import type { Pending, QuarantinedRow, StoredContent } from "../../StreamRecords.ts"
import type { RecordWrite, StreamTx } from "../../StreamTx.ts"
import * as AuditTable from "../AuditTable.ts"
import * as Checksum from "../Checksum.ts"
import type { Content } from "../Checksum.ts"
import type { Row } from "../Columns.ts"
import { type ContentCipher, pendingPlace, quarantinePlace } from "../ContentCipher.ts"
import type { EventTable } from "../EventTable.ts"
import { forgottenIn } from "../ForgottenTable.ts"
import { heads, inBatches, pendings, quarantined } from "../Rows.ts"
import { among, insertion } from "../RowValues.ts"
import { convertAs, toStoreError } from "../SqlRetry.ts"
import * as DerivationTable from "./DerivationTable.ts"
import * as ExpectationTable from "./ExpectationTable.ts"
import * as HoldTable from "./HoldTable.ts"
import * as ReferenceTable from "./ReferenceTable.ts"
import * as RunTable from "./RunTable.ts"

const toStored = (row: Content & { readonly redaction: string | null }): StoredContent | null =>
  row.content === null ? null : { content: row.content, redaction: row.redaction }

export const make = (
  sql: SqlClient,
  log: EventTable,
  stream: number,
  state: StreamState,
  cipher: ContentCipher,
  derived: StreamTx["derived"]
): StreamTx => {
  const { checked } = Checksum.make(cipher)
  const toPendings = (rows: ReadonlyArray<Row>) =>
    cipher.openRows(rows, "a pending row", (row, open): Pending => {
      const pending = pendings.fromRow(row)
      return { ...pending, content: open(pendingPlace(stream, pending.id), pending.content) }
    })
  const sealedQuarantined = (row: QuarantinedRow) => ({
    stream,
    ...quarantined.toRow({ ...row, content: cipher.seal(quarantinePlace(stream, row.hash), row.content) })
  })
  const { record, ...stale } = ReferenceTable.make(sql, stream)
  const count = (rows: Fragment) =>
    Effect.map(sql<{ count: number }>`SELECT count(*) AS count FROM ${rows}`, ([row]) => row?.count ?? 0)
  const pendingPage = (condition: Fragment, after: string | null, limit: number) =>
    sql<Row>`SELECT * FROM pending WHERE ${condition} AND id > ${after ?? ""} ORDER BY id LIMIT ${limit}`.pipe(
      Effect.flatMap(toPendings)
    )
  /** Whether records are live, by id: those whose heads this transaction has read since its last `write`. */
  const isLive = new Map<string, boolean>()
  const readHeads = (ids: ReadonlyArray<string>) =>
    inBatches(
      ids,
      (some) =>
        sql<Row>`SELECT ${heads.columns("h")} FROM heads h WHERE h.stream = ${stream} AND h.id ${among(sql, some)}`
    ).pipe(
      Effect.map((rows) => {
        const found = new Map(rows.map(heads.fromRow).map((head) => [head.id, head]))
        for (const id of ids) isLive.set(id, found.get(id)?.live ?? false)
        return found
      })
    )
  /** Adds the change by these records to the number of live records. Call it before their heads are written. */
  const countLive = Effect.fnUntraced(function*(records: ReadonlyArray<RecordWrite>) {
    const unread = records.flatMap(({ head }) => isLive.has(head.id) ? [] : [head.id])
    if (unread.length > 0) yield* readHeads(unread)
    let change = 0
    for (const { head: { id, live } } of records) {
      change += Number(live) - Number(isLive.get(id))
      isLive.set(id, live)
    }
    isLive.clear()
    if (change !== 0) yield* sql`UPDATE streams SET live_records = live_records + ${change} WHERE key = ${stream}`
  })
  return convertAs<StreamTx>(toStoreError, {
    state,
    heads: readHeads,
    pending: (ids) =>
      inBatches(ids, (some) => sql<Row>`SELECT * FROM pending WHERE stream = ${stream} AND id ${among(sql, some)}`)
        .pipe(
          Effect.flatMap(toPendings),
          Effect.map((rows) => new Map(rows.map((pending) => [pending.id, pending])))
        ),
    contents: (positions) =>
      inBatches(positions, (some) =>
        sql<Content & { position: number; redaction: string | null }>`
          SELECT position, content, content_sum, redaction FROM events WHERE position ${among(sql, some)}`).pipe(
          Effect.flatMap(checked),
          Effect.map((rows) => new Map(rows.map((row) => [row.position, toStored(row)])))
        ),
    beforeImages: (positions) =>
      inBatches(positions, (some) =>
        sql<Content & { of_position: number; redaction: string | null }>`
          SELECT e.position AS of_position, p.position, p.content, p.content_sum, p.redaction
          FROM events e LEFT JOIN events p ON p.position = e.previous
          WHERE e.position ${among(sql, some)}`).pipe(
          Effect.flatMap(checked),
          Effect.map((rows) => new Map(rows.map((row) => [row.of_position, toStored(row)])))
        ),
    allPending: (after, limit) => pendingPage(sql`stream = ${stream}`, after, limit),
    pendingWithStatus: (status, after, limit) =>
      pendingPage(sql`stream = ${stream} AND status = ${status}`, after, limit),
    liveCount: Effect.map(
      sql<{ live: number }>`SELECT live_records AS live FROM streams WHERE key = ${stream}`,
      ([row]) => Number(row?.live)
    ),
    absentCount: count(sql`pending WHERE stream = ${stream} AND status = 'absent' AND confirms > 0`),
    holdSize: (hold) => count(sql`pending WHERE hold = ${hold}`),
    pendingOfHold: (hold, after, limit) => pendingPage(sql`hold = ${hold} AND status <> 'disputed'`, after, limit),
    ...HoldTable.streamHolds(sql, stream),
    markSeen: (ids, runId) =>
      inBatches(ids, (some) =>
        sql`
          UPDATE heads SET last_run_id = ${runId}
          WHERE stream = ${stream} AND id ${among(sql, some)} AND last_run_id < ${runId}`),
    putPending: (rows) =>
      inBatches(
        rows,
        (some) =>
          sql`INSERT INTO pending ${
            insertion(
              sql,
              Arr.map(some, (row) => ({
                stream,
                ...pendings.toRow({ ...row, content: cipher.seal(pendingPlace(stream, row.id), row.content) })
              }))
            )
          }
          ON CONFLICT (stream, id) DO UPDATE SET ${pendings.replace("id")}`
      ),
    dropPending: (ids) =>
      inBatches(ids, (some) => sql`DELETE FROM pending WHERE stream = ${stream} AND id ${among(sql, some)}`),
    quarantine: (rows) =>
      inBatches(
        // PostgreSQL does not insert and update one row in one statement
        Map.groupBy(rows, ({ hash }) => hash).values(),
        (some) =>
          sql`INSERT INTO quarantine ${
            insertion(
              sql,
              Arr.map(some, (same) => {
                const { at, ...row } = same.at(-1)!
                return sealedQuarantined({ ...row, occurrences: same.length, firstAt: at, lastAt: at })
              })
            )
          } ON CONFLICT (stream, hash) DO UPDATE SET
          occurrences = quarantine.occurrences + excluded.occurrences, last_at = excluded.last_at, reason = excluded.reason,
          content = excluded.content, redaction = excluded.redaction`
      ),
    quarantined: (after, limit) =>
      sql<Row>`
        SELECT * FROM quarantine WHERE stream = ${stream} AND hash > ${after ?? ""} ORDER BY hash LIMIT ${limit}`.pipe(
        Effect.flatMap((rows) =>
          cipher.openRows(rows, "the quarantine", (row, open): QuarantinedRow => {
            const found = quarantined.fromRow(row)
            return { ...found, content: open(quarantinePlace(stream, found.hash), found.content) }
          })
        )
      ),
    replaceQuarantined: Effect.fnUntraced(function*(hashes, rows) {
      yield* inBatches(
        hashes,
        (some) => sql`DELETE FROM quarantine WHERE stream = ${stream} AND hash ${among(sql, some)}`
      )
      // one row a statement: PostgreSQL does not update a row twice in one
      for (const row of rows) {
        yield* sql`INSERT INTO quarantine ${sql.insert(sealedQuarantined(row))}
          ON CONFLICT (stream, hash) DO UPDATE SET occurrences = quarantine.occurrences + excluded.occurrences,
            first_at = CASE WHEN excluded.first_at < quarantine.first_at THEN excluded.first_at ELSE quarantine.first_at END,
            last_at = CASE WHEN excluded.last_at > quarantine.last_at THEN excluded.last_at ELSE quarantine.last_at END`
      }
    }),
    logContents: (before, limit) => log.contentsBefore(stream, before, limit),
    rewriteLog: log.rewrite,
    noteRemoval: log.noteRemoval,
    ...stale,
    derived,
    ...DerivationTable.make(sql, stream),
    olderGenerationRecords: (generation, after, limit) =>
      sql<Row & Content & { remote_id: string | null; event_changed_at: string | null; redaction: string | null }>`
        SELECT ${
        heads.columns("h")
      }, e.remote_id, e.changed_at AS event_changed_at, e.content, e.content_sum, e.redaction
        FROM heads h JOIN events e ON e.position = h.position
        WHERE h.stream = ${stream} AND h.id > ${after ?? ""} AND e.generation < ${generation}
        ORDER BY h.id LIMIT ${limit}`.pipe(
        Effect.flatMap(checked),
        Effect.map(Arr.map((row) => ({
          head: heads.fromRow(row),
          remoteId: row.remote_id,
          changedAt: row.event_changed_at,
          content: row.content,
          redaction: row.redaction
        })))
      ),
    retainOlderGenerationEvents: (generation) => log.retainOlder(stream, state.integration, generation),
    deleteOlderGenerationEvents: (generation, limit) => log.deleteOlder(stream, generation, limit),
    ...ExpectationTable.streamExpectations(sql, stream, state.model),
    saveState: (next) => sql`UPDATE streams SET state = ${JSON.stringify(next)} WHERE key = ${stream}`,
    recordRun: RunTable.record(sql, stream),
    forgotten: forgottenIn(sql, state.integration),
    recordAction: AuditTable.make(sql).record,
    write: Effect.fnUntraced(function*(records) {
      yield* record(records)
      yield* countLive(records)
      const written = yield* log.append(stream, records)
      yield* inBatches(
        written,
        (some) =>
          sql`INSERT INTO heads ${insertion(sql, Arr.map(some, (head) => ({ stream, ...heads.toRow(head) })))}
          ON CONFLICT (stream, id) DO UPDATE SET ${heads.replace("id", "last_run_id")}, last_run_id =
            CASE WHEN excluded.last_run_id > heads.last_run_id THEN excluded.last_run_id ELSE heads.last_run_id END`
      )
      yield* log.noteErased(
        written.flatMap(({ position }, index) => records[index]?.erased === true && position !== null ? [position] : [])
      )
    })
  })
}
