/**
 * Polls a stream. A poll requests the records that changed since the *previous* watermark minus the overlap, so every change is read by
 * two complete polls. When the last page is committed, the current watermark becomes the previous one, and the server time of the first
 * response becomes the current one.
 *
 * Invariants
 * 1. A poll moves the watermark only in the transaction of its last page, only forward, and only by the server's clock   (I6).
 *    For sweeps, see `Sweep.ts`; for rewinds, which move it back, see `StreamCommands.ts`
 * 2. Two complete polls cover every change: if a shifting page hides a record from one poll, the next poll finds the record   (P1, W6)
 * 3. If a record is on two pages of a poll, the list moved while it was read, and the poll may have skipped another record. Such a poll
 *    does not move the watermark, so the next poll reads the same changes again. Two such polls in a row are enough: the second one moves
 *    the watermark   (P1, W6)
 *
 * Gotchas
 * - If a poll ends early, because the API fails, the list has a loop or too many rows are unreadable (S2), the watermark does not move, and
 *   the committed pages stay.
 * - The watermark comes from the `Date` of the *first* response. The next poll finds changes that are made while this poll reads its
 *   pages (W1).
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { pageSizeLimits } from "../../api/Lists.ts"
import { pollOverlap } from "../../domain/Lateness.ts"
import { estimateWatermark, parseTime } from "../../domain/Watermark.ts"
import type { Page, Source } from "../../source/Source.ts"
import type { Run } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import { Store } from "../../store/Store.ts"
import * as Tracing from "../../telemetry/Tracing.ts"
import { commitPage, type PageCounts } from "../commit/PageCommit.ts"
import { hasConsistentCounts } from "../commit/RunHistory.ts"
import * as Metrics from "../Metrics.ts"
import { annotate, type RunError, spanAttributes, type Stream } from "../Stream.ts"
import { clearFailure, newRun, RunAborted } from "../StreamLifecycle.ts"
import { countPage, readPages } from "./Pages.ts"
import { resolveDisputes } from "./Refetch.ts"
import { markLive, pollCompletesBackfill } from "./SweepPasses.ts"

const maxRestarts = 2

/**
 * `known`: the stream's state as this process last read or wrote it; null if the state must be read from the store. Returns the new state
 * if the poll read nothing and the stream has nothing pending, stale or held; null if other work may follow.
 */
export const poll = (
  stream: Stream,
  known: StreamState | null = null
): Effect.Effect<StreamState | null, RunError, Store | Source> =>
  Tracing.inTrace("poll", spanAttributes(stream.key))(pollFrom(stream, known))

const pollFrom = Effect.fnUntraced(function*(stream: Stream, known: StreamState | null) {
  for (let attempt = 0;; attempt++) {
    const ended = yield* attemptPoll(stream, attempt === 0 ? known : null).pipe(
      // P5: the API rejects an expired cursor; the poll starts again from its first page.
      Effect.catchIf(
        (error) => error._tag === "SourceError" && error.reason._tag === "Rejected" && attempt < maxRestarts,
        () => Effect.succeed(null)
      )
    )
    if (ended === null) continue
    if (ended.quietState === null) yield* resolveDisputes(stream, ended.run.id)
    return ended.quietState
  }
})

const attemptPoll = Effect.fnUntraced(function*(stream: Stream, known: StreamState | null) {
  const store = yield* Store
  const state = known ?? (yield* store.stream(stream.key))
  if (state === null || state.previousWatermark === null) {
    return yield* new RunAborted({
      message: "the stream has no watermark yet; it can be polled once its backfill has started"
    })
  }
  const start = newRun(state, "poll", {
    updatedAfter: state.previousWatermark - pollOverlap(state.overlap, stream.minOverlap),
    startedAt: yield* Clock.currentTimeMillis,
    backfill: false
  })
  const addPage = (run: Run, counts: PageCounts): Run => ({
    ...countPage(run, counts),
    ...counts.alreadyRead > 0 ? { possibleGap: "change", mustRepeat: state.lastPoll?.mustRepeat !== true } : {}
  })
  let clockOffsets = state.clockOffsets
  let quietState: StreamState | null = null
  const commit = Effect.fnUntraced(function*(run: Run, page: Page) {
    const isLast = page.next === null
    const estimate = run.watermark === null
      ? estimateWatermark(state.clockOffsets, page)
      : { watermark: run.watermark, clockOffsets, isSkewed: false }
    const { watermark } = estimate
    clockOffsets = estimate.clockOffsets
    if (estimate.isSkewed) yield* Metrics.clockSkewDetected(stream.key)
    const read: Run = { ...run, watermark, unfilteredRows: (run.unfilteredRows ?? 0) + countUnfilteredRows(run, page) }
    const endedAt = yield* Clock.currentTimeMillis
    const endPoll = (state: StreamState, latest: Run): StreamState => {
      const ended: StreamState = {
        ...updateFilterBehavior(clearFailure(state), latest),
        clockOffsets,
        lastPoll: { ...latest, endedAt }
      }
      const moved: StreamState = latest.mustRepeat === true ? ended : {
        ...ended,
        previousWatermark: state.watermark,
        watermark: Math.max(state.watermark ?? watermark, watermark)
      }
      return pollCompletesBackfill(latest, state) ? markLive(moved) : moved
    }
    const committed = yield* commitPage(stream, {
      results: page.results,
      shownBy: page,
      run: read,
      isRefetch: false,
      endsRun: isLast,
      known: state,
      after: (state, counts) => isLast ? endPoll(state, addPage(read, counts)) : state
    })
    if (committed.isQuiet) quietState = committed.state
    const { pollsReturn } = committed.state
    if (pollsReturn !== committed.before.pollsReturn) yield* Metrics.pollFilterChanged(stream.key, pollsReturn)
    return addPage(read, committed)
  })
  const { run } = yield* readPages(stream, start, {
    priority: "poll",
    commit,
    shouldYield: Effect.succeed(false)
  })
  yield* Metrics.runEnded(stream.key, "poll", run.mustRepeat === true ? "repeated" : "complete")
  if (!hasConsistentCounts(run.rowCounts)) yield* Metrics.runMiscounted(stream.key)
  yield* Effect.logDebug(
    run.mustRepeat === true ? "poll may have skipped records; the changes are read again" : "poll complete"
  ).pipe(annotate(stream.key, { ...run.rowCounts }))
  return { run, quietState }
})

/**
 * Rows with a `changed_at` before `updatedAfter`. Nested changes cause a few such rows. If the API ignores the filter, nearly all rows
 * are such rows.
 */
const countUnfilteredRows = ({ updatedAfter }: Run, page: Page): number =>
  page.results.filter((row) => row.isObject && (parseTime(row.changedAt) ?? Infinity) < (updatedAfter ?? 0)).length

/** A poll with at most this many rows, one page, is not judged: it would cost the same without the filter. */
const maxInconclusiveRows = pageSizeLimits.max

/**
 * Stores what the filter `updated_after` returned in this poll: the changed records, the whole list, or nothing again after a sweep
 * found changes that polls did not return (W12).
 */
const updateFilterBehavior = (
  state: StreamState,
  { rowCounts: { read }, watermark, unfilteredRows = 0 }: Run
): StreamState => {
  const { pollsReturn, ...rest } = state
  const isEverything = read > maxInconclusiveRows && unfilteredRows > 0.9 * read &&
    read >= 0.9 * (state.lastSweep?.rowCounts.read ?? 0)
  const filterBehavior = isEverything ? "everything" : pollsReturn === "nothing" && read === 0 ? "nothing" : undefined
  return {
    ...rest,
    ...read > 0 && watermark !== null ? { lastNonEmptyPollAt: watermark } : {},
    ...filterBehavior === undefined ? {} : { pollsReturn: filterBehavior }
  }
}
