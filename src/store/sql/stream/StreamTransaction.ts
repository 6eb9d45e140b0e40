/**
 * `StreamTx` over SQL: the operations on a stream inside the body of a `transact`.
 *
 * Gotchas
 * - A page has 250 records, but callers may pass more: all work is split into statements of 250 rows.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { StreamState } from "../../State.ts"
import type { StreamTx } from "../../Store.ts"
import { checked, type Content } from "../Checksum.ts"
import type { EventTable } from "../EventTable.ts"
import {
  fromHead,
  fromPending,
  fromQuarantined,
  fromState,
  type HeadRow,
  type Integer,
  type PendingRow,
  rowsPerStatement,
  toHead,
  toPending
} from "../Rows.ts"
import { toStoreError } from "../SqlRetry.ts"
import * as DerivationTable from "./DerivationTable.ts"
import * as ExpectationTable from "./ExpectationTable.ts"
import type { HoldTable } from "./HoldTable.ts"
import * as ReferenceTable from "./ReferenceTable.ts"

type ContentRow = { readonly position: Integer; readonly content: string | null }

export const make = (
  sql: SqlClient,
  tables: { readonly log: EventTable; readonly holds: HoldTable },
  stream: number,
  state: StreamState,
  derived: StreamTx["derived"]
): StreamTx => {
  const { holds, log } = tables
  const inBatches = <A, B>(
    operation: string,
    run: (batch: Arr.NonEmptyReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, SqlError>
  ) =>
  (all: ReadonlyArray<A>) =>
    Effect.forEach(Arr.chunksOf(all, rowsPerStatement), run).pipe(Effect.map(Arr.flatten), toStoreError(operation))

  const headRows = inBatches("heads", (ids: ReadonlyArray<string>) =>
    sql<HeadRow>`
      SELECT id, version, live, position, text_hash, canonical_hash, fingerprint, changed_at, last_run_id
      FROM heads WHERE stream = ${stream} AND id IN ${sql.in(ids)}`)

  const pendingRows = inBatches(
    "pending",
    (ids: ReadonlyArray<string>) =>
      sql<PendingRow & ContentRow>`SELECT * FROM pending WHERE stream = ${stream} AND id IN ${sql.in(ids)}`
  )

  const contentRows = inBatches(
    "contents",
    (positions: ReadonlyArray<number>) =>
      sql<ContentRow & Content>`SELECT position, content, content_sum FROM events WHERE position IN ${
        sql.in(positions)
      }`
  )

  const beforeRows = inBatches(
    "beforeImages",
    (positions: ReadonlyArray<number>) =>
      sql<Content & { readonly of_position: Integer }>`
      SELECT e.position AS of_position, p.position, p.content, p.content_sum
      FROM events e LEFT JOIN events p ON p.position = e.previous
      WHERE e.position IN ${sql.in(positions)}`
  )

  const toContents = (rows: ReadonlyArray<ContentRow>): ReadonlyMap<number, string | null> =>
    new Map(rows.map((row) => [Number(row.position), row.content]))

  const putPending = inBatches(
    "putPending",
    (rows: Arr.NonEmptyReadonlyArray<ReturnType<typeof fromPending>>) =>
      sql`INSERT INTO pending ${sql.insert(rows)} ON CONFLICT (stream, id) DO UPDATE SET
      status = excluded.status, run_id = excluded.run_id, origin = excluded.origin, deleted = excluded.deleted,
      reason = excluded.reason, text_hash = excluded.text_hash, canonical_hash = excluded.canonical_hash,
      remote_id = excluded.remote_id, changed_at = excluded.changed_at, detected_at = excluded.detected_at,
      confirms = excluded.confirms, confirmed_at = excluded.confirmed_at, hold = excluded.hold,
      content = excluded.content`
  )

  const dropPending = inBatches(
    "dropPending",
    (ids: ReadonlyArray<string>) => sql`DELETE FROM pending WHERE stream = ${stream} AND id IN ${sql.in(ids)}`
  )

  const quarantine = inBatches(
    "quarantine",
    (rows: Arr.NonEmptyReadonlyArray<ReturnType<typeof fromQuarantined>>) =>
      sql`INSERT INTO quarantine ${sql.insert(rows)} ON CONFLICT (stream, hash) DO UPDATE SET
      occurrences = quarantine.occurrences + 1, last_at = excluded.last_at, reason = excluded.reason`
  )

  const putHeads = inBatches(
    "write",
    (rows: Arr.NonEmptyReadonlyArray<ReturnType<typeof fromHead>>) =>
      sql`INSERT INTO heads ${sql.insert(rows)} ON CONFLICT (stream, id) DO UPDATE SET
      version = excluded.version, live = excluded.live, position = excluded.position, text_hash = excluded.text_hash,
      canonical_hash = excluded.canonical_hash, fingerprint = excluded.fingerprint, changed_at = excluded.changed_at,
      last_run_id = CASE WHEN excluded.last_run_id > heads.last_run_id THEN excluded.last_run_id ELSE heads.last_run_id END`
  )

  const markSeen = (runId: number) =>
    inBatches(
      "markSeen",
      (ids: ReadonlyArray<string>) =>
        sql`
          UPDATE heads SET last_run_id = ${runId}
          WHERE stream = ${stream} AND id IN ${sql.in(ids)} AND last_run_id < ${runId}`
    )

  const references = ReferenceTable.make(sql, stream)
  const olderGenerationRecords: StreamTx["olderGenerationRecords"] = (generation, after, limit) =>
    sql<HeadRow & Content & { position: Integer; remote_id: string | null; event_changed_at: string | null }>`
      SELECT h.id, h.version, h.live, h.position, h.text_hash, h.canonical_hash, h.fingerprint, h.changed_at, h.last_run_id,
        e.remote_id, e.changed_at AS event_changed_at, e.content, e.content_sum
      FROM heads h JOIN events e ON e.position = h.position
      WHERE h.stream = ${stream} AND h.id > ${after ?? ""} AND e.generation < ${generation}
      ORDER BY h.id LIMIT ${limit}`.pipe(
      Effect.flatMap(checked),
      Effect.map((rows) =>
        rows.map((row) => ({
          head: toHead(row),
          remoteId: row.remote_id,
          changedAt: row.event_changed_at,
          content: row.content
        }))
      ),
      toStoreError("olderGenerationRecords")
    )

  // `raiseGeneration` moved `pruned` past all rows of older generations, so only rows up to `pruned` are searched
  const deleteOlderGenerationEvents: StreamTx["deleteOlderGenerationEvents"] = (generation, limit) =>
    sql`
      DELETE FROM events WHERE position IN (
        SELECT position FROM events
        WHERE stream = ${stream} AND position <= (SELECT pruned FROM log_counter) AND generation < ${generation}
        ORDER BY position LIMIT ${limit}
      ) RETURNING position`.pipe(Effect.map((rows) => rows.length), toStoreError("deleteOlderGenerationEvents"))

  return {
    state,
    heads: (ids) => Effect.map(headRows(ids), (rows) => new Map(rows.map((row) => [row.id, toHead(row)]))),
    pending: (ids) => Effect.map(pendingRows(ids), (rows) => new Map(rows.map((row) => [row.id, toPending(row)]))),
    contents: (positions) => contentRows(positions).pipe(Effect.flatMap(checked), Effect.map(toContents)),
    beforeImages: (positions) =>
      beforeRows(positions).pipe(
        Effect.flatMap(checked),
        Effect.map((rows) => new Map(rows.map((row) => [Number(row.of_position), row.content])))
      ),
    pendingWithStatus: (status, after, limit) =>
      sql<PendingRow & ContentRow>`
        SELECT * FROM pending WHERE stream = ${stream} AND status = ${status} AND id > ${after ?? ""}
        ORDER BY id LIMIT ${limit}`.pipe(Effect.map(Arr.map(toPending)), toStoreError("pendingWithStatus")),
    liveCount: sql<{ count: Integer }>`SELECT count(*) AS count FROM heads WHERE stream = ${stream} AND live = 1`.pipe(
      Effect.map(([row]) => Number(row?.count ?? 0)),
      toStoreError("liveCount")
    ),
    absentCount: sql<{ count: Integer }>`
      SELECT count(*) AS count FROM pending WHERE stream = ${stream} AND status = 'absent' AND confirms > 0`.pipe(
      Effect.map(([row]) => Number(row?.count ?? 0)),
      toStoreError("absentCount")
    ),
    holds: holds.undecided(stream),
    openHold: (hold) => holds.open(stream, hold),
    saveHold: holds.save,
    holdSize: holds.size,
    pendingOfHold: holds.rows,
    markSeen: (ids, runId) => Effect.asVoid(markSeen(runId)(ids)),
    putPending: (rows) => Effect.asVoid(putPending(rows.map((row) => fromPending(stream, row)))),
    dropPending: (ids) => Effect.asVoid(dropPending(ids)),
    quarantine: (rows) => Effect.asVoid(quarantine(rows.map((row) => fromQuarantined(stream, row)))),
    takeStale: references.take,
    markRefreshed: references.markRefreshed,
    clearStale: references.clear,
    markStale: references.markStale,
    derived,
    ...DerivationTable.make(sql, stream),
    olderGenerationRecords,
    deleteOlderGenerationEvents,
    ...ExpectationTable.streamExpectations(sql, stream, state.model),
    saveState: (next) =>
      sql`UPDATE streams SET state = ${fromState(next).state} WHERE key = ${stream}`.pipe(
        Effect.asVoid,
        toStoreError("saveState")
      ),
    audit: (entry) => sql`INSERT INTO audit ${sql.insert({ ...entry })}`.pipe(Effect.asVoid, toStoreError("audit")),
    write: (records) =>
      references.record(records).pipe(
        Effect.andThen(log.append(stream, records)),
        Effect.tap((heads) => putHeads(heads.map((head) => fromHead(stream, head)))),
        Effect.flatMap((heads) =>
          log.noteErased(
            heads.flatMap(({ position }, index) =>
              records[index]?.erased === true && position !== null ? [position] : []
            )
          )
        )
      )
  }
}
