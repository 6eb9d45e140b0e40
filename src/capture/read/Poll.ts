/**
 * One incremental reading of a stream: everything that changed since the watermark before last.
 *
 * Invariants
 * 1. The watermark moves only in the transaction of the last page, only forward, only by the server's clock   (I6)
 * 2. Every change lies inside two complete polls: a record skipped by a drifting page is found by the next   (P1, W6)
 *
 * Gotchas
 * - `Date` of the *first* answer counts: what changes while the poll pages belongs to the next one (W1).
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { pageSize } from "../../api/Lists.ts"
import { isObject } from "../../domain/Canonical.ts"
import { estimateWatermark, parseTime } from "../../domain/Watermark.ts"
import type { Page, Source } from "../../source/Source.ts"
import type { Run, StreamState } from "../../store/State.ts"
import { Store } from "../../store/Store.ts"
import { releaseStaged } from "../guard/Release.ts"
import * as Metrics from "../Metrics.ts"
import { clearFailure, RunAborted } from "../schedule/StreamLifecycle.ts"
import {
  changeState,
  commitPage,
  countPage,
  hasConsistentCounts,
  newRun,
  readPages,
  type RunError,
  type Stream
} from "./Pages.ts"
import { resolveDisputes } from "./Refetch.ts"
import { markLive } from "./SweepPasses.ts"

const maxRestarts = 2

export const poll = Effect.fn("Poll.run")(function*(
  stream: Stream
): Effect.fn.Return<void, RunError, Store | Source> {
  for (let attempt = 0;; attempt++) {
    const ended = yield* attemptPoll(stream).pipe(
      // P5: a cursor that expired is refused; the reading starts anew from where it began.
      Effect.catchIf(
        (error) => error._tag === "SourceError" && error.reason._tag === "Rejected" && attempt < maxRestarts,
        () => Effect.succeed(null)
      )
    )
    if (ended !== null) return yield* resolveDisputes(stream, ended.id)
  }
})

const attemptPoll = Effect.fnUntraced(function*(stream: Stream) {
  const store = yield* Store
  const state = yield* store.stream(stream.key)
  if (state === null || state.previousWatermark === null) {
    return yield* new RunAborted({ message: "the stream has no watermark yet; its backfill comes first" })
  }
  const start = newRun(state, "poll", {
    updatedAfter: state.previousWatermark - Math.max(state.overlap, Duration.toMillis(stream.overlapMin)),
    startedAt: yield* Clock.currentTimeMillis,
    backfill: false
  })
  let clockOffsets = state.clockOffsets
  const commit = Effect.fnUntraced(function*(run: Run, page: Page) {
    let complete = run.watermark
    if (complete === null) {
      const clock = estimateWatermark(state.clockOffsets, page)
      complete = clock.watermark
      clockOffsets = clock.clockOffsets
      if (clock.isSkewed) yield* Metrics.clockSkewDetected(stream.key)
    }
    const watermark = complete
    const read: Run = { ...run, watermark, unfilteredRows: (run.unfilteredRows ?? 0) + countUnfilteredRows(run, page) }
    const endedAt = yield* Clock.currentTimeMillis
    const committed = yield* commitPage(stream, page.results, read, {
      decisive: false,
      finish: page.next !== null ?
        changeState((state) => state) :
        (tx, state, context, committed) => {
          const whole = countPage(read, committed)
          const polled: StreamState = {
            ...updatePollsReturn(clearFailure(state), whole),
            clockOffsets,
            previousWatermark: state.watermark,
            watermark: Math.max(state.watermark ?? watermark, watermark),
            lastPoll: { ...whole, endedAt }
          }
          return releaseStaged(tx, markLive(polled), context)
        }
    })
    return countPage(read, committed)
  })
  const { run } = yield* readPages(stream, start, {
    priority: "poll",
    commit,
    shouldYield: Effect.succeed(false)
  })
  const after = yield* store.stream(stream.key)
  if (after?.pollsReturn !== state.pollsReturn) yield* Metrics.pollFilterChanged(stream.key, after?.pollsReturn)
  yield* Metrics.runEnded(stream.key, "poll", "complete")
  if (!hasConsistentCounts(run.rowCounts)) yield* Metrics.runMiscounted(stream.key)
  yield* Effect.logDebug("poll complete").pipe(
    Effect.annotateLogs({ integration: stream.key.integration, model: stream.key.model, ...run.rowCounts })
  )
  return run
})

/** Rows that did not change since the poll's start of window: nested changes bring some, an ignored filter all. */
const countUnfilteredRows = ({ updatedAfter }: Run, page: Page): number =>
  page.results.filter((row) => isObject(row) && (parseTime(row["changed_at"]) ?? Infinity) < (updatedAfter ?? 0)).length

/** A list of one page is not worth a difference. */
const minRowsToJudge = pageSize.max

/** Whether the poll was answered what changed, or the whole list (W12). */
const updatePollsReturn = (
  state: StreamState,
  { rowCounts: { read }, watermark, unfilteredRows = 0 }: Run
): StreamState => {
  const { pollsReturn, ...rest } = state
  const isEverything = read > minRowsToJudge && unfilteredRows > 0.9 * read &&
    read >= 0.9 * (state.lastSweep?.rowCounts.read ?? 0)
  const found = isEverything ? "everything" : pollsReturn === "nothing" && read === 0 ? "nothing" : undefined
  return {
    ...rest,
    ...read > 0 && watermark !== null ? { lastNonEmptyPollAt: watermark } : {},
    ...found === undefined ? {} : { pollsReturn: found }
  }
}
