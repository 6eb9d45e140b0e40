/**
 * Ingests one page of observed records into a stream, inside the transaction that also commits the run's progress: classifies
 * each record, and plans the writes and pending rows.
 *
 * Invariants
 * 1. Every row is counted with exactly one outcome: the outcomes add up to the rows read   (I1)
 * 2. Deletes, restores and changes to or from null are only staged here, never published   (D19)
 *
 * Gotchas
 * - A record whose row has the same bytes as the stored one is counted and marked as seen, and nothing else. So a page of such rows commits
 *   the run's progress and these marks, and appends no event.
 * - If a page contains different copies of one record, the record is disputed and a refetch decides (P3). Until then the record
 *   stays in its hold. Otherwise an old copy of a deleted record could take it out of a hold that an operator rejected (D17).
 * - If a model's processing changed, a record is first hashed with the older processing. If that hash equals the stored one, the
 *   record did not change. Otherwise the stored content is hashed with the new processing before the comparison (S3, V1, V2).
 */
import * as Effect from "effect/Effect"
import { canonicalHash, type JsonObject } from "../../domain/Canonical.ts"
import type { DeleteReason, Origin } from "../../domain/ChangeEvent.ts"
import { type Classification, classify, isOlder, type PendingObservation } from "../../domain/Classify.ts"
import { diff, touchesNull } from "../../domain/Diff.ts"
import { nothingRemoved } from "../../domain/Forgotten.ts"
import type * as Guard from "../../domain/Guard.ts"
import type { StreamModel } from "../../domain/Model.ts"
import { type Observation, observe, parseRow, quarantineHash, type Row } from "../../domain/Observation.ts"
import type { Processing } from "../../domain/Processing.ts"
import type { RawRow } from "../../domain/RawRow.ts"
import { parseTime } from "../../domain/Watermark.ts"
import type { Hold } from "../../store/Holds.ts"
import type { RowCounts, Run } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import type { StoreError } from "../../store/Store.ts"
import type { Head, Pending, PendingStatus, Quarantined, StoredContent } from "../../store/StreamRecords.ts"
import type { RecordWrite, StreamTx } from "../../store/StreamTx.ts"
import { applyMasks, maskingHolds, pendingStatusFor } from "../guard/FieldMask.ts"
import type { Stream } from "../Stream.ts"
import { buildRecordWrite, type NewContent, type RecordChange } from "./RecordWrite.ts"
import { currentContent } from "./StoredContent.ts"

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

export interface PageContext {
  readonly stream: StreamState & { readonly model: StreamModel }
  readonly processing: Processing
  /** Processing of the model that is derived from the records; null if no model is derived. */
  readonly derivedProcessing: Processing | null
  readonly guard: Guard.Thresholds
  readonly runId: number
  readonly origin: Origin
  readonly backfill: boolean
  /** The rows are from a refetch by id. */
  readonly isRefetch: boolean
  /** Our clock, in ms. */
  readonly now: number
}

/** `run`: the run that read the rows. */
export const pageContext = (
  { derivedProcessing, guard, key, processing }: Stream,
  state: StreamState,
  run: Pick<Run, "id" | "backfill"> & { readonly kind: Origin },
  now: number,
  isRefetch = false
): PageContext => ({
  stream: { ...state, model: key.model },
  processing,
  derivedProcessing,
  guard,
  runId: run.id,
  origin: run.kind,
  backfill: run.backfill,
  isRefetch,
  now
})

export interface IngestResult {
  readonly rowCounts: RowCounts
  /** Number of records of the page that an earlier page of the run contained too. */
  readonly alreadyRead: number
  /** For `tx.write`, which is called last because it locks the log's position counter until the commit. */
  readonly writes: ReadonlyArray<RecordWrite>
  /** Largest delay of a change that a complete poll should have returned, in ms; 0 if there was no such change. */
  readonly lag: number
  /** How many of these late changes happened after the last poll that returned any records. */
  readonly missedByPolls: number
}

export const zeroRowCounts: RowCounts = {
  read: 0,
  unchanged: 0,
  equivalent: 0,
  changed: 0,
  tombstones: 0,
  duplicates: 0,
  pending: 0,
  quarantined: 0
}

export const addRowCounts = (a: RowCounts, b: RowCounts): RowCounts =>
  Object.fromEntries(
    (Object.keys(zeroRowCounts) as ReadonlyArray<keyof RowCounts>).map((key) => [key, a[key] + b[key]])
  ) as Record<keyof RowCounts, number>

/** The stored rows of this page's records. */
interface Stored {
  readonly heads: ReadonlyMap<string, Head>
  readonly pending: ReadonlyMap<string, Pending>
  /** Canonical hashes with the current processing, for heads whose hashes were made with an older one. */
  readonly rehashed: ReadonlyMap<string, string>
}

interface ClassifiedRow {
  readonly observed: Observation
  readonly meaning: Classification
}

/** The result for one record: how it is counted, and what is written for it. */
interface Outcome {
  readonly count: Exclude<keyof RowCounts, "read" | "quarantined">
  readonly write?: RecordWrite
  readonly pending?: Pending
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
  const stored: Stored = { heads, pending, rehashed: yield* rehash(tx, copies, heads, context) }

  const rowCounts = { ...zeroRowCounts, read: prepared.rows.length, duplicates: prepared.rows.length - copies.size }
  const classified: Array<ClassifiedRow> = []
  for (const rows of copies.values()) {
    const row = classifyCopies(rows, stored, context)
    if (row === "unchanged") rowCounts.unchanged++
    else if (row === "duplicate") rowCounts.duplicates++
    else classified.push(row)
  }

  const updated = classified.filter(({ meaning }) => meaning._tag === "Updated")
  const befores = yield* tx.contents(updated.flatMap(({ observed }) => heads.get(observed.id)?.position ?? []))
  const isHeld = [...pending.values()].some(({ hold }) => hold !== null)
  const holds = isHeld || updated.length > 0 ? yield* tx.holds : []
  const outcomes = classified.map((row) => outcomeOf(row, stored, befores, holds, context))
  for (const { count } of outcomes) rowCounts[count]++
  const writes = outcomes.flatMap(({ write }) => write ?? [])

  const written = new Set(writes.map((write) => write.head.id))
  yield* tx.markSeen(ids.filter((id) => !written.has(id) && heads.has(id)), context.runId)
  yield* tx.dropPending(ids.filter((id) => pending.has(id) && written.has(id)))
  yield* tx.putPending(outcomes.flatMap(({ pending }) => pending ?? []))
  yield* tx.quarantine(prepared.unreadable)

  const { stream } = context
  const lags = classified.flatMap((row) => lagOf(row, stored, context))
  const quarantined = prepared.unreadable.length
  return {
    rowCounts: { ...rowCounts, read: rowCounts.read + quarantined, quarantined },
    alreadyRead: ids.filter((id) => (heads.get(id)?.lastSeenRunId ?? pending.get(id)?.runId) === context.runId).length,
    writes,
    lag: Math.max(0, ...lags),
    missedByPolls: lags.filter((lag) => lag < polledTo(stream) - (stream.lastNonEmptyPollAt ?? 0)).length
  }
})

const hashBy = ({ apply, shape }: Processing, record: JsonObject): string => canonicalHash(shape, apply(record))

const rehash = Effect.fnUntraced(function*(
  tx: StreamTx,
  copies: ReadonlyMap<string, ReadonlyArray<Row>>,
  heads: ReadonlyMap<string, Head>,
  { processing, stream }: PageContext
) {
  const outdated = [...copies].flatMap(([id, rows]) => {
    const head = heads.get(id)
    return head !== undefined && head.live && head.position !== null && head.fingerprint !== processing.fingerprint
      ? [{ head, position: head.position, shown: rows.at(-1)!.raw }]
      : []
  })
  if (outdated.length === 0) return new Map<string, string>()
  // The older rules are applied with the current registry entry and key. If one of those changed too, the fingerprint or the
  // hash differs, and the stored content is hashed instead.
  const older = new Map((stream.processings ?? []).map(processing.withRules).map((one) => [one.fingerprint, one]))
  const contents = yield* tx.contents(outdated.map(({ position }) => position))
  return new Map(outdated.flatMap(({ head, position, shown }) => {
    const then = older.get(head.fingerprint)
    const isSame = then !== undefined && hashBy(then, shown) === head.canonicalHash
    if (isSame) return [[head.id, hashBy(processing, shown)] as const]
    const content = currentContent(processing, stream, contents.get(position))
    return content === null ? [] : [[head.id, canonicalHash(processing.shape, content)] as const]
  }))
})

/** Classifies all copies of one record on this page together. */
const classifyCopies = (
  rows: ReadonlyArray<Row>,
  stored: Stored,
  context: PageContext
): ClassifiedRow | "unchanged" | "duplicate" => {
  const { processing } = context
  const last = rows.at(-1)!
  const head = stored.heads.get(last.id)
  const pending = stored.pending.get(last.id)
  const agree = rows.every((row) => row.textHash === last.textHash)
  if (agree && head !== undefined && pending === undefined && head.textHash === last.textHash) {
    return head.lastSeenRunId === context.runId && !context.isRefetch ? "duplicate" : "unchanged"
  }
  const copies = (agree ? [last] : rows).map((row) => observe(processing, row))
  const { canonicalHash, deleted } = copies.at(-1)!
  const disagree = copies.some((copy) => copy.deleted !== deleted || copy.canonicalHash !== canonicalHash)
  // Equal copies can have different timestamps. The newest copy is used: with an older timestamp, an outdated copy could be accepted later.
  const observed = disagree ? copies.at(-1)! : copies.reduce((a, b) => isOlder(a.changedAtMs, b.changedAtMs) ? b : a)
  if (disagree) return { observed, meaning: { _tag: "Disputed" } }
  const known = head && { ...head, canonicalHash: stored.rehashed.get(head.id) ?? head.canonicalHash }
  return { observed, meaning: classify(known, pendingObservationOf(pending), observed, context) }
}

const pendingObservationOf = (row: Pending | undefined): PendingObservation | undefined =>
  row && {
    status: row.reason === "absent" ? "absent" : row.status,
    deleted: row.deleted,
    canonicalHash: row.canonicalHash,
    changedAtMs: parseTime(row.changedAt)
  }

/** Server time up to which polls should have returned all changes, in ms: the start of the last complete poll. */
const polledTo = ({ lastPoll, watermark }: StreamState): number =>
  (lastPoll?.mustRepeat === true ? watermark : lastPoll?.watermark) ?? -Infinity

/**
 * How late a change became visible, in ms: from its `changed_at` to the start of the last complete poll, which should have returned it (W3).
 * Empty if the change is not late, or if `changed_at` does not show it: a change of nested content does not move `changed_at` (W13), a change
 * from before the backfill is not late, and a pending change was observed before.
 */
const lagOf = (
  { meaning, observed: { changedAtMs, id } }: ClassifiedRow,
  { heads, pending }: Stored,
  { backfill, stream }: PageContext
): ReadonlyArray<number> => {
  const head = heads.get(id)
  const pendingChangedAt = parseTime(pending.get(id)?.changedAt)
  const { backfilledAt, backfillStartedAt } = stream
  const isChange = meaning._tag !== "Same" && meaning._tag !== "Duplicate" && meaning._tag !== "StillPending"
  if (!isChange || backfill || backfilledAt === null || changedAtMs === null) return []
  if (changedAtMs <= (head === undefined ? backfillStartedAt ?? Infinity : head.changedAt ?? Infinity)) return []
  if (pendingChangedAt !== null && changedAtMs <= pendingChangedAt) return []
  const lag = polledTo(stream) - changedAtMs
  return lag > 0 ? [lag] : []
}

/** Decides what is published and what stays pending. `befores`: published contents by position. */
const outcomeOf = (
  { meaning, observed }: ClassifiedRow,
  stored: Stored,
  befores: ReadonlyMap<number, StoredContent | null>,
  holds: ReadonlyArray<Hold>,
  context: PageContext
): Outcome => {
  const head = stored.heads.get(observed.id)
  const row = stored.pending.get(observed.id)
  const write = (change: RecordChange, next: NewContent = observed) =>
    buildRecordWrite(head, change, next, { ...context, detectedAt: context.now })
  const pending = (status: PendingStatus, reason: DeleteReason | null, hold: number | null = null): Outcome => ({
    count: "pending",
    pending: toPending(observed, { status, reason, hold }, context)
  })
  /** A row that is already in a hold stays there, with its newest content (D17, D18). */
  const stagedOrHeld = (wave: Guard.Wave, reason: DeleteReason | null): Outcome => {
    const hold = holds.find(({ id, kind }) => kind === wave && id === row?.hold)
    return hold === undefined ? pending("staged", reason) : pending(pendingStatusFor(hold), reason, hold.id)
  }
  switch (meaning._tag) {
    case "Same":
      return {
        count: head?.textHash === observed.textHash ? "unchanged" : "equivalent",
        write: write({ kind: "same" })
      }
    case "Duplicate":
      return { count: "duplicates" }
    case "Tombstone":
      return { count: "tombstones", write: write({ kind: "tombstone", erased: observed.blank }) }
    case "Created":
      return { count: "changed", write: write({ kind: "created", old: meaning.old }) }
    case "Unseen":
      return { count: "changed", write: write({ kind: "unseen", old: meaning.old }) }
    case "Updated": {
      const { processing, stream } = context
      const { shape } = processing
      const before = currentContent(processing, stream, befores.get(head?.position ?? 0)) ?? {}
      // C7: paths in a scope hold keep their published values; other changes of the record are published
      const { content, hold } = applyMasks(before, observed.content, maskingHolds(holds))
      const changes = diff(shape, before, content)
      if (touchesNull(changes)) return pending("staged", null)
      const change: RecordChange = { kind: "updated", before, changes }
      if (hold !== null) {
        const held = pending(pendingStatusFor(hold), null, hold.id)
        if (changes.length === 0) return held
        const next = { ...observed, content, canonicalHash: canonicalHash(shape, content) }
        return { ...held, count: "changed", write: write(change, next) }
      }
      // a scope hold was approved silently, and now the path has its published value again
      if (changes.length === 0) return { count: "equivalent", write: write({ kind: "same" }) }
      return { count: "changed", write: write(change) }
    }
    case "Deleted":
      return stagedOrHeld("deletes", "flagged")
    case "Emptied":
      return stagedOrHeld("deletes", "erased")
    case "Restored":
      return stagedOrHeld("restores", null)
    case "Disputed":
      return pending("disputed", observed.deleted ? "flagged" : null, row?.hold ?? null)
    case "StillPending": {
      const { origin, runId } = context
      // a staged delete is updated too: the API may have erased fields of the tombstone since then (D11)
      const newest = isOlder(observed.changedAtMs, parseTime(row!.changedAt))
        ? {}
        : newestOf(observed, context.processing)
      return { count: "pending", pending: { ...row!, ...newest, origin, runId } }
    }
  }
}

const newestOf = ({ canonicalHash, changedAt, content, remoteId, textHash }: Observation, { applied }: Processing) => ({
  content: JSON.stringify(content),
  redaction: applied.id,
  remoteId,
  textHash,
  canonicalHash,
  changedAt
})

const toPending = (
  observed: Observation,
  { hold, reason, status }: Pick<Pending, "status" | "reason" | "hold">,
  context: PageContext
): Pending => ({
  id: observed.id,
  status,
  runId: context.runId,
  origin: context.origin,
  ...newestOf(observed, context.processing),
  deleted: observed.deleted || reason === "erased",
  reason,
  detectedAt: context.now,
  confirmations: 0,
  confirmedAt: null,
  hold
})
