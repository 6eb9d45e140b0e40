/**
 * Classifies the rows of a page: compares each record with its stored rows, without publishing or staging anything.
 *
 * Gotchas
 * - If a page contains different copies of one record, the record is disputed, and a refetch decides (P3). If the record is in a hold, it
 *   stays there until then: one of the copies may be old, and an old copy must not undo the decision of an operator who rejected the
 *   record's delete (D17).
 * - Some lists can only be read as a whole. Their records cannot be read by id and have no `changed_at`, so a later run that contains the
 *   record with only one content ends the dispute.
 * - After a change of the processing, a record is first hashed with the older one (S3, V1, V2). If that hash equals the stored one, the
 *   record did not change. Otherwise the stored content is hashed with the new processing, and then compared.
 * - The head of a record whose bytes have never changed has no canonical hash. It is computed from the stored content.
 */
import { canonicalHash, type JsonObject } from "../../domain/Canonical.ts"
import { type Classification, classify, isOlder, type PendingObservation } from "../../domain/Classify.ts"
import { type Observation, observe, type Row } from "../../domain/Observation.ts"
import type { Processing } from "../../domain/Processing.ts"
import { parseTime } from "../../domain/Watermark.ts"
import { type PageRead, type Pending, unhashed } from "../../store/Records.ts"
import type { PageContext } from "../record/PageContext.ts"
import { currentContent, earlierProcessings, hashOfHead } from "../record/StoredContent.ts"
import { isUnpaged } from "../Stream.ts"

/** The stored records of this page. */
export interface Stored extends PageRead {
  /** Canonical hashes with the current processing, for heads that have none or have one that was made with an older processing. */
  readonly rehashed: ReadonlyMap<string, string>
  /** Published contents with the current processing, for heads that were hashed by them. */
  readonly published: ReadonlyMap<string, JsonObject>
}

export interface ClassifiedRow {
  readonly observed: Observation
  readonly classification: Classification
}

const hashBy = ({ apply, shape }: Processing, record: JsonObject): string => canonicalHash(shape, apply(record))

/** Hashes heads that cannot be compared as they are; see `Stored`. */
export const rehash = (
  copies: ReadonlyMap<string, ReadonlyArray<Row>>,
  { contents, heads }: PageRead,
  { processing, stream }: PageContext
): Pick<Stored, "rehashed" | "published"> => {
  const rehashed = new Map<string, string>()
  const published = new Map<string, JsonObject>()
  const outdated = [...heads.values()].filter(({ canonicalHash, fingerprint, live, position }) =>
    live && position !== null &&
    (fingerprint !== processing.fingerprint || canonicalHash === unhashed)
  )
  if (outdated.length === 0) return { rehashed, published }
  const processingOf = earlierProcessings(processing, stream)
  for (const head of outdated) {
    const row = copies.get(head.id)!.at(-1)!
    const stored = contents.get(head.id)
    const then = processingOf(head.fingerprint)
    const isSame = then !== processing && hashBy(then, row.raw) === hashOfHead(head, stored, then)
    const content = isSame ? null : currentContent(processing, stream, stored)
    if (isSame) rehashed.set(head.id, hashBy(processing, row.raw))
    if (content === null) continue
    rehashed.set(head.id, canonicalHash(processing.shape, content))
    published.set(head.id, content)
  }
  return { rehashed, published }
}

/** Classifies all copies of one record on this page together. */
export const classifyCopies = (
  rows: ReadonlyArray<Row>,
  stored: Stored,
  context: PageContext
): ClassifiedRow | "unchanged" | "duplicate" => {
  const { processing } = context
  const last = rows.at(-1)!
  if (stored.isUnchanged(last.id)) return "unchanged"
  const head = stored.heads.get(last.id)
  const pending = stored.pending.get(last.id)
  const agree = rows.every((row) => row.textHash === last.textHash)
  // an earlier page of the run has shown the record already
  if (agree && pending === undefined && head?.textHash === last.textHash) {
    return context.isRefetch ? "unchanged" : "duplicate"
  }
  const copies = (agree ? [last] : rows).map((row) => observe(processing, row))
  const newest = copies.at(-1)!
  const disagree = !agree &&
    copies.some((copy) => copy.deleted !== newest.deleted || copy.canonicalHash() !== newest.canonicalHash())
  // Equal copies can have different timestamps. If the older timestamp were stored, an outdated copy with a timestamp between the two would
  // later count as newer.
  const observed = disagree ? newest : copies.reduce((a, b) => isOlder(a.changedAtMs, b.changedAtMs) ? b : a)
  if (disagree) return { observed, classification: { _tag: "Disputed" } }
  const known = head && { ...head, canonicalHash: stored.rehashed.get(head.id) ?? head.canonicalHash }
  const pendingObservation = pending !== undefined && isDecidedBy(context, pending)
    ? undefined
    : pendingObservationOf(pending)
  return { observed, classification: classify(known, pendingObservation, observed, context) }
}

/** Whether the run ends the dispute about a record that cannot be read by id. */
const isDecidedBy = ({ processing, runId }: PageContext, pending: Pending): boolean =>
  isUnpaged({ processing }) && pending.status === "disputed" && pending.runId < runId

const pendingObservationOf = (row: Pending | undefined): PendingObservation | undefined =>
  row && {
    status: row.reason === "absent" ? "absent" : row.status,
    deleted: row.deleted,
    canonicalHash: row.canonicalHash,
    changedAtMs: parseTime(row.changedAt)
  }
