/**
 * Classifies one observation of a record as created, updated, deleted, unchanged, …, by comparing it with the record's published state
 * and with its pending observation.
 *
 * Invariants
 * 1. Per record the kinds form `(created updated* deleted)*`   (I3)
 * 2. Unchanged content is never classified as a change   (S4, N2)
 * 3. A record is classified as deleted only if the API showed it as deleted, or with all of its fields empty   (I7)
 *
 * Gotchas
 * - If the fields of a tombstone turned null, the API erased its personal data. This is not an update (D11).
 * - If there is a pending row, it is the newest earlier observation, so hashes are compared with the pending row. The diff is still made
 *   against the published content.
 */
import type { Observation } from "./Observation.ts"

/** The published state of the record, from its head. */
export interface PublishedRecord {
  readonly live: boolean
  readonly canonicalHash: string
  /** In ms. */
  readonly changedAt: number | null
  /** Newest run that read the record. */
  readonly lastSeenRunId: number
}
/** The newest observation of the record that is not published yet, from its pending row. */
export interface PendingObservation {
  readonly status: "staged" | "held" | "rejected" | "disputed" | "absent"
  readonly deleted: boolean
  readonly canonicalHash: string
  readonly changedAtMs: number | null
}

export interface ClassifyContext {
  readonly runId: number
  /** The observation is from a refetch by id, whose result is final: it never causes a dispute. */
  readonly isRefetch: boolean
  /** The run is a backfill: the stream's first sweep, or one that an operator started. */
  readonly backfill: boolean
  /** When the API showed the observation, in ms of the server's clock. */
  readonly shownAt: number
  readonly stream: {
    /** In ms of the server's clock. */
    readonly backfillStartedAt: number | null
    readonly backfilledAt: number | null
    /** ms */
    readonly overlap: number
  }
}

export type Classification =
  /** The observation equals the published content; a pending row, if any, is dropped. */
  | { readonly _tag: "Same" }
  /** The same run has already read the record with the same content. */
  | { readonly _tag: "Duplicate" }
  /** The observation equals the pending row, which stays and is now attributed to this run. */
  | { readonly _tag: "StillPending" }
  /** Deleted, and either never published or already published as deleted. */
  | { readonly _tag: "Tombstone" }
  /** Two observations contradict each other: a refetch by id decides (P3). */
  | { readonly _tag: "Disputed" }
  /** `old`: the record existed before the backfill. */
  | { readonly _tag: "Created"; readonly old: boolean }
  /** Created and deleted between two runs: both events are published together (D8). */
  | { readonly _tag: "Unseen"; readonly old: boolean }
  | { readonly _tag: "Updated" }
  | { readonly _tag: "Deleted" }
  /** Live, but all fields are empty: treated as a delete (D23). */
  | { readonly _tag: "Emptied" }
  | { readonly _tag: "Restored" }

/** Compares two `changed_at` in ms. False if either is missing: a record without `changed_at` is never known to be older (W7). */
export const isOlder = (a: number | null, b: number | null): boolean => a !== null && b !== null && a < b

const day = 86_400_000

/**
 * True if the record existed before the backfill, whichever run found it (B1, B3, B4). False if it was created while the backfill ran (B2),
 * or later. A time that had not come yet when the record was shown says nothing about its age, so it counts as missing.
 */
const isOld = (
  observed: Observation,
  { backfill, shownAt, stream }: Pick<ClassifyContext, "backfill" | "shownAt" | "stream">
): boolean => {
  const past = (time: number | null): number | null => time !== null && time <= shownAt ? time : null
  const createdAt = past(observed.createdAtMs)
  const changedAt = past(observed.changedAtMs)
  const born = createdAt ?? changedAt
  const startedAt = stream.backfillStartedAt ?? 0
  if (born === null) return backfill || stream.backfilledAt === null
  if (backfill) return born < startedAt
  return born < startedAt - (createdAt === null ? stream.overlap : day)
}

export const classify = (
  known: PublishedRecord | undefined,
  pending: PendingObservation | undefined,
  observed: Observation,
  context: ClassifyContext
): Classification => {
  const isDisputed = pending?.status === "disputed"
  if (isDisputed && !context.isRefetch && !isLater(known, pending, observed, context)) return { _tag: "Disputed" }
  if (known === undefined) return classifyUnknown(observed, context)
  // An `absent` row has no observed content, so any observation of the record cancels it and is compared with the published
  // content. The same applies to a disputed row once the dispute is over.
  const observedBefore = pending?.status === "absent" || isDisputed ? undefined : pending
  const newest = observedBefore ??
    { deleted: !known.live, canonicalHash: known.canonicalHash, changedAtMs: known.changedAt }
  const emptied = known.live && observed.blank && observed.canonicalHash() !== known.canonicalHash
  const gone = observed.deleted || (known.live ? emptied : observed.blank)
  const sameAsNewest = newest.deleted === gone && (gone || newest.canonicalHash === observed.canonicalHash())

  if (!context.isRefetch) {
    if (known.lastSeenRunId === context.runId) return sameAsNewest ? { _tag: "Duplicate" } : { _tag: "Disputed" }
    // compared with both, because a pending observation may have no timestamp (W7)
    const isOutdated = [newest.changedAtMs, known.changedAt].some((time) => isOlder(observed.changedAtMs, time))
    if (isOutdated && !sameAsNewest) return { _tag: "Disputed" }
    if (observedBefore !== undefined && sameAsNewest) return { _tag: "StillPending" }
  }
  if (known.live) {
    if (observed.deleted) return { _tag: "Deleted" }
    if (observed.canonicalHash() === known.canonicalHash) return { _tag: "Same" }
    return { _tag: emptied ? "Emptied" : "Updated" }
  }
  return { _tag: gone ? "Tombstone" : "Restored" }
}

/** An observation that is newer than both disputed ones ends the dispute, because refetches may never be answered. */
const isLater = (
  known: PublishedRecord | undefined,
  pending: PendingObservation,
  { changedAtMs }: Observation,
  { runId }: ClassifyContext
): boolean =>
  isOlder(pending.changedAtMs, changedAtMs) &&
  (known === undefined || (known.lastSeenRunId < runId && isOlder(known.changedAt, changedAtMs)))

const classifyUnknown = (observed: Observation, context: ClassifyContext): Classification => {
  if (!observed.deleted) return { _tag: "Created", old: isOld(observed, context) }
  const { backfilledAt } = context.stream
  const afterBackfill = backfilledAt !== null && observed.deletedAtMs !== null && observed.deletedAtMs > backfilledAt
  return afterBackfill && !observed.blank ? { _tag: "Unseen", old: isOld(observed, context) } : { _tag: "Tombstone" }
}
