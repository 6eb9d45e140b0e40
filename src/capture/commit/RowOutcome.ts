/**
 * The outcome of one classified row: how it is counted, and the write or the pending row for it.
 *
 * Invariants
 * 1. Deletes, restores and changes to or from null are only staged here, never published   (D19)
 */
import { canonicalHash } from "../../domain/Canonical.ts"
import type { DeleteReason } from "../../domain/ChangeEvent.ts"
import { isOlder } from "../../domain/Classify.ts"
import { diff, touchesNull } from "../../domain/Diff.ts"
import type * as Guard from "../../domain/Guard.ts"
import type { Observation } from "../../domain/Observation.ts"
import type { Processing } from "../../domain/Processing.ts"
import { parseTime } from "../../domain/Watermark.ts"
import { type Pending, type PendingStatus, type RecordWrite, unhashed } from "../../store/Records.ts"
import type { RowCounts } from "../../store/Run.ts"
import { applyMasks, maskingHolds, pendingStatusFor } from "../guard/FieldMask.ts"
import type { PageContext } from "../record/PageContext.ts"
import { buildRecordWrite, type NewContent, type RecordChange } from "../record/RecordWrite.ts"
import { currentContent } from "../record/StoredContent.ts"
import type { ClassifiedRow, Stored } from "./RowClassification.ts"

/** The result for one record: how it is counted, and what is written for it. */
interface Outcome {
  readonly countedAs: Exclude<keyof RowCounts, "read" | "quarantined">
  readonly write?: RecordWrite
  readonly pending?: Pending
}

/** Decides what is published and what stays pending. */
export const outcomeOf = (
  { classification, observed }: ClassifiedRow,
  stored: Stored,
  context: PageContext
): Outcome => {
  const { holds } = stored
  const head = stored.heads.get(observed.id)
  const row = stored.pending.get(observed.id)
  const write = (
    change: RecordChange,
    next: NewContent = { ...observed, canonicalHash: observed.canonicalHash() }
  ) => buildRecordWrite(head, change, next, { ...context, detectedAt: context.now })
  const pending = (status: PendingStatus, reason: DeleteReason | null, hold: number | null = null): Outcome => ({
    countedAs: "pending",
    pending: toPending(observed, { status, reason, hold }, context)
  })
  /** A row that is already in a hold stays there, with its newest content (D17, D18). */
  const stagedOrHeld = (wave: Guard.Wave, reason: DeleteReason | null): Outcome => {
    const hold = holds.find(({ id, kind }) => kind === wave && id === row?.hold)
    return hold === undefined ? pending("staged", reason) : pending(pendingStatusFor(hold), reason, hold.id)
  }
  switch (classification._tag) {
    case "Same":
      return {
        countedAs: head?.textHash === observed.textHash ? "unchanged" : "equivalent",
        write: write({ kind: "same" })
      }
    case "Duplicate":
      return { countedAs: "duplicates" }
    case "Tombstone":
      return { countedAs: "tombstones", write: write({ kind: "tombstone", erased: observed.blank }) }
    case "Created":
      return {
        countedAs: "changed",
        write: write({ kind: "created", old: classification.old }, { ...observed, canonicalHash: unhashed })
      }
    case "Unseen":
      return { countedAs: "changed", write: write({ kind: "unseen", old: classification.old }) }
    case "Updated": {
      const { processing, stream } = context
      const { shape } = processing
      const before = stored.published.get(observed.id) ??
        currentContent(processing, stream, stored.contents.get(observed.id)) ?? {}
      // C7: paths in a scope hold keep their published values; other changes of the record are published
      const { content, hold } = applyMasks(before, observed.content, maskingHolds(holds))
      const changes = diff(shape, before, content)
      if (touchesNull(changes)) return pending("staged", null)
      const change: RecordChange = { kind: "updated", before, changes }
      if (hold !== null) {
        const held = pending(pendingStatusFor(hold), null, hold.id)
        if (changes.length === 0) return held
        const next = { ...observed, content, canonicalHash: canonicalHash(shape, content) }
        return { ...held, countedAs: "changed", write: write(change, next) }
      }
      // The hash of the head differs from the hash of the published content if an operator approved a scope hold without events: then only
      // the hash was updated. Here the record has its published content again, so there is nothing to publish.
      if (changes.length === 0) return { countedAs: "equivalent", write: write({ kind: "same" }) }
      return { countedAs: "changed", write: write(change) }
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
      return { countedAs: "pending", pending: { ...row!, ...newest, origin, runId } }
    }
  }
}

const newestOf = ({ canonicalHash, changedAt, content, remoteId, textHash }: Observation, { applied }: Processing) => ({
  content: JSON.stringify(content),
  redaction: applied.id,
  remoteId,
  textHash,
  canonicalHash: canonicalHash(),
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
