/**
 * Decides what one observed record means, given what was last published and what is pending of it.
 *
 * Invariants
 * 1. Per record the kinds read `(created updated* deleted)*`   (I3)
 * 2. The same content never means a change   (S4, N2)
 * 3. Nothing here deletes a record that was not seen as deleted   (I7)
 *
 * Gotchas
 * - A tombstone whose fields turned null is the service's privacy erasure, not an update (D11).
 * - The newest observation is the pending one where there is one: hashes are compared with it, the diff is made against
 *   what was published.
 */
import type { Observation } from "./Observation.ts"

/** What is known of the record: of the head, what was published; of the pending row, what was observed last. */
export interface PublishedRecord {
  readonly live: boolean
  readonly canonicalHash: string
  readonly changedAtMs: number | null
  /** Newest reading that met it. */
  readonly lastSeenRunId: number
}
export interface PendingObservation {
  readonly status: "staged" | "held" | "rejected" | "disputed" | "absent"
  readonly deleted: boolean
  readonly canonicalHash: string
  readonly changedAtMs: number | null
}

export interface ClassifyContext {
  readonly runId: number
  /** The answer of a point re-read: it decides, it is not doubted. */
  readonly isRefetch: boolean
  /** The reading is the stream's first sweep. */
  readonly backfill: boolean
  /** Server ms. */
  readonly backfillStartedAt: number
  readonly backfilledAt: number | null
  /** ms */
  readonly overlap: number
}

export type Classification =
  /** What is published is what is shown; a pending row, if any, is void. */
  | { readonly _tag: "Same" }
  /** Met before in this reading, with the same content. */
  | { readonly _tag: "Duplicate" }
  /** What is pending is what is shown: it stays, now observed by this reading. */
  | { readonly _tag: "StillPending" }
  /** Deleted and never published, or known to be deleted. */
  | { readonly _tag: "Tombstone" }
  /** Two readings of the same thing disagree: only a point re-read decides (P3). */
  | { readonly _tag: "Disputed" }
  | { readonly _tag: "Created"; readonly old: boolean }
  /** Came and went between two readings: `created` and `deleted` at once (D8). */
  | { readonly _tag: "Unseen"; readonly old: boolean }
  | { readonly _tag: "Updated" }
  | { readonly _tag: "Deleted" }
  /** Live, and nothing left of it: a delete by another name (D23). */
  | { readonly _tag: "Emptied" }
  | { readonly _tag: "Restored" }

/** Of two `changed_at` in ms, whether the first is known to be earlier: one that cannot be read goes back behind none (W7). */
export const isOlder = (a: number | null, b: number | null): boolean => a !== null && b !== null && a < b

const day = 86_400_000

/** An old record found late is no new hire (B1, B3, B4); one born while the backfill runs is not old (B2). */
export const isOld = (observed: Observation, setting: ClassifyContext): boolean => {
  const born = observed.createdAtMs ?? observed.changedAtMs
  if (setting.backfill) return born === null || born < setting.backfillStartedAt
  if (observed.createdAtMs !== null) return observed.createdAtMs < setting.backfillStartedAt - day
  if (observed.changedAtMs !== null) return observed.changedAtMs < setting.backfillStartedAt - setting.overlap
  return setting.backfilledAt === null
}

export const classify = (
  known: PublishedRecord | undefined,
  awaiting: PendingObservation | undefined,
  observed: Observation,
  setting: ClassifyContext
): Classification => {
  const isDisputed = awaiting?.status === "disputed"
  if (isDisputed && !setting.isRefetch && !isLater(known, awaiting, observed, setting)) return { _tag: "Disputed" }
  if (known === undefined) return classifyUnknown(observed, setting)
  // An absence is no observation: any sighting cancels it and the published content is what counts. So it is once nothing is
  // disputed any more.
  const pending = awaiting?.status === "absent" || isDisputed ? undefined : awaiting
  const newest = pending ?? { deleted: !known.live, canonicalHash: known.canonicalHash, changedAtMs: known.changedAtMs }
  const emptied = known.live && observed.blank && observed.canonicalHash !== known.canonicalHash
  const gone = observed.deleted || emptied
  const sameAsNewest = newest.deleted === gone && (gone || newest.canonicalHash === observed.canonicalHash)

  if (!setting.isRefetch) {
    if (known.lastSeenRunId === setting.runId) return sameAsNewest ? { _tag: "Duplicate" } : { _tag: "Disputed" }
    if (isOlder(observed.changedAtMs, newest.changedAtMs) && !sameAsNewest) return { _tag: "Disputed" }
    if (pending !== undefined && sameAsNewest) return { _tag: "StillPending" }
  }
  if (known.live) {
    if (observed.deleted) return { _tag: "Deleted" }
    if (observed.canonicalHash === known.canonicalHash) return { _tag: "Same" }
    return { _tag: emptied ? "Emptied" : "Updated" }
  }
  return observed.deleted || observed.blank ? { _tag: "Tombstone" } : { _tag: "Restored" }
}

/** What a later reading shows to be newer than all that was disputed is judged as ever: nobody waits for ever where re-reads are not answered. */
const isLater = (
  known: PublishedRecord | undefined,
  awaiting: PendingObservation,
  { changedAtMs }: Observation,
  { runId }: ClassifyContext
): boolean =>
  isOlder(awaiting.changedAtMs, changedAtMs) &&
  (known === undefined || (known.lastSeenRunId < runId && isOlder(known.changedAtMs, changedAtMs)))

const classifyUnknown = (observed: Observation, setting: ClassifyContext): Classification => {
  if (!observed.deleted) return { _tag: "Created", old: isOld(observed, setting) }
  const afterBackfill = setting.backfilledAt !== null && observed.deletedAtMs !== null &&
    observed.deletedAtMs > setting.backfilledAt
  return afterBackfill && !observed.blank ? { _tag: "Unseen", old: isOld(observed, setting) } : { _tag: "Tombstone" }
}
