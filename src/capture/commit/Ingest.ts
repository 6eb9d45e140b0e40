/**
 * Ingests one page of observed records into a stream, inside the transaction that also commits the run's progress: classifies
 * each record (`RowClassification.ts`), and plans the writes and pending rows (`RowOutcome.ts`).
 *
 * Invariants
 * 1. Every row is counted with exactly one outcome: the outcomes add up to the rows read   (I1)
 *
 * Gotchas
 * - If a row has the same bytes as the stored row, and the record is not pending, the record is only counted and marked as seen. A page of
 *   such rows commits these marks and the run's progress, and its rows append no event.
 */
import * as Effect from "effect/Effect"
import { nothingRemoved } from "../../domain/Forgotten.ts"
import { lagOf, polledTo } from "../../domain/Lateness.ts"
import { parseRow, quarantineHash, type Row } from "../../domain/Observation.ts"
import type { Processing } from "../../domain/Processing.ts"
import type { RawRow } from "../../domain/RawRow.ts"
import { parseTime } from "../../domain/Watermark.ts"
import type { Quarantined, RecordWrite } from "../../store/Records.ts"
import { type RowCounts, zeroRowCounts } from "../../store/Run.ts"
import type { StoreError, StreamTx } from "../../store/Store.ts"
import type { PageContext } from "../record/PageContext.ts"
import { type ClassifiedRow, classifyCopies, rehash, type Stored } from "./RowClassification.ts"
import { outcomeOf } from "./RowOutcome.ts"

/** A page ready for its transaction. Its rows are hashed once, even if the transaction is retried. */
export interface Prepared {
  readonly rows: ReadonlyArray<Row>
  readonly unreadable: ReadonlyArray<Quarantined>
}

export const prepare = (
  processing: Processing,
  results: ReadonlyArray<RawRow>,
  now: number,
  removal = nothingRemoved
): Prepared => {
  const rows: Array<Row> = []
  const unreadable: Array<Quarantined> = []
  for (const one of results) {
    if (removal.isForgotten(one.id)) continue
    const row = parseRow(processing, one, removal)
    if ("id" in row) rows.push(row)
    else {
      unreadable.push({
        hash: quarantineHash(processing, row.text),
        reason: row.unreadable,
        content: row.text,
        redaction: processing.applied.id,
        at: now
      })
    }
  }
  return { rows, unreadable }
}

export interface IngestResult {
  readonly rowCounts: RowCounts
  /** Number of records of the page that an earlier page of the run contained too. */
  readonly alreadyRead: number
  /** For `tx.write`, which is called last because it locks the log's position counter until the commit. */
  readonly writes: ReadonlyArray<RecordWrite>
  /** Largest delay of a change that a complete poll should have returned, in ms; 0 if there was no such change. */
  readonly lag: number
  /**
   * Number of late changes (see `lag`) that are newer than the last poll that returned records. Every poll since then returned nothing,
   * although the record had changed.
   */
  readonly missedByPolls: number
}

export const ingest = Effect.fnUntraced(function*(
  tx: StreamTx,
  prepared: Prepared,
  context: PageContext
): Effect.fn.Return<IngestResult, StoreError> {
  const copies = Map.groupBy(prepared.rows, (row) => row.id)
  const ids = [...copies.keys()]
  const heads = yield* tx.heads(ids)
  const pending = yield* tx.pending(ids)
  const stored: Stored = { heads, pending, ...yield* rehash(tx, copies, { heads, pending }, context) }

  const rowCounts = { ...zeroRowCounts, read: prepared.rows.length, duplicates: prepared.rows.length - copies.size }
  const classified: Array<ClassifiedRow> = []
  for (const rows of copies.values()) {
    const row = classifyCopies(rows, stored, context)
    if (row === "unchanged") rowCounts.unchanged++
    else if (row === "duplicate") rowCounts.duplicates++
    else classified.push(row)
  }

  const updated = classified.filter(({ classification }) => classification._tag === "Updated")
  const unread = updated.filter(({ observed: { id } }) => !stored.published.has(id))
  const befores = yield* tx.contents(unread.flatMap(({ observed: { id } }) => heads.get(id)?.position ?? []))
  const isHeld = [...pending.values()].some(({ hold }) => hold !== null)
  const holds = isHeld || updated.length > 0 ? yield* tx.holds : []
  const outcomes = classified.map((row) => outcomeOf(row, stored, befores, holds, context))
  for (const { countedAs } of outcomes) rowCounts[countedAs]++
  const writes = outcomes.flatMap(({ write }) => write ?? [])

  const written = new Set(writes.map((write) => write.head.id))
  yield* tx.markSeen(ids.filter((id) => !written.has(id) && heads.has(id)), context.runId)
  yield* tx.dropPending(ids.filter((id) => pending.has(id) && written.has(id)))
  yield* tx.putPending(outcomes.flatMap(({ pending }) => pending ?? []))
  yield* tx.quarantine(prepared.unreadable)

  const { stream } = context
  const lags = classified.flatMap((row) => lagsIn(row, stored, context))
  const quarantined = prepared.unreadable.length
  return {
    rowCounts: { ...rowCounts, read: rowCounts.read + quarantined, quarantined },
    alreadyRead: ids.filter((id) => (heads.get(id)?.lastSeenRunId ?? pending.get(id)?.runId) === context.runId).length,
    writes,
    lag: Math.max(0, ...lags),
    missedByPolls: lags.filter((lag) => lag < polledTo(stream) - (stream.lastNonEmptyPollAt ?? 0)).length
  }
})

/** The lateness of a change that a run observed, for the overlap; empty if nothing late was observed (see `Lateness.ts`). */
const lagsIn = (
  { classification, observed: { changedAtMs, id } }: ClassifiedRow,
  { heads, pending }: Stored,
  { backfill, stream }: PageContext
): ReadonlyArray<number> => {
  const isChange = classification._tag !== "Same" && classification._tag !== "Duplicate" &&
    classification._tag !== "StillPending"
  if (!isChange || backfill) return []
  const known = { head: heads.get(id), pendingChangedAt: parseTime(pending.get(id)?.changedAt) }
  const lag = lagOf(changedAtMs, known, stream)
  return lag === null ? [] : [lag]
}
