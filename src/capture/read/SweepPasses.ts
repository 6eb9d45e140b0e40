/**
 * Decides whether a sweep may have skipped records, and whether the list must therefore be read again.
 *
 * A cursor may be a position in a list that shifts. If a record that was already read moves to the end or disappears, the next unread
 * record slides to a position that the cursor has passed, and is never returned. A *possible gap* is a point of a sweep at which this may
 * have happened. Of several possible gaps, a pass remembers the one that is lowest in this table:
 *
 * | possible gap | between two pages or in a page of the pass |
 * |---|---|
 * | `change` | a record changed after the sweep started |
 * | `pause` | more than five minutes passed |
 * | `hidden` | the confirmation of missing records (`Absence.ts`) found more records than all pages contained |
 * | `restart` | another process took over |
 *
 * A pass is uninterrupted if its possible gap is `change` or none. A pass is the last one if one of these is true (P9, W6: records slide
 * past the cursor):
 *
 * | sweep | the pass is the last one |
 * |---|---|
 * | any | it has no possible gap, or the list has one page and its possible gap is `change` |
 * | a backfill | it is the second uninterrupted pass |
 * | a backfill | it is the fourth pass or a later one, and has no `restart` |
 * | any other | its possible gap is `change`, or it is the second pass |
 *
 * The backfill is complete once a poll that started after the last pass is complete. If that poll may have skipped records too, the backfill
 * is complete after the next poll.
 *
 * Gotchas
 * - A possible gap is not noticed if a record disappears, or moves with a `changed_at` from before the sweep.
 * - A list of one page has no point at which a record could be skipped. It may still hide records.
 * - If the cursor of a sweep expires, the sweep starts again at its first page. That is not a further pass.
 */
import * as Duration from "effect/Duration"
import { parseTime } from "../../domain/Watermark.ts"
import type { Page } from "../../source/Source.ts"
import type { Run } from "../../store/Run.ts"
import type { Owner, StreamState } from "../../store/State.ts"

/** Longest time between two pages that is not a pause, in ms. */
const maxPagePause = Duration.toMillis(Duration.minutes(5))
const requiredUninterruptedPasses = 2
const maxPassesUnlessRestarted = 4

const severity: Record<NonNullable<Run["possibleGap"]>, number> = { change: 1, pause: 2, hidden: 3, restart: 4 }

const worse = (a: Run["possibleGap"], b: Run["possibleGap"]): Run["possibleGap"] =>
  a === undefined || b === undefined ? a ?? b : severity[a] < severity[b] ? b : a

/** Compares the scopes too: each scope counts its epochs from 1, and another version may divide the streams into other scopes. */
const isSameOwner = (a: Run["lastPageOwner"], b: Owner): boolean => a?.scope === b.scope && a.epoch === b.epoch

/** The possible gap between the previous page and this one. */
const gapBefore = ({ lastPageAt, lastPageOwner, pages }: Run, owner: Owner, now: number): Run["possibleGap"] => {
  if (pages <= 1) return undefined
  if (!isSameOwner(lastPageOwner, owner)) return "restart"
  // if the clock was set back, the length of the pause is unknown: a large step counts as a pause
  return lastPageAt === undefined || Math.abs(now - lastPageAt) > maxPagePause ? "pause" : undefined
}

/** True if the page contains a record that changed, or may have changed, after the sweep's watermark. */
const changedIn = ({ results }: Page, watermark: number): boolean =>
  results.some((row) => row.isObject && (parseTime(row.changedAt) ?? Infinity) > watermark)

/**
 * Adds a page to the sweep.
 *
 * `watermark`: the server time of the sweep's first response, in ms. `now`: our clock, in ms. `newestRun`: the id of the stream's newest run.
 */
export const addPage = (
  run: Run,
  page: Page,
  { newestRun, now, owner, watermark }: {
    readonly watermark: number
    readonly newestRun: number
    readonly now: number
    readonly owner: Owner
  }
): Run => {
  const change = changedIn(page, watermark) ? "change" : undefined
  const possibleGap = worse(run.possibleGap, worse(change, gapBefore(run, owner, now)))
  const paged = { lastPageAt: now, lastPageOwner: owner, newestRunAtLastPage: newestRun }
  const extended = { ...run, ...paged, ...possibleGap === undefined ? {} : { possibleGap } }
  if (page.next !== null) return extended
  const uninterruptedPasses = (run.uninterruptedPasses ?? 0) +
    (possibleGap === undefined || possibleGap === "change" ? 1 : 0)
  return { ...extended, uninterruptedPasses, mustRepeat: needsAnotherPass({ ...extended, uninterruptedPasses }) }
}

const needsAnotherPass = ({ backfill, uninterruptedPasses = 0, pages, pass = 1, possibleGap }: Run): boolean => {
  if (possibleGap === undefined || pages === 1) return false
  if (!backfill) return possibleGap !== "change" && pass === 1
  return possibleGap === "restart" ||
    (uninterruptedPasses < requiredUninterruptedPasses && pass < maxPassesUnlessRestarted)
}

/** Marks a backfill whose list was incomplete or empty, and which may therefore have hidden records that are not known yet. */
export const markHiddenRecords = (run: Run): Run => {
  if (!run.backfill) return run
  const { uninterruptedPasses = 0, pass = 1 } = run
  const wasCounted = run.possibleGap === undefined || run.possibleGap === "change"
  return {
    ...run,
    possibleGap: worse(run.possibleGap, "hidden") ?? "hidden",
    uninterruptedPasses: wasCounted ? uninterruptedPasses - 1 : uninterruptedPasses,
    mustRepeat: run.mustRepeat === true || pass < maxPassesUnlessRestarted
  }
}

/** Makes a stream live if its passes are over. The caller has checked `sweepCompletesBackfill` or `pollCompletesBackfill`. */
export const markLive = (state: StreamState): StreamState =>
  state.backfilledAt === null || state.sweep?.backfill === true ? state : { ...state, phase: "live" }

/** Run ids are compared instead of times, because a clock may be set back   (W4). */
const startedAfter = ({ id }: Pick<Run, "id">, { newestRunAtLastPage = 0 }: Run): boolean => id > newestRunAtLastPage

/**
 * True if the end of this sweep completes the backfill: its list has one page, or the poll after its last page is already complete. A poll
 * with a possible gap does not count: a record may have moved past its cursor too.
 */
export const sweepCompletesBackfill = (sweep: Run, { lastPoll }: StreamState): boolean =>
  sweep.pages === 1 || (lastPoll !== null && lastPoll.possibleGap === undefined && startedAfter(lastPoll, sweep))

/** True if the end of this poll completes the backfill: it has no possible gap, or an earlier poll followed the last pass too. */
export const pollCompletesBackfill = (latest: Run, { lastPoll, lastSweep }: StreamState): boolean =>
  latest.possibleGap === undefined || lastSweep?.backfill !== true ||
  (lastPoll !== null && startedAfter(lastPoll, lastSweep))

/** Pass numbers for a new sweep, from the sweep before it. */
export const continuePasses = ({ lastSweep }: StreamState): Pick<Run, "pass" | "uninterruptedPasses"> =>
  lastSweep?.mustRepeat === true
    ? { pass: (lastSweep.pass ?? 1) + 1, uninterruptedPasses: lastSweep.uninterruptedPasses ?? 0 }
    : {}

/** Resets the pass count, because an operator requested a new sweep from the first page. */
export const resetPasses = ({ lastSweep }: StreamState): Pick<StreamState, "lastSweep"> => ({
  lastSweep: lastSweep === null ? null : { ...lastSweep, mustRepeat: false }
})
