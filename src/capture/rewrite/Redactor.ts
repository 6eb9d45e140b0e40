/**
 * Redacts content that was stored before a rule was added, and encrypts content that was stored before the current key was set. It works
 * in the background, in many small transactions, and publishes no events.
 *
 * Invariants
 * 1. The progress of a stream is committed together with the rows, so a new process continues where the last one stopped   (I2, X1)
 * 2. Only the owner of the streams rewrites their content   (I10)
 * 3. Once a stream is redacted, the relay sends no batch that it read before   (I11)
 * 4. Each process notes its rules and its key in the state of a stream before it writes to the stream. If another process had other rules
 *    or another key, all content of the stream is rewritten again   (I11)
 *
 * Gotchas
 * - The newest rows are rewritten first: readers may not have read them yet, and the latest row of a record is kept as long as the record
 *   exists.
 * - Derived streams, and streams that are no longer read, are redacted too.
 * - After each transaction, the redactor pauses for the duration of that transaction, so it keeps the store busy for at most half of the
 *   time.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import type { StreamKey } from "../../domain/Model.ts"
import { type Processing, unchanging } from "../../domain/Processing.ts"
import { combine, satisfies } from "../../domain/Redaction.ts"
import { stopwatch } from "../../source/MonotonicClock.ts"
import { type LogContent, queryFor, type RewrittenContent, unhashed } from "../../store/Records.ts"
import type { Owner, RedactionProgress, StreamState } from "../../store/State.ts"
import { Store, type StoreError, type StreamTx } from "../../store/Store.ts"
import * as Metrics from "../Metrics.ts"
import { earlierProcessings, hashOfHead, withRedaction } from "../record/StoredContent.ts"
import { annotate, type Ownership, unlessErased } from "../Stream.ts"
import { redactLogRow, redactPending, redactQuarantined } from "./Redacting.ts"

/** The rules by which content must be redacted, and the key with which it must be encrypted. */
interface Target {
  readonly processing: Processing
  readonly key: string | null
}

/** Rows per transaction. */
const batch = 100

/** The rules of a stream's records; null if they are unknown, so that nothing is redacted and content is only encrypted. */
export type ProcessingOf = (stream: StreamKey) => Processing | null

const hasOtherKey = ({ encryptedWith = null }: StreamState, { key }: Target): boolean => encryptedWith !== key

const isOutdated = (state: StreamState, target: Target): boolean =>
  hasOtherKey(state, target) || state.redactions.some((rules) => !satisfies(rules, target.processing.applied))

/** True if this process, or one with the same rules and the same key, started to rewrite the stream. */
const isStarted = ({ redacting }: StreamState, { key, processing: { applied } }: Target): boolean =>
  redacting !== undefined && redacting.rules === applied.id && redacting.key === key

/** The state when the redaction starts, with all rules that rows will have. From then on, rows may have different keys. */
const started = (
  state: StreamState,
  target: Target,
  now: number
): StreamState & { redacting: RedactionProgress } => {
  const { key, processing: { applied } } = target
  return {
    ...state.redactions.map((rules) => combine(rules, applied)).reduce(
      withRedaction<StreamState>,
      withRedaction(state, applied)
    ),
    ...hasOtherKey(state, target) ? { encryptedWith: null } : {},
    redacting: state.redacting !== undefined && isStarted(state, target)
      ? state.redacting
      : { rules: applied.id, key, table: "pending", after: null, newest: 0, startedAt: now, rewritten: 0 }
  }
}

/** The state when the redaction is complete: the rules of every row satisfy the current rules. */
const finished = (state: StreamState, { key, processing: { applied } }: Target): StreamState => {
  const { redacting, ...rest } = state
  return redacting === undefined
    ? state
    : {
      ...rest,
      redactions: state.redactions.filter((rules) => satisfies(rules, applied)),
      ...key === null ? {} : { encryptedWith: key }
    }
}

const asStored = ({ after, ...row }: LogContent): RewrittenContent => ({ ...row, after: after?.content ?? null })

/**
 * Stores the canonical hashes of these rows' records, if they are not stored yet and the rows are the newest ones. Afterwards the rows can be
 * redacted: once a rule is removed, the hash shows that a record has not changed, and its value is not published (V1).
 */
const storeHashes = Effect.fnUntraced(function*(
  tx: StreamTx,
  state: StreamState,
  rows: ReadonlyArray<LogContent>,
  processing: Processing
) {
  const { heads } = yield* tx.read(queryFor(rows.map(({ id }) => id), null))
  const processingOf = earlierProcessings(processing, state)
  yield* tx.write(rows.flatMap(({ after, id, position }) => {
    const head = heads.get(id)
    if (head?.canonicalHash !== unhashed || head.position !== position) return []
    const hash = hashOfHead(head, after, processingOf(head.fingerprint))
    return [{ head: { ...head, canonicalHash: hash }, events: [] }]
  }))
})

type Next = Pick<RedactionProgress, "table" | "after"> & { readonly newest?: number; readonly rewritten: number }

/** Redacts the next rows; null if none are left. */
const redactSome = Effect.fnUntraced(function*(
  tx: StreamTx,
  state: StreamState & { readonly redacting: RedactionProgress },
  target: Target
): Effect.fn.Return<Next | null, StoreError> {
  const { after, newest, table } = state.redacting
  const { processing } = target
  /** Returns a row that needs no redaction if it must be written again, because writing encrypts it with the current key. */
  const again = <R>(row: R): R | [] => hasOtherKey(state, target) ? row : []
  switch (table) {
    case "pending": {
      const rows = yield* tx.allPending(after === null ? null : String(after), batch)
      const redacted = rows.flatMap((row) => redactPending(processing, state, row) ?? again(row))
      yield* tx.putPending(redacted)
      const last = rows.length < batch ? undefined : rows.at(-1)
      const next = last === undefined ? { table: "quarantine" as const, after: null } : { table, after: last.id }
      return { ...next, rewritten: redacted.length }
    }
    case "quarantine": {
      const rows = yield* tx.quarantined(after === null ? null : String(after), batch)
      const changed = rows.flatMap((row) => {
        const redacted = redactQuarantined(processing, state, row)
        return redacted === null ? again({ hash: row.hash, redacted: row }) : [{ hash: row.hash, redacted }]
      })
      yield* tx.replaceQuarantined(changed.map(({ hash }) => hash), changed.map(({ redacted }) => redacted))
      const last = rows.length < batch ? undefined : rows.at(-1)
      const next = last === undefined ? { table: "events" as const, after: null } : { table, after: last.hash }
      return { ...next, rewritten: changed.length }
    }
    case "events": {
      const rows = yield* tx.logContents(after === null ? Number.MAX_SAFE_INTEGER : Number(after), batch)
      const changed = rows.map((row) => redactLogRow(processing, state, row))
      yield* storeHashes(tx, state, rows.filter((_, index) => changed[index] !== null), processing)
      const redacted = changed.flatMap((row, index) => row ?? again(asStored(rows[index]!)))
      yield* tx.rewriteLog(redacted)
      const last = rows.at(-1)
      return last === undefined
        ? null
        : { table, after: last.position, newest: Math.max(newest, rows[0]!.position), rewritten: redacted.length }
    }
  }
})

/** One transaction: redacts the next rows, and returns the stream's state with its progress. */
const step = Effect.fnUntraced(function*(tx: StreamTx, target: Target, now: number) {
  const state = started(tx.state, target, now)
  // the new rule may have been removed from the configuration in the meantime
  const next = isOutdated(tx.state, target) ? yield* redactSome(tx, state, target) : null
  // a reader may hold rows that it read before they were rewritten
  if (next === null) yield* tx.noteRemoval
  const { newest, rewritten } = state.redacting
  const after = next === null
    ? finished(state, target)
    : { ...state, redacting: { ...state.redacting, newest, ...next, rewritten: rewritten + next.rewritten } }
  yield* tx.saveState(after)
  return after
})

const redactStream = Effect.fnUntraced(function*(owner: Owner, stream: StreamState, target: Target) {
  const store = yield* Store
  let rewritten = 0
  for (;;) {
    const startedAt = yield* Clock.currentTimeMillis
    const elapsed = yield* stopwatch
    const { redacting } = yield* store.transact(owner, stream, (tx) => step(tx, target, startedAt))
    if (redacting === undefined) break
    rewritten = redacting.rewritten
    yield* Effect.sleep(Duration.millis(yield* elapsed))
  }
  // While another process reads the store, this may free no space. The next retention run then frees it.
  yield* store.reclaim
  yield* Effect.logInfo(hasOtherKey(stream, target) ? "stored content encrypted" : "stored content redacted").pipe(
    annotate(stream, { rows: rewritten })
  )
  return rewritten
})

/** Retires the keys that nothing needs any longer. False while another process encrypts with such a key: call it again later. */
const retireKeys = Effect.gen(function*() {
  const { encryptionKey, retireKeys } = yield* Store
  if (encryptionKey === null) return true
  const retired = yield* retireKeys
  if (retired === null) return false
  if (retired.length > 0) {
    yield* Effect.logInfo("all stored content is encrypted with the current key; the others can be removed").pipe(
      Effect.annotateLogs({ current: encryptionKey, others: retired.join(", ") })
    )
  }
  return true
})

/** Logs a damaged row and returns null, so that the next stream continues: the damage may be years old. */
const unlessDamaged = <R>(rewrite: Effect.Effect<number, StoreError, R>): Effect.Effect<number | null, StoreError, R> =>
  Effect.catch(rewrite, (error) =>
    error.reason._tag === "Damaged"
      ? Effect.as(
        Effect.logError("stored content not rewritten").pipe(Effect.annotateLogs({ why: error.message })),
        null
      )
      : Effect.fail(error))

/**
 * Notes the current rules and the current key in the state of each owned stream that must be rewritten, and returns these streams. Called
 * before anything is written to streams that were taken. So another process knows that it must rewrite them if it takes them again, and
 * operators see how much there is to do.
 */
export const begin = Effect.fn("Redactor.begin")(function*(
  { ownerOf, owns }: Ownership,
  processingOf: ProcessingOf
): Effect.fn.Return<ReadonlyArray<{ readonly stream: StreamState; readonly target: Target }>, StoreError, Store> {
  const store = yield* Store
  const models = yield* CurrentModels
  const key = store.encryptionKey
  const outdated = (yield* store.streams).filter(({ integration }) => owns(integration)).flatMap((stream) => {
    const processing = processingOf(stream)
    const target = { processing: processing ?? unchanging(stream.model, models), key }
    const isUnfinished = stream.redacting !== undefined && processing !== null
    return isUnfinished || isOutdated(stream, target) ? [{ stream, target }] : []
  })
  for (const { stream, target } of outdated.filter(({ stream, target }) => !isStarted(stream, target))) {
    const now = yield* Clock.currentTimeMillis
    yield* unlessErased(
      stream,
      undefined,
      store.transact(ownerOf(stream.integration), stream, (tx) => tx.saveState(started(tx.state, target, now)))
    )
  }
  return outdated
})

/**
 * Redacts the stored content of the owned streams by their current rules, and encrypts it with the current key. Returns how many rows were
 * rewritten. If it is interrupted, the next call continues. A stream with a damaged row is left out.
 */
export const redactStored = Effect.fn("Redactor.run")(function*(
  ownership: Ownership,
  processingOf: ProcessingOf
): Effect.fn.Return<number, StoreError, Store> {
  const store = yield* Store
  const outdated = yield* begin(ownership, processingOf)
  if (outdated.length > 0) {
    const isOtherKey = outdated.some(({ stream, target }) => hasOtherKey(stream, target))
    yield* Effect.logInfo(
      isOtherKey
        ? "encryption key changed: encrypting stored content"
        : "redaction rules changed: redacting stored content"
    ).pipe(Effect.annotateLogs({ streams: outdated.length }))
  }
  const results = yield* Effect.forEach(
    outdated,
    ({ stream, target }) =>
      unlessDamaged(unlessErased(stream, 0, redactStream(ownership.ownerOf(stream.integration), stream, target)))
  )
  results.push(yield* unlessDamaged(store.encryptJournal))
  yield* Metrics.rewritesFailed(results.filter((rows) => rows === null).length)
  return results.reduce<number>((sum, rows) => sum + (rows ?? 0), 0)
})

/**
 * Redacts and encrypts in the background, then retires keys. Returns false if keys must be retired later. A process that lacks a key does
 * nothing: it takes shards once it has all keys, and is called again then.
 */
export const redactAndRetire = (
  ownership: Ownership,
  processingOf: ProcessingOf
): Effect.Effect<boolean, StoreError, Store> =>
  unlessDamaged(redactStored(ownership, processingOf)).pipe(
    Effect.tap((rows) => rows === null ? Metrics.rewritesFailed(1) : Effect.void),
    Effect.andThen(retireKeys),
    Effect.catch((error) => error.reason._tag === "MissingKey" ? Effect.succeed(true) : Effect.fail(error))
  )
