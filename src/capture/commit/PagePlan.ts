/**
 * Plans what a page changes, given what the store has of its records: classifies each record (`RowClassification.ts`), and decides its write
 * or pending row (`RowOutcome.ts`).
 *
 * Invariants
 * 1. Every row is counted with exactly one outcome: the outcomes add up to the rows read   (I1)
 *
 * Gotchas
 * - If a row has the same bytes as the stored row, and the record is not pending, the record is only counted and marked as seen. A page of
 *   such rows commits these marks and the run's progress, and its rows append no event.
 */
import { nothingRemoved } from "../../domain/Forgotten.ts"
import { lagOf, polledTo } from "../../domain/Lateness.ts"
import { parseRow, quarantineHash, type Row } from "../../domain/Observation.ts"
import type { Processing } from "../../domain/Processing.ts"
import type { RawRow } from "../../domain/RawRow.ts"
import { parseTime } from "../../domain/Watermark.ts"
import {
  anyHash,
  type PageQuery,
  type PageRead,
  type Pending,
  type Quarantined,
  type RecordWrite
} from "../../store/Records.ts"
import { type RowCounts, zeroRowCounts } from "../../store/Run.ts"
import type { PageContext } from "../record/PageContext.ts"
import { type ClassifiedRow, classifyCopies, rehash, type Stored } from "./RowClassification.ts"
import { outcomeOf } from "./RowOutcome.ts"

/** A page ready for its transaction. Its rows are hashed once, even if the transaction is retried. */
export interface Prepared {
  /** The rows of each record. */
  readonly copies: ReadonlyMap<string, ReadonlyArray<Row>>
  readonly unreadable: ReadonlyArray<Quarantined>
}

export const prepare = (
  processing: Processing,
  results: ReadonlyArray<RawRow>,
  now: number,
  removal = nothingRemoved
): Prepared => {
  const copies = new Map<string, Array<Row>>()
  const unreadable: Array<Quarantined> = []
  for (const one of results) {
    if (removal.isForgotten(one.id)) continue
    const row = parseRow(processing, one, removal)
    if ("id" in row) {
      const known = copies.get(row.id)
      if (known === undefined) copies.set(row.id, [row])
      else known.push(row)
    } else {
      unreadable.push({
        hash: quarantineHash(processing, row.text),
        reason: row.unreadable,
        content: row.text,
        redaction: processing.applied.id,
        at: now
      })
    }
  }
  return { copies, unreadable }
}

export const queryOf = (copies: Prepared["copies"], runId: number): PageQuery => ({
  hashes: new Map(
    [...copies].map((
      [id, [first, ...others]]
    ) => [id, others.every(({ textHash }) => textHash === first!.textHash) ? first!.textHash : anyHash])
  ),
  runId
})

export interface PagePlan {
  readonly rowCounts: RowCounts
  /** Number of records of the page that an earlier page of the run contained too. */
  readonly alreadyRead: number
  readonly writes: ReadonlyArray<RecordWrite>
  /** Known records to mark as read by the run; written ones are marked by their write. */
  readonly seen: ReadonlyArray<string>
  readonly putPending: ReadonlyArray<Pending>
  readonly dropPending: ReadonlyArray<string>
  readonly quarantined: ReadonlyArray<Quarantined>
  /** Largest delay of a change that a complete poll should have returned, in ms; 0 if there was no such change. */
  readonly lag: number
  /**
   * Number of late changes (see `lag`) that are newer than the last poll that returned records. Every poll since then returned nothing,
   * although the record had changed.
   */
  readonly missedByPolls: number
}

/** The plan of an empty page. */
export const emptyPlan: PagePlan = {
  rowCounts: zeroRowCounts,
  alreadyRead: 0,
  writes: [],
  seen: [],
  putPending: [],
  dropPending: [],
  quarantined: [],
  lag: 0,
  missedByPolls: 0
}

export const planPage = ({ copies, unreadable }: Prepared, read: PageRead, context: PageContext): PagePlan => {
  const stored: Stored = { ...read, ...rehash(copies, read, context) }
  const { heads, pending } = read
  const rowCounts = { ...zeroRowCounts, read: unreadable.length, quarantined: unreadable.length }
  const classified: Array<ClassifiedRow> = []
  for (const rows of copies.values()) {
    rowCounts.read += rows.length
    rowCounts.duplicates += rows.length - 1
    const row = classifyCopies(rows, stored, context)
    if (row === "unchanged") rowCounts.unchanged++
    else if (row === "duplicate") rowCounts.duplicates++
    else classified.push(row)
  }
  const outcomes = classified.map((row) => outcomeOf(row, stored, context))
  for (const { countedAs } of outcomes) rowCounts[countedAs]++
  const writes = outcomes.flatMap(({ write }) => write ?? [])
  const written = new Set(writes.map((write) => write.head.id))
  const ids = [...copies.keys()]
  const { stream } = context
  const lags = classified.flatMap((row) => lagsIn(row, stored, context))
  return {
    rowCounts,
    alreadyRead: ids.filter((id) => (heads.get(id)?.lastSeenRunId ?? pending.get(id)?.runId) === context.runId).length,
    writes,
    seen: ids.filter((id) => !written.has(id) && (read.isUnchanged(id) || heads.has(id))),
    putPending: outcomes.flatMap(({ pending }) => pending ?? []),
    dropPending: ids.filter((id) => pending.has(id) && written.has(id)),
    quarantined: unreadable,
    lag: Math.max(0, ...lags),
    missedByPolls: lags.filter((lag) => lag < polledTo(stream) - (stream.lastNonEmptyPollAt ?? 0)).length
  }
}

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
