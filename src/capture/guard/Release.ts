/**
 * Releases pending rows: staged changes at the end of a run, rows of holds that no longer exceed the thresholds, and rows of approved
 * holds. Each row is published, or put into the hold that still covers it.
 *
 * | staged by | released by the end of |
 * |---|---|
 * | a poll, a refresh or a refetch, complete or not | a complete poll |
 * | a sweep, complete or not | a complete sweep   (X17, D21: a poll ends while a sweep is open) |
 * | two confirmations of an absence | a complete poll or sweep |
 *
 * Invariants
 * 1. A hold ends in one of three ways: an operator decides, its records are observed with their published content again, or a complete
 *    sweep finds it below the thresholds. A hold never ends because of its age   (D17, C8)
 *
 * Gotchas
 * - Staged rows are read twice in the same transaction, to count and to release them, a chunk at a time: memory stays bounded (I9).
 */
import * as Effect from "effect/Effect"
import * as Guard from "../../domain/Guard.ts"
import type { StreamKey } from "../../domain/Model.ts"
import type { Hold, Pending, RecordWrite, ReleaseMode } from "../../store/Records.ts"
import type { StreamState } from "../../store/State.ts"
import type { StoreError, StreamTx } from "../../store/Store.ts"
import { appendEvents } from "../append/AppendEvents.ts"
import type { DetectedEvent } from "../Metrics.ts"
import type { PageContext } from "../record/PageContext.ts"
import { annotate, forEachPart } from "../Stream.ts"
import { applyMasks, pendingStatusFor } from "./FieldMask.ts"
import { loadStagedChanges, toRecordWrite } from "./StagedChanges.ts"
import { chunk, countStaged, evaluateGuard, forEachStaged, type Verdict } from "./Verdict.ts"

/** Result of releasing the staged changes at the end of a run. */
export interface ReleaseResult {
  readonly state: StreamState
  readonly events: ReadonlyArray<DetectedEvent>
  /** Holds that were opened, widened or canceled. */
  readonly holds: ReadonlyArray<Hold>
}

/** Which rows stay pending, and how the others are published. */
export interface ReleaseRules {
  /** The hold that keeps all deletes, and the hold that keeps all restores; null if the changes are published. */
  readonly waveHolds: Verdict["waveHolds"]
  /** Scope holds whose paths stay pending. */
  readonly masks: ReadonlyArray<Hold>
  readonly mode: ReleaseMode
}

const noWaveHolds: ReleaseRules["waveHolds"] = { deletes: null, restores: null }
/** Changes are published with the origin with which they were found. */
const releaseAsObserved: ReleaseMode = { origin: null, silent: false }

/** Releases the rows of an approved hold. `masks`: the scope holds that stay. */
export const approvedRules = (hold: Hold, masks: ReadonlyArray<Hold>): ReleaseRules => ({
  waveHolds: noWaveHolds,
  masks,
  mode: hold.release ?? releaseAsObserved
})

/** Publishes pending rows, or puts them into a hold; returns the events. */
export const releaseRows = Effect.fnUntraced(function*(
  tx: StreamTx,
  rows: ReadonlyArray<Pending>,
  context: PageContext,
  { masks, mode, waveHolds }: ReleaseRules
): Effect.fn.Return<ReadonlyArray<DetectedEvent>, StoreError> {
  const writes: Array<RecordWrite> = []
  const kept: Array<Pending> = []
  for (const staged of yield* loadStagedChanges(tx, rows, context)) {
    const { kind, observed, published, row } = staged
    const wave = kind === "deletes" || kind === "restores" ? waveHolds[kind] : null
    const masked = kind === "update" && published !== null
      ? applyMasks(published, observed, masks)
      : { content: observed, hold: null }
    const hold = wave ?? masked.hold
    if (hold !== null) kept.push({ ...row, status: pendingStatusFor(hold), hold: hold.id })
    if (wave !== null) continue
    const write = toRecordWrite(staged, context, mode, masked.content)
    if (hold === null || write.events.length > 0) writes.push(write)
  }
  yield* tx.dropPending(rows.map((row) => row.id))
  yield* tx.putPending(kept)
  return yield* appendEvents(tx, writes, context)
})

/**
 * The reason of a hold that waits for a decision, or was rejected, with the current numbers. The verdict has set that of an open hold already,
 * unless the wave is below the thresholds now.
 */
const currentReason = ({ kind, reason, state }: Hold, size: number, live: number, isSmall: boolean): string => {
  if (kind !== "scope" && state === "open" && !isSmall) return reason
  const what = kind === "scope"
    ? reason.replace(/^\d+ of \d+ records/, `${size} of ${live} records`)
    : `${size} of ${live} records ${kind === "deletes" ? "deleted" : "restored"}`
  return Guard.markBelowLimits(what, state === "open" && isSmall)
}

/**
 * Releases holds that are now below the thresholds, then cancels holds without rows, and returns the canceled holds. This order matters: a
 * released row may move into a hold that had no rows.
 */
const endHolds = Effect.fnUntraced(function*(
  tx: StreamTx,
  context: PageContext,
  verdict: Verdict,
  events: Array<DetectedEvent>
) {
  const unapproved = verdict.holds.filter(({ state }) => state !== "approving")
  const isSmall = ({ kind }: Hold, size: number): boolean =>
    kind === "scope"
      ? !Guard.isScopeChange(context.guard, "value", size, verdict.live)
      : verdict.waveHolds[kind] === null
  for (const hold of unapproved) {
    if (context.origin === "sweep" && hold.state === "open" && isSmall(hold, yield* tx.holdSize(hold.id))) {
      const masks = verdict.masks.filter(({ id }) => id !== hold.id)
      const rules: ReleaseRules = { waveHolds: noWaveHolds, masks, mode: releaseAsObserved }
      yield* forEachPart(
        chunk,
        (after, limit) => tx.pendingOfHold(hold.id, after, limit),
        Effect.fnUntraced(function*(page) {
          // C8: only rows that this sweep observed again
          const rows = page.filter((row) => row.runId >= context.runId)
          events.push(...yield* releaseRows(tx, rows, context, rules))
        })
      )
    }
  }
  const ended: Array<Hold> = []
  for (const hold of unapproved) {
    const size = yield* tx.holdSize(hold.id)
    if (size > 0) {
      const reason = currentReason(hold, size, verdict.live, isSmall(hold, size))
      if (reason !== hold.reason) yield* tx.saveHold({ ...hold, reason })
      continue
    }
    const over: Hold = { ...hold, state: "canceled", decidedAt: hold.decidedAt ?? context.now }
    yield* tx.saveHold(over)
    ended.push(over)
  }
  return ended
})

/** Runs in the last transaction of a run. `context.origin` is the kind of the completed run. */
export const releaseStaged = Effect.fnUntraced(function*(
  tx: StreamTx,
  state: StreamState,
  context: PageContext
): Effect.fn.Return<ReleaseResult, StoreError> {
  const unended = yield* tx.holds
  const tally = yield* countStaged(tx, context)
  if (tally.rows === 0 && unended.length === 0) return { state, events: [], holds: [] }
  const verdict = yield* evaluateGuard(tx, state, context, tally, unended)
  const rules: ReleaseRules = { ...verdict, mode: releaseAsObserved }
  const events: Array<DetectedEvent> = []
  yield* forEachStaged(
    tx,
    context,
    (rows) => Effect.map(releaseRows(tx, rows, context, rules), (found) => void events.push(...found))
  )
  const ended = yield* endHolds(tx, context, verdict, events)
  const own = events.filter(({ model }) => model === context.stream.model)
  const passed = {
    deletes: own.filter(({ kind }) => kind === "deleted").length,
    restores: own.filter(({ restored }) => restored).length
  }
  return {
    events,
    holds: [...verdict.opened, ...ended],
    state: { ...state, guardHistory: Guard.addToHistory(context.guard, state.guardHistory ?? [], context.now, passed) }
  }
})

/** Logs one line when a hold is opened or widened, and one when it is canceled because it has no rows left (C2). */
export const logHolds = (key: StreamKey, holds: ReadonlyArray<Hold>): Effect.Effect<void> =>
  Effect.forEach(
    holds,
    ({ id, kind, reason, state }) =>
      (state === "open"
        ? Effect.logWarning("changes are held")
        : Effect.logInfo("hold canceled: no changes left in it")).pipe(
          annotate(key, { hold: id, kind, reason, ...(state === "open" ? { hint: `rollcall holds show ${id}` } : {}) })
        ),
    { discard: true }
  )
