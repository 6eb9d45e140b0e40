/**
 * Redacts content that was stored before a rule was added: in the background, without events, one small transaction after the other.
 *
 * Invariants
 * 1. The progress of a stream is committed together with the rows, so a new process continues where the last one stopped   (I2, X1)
 * 2. Only the owner of the streams rewrites   (I10)
 *
 * Gotchas
 * - The newest rows come first: those are the ones that readers have not read yet, and that live as long as their record.
 * - The streams that are no longer read and those that are derived are redacted too.
 * - Between two transactions it waits for as long as the last one took, so it takes at most half of the time of the store.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { StreamKey } from "../../domain/Model.ts"
import type { Processing } from "../../domain/Processing.ts"
import { combine, satisfies } from "../../domain/Redaction.ts"
import type { RedactionProgress, StreamState } from "../../store/State.ts"
import { type Owner, Store, type StoreError, type StreamTx } from "../../store/Store.ts"
import { redactionsOf, withRedaction } from "../commit/StoredContent.ts"
import { annotate } from "../Stream.ts"
import { redactLogRow, redactPending, redactQuarantined } from "./Redacting.ts"

/** Rows per transaction. */
const batch = 100

/** The rules of a stream's records; null = unknown, nothing is redacted. */
export type ProcessingOf = (stream: StreamKey) => Processing | null

const isOutdated = (state: StreamState, { applied }: Processing): boolean =>
  redactionsOf(state).some((rules) => !satisfies(rules, applied))

/** The state at the beginning, with all rules that rows get. */
const begun = (
  state: StreamState,
  { applied }: Processing,
  now: number
): StreamState & { redacting: RedactionProgress } => ({
  ...redactionsOf(state).map((rules) => combine(rules, applied)).reduce(
    withRedaction<StreamState>,
    withRedaction(state, applied)
  ),
  redacting: state.redacting?.rules === applied.id
    ? state.redacting
    : { rules: applied.id, table: "pending", after: null, newest: 0, startedAt: now, rewritten: 0 }
})

/** The state at the end: no row has rules that do not satisfy the current ones. */
const finished = (state: StreamState, { applied }: Processing): StreamState => {
  const { redacting, ...rest } = state
  return redacting === undefined
    ? state
    : { ...rest, redactions: redactionsOf(state).filter((rules) => satisfies(rules, applied)) }
}

type Next = Pick<RedactionProgress, "table" | "after"> & { readonly newest?: number; readonly rewritten: number }

/** Redacts the next rows; null = none are left. */
const redactSome = Effect.fnUntraced(function*(
  tx: StreamTx,
  state: StreamState & { readonly redacting: RedactionProgress },
  processing: Processing
): Effect.fn.Return<Next | null, StoreError> {
  const { after, newest, table } = state.redacting
  switch (table) {
    case "pending": {
      const rows = yield* tx.allPending(after === null ? null : String(after), batch)
      const redacted = rows.flatMap((row) => redactPending(processing, state, row) ?? [])
      yield* tx.putPending(redacted)
      const last = rows.length < batch ? undefined : rows.at(-1)
      const next = last === undefined ? { table: "quarantine" as const, after: null } : { table, after: last.id }
      return { ...next, rewritten: redacted.length }
    }
    case "quarantine": {
      const rows = yield* tx.quarantined(after === null ? null : String(after), batch)
      const changed = rows.flatMap((row) => {
        const redacted = redactQuarantined(processing, state, row)
        return redacted === null ? [] : [{ hash: row.hash, redacted }]
      })
      yield* tx.replaceQuarantined(changed.map(({ hash }) => hash), changed.map(({ redacted }) => redacted))
      const last = rows.length < batch ? undefined : rows.at(-1)
      const next = last === undefined ? { table: "events" as const, after: null } : { table, after: last.hash }
      return { ...next, rewritten: changed.length }
    }
    case "events": {
      const rows = yield* tx.logContents(after === null ? Number.MAX_SAFE_INTEGER : Number(after), batch)
      const redacted = rows.flatMap((row) => redactLogRow(processing, state, row) ?? [])
      yield* tx.rewriteLog(redacted)
      const last = rows.at(-1)
      return last === undefined
        ? null
        : { table, after: last.position, newest: Math.max(newest, rows[0]!.position), rewritten: redacted.length }
    }
  }
})

/** One transaction: redacts the next rows, and returns the stream's state with its progress. */
const step = Effect.fnUntraced(function*(tx: StreamTx, processing: Processing, now: number) {
  const state = begun(tx.state, processing, now)
  // the rule that was to be applied may have been removed again
  const next = isOutdated(tx.state, processing) ? yield* redactSome(tx, state, processing) : null
  const { newest, rewritten } = state.redacting
  const after = next === null
    ? finished(state, processing)
    : { ...state, redacting: { ...state.redacting, newest, ...next, rewritten: rewritten + next.rewritten } }
  yield* tx.saveState(after)
  return after
})

const redactStream = Effect.fnUntraced(function*(owner: Owner, key: StreamKey, processing: Processing) {
  const store = yield* Store
  let rewritten = 0
  for (;;) {
    // an integration can be erased meanwhile
    if ((yield* store.stream(key)) === null) return 0
    const startedAt = yield* Clock.currentTimeMillis
    const { redacting } = yield* store.transact(owner, key, (tx) => step(tx, processing, startedAt))
    if (redacting === undefined) break
    rewritten = redacting.rewritten
    yield* Effect.sleep(Duration.millis((yield* Clock.currentTimeMillis) - startedAt))
  }
  // if another process reads the store now, the next run of the retention reclaims the space
  yield* store.reclaim
  yield* Effect.logInfo("stored content redacted").pipe(annotate(key, { rows: rewritten }))
  return rewritten
})

/**
 * Redacts the stored content of all streams by their current rules, and returns how many rows were rewritten. If it is interrupted, the
 * next call continues.
 */
export const redactStored = Effect.fn("Redactor.run")(function*(
  owner: Owner,
  processingOf: ProcessingOf
): Effect.fn.Return<number, StoreError, Store> {
  const store = yield* Store
  const outdated = (yield* store.streams).flatMap((state) => {
    const processing = processingOf(state)
    const isUnfinished = state.redacting !== undefined
    return processing !== null && (isUnfinished || isOutdated(state, processing)) ? [{ key: state, processing }] : []
  })
  // shows operators all streams that are to be redacted, before the first of them is
  for (const { key, processing } of outdated) {
    const now = yield* Clock.currentTimeMillis
    yield* store.transact(owner, key, (tx) => tx.saveState(begun(tx.state, processing, now)))
  }
  if (outdated.length > 0) {
    yield* Effect.logInfo("rules of redaction changed: stored content is redacted").pipe(
      Effect.annotateLogs({ streams: outdated.length })
    )
  }
  let rewritten = 0
  for (const { key, processing } of outdated) rewritten += yield* redactStream(owner, key, processing)
  return rewritten
})

/** Like `redactStored`. A damaged row ends it with a message, and not the process: the row may not have been read for years. */
export const redactInBackground = (
  owner: Owner,
  processingOf: ProcessingOf
): Effect.Effect<number, StoreError, Store> =>
  redactStored(owner, processingOf).pipe(
    Effect.catch((error) =>
      error.reason._tag === "Damaged"
        ? Effect.as(Effect.logError("stored content not redacted").pipe(Effect.annotateLogs({ why: error.message })), 0)
        : Effect.fail(error)
    )
  )
