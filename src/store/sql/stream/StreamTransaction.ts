/**
 * The transaction on one stream: the operations inside the body of a `transact`.
 *
 * Invariants
 * 1. All writes of the body are committed together, or none of them is   (I2)
 * 2. `streams.live_records` is the number of the stream's live heads: whatever changes `heads.live` changes it in the same transaction
 *
 * Gotchas
 * - A page has 250 records, but callers may pass more: most work is split into statements of 250 rows.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import type { Forgotten } from "../../../domain/Forgotten.ts"
import type { Pending, PendingStatus, Quarantined, QuarantinedRow, RecordWrite } from "../../Records.ts"
import type { StreamState } from "../../State.ts"
import type { Operation } from "../../StoreError.ts"
import * as AuditTable from "../AuditTable.ts"
import * as Checksum from "../Checksum.ts"
import type { Content } from "../Checksum.ts"
import { type ContentCipher, pendingPlace, quarantinePlace } from "../ContentCipher.ts"
import type { EventTable } from "../EventTable.ts"
import { recordRun } from "../HistoryTable.ts"
import { heads, inBatches, pendings, quarantined, type Row } from "../Rows.ts"
import { among, insertColumns, insertion } from "../RowValues.ts"
import { convertEach, toStoreError } from "../SqlRetry.ts"
import * as DerivationTable from "./DerivationTable.ts"
import * as ExpectationTable from "./ExpectationTable.ts"
import * as HoldTable from "./HoldTable.ts"
import * as PageReads from "./PageReads.ts"
import * as ReferenceTable from "./ReferenceTable.ts"

/** The key of a stream, and which rows it had when the transaction started; the transaction does not look for others. 0: none. */
export interface OpenedStream {
  readonly key: number
  readonly hasHolds: number | boolean
  readonly hasStaged: number | boolean
  readonly hasExpectations: number | boolean
}

/** `derivedStream`: key of the stream that is derived from this one; 0 if there is none. */
export const make = (
  sql: SqlClient,
  log: EventTable,
  { hasExpectations, hasHolds, hasStaged, key: stream }: OpenedStream,
  derivedStream: number,
  state: StreamState,
  cipher: ContentCipher,
  forgotten: Effect.Effect<Forgotten, SqlError>,
  ahead: PageReads.ReadAhead | null
) => {
  const checksum = Checksum.make(cipher)
  const { checked } = checksum
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
  const readPending = (ids: ReadonlyArray<string>) =>
    inBatches(ids, (some) => sql<Row>`SELECT * FROM pending WHERE stream = ${stream} AND id ${among(sql, some)}`).pipe(
      Effect.flatMap(toPendings),
      Effect.map((rows) => new Map(rows.map((pending) => [pending.id, pending])))
    )
  const countLive = (of: number, records: ReadonlyArray<RecordWrite>) => {
    const live = records.reduce((sum, { head, wasLive = head.live }) => sum + Number(head.live) - Number(wasLive), 0)
    return live === 0
      ? Effect.void
      : Effect.asVoid(sql`UPDATE streams SET live_records = live_records + ${live} WHERE key = ${of}`)
  }
  const holds = HoldTable.streamHolds(sql, stream)
  const unended = hasHolds ? holds.holds : Effect.succeed([])
  const operations = convertEach(toStoreError, {
    read: PageReads.make(sql, stream, ahead, checksum, readPending, unended),
    /** All pending rows in id order, at most `limit`, after `after`. */
    allPending: (after: string | null, limit: number) => pendingPage(sql`stream = ${stream}`, after, limit),
    /** Pending rows of one status in id order, at most `limit`, after `after`. */
    pendingWithStatus: (status: PendingStatus, after: string | null, limit: number) =>
      pendingPage(sql`stream = ${stream} AND status = ${status}`, after, limit),
    /** How many records of the stream are live, as published. */
    liveCount: Effect.map(
      sql<{ live: number }>`SELECT live_records AS live FROM streams WHERE key = ${stream}`,
      ([row]) => Number(row?.live)
    ),
    /** How many records at least one confirmation has found absent. */
    absentCount: count(sql`pending WHERE stream = ${stream} AND status = 'absent' AND confirms > 0`),
    holdSize: (hold: number) => count(sql`pending WHERE hold = ${hold}`),
    /** Pending rows of one hold, except disputed ones, in id order, at most `limit`, after `after`. */
    pendingOfHold: (hold: number, after: string | null, limit: number) =>
      pendingPage(sql`hold = ${hold} AND status <> 'disputed'`, after, limit),
    ...holds,
    /** Marks records as seen by a run; never lowers the mark. */
    markSeen: (ids: ReadonlyArray<string>, runId: number) =>
      inBatches(ids, (some) =>
        sql`
          UPDATE heads SET last_run_id = ${runId}
          WHERE stream = ${stream} AND id ${among(sql, some)} AND last_run_id < ${runId}`),
    putPending: (rows: ReadonlyArray<Pending>) =>
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
    dropPending: (ids: ReadonlyArray<string>) =>
      inBatches(ids, (some) => sql`DELETE FROM pending WHERE stream = ${stream} AND id ${among(sql, some)}`),
    /** Adds the rows. If a row with the same hash exists, its count is increased and its content is replaced. */
    quarantine: (rows: ReadonlyArray<Quarantined>) =>
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
    /** Quarantined rows in the order of their hashes, at most `limit`, after `after`. */
    quarantined: (after: string | null, limit: number) =>
      sql<Row>`
        SELECT * FROM quarantine WHERE stream = ${stream} AND hash > ${after ?? ""} ORDER BY hash LIMIT ${limit}`.pipe(
        Effect.flatMap((rows) =>
          cipher.openRows(rows, "the quarantine", (row, open): QuarantinedRow => {
            const found = quarantined.fromRow(row)
            return { ...found, content: open(quarantinePlace(stream, found.hash), found.content) }
          })
        )
      ),
    /** Replaces the quarantined rows that have these hashes. New rows with the same hash are combined, and their counts are added. */
    replaceQuarantined: Effect.fnUntraced(
      function*(hashes: ReadonlyArray<string>, rows: ReadonlyArray<QuarantinedRow>) {
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
      }
    ),
    /** Rows of the log before position `before`, the newest first, at most `limit`. Silent rows are included. */
    logContents: (before: number, limit: number) => log.contentsBefore(stream, before, limit),
    /** Replaces the content of log rows that this transaction has read. Positions, event ids and chains stay. */
    rewriteLog: log.rewrite,
    /** Raises `LogChains.removals`. The log's counter is locked from this call to the commit. */
    noteRemoval: log.noteRemoval,
    ...stale,
    ...DerivationTable.make(sql, stream, state, checksum),
    /** Heads whose log row belongs to a generation before `generation`, with that row; in id order after `after`, at most `limit`. */
    olderGenerationRecords: (generation: number, after: string | null, limit: number) =>
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
    /** Notes which log rows of generations before `generation` unsettled deliveries need. Retention deletes them once they are settled. */
    retainOlderGenerationEvents: (generation: number) => log.retainOlder(stream, state.integration, generation),
    /**
     * Deletes log rows of generations before `generation`, except for those that were noted, at most `limit`; returns how many. Heads must
     * no longer refer to these rows.
     */
    deleteOlderGenerationEvents: (generation: number, limit: number) => log.deleteOlder(stream, generation, limit),
    ...ExpectationTable.streamExpectations(sql, stream, state.model),
    saveState: (next: StreamState) => sql`UPDATE streams SET state = ${JSON.stringify(next)} WHERE key = ${stream}`,
    /** Adds a run to the stream's history, or replaces the one with its number. The history keeps the newest `keptRuns`. */
    recordRun: recordRun(sql, stream),
    /** The forgotten records of the stream's integration. */
    forgotten,
    /** After `write`: the position of the last event of the transaction. */
    newestPosition: log.newest,
    /** Adds an operator's action to the audit log. */
    recordAction: AuditTable.make(sql).recordAction,
    /**
     * Writes heads, events and references, of this stream and of the one that is derived from it. Records of any stream of the integration
     * that still show the old version of changed content become stale. Call it last, because the log's counter is locked from this call to
     * the commit.
     */
    write: Effect.fnUntraced(function*(own: ReadonlyArray<RecordWrite>, derived: ReadonlyArray<RecordWrite> = []) {
      const records = [...own, ...derived]
      if (records.length === 0) return
      const streams = records.map((_, index) => index < own.length ? stream : derivedStream)
      // derived records repeat no content of other records
      const markStale = yield* record(own)
      yield* countLive(stream, own)
      yield* countLive(derivedStream, derived)
      const positions = yield* log.append(streams, records)
      yield* markStale
      const columns = { ...heads.toColumns(records.map(({ head }) => head)), position: positions, stream: streams }
      yield* sql`INSERT INTO heads ${insertColumns(sql, columns)}
        ON CONFLICT (stream, id) DO UPDATE SET ${heads.replace("id", "last_run_id")}, last_run_id =
          CASE WHEN excluded.last_run_id > heads.last_run_id THEN excluded.last_run_id ELSE heads.last_run_id END`
      yield* log.noteErased(
        positions.flatMap((position, index) => records[index]?.erased === true && position !== null ? [position] : [])
      )
    })
  })
  return {
    /** As committed when the transaction started. */
    state,
    /** Whether the stream has holds that are neither approved nor canceled, as committed when the transaction started. */
    hasHolds: Boolean(hasHolds),
    /** Whether rows are staged, as committed when the transaction started. */
    hasStaged: Boolean(hasStaged),
    /** Whether a record of the stream was still expected to show a plugin's write when the transaction started. */
    hasExpectations: Boolean(hasExpectations),
    ...operations
  }
}

/** The operations of a transaction on one stream. Valid only inside its `transact`. */
export interface StreamTx extends ReturnType<typeof make> {
  /** The stream of the model that is derived from this one, in the same transaction: its `state`, `read`, `saveState` and `write`. */
  readonly derived: Operation<StreamTx>
}
