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
import { choose } from "../domain/Candidate.ts"
import { canonicalHash, type JsonObject } from "../domain/Canonical.ts"
import type { Origin } from "../domain/ChangeEvent.ts"
import { classify, isOlder, type Meaning } from "../domain/Classify.ts"
import { diff } from "../domain/Diff.ts"
import { derivedRegistry, type StreamKey } from "../domain/Model.ts"
import { type Observation, observe, readRow, textOf } from "../domain/Observation.ts"
import type { Processing } from "../domain/Processing.ts"
import { parseTime } from "../domain/Watermark.ts"
import type { Head, StreamState } from "../store/State.ts"
import type { RecordWrite, StoreError, StreamTx } from "../store/Store.ts"
import { type Occasion, settingOf } from "./Absorb.ts"
import { attribute } from "./Attribution.ts"
import { type Detected, detected } from "./PendingRows.ts"
import { parseContent, publication, type Step } from "./Publication.ts"

export const model = "ats.candidate"
const { property } = derivedRegistry[model]

const mostParents = 50

/** In which circumstances applications are published. */
export interface Publishing extends Pick<Occasion, "derives" | "reading" | "origin" | "backfill" | "now"> {
  readonly stream: StreamState
}

/** A candidate as an application shows it. */
type Copy = Observation & { readonly parent: string }

/** What an application shows from now on. */
export interface Showing {
  readonly parent: string
  /** null = no candidate. */
  readonly copy: Copy | null
  /** The candidate it showed was erased in it. */
  readonly erased: boolean
  /** It is flagged as deleted: it may come back, and showed the candidate until it is erased. */
  readonly flagged: boolean
  /** It is itself old, and so is whom only it shows. */
  readonly old: boolean
  readonly origin: Origin
  readonly detectedAt: number
}

const copyIn = (processing: Processing, parent: string, content: JsonObject | null): Copy | null => {
  const row = readRow(processing, content?.[property])
  return "id" in row ? { ...observe(processing, row), parent } : null
}

export const showing = (
  processing: Processing,
  content: JsonObject | null,
  details: Omit<Showing, "copy">
): Showing => {
  const copy = copyIn(processing, details.parent, content)
  return copy?.blank === true ? { ...details, copy: null, erased: true } : { ...details, copy }
}

/** Of all applications: that only the stamp of a candidate moved shows in no change, and decides whose copy counts. */
const showingsOf = (writes: ReadonlyArray<RecordWrite>, processing: Processing, occasion: Publishing) =>
  writes.flatMap(({ erased = false, events, head: { id } }): ReadonlyArray<Showing> => {
    const event = events.at(-1)
    if (event === undefined) {
      return erased
        ? [{
          parent: id,
          copy: null,
          erased,
          flagged: false,
          old: false,
          origin: occasion.origin,
          detectedAt: occasion.now
        }]
        : []
    }
    const old = event.kind === "created" && event.origin === "backfill" && !event.restored
    const foundBy = occasion.backfill ? "backfill" : occasion.origin
    return [showing(processing, parseContent(event.after), {
      parent: id,
      erased,
      flagged: event.reason === "flagged" && !erased,
      old,
      origin: old ? foundBy : event.origin,
      detectedAt: event.detectedAt
    })]
  })

/** What of this transaction concerns one candidate. */
interface Concern {
  readonly causes: Array<Showing>
  readonly copies: Array<Copy>
  /** Applications that showed it and do no more. */
  left: number
  erased: boolean
  flagged: boolean
}

const concernsOf = (showings: ReadonlyArray<Showing>, before: ReadonlyMap<string, string>) => {
  const concerns = new Map<string, Concern>()
  const concern = (id: string, cause: Showing): Concern => {
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

const isSettled = (head: Head | undefined, copy: Copy, processing: Processing): boolean =>
  head !== undefined && head.live !== copy.deleted && head.fingerprint === processing.fingerprint &&
  head.canonicalHash === copy.canonicalHash && (head.changedAt ?? -Infinity) >= (copy.changedAtMs ?? -Infinity)

/** Copies in applications that this transaction does not change, and whether those are all of a candidate. */
const otherCopies = Effect.fnUntraced(function*(
  tx: StreamTx,
  ids: ReadonlyArray<string>,
  changed: ReadonlySet<string>,
  processing: Processing
) {
  const known = yield* tx.parents(ids, mostParents)
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
const floorOf = (head: Head, published: JsonObject, areAll: boolean): number | null =>
  areAll ? parseTime(published["changed_at"]) ?? head.changedAt : head.changedAt

const stepOf = (meaning: Meaning, old: boolean, before: JsonObject, copy: Copy, { shape }: Processing): Step => {
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
const erasure = (head: Head, before: JsonObject) => ({
  ...head,
  remoteId: textOf(before["remote_id"]),
  content: before,
  changedAt: null,
  changedAtMs: head.changedAt
})

interface Derivation {
  readonly derived: StreamTx
  readonly writes: ReadonlyArray<RecordWrite>
}

/** What is to be written of candidates; who shows them, and who is owed a re-read, is written here. */
export const derive = Effect.fnUntraced(function*(
  tx: StreamTx,
  showings: ReadonlyArray<Showing>,
  processing: Processing,
  occasion: Publishing
): Effect.fn.Return<Derivation, StoreError> {
  const derived = yield* tx.derived(model)
  const before = yield* tx.children(showings.map(({ parent }) => parent))
  const now = new Map(showings.map(({ copy, parent }) => [parent, copy?.id ?? null]))
  const kept = new Set(showings.filter(({ flagged }) => flagged).map(({ parent }) => parent))
  yield* tx.setChildren(
    new Map([...now].filter(([parent, child]) => !kept.has(parent) && (before.get(parent) ?? null) !== child))
  )
  const concerns = concernsOf(showings, before)
  const heads = yield* derived.heads([...concerns.keys()])
  const open = [...concerns].filter(([id, { copies, left }]) =>
    left > 0 || copies.some((copy) => !isSettled(heads.get(id), copy, processing))
  )
  const others = yield* otherCopies(tx, open.map(([id]) => id), new Set(now.keys()), processing)
  const flaggedBefore = yield* tx.deletedParents(open.flatMap(([id, { erased }]) => erased ? [id] : []))
  const contents = yield* derived.contents(open.flatMap(([id]) => heads.get(id)?.position ?? []))

  const writes: Array<RecordWrite> = []
  const owed = new Set<string>()
  for (const [id, { causes, copies, erased, flagged }] of open) {
    const head = heads.get(id)
    const published = processing.apply(parseContent(contents.get(head?.position ?? 0)) ?? {})
    const circumstances = (cause: Showing | undefined) => ({
      stream: derived.state,
      processing,
      origin: cause?.origin ?? occasion.origin,
      reading: occasion.reading,
      detectedAt: cause?.detectedAt ?? occasion.now
    })
    const [first, ...rest] = [...copies, ...others.copies.get(id) ?? []]
    if (first === undefined) {
      const shownUntilErased = flagged || flaggedBefore.get(id)?.some((parent) => !now.has(parent)) === true
      if (!erased || shownUntilErased || head === undefined) continue
      const step: Step = head.live
        ? { kind: "deleted", reason: "erased", before: published, erased }
        : { kind: "tombstone", erased }
      const cause = causes.find(({ erased }) => erased)
      writes.push(publication(head, step, erasure(head, published), circumstances(cause)))
      continue
    }
    const { copy, disputed } = choose([first, ...rest])
    if (disputed && causes.some(({ origin }) => origin !== "refresh")) {
      for (const { parent } of [first, ...rest]) owed.add(parent)
    }
    if (head !== undefined && isOlder(copy.changedAtMs, floorOf(head, published, others.areAll(id)))) continue
    const known = head && {
      ...head,
      changedAtMs: head.changedAt,
      canonicalHash: head.live && head.fingerprint !== processing.fingerprint
        ? canonicalHash(processing.shape, published)
        : head.canonicalHash
    }
    const cause = causes.find(({ parent }) => parent === copy.parent) ?? causes[0]
    const meaning = classify(known, undefined, copy, settingOf({ ...occasion, decisive: true }))
    const step = stepOf(meaning, cause?.old === true, published, copy, processing)
    writes.push(publication(head, step, copy, circumstances(cause)))
  }
  yield* tx.owe([...owed])
  return { derived, writes }
})

const detectedIn = ({ model }: StreamKey, writes: ReadonlyArray<RecordWrite>): ReadonlyArray<Detected> =>
  writes.flatMap(({ events }) => events.map((event) => detected(model, event)))

/** Writes records of a stream, whose changes they are, and what follows for what is derived: last of all, like `tx.write`. */
export const publish = Effect.fnUntraced(function*(
  tx: StreamTx,
  records: ReadonlyArray<RecordWrite>,
  occasion: Publishing
): Effect.fn.Return<ReadonlyArray<Detected>, StoreError> {
  const { derives } = occasion
  const writes = yield* attribute(tx, records)
  const showings = derives === null ? [] : showingsOf(writes, derives, occasion)
  const events = detectedIn(occasion.stream, writes)
  if (derives === null || showings.length === 0) return yield* Effect.as(tx.write(writes), events)
  const derivation = yield* derive(tx, showings, derives, occasion)
  const derived = yield* attribute(derivation.derived, derivation.writes)
  yield* tx.write(writes)
  yield* derivation.derived.write(derived)
  return [...events, ...detectedIn(derivation.derived.state, derived)]
})
