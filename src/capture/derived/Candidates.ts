/**
 * Derives `ats.candidate`, which the API has no list of, from the candidates that published applications show. Hides which
 * application is believed where they differ.
 *
 * Invariants
 * 1. What is published of a candidate never goes back to a copy with an earlier `changed_at` than the last event carries   (N5)
 * 2. A candidate is deleted by its own `remote_deleted_at`, or once all applications that showed it are erased; never
 *    because an application is gone   (N6, D11, I7)
 * 3. What a refresh shows owes nobody another one   (N7)
 *
 * Gotchas
 * - There is no guard of its own: a wave is held as one of applications, and what is held is not derived from.
 * - A copy of which only the stamp moved makes no event, so its application counts with the older stamp until a sweep or a
 *   refresh has another application show the candidate.
 * - A copy of which nothing is left is an erasure of the candidate in that application.
 * - Of a candidate in very many applications, the first `mostParents` and those that change are compared.
 */
import * as Effect from "effect/Effect"
import { chooseCopy } from "../../domain/CandidateCopy.ts"
import { canonicalHash, type JsonObject } from "../../domain/Canonical.ts"
import type { Origin } from "../../domain/ChangeEvent.ts"
import { type Classification, classify, isOlder } from "../../domain/Classify.ts"
import { diff } from "../../domain/Diff.ts"
import { derivedRegistry, type StreamKey } from "../../domain/Model.ts"
import { type Observation, observe, parseRow, storableText } from "../../domain/Observation.ts"
import type { Processing } from "../../domain/Processing.ts"
import { parseTime } from "../../domain/Watermark.ts"
import type { Head, StreamState } from "../../store/State.ts"
import type { RecordWrite, StoreError, StreamTx } from "../../store/Store.ts"
import { attributeWrites } from "../commit/Attribution.ts"
import { classifyContextOf, type PageContext } from "../commit/Ingest.ts"
import { buildRecordWrite, parseContent, type RecordChange } from "../commit/RecordWrite.ts"
import { type DetectedEvent, toDetectedEvent } from "../guard/StagedChanges.ts"

export const candidateModel = "ats.candidate"
const { property } = derivedRegistry[candidateModel]

const mostParents = 50

/** In which circumstances applications are published. */
export interface AppendContext
  extends Pick<PageContext, "derivedProcessing" | "runId" | "origin" | "backfill" | "now">
{
  readonly stream: StreamState
}

/** A candidate as an application shows it. */
type ObservedCopy = Observation & { readonly parent: string }

/** What an application shows from now on. */
export interface ApplicationChange {
  readonly parent: string
  /** null = no candidate. */
  readonly copy: ObservedCopy | null
  /** The candidate it showed was erased in it. */
  readonly erased: boolean
  /** It is flagged as deleted: it may come back, and showed the candidate until it is erased. */
  readonly flagged: boolean
  /** It is itself old, and so is whom only it shows. */
  readonly old: boolean
  readonly origin: Origin
  readonly detectedAt: number
}

const copyIn = (processing: Processing, parent: string, content: JsonObject | null): ObservedCopy | null => {
  const row = parseRow(processing, content?.[property])
  return "id" in row ? { ...observe(processing, row), parent } : null
}

export const toApplicationChange = (
  processing: Processing,
  content: JsonObject | null,
  details: Omit<ApplicationChange, "copy">
): ApplicationChange => {
  const copy = copyIn(processing, details.parent, content)
  return copy?.blank === true ? { ...details, copy: null, erased: true } : { ...details, copy }
}

/** Of all applications: that only the stamp of a candidate moved shows in no change, and decides whose copy counts. */
const applicationChangesOf = (writes: ReadonlyArray<RecordWrite>, processing: Processing, context: AppendContext) =>
  writes.flatMap(({ erased = false, events, head: { id } }): ReadonlyArray<ApplicationChange> => {
    const event = events.at(-1)
    if (event === undefined) {
      return erased
        ? [{
          parent: id,
          copy: null,
          erased,
          flagged: false,
          old: false,
          origin: context.origin,
          detectedAt: context.now
        }]
        : []
    }
    const old = event.kind === "created" && event.origin === "backfill" && !event.restored
    const foundBy = context.backfill ? "backfill" : context.origin
    return [toApplicationChange(processing, parseContent(event.after), {
      parent: id,
      erased,
      flagged: event.reason === "flagged" && !erased,
      old,
      origin: old ? foundBy : event.origin,
      detectedAt: event.detectedAt
    })]
  })

/** What of this transaction concerns one candidate. */
interface CandidateChanges {
  readonly causes: Array<ApplicationChange>
  readonly copies: Array<ObservedCopy>
  /** Applications that showed it and do no more. */
  left: number
  erased: boolean
  flagged: boolean
}

const groupByCandidate = (showings: ReadonlyArray<ApplicationChange>, before: ReadonlyMap<string, string>) => {
  const concerns = new Map<string, CandidateChanges>()
  const concern = (id: string, cause: ApplicationChange): CandidateChanges => {
    const known = concerns.get(id) ?? { causes: [], copies: [], left: 0, erased: false, flagged: false }
    concerns.set(id, known)
    known.causes.push(cause)
    return known
  }
  for (const one of showings) {
    const shown = before.get(one.parent)
    if (one.copy !== null) concern(one.copy.id, one).copies.push(one.copy)
    if (shown === undefined || shown === one.copy?.id) continue
    const left = concern(shown, one)
    left.left++
    left.erased ||= one.erased
    left.flagged ||= one.flagged
  }
  return concerns
}

const isUpToDate = (head: Head | undefined, copy: ObservedCopy, processing: Processing): boolean =>
  head !== undefined && head.live !== copy.deleted && head.fingerprint === processing.fingerprint &&
  head.canonicalHash === copy.canonicalHash && (head.changedAt ?? -Infinity) >= (copy.changedAtMs ?? -Infinity)

/** Copies in applications that this transaction does not change, and whether those are all of a candidate. */
const otherCopies = Effect.fnUntraced(function*(
  tx: StreamTx,
  ids: ReadonlyArray<string>,
  changed: ReadonlySet<string>,
  processing: Processing
) {
  const known = yield* tx.liveSources(ids, mostParents)
  const parents = [...known].flatMap(([candidate, parents]) =>
    parents.filter(({ id }) => !changed.has(id)).map((parent) => ({ ...parent, candidate }))
  )
  const contents = yield* tx.contents(parents.map(({ position }) => position))
  const copies = Map.groupBy(
    parents.flatMap(({ candidate, id, position }) => {
      const copy = copyIn(processing, id, parseContent(contents.get(position)))
      return copy === null || copy.id !== candidate || copy.blank ? [] : [copy]
    }),
    ({ id }) => id
  )
  return { copies, areAll: (id: string) => (known.get(id)?.length ?? 0) < mostParents }
})

/**
 * Before which `changed_at` a copy does not count, ms. The head may remember a later stamp of unchanged content, which no
 * event carries: where all applications are compared, one that still shows that stamp wins by itself, and otherwise it is gone.
 */
const oldestAcceptedChange = (head: Head, published: JsonObject, areAll: boolean): number | null =>
  areAll ? parseTime(published["changed_at"]) ?? head.changedAt : head.changedAt

const toRecordChange = (
  meaning: Classification,
  old: boolean,
  before: JsonObject,
  copy: ObservedCopy,
  { shape }: Processing
): RecordChange => {
  switch (meaning._tag) {
    case "Created":
      return { kind: "created", old: meaning.old || old }
    case "Unseen":
      return { kind: "unseen", old: meaning.old || old }
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

/** What is written of one that is erased everywhere: nothing is shown of it any more. */
const erasedContent = (head: Head, before: JsonObject) => ({
  ...head,
  remoteId: storableText(before["remote_id"]),
  content: before,
  changedAt: null,
  changedAtMs: head.changedAt
})

interface Derivation {
  readonly derived: StreamTx
  readonly writes: ReadonlyArray<RecordWrite>
}

/** What is to be written of candidates; who shows them, and who is owed a re-read, is written here. */
export const deriveCandidates = Effect.fnUntraced(function*(
  tx: StreamTx,
  showings: ReadonlyArray<ApplicationChange>,
  processing: Processing,
  context: AppendContext
): Effect.fn.Return<Derivation, StoreError> {
  const derived = yield* tx.derived(candidateModel)
  const before = yield* tx.derivedIds(showings.map(({ parent }) => parent))
  const now = new Map(showings.map(({ copy, parent }) => [parent, copy?.id ?? null]))
  const kept = new Set(showings.filter(({ flagged }) => flagged).map(({ parent }) => parent))
  yield* tx.setDerivedIds(
    new Map([...now].filter(([parent, child]) => !kept.has(parent) && (before.get(parent) ?? null) !== child))
  )
  const concerns = groupByCandidate(showings, before)
  const heads = yield* derived.heads([...concerns.keys()])
  const open = [...concerns].filter(([id, { copies, left }]) =>
    left > 0 || copies.some((copy) => !isUpToDate(heads.get(id), copy, processing))
  )
  const others = yield* otherCopies(tx, open.map(([id]) => id), new Set(now.keys()), processing)
  const flaggedBefore = yield* tx.deletedSources(open.flatMap(([id, { erased }]) => erased ? [id] : []))
  const contents = yield* derived.contents(open.flatMap(([id]) => heads.get(id)?.position ?? []))

  const writes: Array<RecordWrite> = []
  const stale = new Set<string>()
  for (const [id, { causes, copies, erased, flagged }] of open) {
    const head = heads.get(id)
    const published = processing.apply(parseContent(contents.get(head?.position ?? 0)) ?? {})
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
      changedAtMs: head.changedAt,
      canonicalHash: head.live && head.fingerprint !== processing.fingerprint
        ? canonicalHash(processing.shape, published)
        : head.canonicalHash
    }
    const cause = causes.find(({ parent }) => parent === copy.parent) ?? causes[0]
    const meaning = classify(known, undefined, copy, classifyContextOf({ ...context, isRefetch: true }))
    const step = toRecordChange(meaning, cause?.old === true, published, copy, processing)
    writes.push(buildRecordWrite(head, step, copy, contextFor(cause)))
  }
  yield* tx.markStale([...stale])
  return { derived, writes }
})

const detectedEventsIn = ({ model }: StreamKey, writes: ReadonlyArray<RecordWrite>): ReadonlyArray<DetectedEvent> =>
  writes.flatMap(({ events }) => events.map((event) => toDetectedEvent(model, event)))

/** Writes records of a stream, whose changes they are, and what follows for what is derived: last of all, like `tx.write`. */
export const appendEvents = Effect.fnUntraced(function*(
  tx: StreamTx,
  records: ReadonlyArray<RecordWrite>,
  context: AppendContext
): Effect.fn.Return<ReadonlyArray<DetectedEvent>, StoreError> {
  const { derivedProcessing } = context
  const writes = yield* attributeWrites(tx, records)
  const applicationChanges = derivedProcessing === null ? [] : applicationChangesOf(writes, derivedProcessing, context)
  const events = detectedEventsIn(context.stream, writes)
  if (derivedProcessing === null || applicationChanges.length === 0) return yield* Effect.as(tx.write(writes), events)
  const derivation = yield* deriveCandidates(tx, applicationChanges, derivedProcessing, context)
  const derived = yield* attributeWrites(derivation.derived, derivation.writes)
  yield* tx.write(writes)
  yield* derivation.derived.write(derived)
  return [...events, ...detectedEventsIn(derivation.derived.state, derived)]
})
