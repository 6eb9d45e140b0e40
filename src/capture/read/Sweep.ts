/**
 * Sweeps a stream: reads its whole list, to find deleted records and the changes that `updated_after` does not return. The first sweep is
 * the backfill.
 *
 * Invariants
 * 1. An unfinished sweep, or one with unreadable rows, infers no deletes   (I7, D4, D14)
 *
 * Gotchas
 * - A sweep is resumed after a restart: its progress is in the stream's state and in `lastSeenRunId` of the heads. Records that moved in
 *   front of the cursor in the meantime are read by the next pass (`SweepPasses.ts`).
 * - The first response of the backfill sets the watermark, so polls run between its pages.
 * - Sweeps of a stream that has no polls move the watermark.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { estimateWatermark } from "../../domain/Watermark.ts"
import { isRefused, type Page, type Source } from "../../source/Source.ts"
import type { Run } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import { Store } from "../../store/Store.ts"
import * as Tracing from "../../telemetry/Tracing.ts"
import { commitPage, type PageCounts } from "../commit/PageCommit.ts"
import { gapReasons, hasConsistentCounts, replaceRun } from "../commit/RunHistory.ts"
import * as Metrics from "../Metrics.ts"
import { annotate, isSweepOnly, isUnpaged, type RunError, spanAttributes, type Stream, transact } from "../Stream.ts"
import { clearFailure, newRun, RunAborted } from "../StreamLifecycle.ts"
import { confirmMissing } from "./Absence.ts"
import { countPage, readPages } from "./Pages.ts"
import { resolveDisputes } from "./Refetch.ts"
import { addPage, continuePasses, markLive, sweepCompletesBackfill } from "./SweepPasses.ts"

/**
 * Starts or resumes the stream's sweep, which is one pass over its list. `shouldYield` is evaluated between pages. If it is true, the sweep
 * is suspended: it stays open, and the next call resumes it. Returns false if the sweep was suspended.
 */
export const sweep = Effect.fn("Sweep.run")(function*(
  stream: Stream,
  shouldYield: Effect.Effect<boolean>
): Effect.fn.Return<boolean, RunError, Store | Source> {
  const store = yield* Store
  const state = yield* store.stream(stream.key)
  if (state === null) return yield* new RunAborted({ message: "the stream is not registered in the store" })
  const open = state.sweep ?? (yield* startSweep(stream))
  const read = open.phase === "confirm"
    ? { run: open, done: true }
    : yield* readAll(stream, open, shouldYield, state.lastSweep?.rowCounts.read ?? null)
  if (!read.done) return false
  if (!(yield* confirmMissing(stream, read.run, shouldYield))) return false
  yield* finish(stream, read.run)
  yield* resolveDisputes(stream, read.run.id)
  return true
}, (effect, { key }) => Tracing.inTrace("sweep", spanAttributes(key))(effect))

/** Starts a new sweep from the first page, even if one is open. */
export const restartSweep = Effect.fnUntraced(function*(stream: Stream, shouldYield: Effect.Effect<boolean>) {
  const now = yield* Clock.currentTimeMillis
  yield* transact(
    stream,
    Effect.fnUntraced(function*({ recordRun, saveState, state }) {
      const { entry, state: next } = state.sweep === null ? { entry: null, state } : replaceRun(state, state.sweep, now)
      if (entry !== null) yield* recordRun(entry)
      yield* saveState({ ...next, sweep: null })
    })
  )
  return yield* sweep(stream, shouldYield)
})

/**
 * A sweep reads every record, so its start clears the queue of stale records. If the queue had records, the sweep is stored in the same
 * transaction, so that it is resumed after a crash. Otherwise its first page stores it.
 */
const startSweep = Effect.fnUntraced(function*(stream: Stream) {
  const now = yield* Clock.currentTimeMillis
  return yield* transact(
    stream,
    Effect.fnUntraced(function*({ clearStale, saveState, state }) {
      if (state.sweep !== null) return state.sweep
      const details = { updatedAfter: null, startedAt: now, backfill: state.backfilledAt === null }
      const run = { ...newRun(state, "sweep", details), ...continuePasses(state) }
      if ((yield* clearStale) > 0) yield* saveState({ ...state, lastRunId: run.id, sweep: run })
      return run
    })
  )
})

/** Abandons `run`, unless another sweep has been opened. The changes that `run` staged are released by the next sweep (X17). */
const abandon = (stream: Stream, run: Run) =>
  transact(stream, (tx) => isSuperseded(tx.state, run) ? Effect.void : tx.saveState({ ...tx.state, sweep: null }))

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
    yield* Effect.logInfo(run.backfill ? "backfilling" : "sweeping").pipe(annotate(stream.key, {
      records: run.rowCounts.read,
      perSecond: Math.round(rate),
      ...(left === null ? {} : { left: Duration.format(Duration.seconds(Math.ceil(left))) })
    }))
  })
}

const readAll = Effect.fnUntraced(function*(
  stream: Stream,
  start: Run,
  shouldYield: Effect.Effect<boolean>,
  expected: number | null
) {
  const report = reportProgress(stream, expected, yield* Clock.currentTimeMillis)
  const commit = Effect.fnUntraced(function*(run: Run, page: Page) {
    const now = yield* Clock.currentTimeMillis
    const watermarkOf = ({ clockOffsets, sweep }: StreamState) =>
      sweep?.watermark ?? estimateWatermark(clockOffsets, page).watermark
    const addTo = (state: StreamState, counts: PageCounts) =>
      addPage(countPage(run, counts), page, {
        watermark: watermarkOf(state),
        newestRun: state.lastRunId,
        now,
        owner: stream.owner
      })
    const committed = yield* commitPage(stream, {
      results: page.results,
      shownBy: page,
      run,
      isRefetch: false,
      before: (state) => recordFirstPage(clearFailure(state), run, page),
      after: (state, counts) => {
        if (isSuperseded(state, run)) return state
        const read = addTo(state, counts)
        const watermark = watermarkOf(state)
        if (page.next !== null) return { ...state, sweep: { ...read, watermark, phase: "pages" } }
        const isBackfilled = run.backfill && read.mustRepeat !== true
        return {
          ...state,
          backfilledAt: isBackfilled ? estimateWatermark(state.clockOffsets, page).watermark : state.backfilledAt,
          sweep: { ...read, watermark, phase: "confirm" }
        }
      }
    })
    const read = addTo(committed.state, committed)
    yield* report(read)
    return read
  })
  return yield* readPages(stream, start, {
    priority: start.backfill && !isUnpaged(stream) ? "backfill" : isSweepOnly(stream) ? "poll" : "sweep",
    commit,
    shouldYield
  }).pipe(
    // P5, P4: after an expired cursor or a pagination loop, the next attempt starts at the first page.
    Effect.tapError((error) =>
      error._tag === "RunAborted" || (error._tag === "SourceError" && isRefused(error))
        ? abandon(stream, start)
        : Effect.void
    )
  )
})

/** True if an operator started another sweep in the meantime. The pages of this run are still committed, but its progress is not. */
const isSuperseded = ({ sweep }: StreamState, { id }: Pick<Run, "id">): boolean => sweep !== null && sweep.id !== id

/**
 * Sets the watermark of the sweep at its first page. If the stream has no watermark yet, the stream gets the same watermark. From then on,
 * polls find the changes.
 */
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
  // C6: an empty poll may mean "no change" or "not supported"; a sweep that finds changes missed by polls shows the latter
  const hasMissed = !isSweepOnly(stream) && (run.missedByPolls ?? 0) > 0
  const { before, state } = yield* commitPage(stream, {
    results: [],
    run,
    isRefetch: false,
    endsRun: true,
    after: (state) => {
      // a confirmation may have called `markHiddenRecords` in the meantime
      const { confirmedTo: _, ...latest } = state.sweep?.id === run.id ? state.sweep : run
      const ended = { ...latest, watermark: state.sweep?.watermark ?? null, endedAt: now }
      const swept: StreamState = {
        ...state,
        backfilledAt: latest.backfill && latest.mustRepeat === true ? null : state.backfilledAt,
        sweep: isSuperseded(state, run) ? state.sweep : null,
        lastSweep: ended,
        ...hasMissed ? { pollsReturn: "nothing" } : {},
        ...isSweepOnly(stream) && !isUnpaged(stream) ? { pollsReturn: "everything" } : {}
      }
      const read = isSweepOnly(stream) ? advanceWatermark(swept, ended) : swept
      return isSweepOnly(stream) || sweepCompletesBackfill(run, state) ? markLive(read) : read
    }
  })
  const { mustRepeat, possibleGap } = state.lastSweep ?? run
  if (hasMissed && before.pollsReturn !== "nothing") yield* Metrics.pollFilterChanged(stream.key, "nothing")
  const kind = run.backfill ? "backfill" : "sweep"
  yield* Metrics.runEnded(stream.key, kind, mustRepeat === true ? "repeated" : "complete")
  if (!hasConsistentCounts(run.rowCounts)) yield* Metrics.runMiscounted(stream.key)
  const log = isSweepOnly(stream) && !run.backfill ? Effect.logDebug : Effect.logInfo
  yield* log(mustRepeat === true ? `${kind} may have skipped records; the list is read again` : `${kind} complete`)
    .pipe(
      annotate(stream.key, {
        records: run.rowCounts.read,
        pages: run.pages,
        took: Duration.format(Duration.millis(Math.max(0, now - run.startedAt))),
        ...mustRepeat === true && possibleGap !== undefined ? { why: gapReasons[possibleGap] } : {}
      })
    )
})

/**
 * For a stream without polls: moves the watermark as the end of a poll would. A sweep that may have skipped records does not move it; two
 * such sweeps in a row are enough, as for polls. The first sweep of several pages does not make the stream complete: a record may have moved
 * in front of its cursor unnoticed, and no poll shows that.
 */
const advanceWatermark = (state: StreamState, ended: NonNullable<StreamState["lastSweep"]>): StreamState => {
  const mayHaveSkipped = ended.pages > 1 && ended.possibleGap !== undefined
  const isMoved = !mayHaveSkipped || (ended.mustRepeat !== true && state.lastPoll?.possibleGap !== undefined)
  const isFirst = state.lastPoll === null && ended.pages > 1
  return {
    ...state,
    lastPoll: isMoved ? ended : { ...ended, mustRepeat: true },
    ...isMoved
      ? { previousWatermark: state.watermark, watermark: Math.max(state.watermark ?? 0, ended.watermark ?? 0) }
      : {},
    ...isFirst ? { previousWatermark: null } : {}
  }
}
