/**
 * Sweeps a stream: reads its whole list, and so finds records that vanished and changes that `updated_after` does not return. The
 * first sweep is the backfill.
 *
 * Invariants
 * 1. An unfinished sweep, or one with unreadable rows, infers no deletes   (I7, D4, D14)
 * 2. A record is missing only if no run read it since the sweep started. It counts as absent only if a confirm with controls
 *    does not find it, and is staged as deleted when a second confirm, spaced in time, does not find it either   (D2, D3, D15)
 *
 * Gotchas
 * - A sweep is resumed after a restart: its progress is in the stream's state and in `lastSeenRunId` of the heads. Records that
 *   moved in front of the cursor meanwhile are read by the next pass (`SweepPasses.ts`).
 * - The first response of the backfill sets the watermark, so polls run between its pages.
 * - A list that the API only returns as a whole cannot be queried by id. Its complete sweeps, spaced in time, count as confirms,
 *   and they move the watermark, because the stream has no polls.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { OpenExpectation } from "../../domain/Expectation.ts"
import { estimateWatermark } from "../../domain/Watermark.ts"
import type { Page, Source } from "../../source/Source.ts"
import type { Pending, Run, StreamState } from "../../store/State.ts"
import { Store, type StoreError, type StreamTx } from "../../store/Store.ts"
import { takeUnconfirmedWrites } from "../commit/Attribution.ts"
import { releaseStaged } from "../guard/Release.ts"
import * as Metrics from "../Metrics.ts"
import { clearFailure, RunAborted } from "../schedule/StreamLifecycle.ts"
import {
  changeState,
  commitPage,
  countPage,
  hasConsistentCounts,
  isSweepOnly,
  newRun,
  readPages,
  type RunError,
  type Stream
} from "./Pages.ts"
import { findControls, forEachPending, isQueryable, maxRefetchIds, refetch, resolveDisputes } from "./Refetch.ts"
import { addPage, continuePasses, isCoveredByPoll, markHiddenRecords, markLive } from "./SweepPasses.ts"

export interface SweepOptions {
  /** Minimum time between the two confirms of an absence. */
  readonly confirmInterval: Duration.Duration
  /** Evaluated between pages: true interrupts the sweep, which stays open to be resumed. */
  readonly shouldYield: Effect.Effect<boolean>
}

/** Starts or resumes the stream's sweep, one pass over its list; false = it yielded and is still open. */
export const sweep = Effect.fn("Sweep.run")(function*(
  stream: Stream,
  options: SweepOptions
): Effect.fn.Return<boolean, RunError, Store | Source> {
  const store = yield* Store
  const state = yield* store.stream(stream.key)
  if (state === null) return yield* new RunAborted({ message: "the stream is not registered in the store" })
  const open = state.sweep ?? (yield* startSweep(stream))
  const read = open.phase === "confirm"
    ? { run: open, done: true }
    : yield* readAll(stream, open, options, state.lastSweep?.rowCounts.read ?? null)
  if (!read.done) return false
  if (!(yield* confirmMissing(stream, read.run, options))) return false
  yield* finish(stream, read.run)
  yield* resolveDisputes(stream, read.run.id)
  return true
})

/** A sweep reads every record, so its start clears the queue of stale records. */
const startSweep = Effect.fnUntraced(function*(stream: Stream) {
  const store = yield* Store
  const now = yield* Clock.currentTimeMillis
  return yield* store.transact(
    stream.owner,
    stream.key,
    Effect.fnUntraced(function*({ clearStale, saveState, state }) {
      if (state.sweep !== null) return state.sweep
      const details = { updatedAfter: null, startedAt: now, backfill: state.backfilledAt === null }
      const run = { ...newRun(state, "sweep", details), ...continuePasses(state) }
      if ((yield* clearStale) > 0) yield* saveState({ ...state, lastRunId: run.id, sweep: run })
      return run
    })
  )
})

/** Abandons the open sweep if it is still `run`. The next sweep releases the changes that it staged (X17). */
const abandon = Effect.fnUntraced(function*(
  stream: Stream,
  run: Run
): Effect.fn.Return<void, StoreError, Store> {
  const store = yield* Store
  yield* store.transact(
    stream.owner,
    stream.key,
    (tx) => isSuperseded(tx.state, run) ? Effect.void : tx.saveState({ ...tx.state, sweep: null })
  )
})

const progressEvery = 10_000

/** Logs a line every ten seconds of a long sweep. The remaining time is known only if an earlier sweep counted the records. */
const reportProgress = (stream: Stream, expected: number | null, since: number) => {
  let reported = since
  let before: number | null = null
  return Effect.fnUntraced(function*(run: Run) {
    const now = yield* Clock.currentTimeMillis
    before ??= run.rowCounts.read
    if (now - reported < progressEvery) return
    reported = now
    const rate = (run.rowCounts.read - before) / ((now - since) / 1000)
    const left = expected === null || rate <= 0 ? null : Math.max(0, expected - run.rowCounts.read) / rate
    yield* Effect.logInfo(run.backfill ? "backfilling" : "sweeping").pipe(Effect.annotateLogs({
      integration: stream.key.integration,
      model: stream.key.model,
      records: run.rowCounts.read,
      perSecond: Math.round(rate),
      ...(left === null ? {} : { left: Duration.format(Duration.seconds(Math.ceil(left))) })
    }))
  })
}

const readAll = Effect.fnUntraced(function*(
  stream: Stream,
  start: Run,
  options: SweepOptions,
  expected: number | null
) {
  const report = reportProgress(stream, expected, yield* Clock.currentTimeMillis)
  const commit = Effect.fnUntraced(function*(run: Run, page: Page) {
    const last = page.next === null
    const now = yield* Clock.currentTimeMillis
    let read = run
    yield* commitPage(stream, page.results, run, {
      isRefetch: false,
      prepareState: (state) => recordFirstPage(clearFailure(state), run, page),
      finish: (tx, state, context, committed) =>
        changeState((state) => {
          const watermark = state.sweep?.watermark ?? estimateWatermark(state.clockOffsets, page).watermark
          read = addPage(countPage(run, committed), page, {
            watermark,
            newest: state.lastRunId,
            now,
            owner: stream.owner
          })
          if (isSuperseded(state, run)) return state
          const isBackfilled = last && run.backfill && read.mustRepeat !== true
          return {
            ...state,
            backfilledAt: isBackfilled ? estimateWatermark(state.clockOffsets, page).watermark : state.backfilledAt,
            sweep: { ...read, watermark, phase: last ? "confirm" : "pages" }
          }
        })(tx, state, context, committed)
    })
    yield* report(read)
    return read
  })
  return yield* readPages(stream, start, {
    priority: isSweepOnly(stream) ? "poll" : start.backfill ? "backfill" : "sweep",
    commit,
    shouldYield: options.shouldYield
  }).pipe(
    // P5, P4: after an expired cursor or a pagination loop, the next attempt starts at the first page.
    Effect.tapError((error) =>
      error._tag === "RunAborted" || (error._tag === "SourceError" && error.reason._tag === "Rejected")
        ? abandon(stream, start)
        : Effect.void
    )
  )
})

/** True if an operator started another sweep meanwhile. The pages of this run are still committed, its progress is not. */
const isSuperseded = ({ sweep }: StreamState, { id }: Pick<Run, "id">): boolean => sweep !== null && sweep.id !== id

/** Sets the watermark of the sweep and, for a backfill, of the stream: from that time on polls find the changes. */
const recordFirstPage = (state: StreamState, run: Run, page: Page): StreamState => {
  if (isSuperseded(state, run) || (state.sweep?.watermark ?? null) !== null) return state
  const { watermark, clockOffsets } = estimateWatermark(state.clockOffsets, page)
  const first = { ...state, clockOffsets, sweep: { ...run, watermark } }
  const started = run.backfill ? { ...first, backfillStartedAt: state.backfillStartedAt ?? watermark } : first
  if (state.watermark !== null) return started
  return {
    ...started,
    phase: run.backfill ? "backfilling" : state.phase,
    watermark,
    previousWatermark: watermark
  }
}

const finish = Effect.fnUntraced(function*(stream: Stream, run: Run) {
  const now = yield* Clock.currentTimeMillis
  let pollsReturnNothing = false
  let unseen: ReadonlyArray<OpenExpectation> = []
  let latest = run
  yield* commitPage(stream, [], run, {
    isRefetch: false,
    finish: Effect.fnUntraced(function*(tx, state, context) {
      // C6: an empty poll may mean "no change" or "not supported"; a sweep that finds changes missed by polls shows the latter
      pollsReturnNothing = state.pollsReturn !== "nothing" && (run.missedByPolls ?? 0) > 0
      // a confirm may have called `markHiddenRecords` meanwhile
      if (state.sweep?.id === run.id) latest = state.sweep
      const ended = { ...latest, watermark: state.sweep?.watermark ?? null, endedAt: now }
      const swept: StreamState = {
        ...state,
        backfilledAt: latest.backfill && latest.mustRepeat === true ? null : state.backfilledAt,
        sweep: isSuperseded(state, run) ? state.sweep : null,
        lastSweep: ended,
        ...pollsReturnNothing ? { pollsReturn: "nothing" } : {}
      }
      const read = isSweepOnly(stream) ? advanceWatermark(swept, ended) : swept
      const released = yield* releaseStaged(tx, isCoveredByPoll(run, state) ? markLive(read) : read, context)
      unseen = yield* takeUnconfirmedWrites(
        tx,
        run.id,
        stream.derivedProcessing === null ? [] : [stream.derivedProcessing.model]
      )
      return released
    })
  })
  if (pollsReturnNothing) yield* Metrics.pollFilterChanged(stream.key, "nothing")
  yield* Metrics.writesUnconfirmed(stream.key, unseen)
  const kind = run.backfill ? "backfill" : "sweep"
  yield* Metrics.runEnded(stream.key, kind, latest.mustRepeat === true ? "repeated" : "complete")
  if (!hasConsistentCounts(run.rowCounts)) yield* Metrics.runMiscounted(stream.key)
  const log = isSweepOnly(stream) && !run.backfill ? Effect.logDebug : Effect.logInfo
  const message = latest.mustRepeat === true
    ? `${kind} may have skipped records; the list is read again`
    : `${kind} complete`
  yield* log(message).pipe(Effect.annotateLogs({
    integration: stream.key.integration,
    model: stream.key.model,
    records: run.rowCounts.read,
    pages: run.pages,
    took: Duration.format(Duration.millis(Math.max(0, now - run.startedAt))),
    ...latest.mustRepeat === true && latest.possibleGap !== undefined ? { why: gapReasons[latest.possibleGap] } : {}
  }))
})

const gapReasons: Record<NonNullable<Run["possibleGap"]>, string> = {
  change: "records changed while the list was read",
  pause: "there was a long pause between two pages",
  hidden: "the list did not contain records that exist",
  restart: "another process had read the first pages"
}

/** Moves the watermark like the end of a poll does, for a stream without polls. */
const advanceWatermark = (state: StreamState, ended: NonNullable<StreamState["lastSweep"]>): StreamState => ({
  ...state,
  lastPoll: ended,
  previousWatermark: state.watermark,
  watermark: Math.max(state.watermark ?? 0, ended.watermark ?? 0)
})

/** True if the next sweep is already due. A sweep whose confirms keep failing then ends, so that its changes are released (D12). */
const isOverdue = ({ settings }: Stream, { startedAt }: Run, now: number): boolean =>
  now - startedAt >= Duration.toMillis(settings.sweepInterval)

/** Refetches every live record that no run read since the sweep started; false = it yielded before the end. */
const confirmMissing = Effect.fnUntraced(function*(
  stream: Stream,
  run: Run,
  options: SweepOptions
): Effect.fn.Return<boolean, RunError, Store | Source> {
  if (run.rowCounts.quarantined > 0) {
    yield* Effect.logWarning("sweep contained unreadable rows; no deletes are inferred from it").pipe(
      Effect.annotateLogs({ integration: stream.key.integration, model: stream.key.model })
    )
    return true
  }
  const store = yield* Store
  let after: string | null = null
  for (;;) {
    const missing: ReadonlyArray<string> = yield* store.liveNotSeenSince(stream.key, run.id, after, maxRefetchIds)
    if (missing.length === 0) return true
    const rows = yield* store.transact(stream.owner, stream.key, (tx) => tx.pending(missing))
    const now = yield* Clock.currentTimeMillis
    const due = missing.filter((id) => isDue(rows.get(id), now, options.confirmInterval))
    if (due.length > 0 && isSweepOnly(stream)) yield* countAbsent(stream, due, run.id)
    else if (due.length > 0) {
      const answered = yield* Effect.as(confirmAbsent(stream, run, due), true).pipe(
        Effect.catchIf(
          (error) => error._tag === "SourceError" && isOverdue(stream, run, now),
          (error) =>
            Effect.logWarning("confirms keep failing; no more deletes are inferred from this sweep").pipe(
              Effect.annotateLogs({ integration: stream.key.integration, model: stream.key.model, why: error.message }),
              Effect.as(false)
            )
        )
      )
      if (!answered) return true
    }
    after = missing.at(-1)!
    // Yield only after at least one request: if the time until the next poll is always used up, the sweep would never end.
    if (due.length > 0 && (yield* options.shouldYield)) return false
  }
})

/** Confirms absences again whose last confirm is at least `confirmInterval` ago. */
export const confirmAbsences = Effect.fn("Sweep.confirm")(function*(
  stream: Stream,
  confirmInterval: Duration.Duration
): Effect.fn.Return<void, RunError, Store | Source> {
  const store = yield* Store
  const state = yield* store.stream(stream.key)
  const runId = state?.lastSweep?.id
  if (runId === undefined) return
  yield* forEachPending(
    stream,
    "absent",
    Effect.fnUntraced(function*(rows) {
      const now = yield* Clock.currentTimeMillis
      const due = rows.filter((row) => isDue(row, now, confirmInterval)).map((row) => row.id)
      if (due.length > 0) yield* confirmAbsent(stream, { id: runId, kind: "poll" }, due)
    })
  )
})

const confirmsNeeded = 2

/**
 * True if the record is to be refetched. A delete that an operator rejected is not confirmed again until the record is observed
 * (D17). If `confirmedAt` is in the future, our clock was set back, and the confirm is due at once.
 */
const isDue = (row: Pending | undefined, now: number, interval: Duration.Duration): boolean => {
  if (row?.status !== "absent") return !(row?.status === "rejected" && row.deleted)
  const age = now - (row.confirmedAt ?? 0)
  return age < 0 || age >= Duration.toMillis(interval)
}

const confirmAbsent = Effect.fnUntraced(function*(
  stream: Stream,
  run: Pick<Run, "id" | "kind">,
  ids: ReadonlyArray<string>
): Effect.fn.Return<void, RunError, Store | Source> {
  const controls = yield* findControls(stream, run.id, ids)
  const { absent, inconclusiveReason, rows } = yield* refetch(stream, ids, controls, "confirm")
  if (inconclusiveReason !== null) {
    yield* Effect.logWarning("confirm was inconclusive; no deletes are inferred").pipe(
      Effect.annotateLogs({
        integration: stream.key.integration,
        model: stream.key.model,
        requested: ids.length,
        why: inconclusiveReason
      })
    )
  }
  const now = yield* Clock.currentTimeMillis
  yield* Metrics.recordsMissed(stream.key, rows.length)
  yield* commitPage(stream, rows, { ...run, backfill: false }, {
    isRefetch: true,
    finish: Effect.fnUntraced(function*(tx, state) {
      yield* markAbsent(tx, absent, run.id, now, inconclusiveReason === null ? 1 : 0)
      // Ids that contain a comma cannot be queried, so these records are shown as absent, but their absence is never confirmed.
      yield* markAbsent(tx, ids.filter((id) => !isQueryable(id)), run.id, now, 0)
      const { sweep } = state
      const isHiding = sweep?.id === run.id && rows.length > sweep.rowCounts.read && sweep.possibleGap !== "hidden"
      return { state: isHiding ? { ...state, sweep: markHiddenRecords(sweep) } : state, events: [], holds: [] }
    })
  })
})

const countAbsent = Effect.fnUntraced(function*(
  stream: Stream,
  ids: ReadonlyArray<string>,
  runId: number
) {
  const store = yield* Store
  const now = yield* Clock.currentTimeMillis
  yield* store.transact(stream.owner, stream.key, (tx) => markAbsent(tx, ids, runId, now, 1))
})

/**
 * Adds or updates the `absent` rows. A row that is already staged, or held as deleted, is not replaced; a held one is marked as
 * observed again (C8).
 */
const markAbsent = Effect.fnUntraced(function*(
  tx: StreamTx,
  ids: ReadonlyArray<string>,
  runId: number,
  now: number,
  confirms: 0 | 1
) {
  const pending = yield* tx.pending(ids)
  yield* tx.putPending(ids.flatMap((id): ReadonlyArray<Pending> => {
    const row = pending.get(id)
    if (row?.status === "absent") {
      const total = row.confirms + confirms
      return [{ ...row, status: total < confirmsNeeded ? "absent" : "staged", confirms: total, confirmedAt: now }]
    }
    if (row !== undefined && confirms === 0) return []
    if (row !== undefined && (row.deleted || row.status === "staged") && row.status !== "disputed") {
      return row.hold === null ? [] : [{ ...row, runId: Math.max(row.runId, runId) }]
    }
    return [{
      id,
      status: "absent",
      runId,
      origin: "sweep",
      content: null,
      deleted: true,
      reason: "absent",
      textHash: "",
      canonicalHash: "",
      remoteId: null,
      changedAt: null,
      detectedAt: now,
      confirms,
      confirmedAt: now,
      hold: null
    }]
  }))
})

/** Starts a new sweep from the first page, even if one is open. */
export const restartSweep = Effect.fnUntraced(function*(stream: Stream, options: SweepOptions) {
  const store = yield* Store
  yield* store.transact(stream.owner, stream.key, (tx) => tx.saveState({ ...tx.state, sweep: null }))
  return yield* sweep(stream, options)
})
