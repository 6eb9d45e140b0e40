/**
 * Whether a reading of a whole list may have skipped records, and whether the list has to be read again for that reason.
 *
 * A cursor may be a place in a list that moves: when a record that was already read moves to the end, or disappears, the
 * record right behind the cursor slides in front of it and is never shown. A *seam* is a point of a sweep where that may have
 * happened.
 *
 * Invariants
 * 1. A backfill is complete only after a pass without a seam; or after two passes that one process each read without a long
 *    pause; or, from the fourth pass on, after one that a single process read; and only after a poll that follows   (P9)
 * 2. A pass of a backfill is repeated, up to the fourth, if a confirm then shows more records than it showed
 * 3. Every other sweep is repeated at most once, and only after a restart or a long pause
 *
 * Gotchas
 * - A record that disappears, or that moves with a `changed_at` from before the sweep, leaves no seam.
 * - A list that fits on one page has no place at which anything could be skipped. It may still hide more than it shows.
 * - A sweep that begins again at the first page, because its cursor expired, is a pass of its own.
 */
import * as Duration from "effect/Duration"
import { isObject } from "../../domain/Canonical.ts"
import { parseTime } from "../../domain/Watermark.ts"
import type { Page } from "../../source/Source.ts"
import type { Run, StreamState } from "../../store/State.ts"
import type { Owner } from "../../store/Store.ts"

/** From one page to the next, ms. */
const maxPagePause = Duration.toMillis(Duration.minutes(5))
const requiredUninterruptedPasses = 2
const mostPasses = 4

const severity: Record<NonNullable<Run["possibleGap"]>, number> = { change: 1, pause: 2, hidden: 3, restart: 4 }

const worse = (a: Run["possibleGap"], b: Run["possibleGap"]): Run["possibleGap"] =>
  a === undefined || b === undefined ? a ?? b : severity[a] < severity[b] ? b : a

/** Between the page before and this one. */
const gapBefore = ({ lastPageAt, lastPageEpoch, pages }: Run, { epoch }: Owner, now: number): Run["possibleGap"] => {
  if (pages <= 1) return undefined
  if (lastPageEpoch !== epoch) return "restart"
  // a clock that was set back measures no pause
  return lastPageAt === undefined || Math.abs(now - lastPageAt) > maxPagePause ? "pause" : undefined
}

/** Whether it shows a record that changed after `complete`, or may have. */
const changedIn = ({ results }: Page, complete: number): boolean =>
  results.some((row) => isObject(row) && (parseTime(row["changed_at"]) ?? Infinity) > complete)

/**
 * The sweep with one more page. `complete`: the server's clock at its first answer, ms; `now`: our clock, ms; `newest`: the
 * stream's newest reading.
 */
export const addPage = (
  run: Run,
  page: Page,
  { complete, newest, now, owner }: {
    readonly complete: number
    readonly newest: number
    readonly now: number
    readonly owner: Owner
  }
): Run => {
  const change = changedIn(page, complete) ? "change" : undefined
  const possibleGap = worse(run.possibleGap, worse(change, gapBefore(run, owner, now)))
  const paged = { lastPageAt: now, lastPageEpoch: owner.epoch, newestRunAtLastPage: newest }
  const joined = { ...run, ...paged, ...possibleGap === undefined ? {} : { possibleGap } }
  if (page.next !== null) return joined
  const uninterruptedPasses = (run.uninterruptedPasses ?? 0) +
    (possibleGap === undefined || possibleGap === "change" ? 1 : 0)
  return { ...joined, uninterruptedPasses, mustRepeat: needsAnotherPass({ ...joined, uninterruptedPasses }) }
}

const needsAnotherPass = ({ backfill, uninterruptedPasses = 0, pages, pass = 1, possibleGap }: Run): boolean => {
  if (possibleGap === undefined || pages === 1) return false
  if (!backfill) return possibleGap !== "change" && pass === 1
  return possibleGap === "restart" || (uninterruptedPasses < requiredUninterruptedPasses && pass < mostPasses)
}

/**
 * The sweep once a confirm showed more records than all its pages: its list was cut short, or empty, and may have hidden others
 * that are not known yet.
 */
export const markHiddenRecords = (run: Run): Run => {
  if (!run.backfill) return run
  const { uninterruptedPasses = 0, pass = 1 } = run
  const wasCounted = run.possibleGap === undefined || run.possibleGap === "change"
  return {
    ...run,
    possibleGap: worse(run.possibleGap, "hidden") ?? "hidden",
    uninterruptedPasses: wasCounted ? uninterruptedPasses - 1 : uninterruptedPasses,
    mustRepeat: run.mustRepeat === true || pass < mostPasses
  }
}

/**
 * The stream once a poll that began after the last page of its backfill is complete, or where there was but one page. A record that
 * changed may have moved in front of the cursor, unread: that poll shows it.
 */
export const markLive = (state: StreamState): StreamState =>
  state.backfilledAt === null || state.sweep?.backfill === true ? state : { ...state, phase: "live" }

/** Whether nothing can be in front of the cursor that no poll has shown since. No clock tells: it could be set back   (W4). */
export const isCoveredByPoll = ({ newestRunAtLastPage, pages }: Run, { lastPoll }: StreamState): boolean =>
  pages === 1 || (lastPoll !== null && newestRunAtLastPage !== undefined && lastPoll.id > newestRunAtLastPage)

/** What a sweep that begins now knows of the passes before it. */
export const continuePasses = ({ lastSweep }: StreamState): Pick<Run, "pass" | "uninterruptedPasses"> =>
  lastSweep?.mustRepeat === true
    ? { pass: (lastSweep.pass ?? 1) + 1, uninterruptedPasses: lastSweep.uninterruptedPasses ?? 0 }
    : {}

/** Somebody asked for a sweep from the first page: it owes nothing to the passes before it. */
export const resetPasses = ({ lastSweep }: StreamState): Pick<StreamState, "lastSweep"> => ({
  lastSweep: lastSweep === null ? null : { ...lastSweep, mustRepeat: false }
})
