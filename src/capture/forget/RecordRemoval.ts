/**
 * Removes a forgotten record from a stream, and its copies from the records that repeat it.
 *
 * Invariants
 * 1. The record gets a `deleted` event without content; a record that repeats it gets a `deleted` and a `created` event, so that
 *    the earlier versions of both can be emptied   (I3, I4)
 *
 * Gotchas
 * - A record with damaged content is deleted without being read. The next sweep stores it again, unless it is the forgotten record.
 * - The `created` event has the origin `backfill`, because nothing new happened to the record: handlers get it only if they ask for
 *   old records.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { canonicalHash } from "../../domain/Canonical.ts"
import { type Forgotten, withoutCopies } from "../../domain/Forgotten.ts"
import * as Guard from "../../domain/Guard.ts"
import type { Model, StreamKey } from "../../domain/Model.ts"
import type { Processing } from "../../domain/Processing.ts"
import { findReferences, noReferences, type References } from "../../domain/Reference.ts"
import { anyHash, type Head, type Pending, queryFor, type RecordWrite } from "../../store/Records.ts"
import type { Owner, StreamState } from "../../store/State.ts"
import { Store, StoreError, type StreamTx } from "../../store/Store.ts"
import { appendEvents } from "../append/AppendEvents.ts"
import type { PageContext } from "../record/PageContext.ts"
import { newEvent } from "../record/RecordWrite.ts"
import { currentContent, withRedaction } from "../record/StoredContent.ts"
import { annotate } from "../Stream.ts"

/** The owner of the streams of an integration, and how their records are processed. */
export interface Streams {
  readonly owner: Owner
  readonly processing: (model: Model) => Processing
  /** The processing of the model that is derived from a stream's records; null if no model is derived. */
  readonly derivedProcessing: (stream: StreamKey) => Processing | null
}

/**
 * The head without the hashes of the removed content. The `changed_at` of a candidate is cleared too, so that an older copy can count once
 * the candidate is allowed again: the application with the newest copy may be deleted by then   (N5)
 */
const blanked = ({ model, models }: Processing, head: Head): Head => ({
  ...head,
  textHash: "",
  canonicalHash: "",
  changedAt: models.derivedOf(model) !== undefined ? null : head.changedAt
})

const contextOf = (tx: StreamTx, streams: Streams, now: number): PageContext => ({
  // the context is also that of candidate streams, which are written but not read
  stream: tx.state as PageContext["stream"],
  processing: streams.processing(tx.state.model),
  derivedProcessing: streams.derivedProcessing(tx.state),
  guard: Guard.defaultThresholds,
  runId: tx.state.lastRunId,
  origin: "refresh",
  backfill: false,
  isRefetch: true,
  now,
  shownAt: now
})

const deletedEvent = (tx: StreamTx, { id, version }: Head, now: number) =>
  newEvent(tx.state, { id, remoteId: null, changedAt: null }, null, {
    version: version + 1,
    kind: "deleted",
    origin: "refresh",
    reason: "forgotten",
    detectedAt: now
  })

const deletedWrite = (
  tx: StreamTx,
  processing: Processing,
  head: Head,
  references: References,
  now: number
): RecordWrite => ({
  head: { ...blanked(processing, head), version: head.version + 1, live: false },
  events: [deletedEvent(tx, head, now)],
  erased: true,
  wasLive: true,
  references: { before: references, after: noReferences }
})

/** True for content that cannot be decrypted, does not match its checksum, or is not JSON. */
const isDamage = (cause: Cause.Cause<StoreError>): boolean => {
  const error = Cause.squash(cause)
  return error instanceof SyntaxError || (error instanceof StoreError && error.reason._tag === "Damaged")
}

/** If content is damaged, the transaction of `change` is rolled back, and the record is deleted without being read. */
const orDeleteUnread = (
  change: Effect.Effect<void, StoreError, Store>,
  streams: Streams,
  key: StreamKey,
  id: string
): Effect.Effect<void, StoreError, Store> =>
  Effect.catchCauseIf(change, isDamage, (cause) => {
    const error = Cause.squash(cause)
    return Effect.logWarning("a record with damaged content was deleted without being read").pipe(
      Effect.annotateLogs(error instanceof StoreError ? { why: error.reason.message } : {}),
      annotate(key),
      Effect.andThen(deleteIn(streams, key, id, false))
    )
  })

/** `reads`: whether the content is read, to remove the record's references and the candidate that was derived from it. */
const deleteIn = (
  streams: Streams,
  key: StreamKey,
  id: string,
  reads: boolean
): Effect.Effect<void, StoreError, Store> =>
  Effect.gen(function*() {
    const store = yield* Store
    const now = yield* Clock.currentTimeMillis
    yield* store.transact(
      streams.owner,
      key,
      Effect.fnUntraced(function*(tx) {
        yield* tx.dropPending([id])
        const head = (yield* tx.read(queryFor([id], null))).heads.get(id)
        if (head === undefined) return
        const own = contextOf(tx, streams, now)
        const context = reads ? own : { ...own, derivedProcessing: null }
        // a deleted application still contains its candidate until it is erased
        const processing = streams.processing(key.model)
        if (!head.live) {
          yield* appendEvents(tx, [{ head: blanked(processing, head), events: [], erased: true }], context)
          return
        }
        const stored = reads ? (yield* tx.read(queryFor([id], anyHash))).contents.get(id) : null
        const content = currentContent(processing, tx.state, stored)
        const references = content === null ? noReferences : findReferences(key, processing, content)
        yield* appendEvents(tx, [deletedWrite(tx, processing, head, references, now)], context)
      })
    )
  })

/** Deletes the record itself, unless it is already deleted, and drops its pending change. */
export const deleteRecord = (streams: Streams, key: StreamKey, id: string): Effect.Effect<void, StoreError, Store> =>
  orDeleteUnread(deleteIn(streams, key, id, true), streams, key, id)

const withoutCopiesInPending =
  (stream: StreamState, processing: Processing, forgotten: Forgotten) => (row: Pending): Pending => {
    const { content, redaction } = row
    const current = content === null ? null : currentContent(processing, stream, { content, redaction })
    if (current === null) return row
    const kept = withoutCopies(processing.models, processing.model, current, forgotten)
    if (kept === current) return row
    return {
      ...row,
      content: JSON.stringify(kept),
      redaction: processing.applied.id,
      textHash: "",
      canonicalHash: canonicalHash(processing.shape, kept)
    }
  }

/** The records of a stream that repeat a forgotten record. */
export interface Copies {
  readonly key: StreamKey
  readonly ids: ReadonlyArray<string>
  /** The records that repeat it in a row of the log. The others repeat it only in a pending change. */
  readonly logged: ReadonlySet<string>
}

/**
 * Removes the copies from the live content and from the pending changes of these records. Deletes damaged records, because a sweep reads
 * them again. Returns the records whose rows of the log must still be emptied.
 */
export const removeCopies = (
  streams: Streams,
  copies: Copies,
  forgotten: Forgotten
): Effect.Effect<ReadonlyArray<string>, StoreError, Store> =>
  Effect.catchCauseIf(
    removeFrom(streams, copies, forgotten),
    isDamage,
    () =>
      Effect.as(
        Effect.forEach(
          copies.ids,
          (id) =>
            orDeleteUnread(
              Effect.asVoid(removeFrom(streams, { ...copies, ids: [id] }, forgotten)),
              streams,
              copies.key,
              id
            ),
          { discard: true }
        ),
        copies.ids
      )
  )

const removeFrom = (
  streams: Streams,
  { ids, key, logged }: Copies,
  forgotten: Forgotten
): Effect.Effect<ReadonlyArray<string>, StoreError, Store> =>
  Effect.gen(function*() {
    const store = yield* Store
    const now = yield* Clock.currentTimeMillis
    const processing = streams.processing(key.model)
    return yield* store.transact(
      streams.owner,
      key,
      Effect.fnUntraced(function*(tx) {
        const known = withRedaction(tx.state, processing.applied)
        if (known !== tx.state) yield* tx.saveState(known)
        const { contents, heads, pending } = yield* tx.read(queryFor(ids, anyHash))
        const stripped = new Map(
          [...pending].map(([id, row]) => [id, withoutCopiesInPending(tx.state, processing, forgotten)(row)])
        )
        yield* tx.putPending([...stripped.values()])
        // The rows in the log of these records must be emptied: the search found the record in the log, or only in a pending change that has
        // no copy now, and may have been published since the search.
        const published = ids.filter((id) => logged.has(id) || stripped.get(id) === pending.get(id))
        const deleted = (yield* tx.forgotten).get(key.model)
        const writes: Array<RecordWrite> = []
        for (const id of published) {
          const head = heads.get(id)
          const content = currentContent(processing, tx.state, contents.get(id))
          if (head?.live !== true || content === null) continue
          // this record must be forgotten too, so it must not be published again
          if (deleted?.has(head.id) === true) {
            writes.push(deletedWrite(tx, processing, head, findReferences(key, processing, content), now))
            continue
          }
          const kept = withoutCopies(processing.models, key.model, content, forgotten)
          const text = (name: string) => typeof kept[name] === "string" ? kept[name] : null
          const created = newEvent(
            tx.state,
            { id: head.id, remoteId: text("remote_id"), changedAt: text("changed_at") },
            JSON.stringify(kept),
            { version: head.version + 2, kind: "created", origin: "backfill", restored: true, detectedAt: now }
          )
          writes.push({
            head: {
              ...head,
              version: head.version + 2,
              textHash: "",
              canonicalHash: canonicalHash(processing.shape, kept),
              fingerprint: processing.fingerprint
            },
            events: [deletedEvent(tx, head, now), created],
            redaction: processing.applied.id,
            references: {
              before: findReferences(key, processing, content),
              after: findReferences(key, processing, kept)
            }
          })
        }
        yield* appendEvents(tx, writes, contextOf(tx, streams, now))
        return published
      })
    )
  })
