/**
 * Derives `ats.candidate`, for which the API has no list, from the candidates embedded in published applications. If the copies in
 * several applications differ, one of them is chosen.
 *
 * Invariants
 * 1. A copy with an earlier `changed_at` than the candidate's last event never replaces the published content   (N5). Exception: that
 *    event erased the candidate   (D11)
 * 2. A candidate is deleted if its own `remote_deleted_at` is set, or once all applications that contained it are erased. An application
 *    that is deleted, or gone, deletes no candidate   (N6, D11, I7)
 * 3. A copy found by a refresh never makes other applications stale   (N7)
 *
 * Gotchas
 * - The guard does not check candidates. It holds waves of applications, and no candidate is derived from a held change.
 * - If only the `changed_at` of a copy moves, no event is published. Comparisons then use the copy's older `changed_at`, until a sweep or a
 *   refresh reads another application with the candidate.
 * - If a candidate is in more than `maxParents` applications, only the first `maxParents` and the changed ones are compared.
 */
import * as Effect from "effect/Effect"
import { chooseCopy } from "../../domain/CandidateCopy.ts"
import { canonicalHash, type JsonObject } from "../../domain/Canonical.ts"
import { type Classification, classify, isOlder } from "../../domain/Classify.ts"
import { diff } from "../../domain/Diff.ts"
import { storableText } from "../../domain/Observation.ts"
import type { Processing } from "../../domain/Processing.ts"
import { parseTime } from "../../domain/Watermark.ts"
import { type DerivedSource, type Head, type RecordWrite, type Sources, unhashed } from "../../store/Records.ts"
import type { StreamState } from "../../store/State.ts"
import type { StoreError, StreamTx } from "../../store/Store.ts"
import type { PageContext } from "../record/PageContext.ts"
import { buildRecordWrite, type RecordChange } from "../record/RecordWrite.ts"
import { currentContent } from "../record/StoredContent.ts"
import {
  type ApplicationChange,
  candidateModel,
  copyIn,
  groupByCandidate,
  type ObservedCopy
} from "./ApplicationChanges.ts"

const maxParents = 50

/** The canonical hash of published content with the current processing. */
const publishedHash = (head: Head, content: JsonObject, { fingerprint, shape }: Processing): string =>
  head.live && (head.fingerprint !== fingerprint || head.canonicalHash === unhashed)
    ? canonicalHash(shape, content)
    : head.canonicalHash

const isUpToDate = (head: Head, content: JsonObject, copy: ObservedCopy, processing: Processing): boolean =>
  head.live !== copy.deleted &&
  (head.textHash === copy.textHash ||
    head.fingerprint === processing.fingerprint && (head.changedAt ?? -Infinity) >= (copy.changedAtMs ?? -Infinity) &&
      publishedHash(head, content, processing) === copy.canonicalHash())

/** Copies of a candidate in applications that this transaction does not change. */
const otherCopies = (
  candidate: string,
  sources: ReadonlyArray<DerivedSource>,
  processing: Processing,
  context: PageContext
): ReadonlyArray<ObservedCopy> =>
  sources.flatMap(({ content, id }) => {
    const copy = copyIn(processing, id, currentContent(context.processing, context.stream, content))
    return copy === null || copy.id !== candidate || copy.blank ? [] : [copy]
  })

/**
 * Copies with a `changed_at` (ms) before this time are not accepted. It is the time in the head, which may be later than the time of the
 * last event, because a later `changed_at` of unchanged content causes no event. If all applications are compared, the time of the
 * published content is used instead: the copy with the later time is chosen anyway, or no longer exists.
 */
const oldestAcceptedChange = (head: Head, published: JsonObject, areAll: boolean): number | null =>
  areAll ? parseTime(published["changed_at"]) ?? head.changedAt : head.changedAt

const toRecordChange = (
  classification: Classification,
  old: boolean,
  before: JsonObject,
  copy: ObservedCopy,
  { shape }: Processing
): RecordChange => {
  switch (classification._tag) {
    case "Created":
      return { kind: "created", old: classification.old || old }
    case "Unseen":
      return { kind: "unseen", old: classification.old || old }
    case "Updated": {
      const changes = diff(shape, before, copy.content)
      return changes.length === 0 ? { kind: "same" } : { kind: "updated", before, changes }
    }
    case "Deleted":
      return { kind: "deleted", reason: "flagged", before, erased: false }
    case "Restored":
      return { kind: "restored", before: null }
    case "Same":
      return { kind: "same" }
    default:
      return { kind: "tombstone", erased: false }
  }
}

/**
 * New content of a candidate that is erased in every known application. Its `changed_at` is cleared: a live application that is
 * found later shows the candidate, whatever its timestamp is   (N5)
 */
const erasedContent = (head: Head, before: JsonObject, processing: Processing) => ({
  ...head,
  canonicalHash: publishedHash(head, before, processing),
  remoteId: storableText(before["remote_id"]),
  content: before,
  changedAt: null,
  changedAtMs: null
})

/** Removes the copy of a forgotten candidate. Stored applications may still contain it if the forgetting was interrupted. */
const withoutForgottenCopy = (change: ApplicationChange, forgotten: ReadonlySet<string>): ApplicationChange =>
  change.copy !== null && forgotten.has(change.copy.id) ? { ...change, copy: null } : change

interface CandidatePlan {
  readonly writes: ReadonlyArray<RecordWrite>
  /** The candidate that each application shows, if it changes: for `setDerivedIds`. */
  readonly derivedIds: ReadonlyMap<string, string | null>
  /** Applications with disputed copies. */
  readonly stale: ReadonlySet<string>
}

/** Plans the writes for the candidates of the changed applications. `derived`: the state of the stream of candidates. */
export const planCandidates = (
  changes: ReadonlyArray<ApplicationChange>,
  { before, derived: published, live, withDeleted }: Sources,
  derived: StreamState,
  processing: Processing,
  context: PageContext
): CandidatePlan => {
  const now = new Map(changes.map(({ copy, parent }) => [parent, copy?.id ?? null]))
  const kept = new Set(changes.filter(({ flagged }) => flagged).map(({ parent }) => parent))
  const derivedIds = new Map(
    [...now].filter(([parent, child]) => !kept.has(parent) && (before.get(parent) ?? null) !== child)
  )
  const writes: Array<RecordWrite> = []
  const stale = new Set<string>()
  for (const [id, { causes, copies, erased, flagged, left }] of groupByCandidate(changes, before)) {
    const { content: stored = null, head } = published.get(id) ?? {}
    const content = currentContent(processing, derived, stored) ?? {}
    if (head !== undefined && left === 0 && copies.every((copy) => isUpToDate(head, content, copy, processing))) {
      continue
    }
    const contextFor = (cause: ApplicationChange | undefined) => ({
      stream: derived,
      processing,
      origin: cause?.origin ?? context.origin,
      runId: context.runId,
      detectedAt: cause?.detectedAt ?? context.now
    })
    const others = live.get(id) ?? []
    const [first, ...rest] = [...copies, ...otherCopies(id, others, processing, context)]
    if (first === undefined) {
      const shownUntilErased = flagged || withDeleted.has(id)
      if (!erased || shownUntilErased || head === undefined) continue
      const step: RecordChange = head.live
        ? { kind: "deleted", reason: "erased", before: content, erased }
        : { kind: "tombstone", erased }
      const cause = causes.find(({ erased }) => erased)
      writes.push(buildRecordWrite(head, step, erasedContent(head, content, processing), contextFor(cause)))
      continue
    }
    const { copy, disputed } = chooseCopy([first, ...rest])
    if (disputed && causes.some(({ origin }) => origin !== "refresh")) {
      for (const { parent } of [first, ...rest]) stale.add(parent)
    }
    const areAll = others.length < maxParents
    if (head !== undefined && isOlder(copy.changedAtMs, oldestAcceptedChange(head, content, areAll))) continue
    const known = head && { ...head, canonicalHash: publishedHash(head, content, processing) }
    const cause = causes.find(({ parent }) => parent === copy.parent) ?? causes[0]
    const classification = classify(known, undefined, copy, { ...context, isRefetch: true })
    const step = toRecordChange(classification, cause?.old === true, content, copy, processing)
    const hash = step.kind === "created" ? unhashed : copy.canonicalHash()
    writes.push(buildRecordWrite(head, step, { ...copy, canonicalHash: hash }, contextFor(cause)))
  }
  return { writes, derivedIds, stale }
}

interface Derivation {
  readonly derived: StreamTx
  readonly writes: ReadonlyArray<RecordWrite>
}

/**
 * Returns the writes for the candidates of the changed applications. Stores which application contains which candidate, and
 * marks applications with disputed copies as stale.
 */
export const deriveCandidates = Effect.fnUntraced(function*(
  tx: StreamTx,
  all: ReadonlyArray<ApplicationChange>,
  processing: Processing,
  context: PageContext
): Effect.fn.Return<Derivation, StoreError> {
  const forgotten = (yield* tx.forgotten).get(candidateModel)
  const changes = forgotten === undefined ? all : all.map((change) => withoutForgottenCopy(change, forgotten))
  const sources = yield* tx.sources(candidateModel, {
    changed: changes.map(({ parent }) => parent),
    copies: changes.flatMap(({ copy }) => copy ?? []),
    limit: maxParents
  })
  const derived = yield* tx.derived
  const { derivedIds, stale, writes } = planCandidates(changes, sources, derived.state, processing, context)
  yield* tx.setDerivedIds(derivedIds)
  yield* tx.markStale([...stale])
  return { derived, writes }
})
