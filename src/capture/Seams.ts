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
import { isObject } from "../domain/Canonical.ts"
import { parseTime } from "../domain/Watermark.ts"
import type { Page } from "../source/Source.ts"
import type { Reading, StreamState } from "../store/State.ts"
import type { Owner } from "../store/Store.ts"

/** From one page to the next, ms. */
const longestPause = Duration.toMillis(Duration.minutes(5))
const passesInOneGo = 2
const mostPasses = 4

const severity: Record<NonNullable<Reading["seam"]>, number> = { change: 1, pause: 2, hidden: 3, restart: 4 }

const worse = (a: Reading["seam"], b: Reading["seam"]): Reading["seam"] =>
  a === undefined || b === undefined ? a ?? b : severity[a] < severity[b] ? b : a

/** Between the page before and this one. */
const seamBefore = ({ pagedAt, pagedBy, pages }: Reading, { epoch }: Owner, now: number): Reading["seam"] => {
  if (pages <= 1) return undefined
  if (pagedBy !== epoch) return "restart"
  // a clock that was set back measures no pause
  return pagedAt === undefined || Math.abs(now - pagedAt) > longestPause ? "pause" : undefined
}

/** Whether it shows a record that changed after `complete`, or may have. */
const changedIn = ({ results }: Page, complete: number): boolean =>
  results.some((row) => isObject(row) && (parseTime(row["changed_at"]) ?? Infinity) > complete)

/**
 * The sweep with one more page. `complete`: the server's clock at its first answer, ms; `now`: our clock, ms; `newest`: the
 * stream's newest reading.
 */
export const joined = (
  reading: Reading,
  page: Page,
  { complete, newest, now, owner }: {
    readonly complete: number
    readonly newest: number
    readonly now: number
    readonly owner: Owner
  }
): Reading => {
  const change = changedIn(page, complete) ? "change" : undefined
  const seam = worse(reading.seam, worse(change, seamBefore(reading, owner, now)))
  const paged = { pagedAt: now, pagedBy: owner.epoch, pagedAfter: newest }
  const joined = { ...reading, ...paged, ...seam === undefined ? {} : { seam } }
  if (page.next !== null) return joined
  const inOneGo = (reading.inOneGo ?? 0) + (seam === undefined || seam === "change" ? 1 : 0)
  return { ...joined, inOneGo, again: isRepeated({ ...joined, inOneGo }) }
}

const isRepeated = ({ backfill, inOneGo = 0, pages, pass = 1, seam }: Reading): boolean => {
  if (seam === undefined || pages === 1) return false
  if (!backfill) return seam !== "change" && pass === 1
  return seam === "restart" || (inOneGo < passesInOneGo && pass < mostPasses)
}

/**
 * The sweep once a confirm showed more records than all its pages: its list was cut short, or empty, and may have hidden others
 * that are not known yet.
 */
export const hiding = (reading: Reading): Reading => {
  if (!reading.backfill) return reading
  const { inOneGo = 0, pass = 1 } = reading
  const wasCounted = reading.seam === undefined || reading.seam === "change"
  return {
    ...reading,
    seam: worse(reading.seam, "hidden") ?? "hidden",
    inOneGo: wasCounted ? inOneGo - 1 : inOneGo,
    again: reading.again === true || pass < mostPasses
  }
}

/**
 * The stream once a poll that began after the last page of its backfill is complete, or where there was but one page. A record that
 * changed may have moved in front of the cursor, unread: that poll shows it.
 */
export const settled = (state: StreamState): StreamState =>
  state.backfilledAt === null || state.sweep?.backfill === true ? state : { ...state, phase: "live" }

/** Whether nothing can be in front of the cursor that no poll has shown since. No clock tells: it could be set back   (W4). */
export const isOvertaken = ({ pagedAfter, pages }: Reading, { lastPoll }: StreamState): boolean =>
  pages === 1 || (lastPoll !== null && pagedAfter !== undefined && lastPoll.id > pagedAfter)

/** What a sweep that begins now knows of the passes before it. */
export const following = ({ lastSweep }: StreamState): Pick<Reading, "pass" | "inOneGo"> =>
  lastSweep?.again === true ? { pass: (lastSweep.pass ?? 1) + 1, inOneGo: lastSweep.inOneGo ?? 0 } : {}

/** Somebody asked for a sweep from the first page: it owes nothing to the passes before it. */
export const afresh = ({ lastSweep }: StreamState): Pick<StreamState, "lastSweep"> => ({
  lastSweep: lastSweep === null ? null : { ...lastSweep, again: false }
})
