/**
 * Compares pending rows with the published content: determines the kind of each change, and builds its write when it is released.
 *
 * Invariants
 * 1. The published and the observed content are compared at release. So a change that was observed several times gives one event   (D18, D20)
 */
import * as Effect from "effect/Effect"
import { canonicalHash, type JsonObject } from "../../domain/Canonical.ts"
import { diff } from "../../domain/Diff.ts"
import type { Wave } from "../../domain/Guard.ts"
import { isBlank, storableText } from "../../domain/Observation.ts"
import type { Processing } from "../../domain/Processing.ts"
import { parseTime } from "../../domain/Watermark.ts"
import {
  anyHash,
  type Head,
  type Pending,
  queryFor,
  type RecordWrite,
  type ReleaseMode,
  unhashed
} from "../../store/Records.ts"
import type { StoreError, StreamTx } from "../../store/Store.ts"
import type { PageContext } from "../record/PageContext.ts"
import { buildRecordWrite, type NewContent, type RecordChange } from "../record/RecordWrite.ts"
import { currentContent } from "../record/StoredContent.ts"

/** A pending row with the published state of its record. */
export interface StagedChange {
  readonly row: Pending
  readonly head: Head
  /** Published content with the current processing; for a deleted record the content before the delete, if it is still stored. */
  readonly published: JsonObject | null
  /** Observed content with the current processing; empty for an absent record. */
  readonly observed: JsonObject
  /** `nothing`: the observed content equals the published content. */
  readonly kind: Wave | "update" | "nothing"
}

const kindOf = (
  row: Pending,
  head: Head,
  published: JsonObject | null,
  { shape }: Processing
): StagedChange["kind"] => {
  if (row.deleted) return head.live ? "deletes" : "nothing"
  if (!head.live) return "restores"
  const hash = head.canonicalHash === unhashed ? canonicalHash(shape, published ?? {}) : head.canonicalHash
  return hash === row.canonicalHash ? "nothing" : "update"
}

/** The changes of these rows. Rows of records without a head are left out. */
export const loadStagedChanges = Effect.fnUntraced(function*(
  tx: StreamTx,
  rows: ReadonlyArray<Pending>,
  { processing, stream }: PageContext
): Effect.fn.Return<ReadonlyArray<StagedChange>, StoreError> {
  const { contents, heads } = yield* tx.read(queryFor(rows.map((row) => row.id), anyHash))
  return rows.flatMap((row): ReadonlyArray<StagedChange> => {
    const head = heads.get(row.id)
    if (head === undefined) return []
    const { content, redaction } = row
    const published = currentContent(processing, stream, contents.get(row.id))
    return [{
      row,
      head,
      published,
      observed: currentContent(processing, stream, content === null ? null : { content, redaction }) ?? {},
      kind: kindOf(row, head, published, processing)
    }]
  })
})

const toRecordChange = (
  staged: StagedChange,
  content: JsonObject,
  context: PageContext,
  mode: ReleaseMode
): RecordChange => {
  const { head, kind, observed, published, row } = staged
  const erased = row.content !== null && isBlank(observed)
  if (kind === "deletes") return { kind: "deleted", reason: row.reason ?? "flagged", before: published, erased }
  if (kind === "restores") return { kind: "restored", before: published }
  if (kind === "nothing" || mode.silent) return head.live ? { kind: "same" } : { kind: "tombstone", erased }
  const before = published ?? {}
  const changes = diff(context.processing.shape, before, content)
  return changes.length === 0 ? { kind: "same" } : { kind: "updated", before, changes }
}

/** Builds the write for a released row. `content`: the part of the observed content that may be published. */
export const toRecordWrite = (
  staged: StagedChange,
  context: PageContext,
  mode: ReleaseMode,
  content: JsonObject
): RecordWrite => {
  const { head, row } = staged
  // Nothing was observed of an absent record, so it keeps its `changed_at`. If it comes back, that time shows which copies are old (P3).
  const changedAtMs = row.content === null ? head.changedAt : parseTime(row.changedAt)
  const next: NewContent = {
    ...row,
    content,
    remoteId: storableText((row.content === null ? staged.published : staged.observed)?.["remote_id"]),
    canonicalHash: row.content === null ? row.canonicalHash : canonicalHash(context.processing.shape, content),
    changedAtMs
  }
  return buildRecordWrite(head, toRecordChange(staged, content, context, mode), next, {
    ...context,
    origin: mode.origin ?? row.origin,
    runId: row.runId,
    detectedAt: row.detectedAt
  })
}
