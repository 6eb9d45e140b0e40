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
import type { Head, RecordWrite } from "../../store/Records.ts"
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

const isUpToDate = (head: Head | undefined, copy: ObservedCopy, processing: Processing): boolean =>
  head !== undefined && head.live !== copy.deleted && head.fingerprint === processing.fingerprint &&
  head.canonicalHash === copy.canonicalHash() && (head.changedAt ?? -Infinity) >= (copy.changedAtMs ?? -Infinity)

/** Copies in applications that this transaction does not change, and whether these are all applications of a candidate. */
const otherCopies = Effect.fnUntraced(function*(
  tx: StreamTx,
  ids: ReadonlyArray<string>,
  changed: ReadonlySet<string>,
  processing: Processing,
  { processing: parentProcessing }: PageContext
) {
  const known = yield* tx.liveSources(ids, maxParents)
  const parents = [...known].flatMap(([candidate, parents]) =>
    parents.filter(({ id }) => !changed.has(id)).map((parent) => ({ ...parent, candidate }))
  )
  const contents = yield* tx.contents(parents.map(({ position }) => position))
  const copies = Map.groupBy(
    parents.flatMap(({ candidate, id, position }) => {
      const copy = copyIn(processing, id, currentContent(parentProcessing, tx.state, contents.get(position)))
      return copy === null || copy.id !== candidate || copy.blank ? [] : [copy]
    }),
    ({ id }) => id
  )
  return { copies, areAll: (id: string) => (known.get(id)?.length ?? 0) < maxParents }
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
const erasedContent = (head: Head, before: JsonObject) => ({
  ...head,
  remoteId: storableText(before["remote_id"]),
  content: before,
  changedAt: null,
  changedAtMs: null
})

/** Removes the copy of a forgotten candidate. Stored applications may still contain it if the forgetting was interrupted. */
const withoutForgottenCopy = (change: ApplicationChange, forgotten: ReadonlySet<string>): ApplicationChange =>
  change.copy !== null && forgotten.has(change.copy.id) ? { ...change, copy: null } : change

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
  const derived = yield* tx.derived(candidateModel)
  const before = yield* tx.derivedIds(changes.map(({ parent }) => parent))
  const now = new Map(changes.map(({ copy, parent }) => [parent, copy?.id ?? null]))
  const kept = new Set(changes.filter(({ flagged }) => flagged).map(({ parent }) => parent))
  yield* tx.setDerivedIds(
    new Map([...now].filter(([parent, child]) => !kept.has(parent) && (before.get(parent) ?? null) !== child))
  )
  const candidates = groupByCandidate(changes, before)
  const heads = yield* derived.heads([...candidates.keys()])
  const open = [...candidates].filter(([id, { copies, left }]) =>
    left > 0 || copies.some((copy) => !isUpToDate(heads.get(id), copy, processing))
  )
  const others = yield* otherCopies(tx, open.map(([id]) => id), new Set(now.keys()), processing, context)
  const flaggedBefore = yield* tx.deletedSources(open.flatMap(([id, { erased }]) => erased ? [id] : []))
  const contents = yield* derived.contents(open.flatMap(([id]) => heads.get(id)?.position ?? []))

  const writes: Array<RecordWrite> = []
  const stale = new Set<string>()
  for (const [id, { causes, copies, erased, flagged }] of open) {
    const head = heads.get(id)
    const published = currentContent(processing, derived.state, contents.get(head?.position ?? 0)) ?? {}
    const contextFor = (cause: ApplicationChange | undefined) => ({
      stream: derived.state,
      processing,
      origin: cause?.origin ?? context.origin,
      runId: context.runId,
      detectedAt: cause?.detectedAt ?? context.now
    })
    const [first, ...rest] = [...copies, ...others.copies.get(id) ?? []]
    if (first === undefined) {
      const shownUntilErased = flagged || flaggedBefore.get(id)?.some((parent) => !now.has(parent)) === true
      if (!erased || shownUntilErased || head === undefined) continue
      const step: RecordChange = head.live
        ? { kind: "deleted", reason: "erased", before: published, erased }
        : { kind: "tombstone", erased }
      const cause = causes.find(({ erased }) => erased)
      writes.push(buildRecordWrite(head, step, erasedContent(head, published), contextFor(cause)))
      continue
    }
    const { copy, disputed } = chooseCopy([first, ...rest])
    if (disputed && causes.some(({ origin }) => origin !== "refresh")) {
      for (const { parent } of [first, ...rest]) stale.add(parent)
    }
    if (head !== undefined && isOlder(copy.changedAtMs, oldestAcceptedChange(head, published, others.areAll(id)))) {
      continue
    }
    const known = head && {
      ...head,
      canonicalHash: head.live && head.fingerprint !== processing.fingerprint
        ? canonicalHash(processing.shape, published)
        : head.canonicalHash
    }
    const cause = causes.find(({ parent }) => parent === copy.parent) ?? causes[0]
    const classification = classify(known, undefined, copy, { ...context, isRefetch: true })
    const step = toRecordChange(classification, cause?.old === true, published, copy, processing)
    writes.push(buildRecordWrite(head, step, { ...copy, canonicalHash: copy.canonicalHash() }, contextFor(cause)))
  }
  yield* tx.markStale([...stale])
  return { derived, writes }
})
