/**
 * Chooses the next step of a stream from its state and the time: a poll, a sweep, a refresh of stale records, or waiting.
 *
 * Invariants
 * 1. A stream that was not read for longer than the API remembers deletes is swept before it is polled   (W11)
 * 2. A sweep yields to a poll that is due and continues after it, so that long sweeps do not delay changes
 * 3. After a poll, failed or not, a due sweep is next. It reads at least one page, and continues for at least half the time that the poll
 *    took with its confirmations and its refresh. So the sweep gets at least a third of the time, even if each poll takes longer than the
 *    interval: one pass ends after at most three times the time that it reads, plus one poll   (R5: slow polls)
 *    A sweep delays a poll by at most half the duration of the previous poll, plus the pages in progress. After a failed poll, it delays the
 *    next one by at most an interval
 * 4. Polls that always fail do not prevent sweeps, and sweeps that always fail do not prevent polls
 * 5. If a run ended in the future, our clock was set back: the stream does not wait until the clock has caught up   (W4)
 */
import * as Duration from "effect/Duration"
import type { Run } from "../../store/Run.ts"
import type { StreamState } from "../../store/State.ts"
import type { RefreshOutcome } from "../read/Refresh.ts"
import { isSweepOnly, isUnpaged, type Stream } from "../Stream.ts"
import { backoffDelay } from "../StreamLifecycle.ts"

/** All times are by our clock, in ms. */
export type NextStep =
  | { readonly kind: "poll" }
  /** `fromFirstPage`: true if an open sweep is not resumed. `until`: when the sweep yields. */
  | { readonly kind: "sweep"; readonly fromFirstPage: boolean; readonly until: number }
  | { readonly kind: "refresh"; readonly until: number }
  | { readonly kind: "wait"; readonly until: number }

/** Input for the choice that is not in the stored state of the stream. */
export interface StepInput extends Pick<Stream, "processing" | "settings"> {
  /** An operator requested a poll. */
  readonly pollRequested: boolean
  /** Kind of the latest run, whether it failed or not. */
  readonly lastTried: Run["kind"]
  /** How long the latest poll took, with its confirmations and its refresh, in ms; 0 if there was none. */
  readonly pollTook: number
  /** Result of the last refresh. */
  readonly refreshOutcome: RefreshOutcome
  /**
   * Relative change of the intervals for this step (0.1 for 10 % longer), so that streams that started together do not stay synchronized.
   */
  readonly jitter: number
}

/** The least time for a due sweep between two polls, as a part of the time that the first one took. */
const sweepShare = 0.5
/** How long the API returns deleted records. */
const deleteRetention = Duration.toMillis(Duration.days(14))
/** Factor by which polls run less often if they return the whole list (W12), and by which a list that is never polled is swept less often. */
const unfilteredFactor = 10
/** Factor by which sweeps run more often if polls return nothing (C6). */
const emptyPollSweepFactor = 6

/** How long after the end of a sweep the next one is due, in ms. */
export const sweepIntervalOf = (
  stream: Pick<StepInput, "jitter" | "processing"> & {
    readonly settings: Pick<StepInput["settings"], "interval" | "sweepInterval">
  },
  { pollsReturn }: Pick<StreamState, "pollsReturn">
): number => {
  const longest = Duration.toMillis(stream.settings.sweepInterval)
  if (!isSweepOnly(stream)) {
    return longest * (1 + stream.jitter) / (pollsReturn === "nothing" ? emptyPollSweepFactor : 1)
  }
  const interval = Duration.toMillis(stream.settings.interval) * (1 + stream.jitter)
  return isUnpaged(stream) ? interval : Math.min(interval * unfilteredFactor, longest)
}

/** `unreadTooLong`: the API may no longer show deletes since the last run, so the stream must be swept first. */
const due = (stream: StepInput, state: StreamState, now: number) => {
  const interval = Duration.toMillis(stream.settings.interval) * (1 + stream.jitter)
  const unlessInFuture = (time: number) => time > now ? -Infinity : time
  const sweptAt = unlessInFuture(state.lastSweep?.endedAt ?? -Infinity)
  const mustSweep = state.sweep !== null || state.backfilledAt === null || state.lastSweep?.mustRepeat === true
  const sweepInterval = sweepIntervalOf(stream, state)
  if (isSweepOnly(stream)) {
    return { pollAt: Infinity, sweepAt: mustSweep ? -Infinity : sweptAt + sweepInterval, unreadTooLong: false }
  }
  const lastRead = unlessInFuture(state.lastPoll?.endedAt ?? state.sweep?.startedAt ?? state.lastSweep?.endedAt ?? now)
  const pollAt = state.watermark === null
    ? now + interval
    : lastRead + interval * (state.pollsReturn === "everything" ? unfilteredFactor : 1)
  const sweepAt = state.watermark === null || mustSweep || stream.refreshOutcome === "sweep"
    ? -Infinity
    : sweptAt + sweepInterval
  const ended = Math.max(state.lastPoll?.endedAt ?? 0, state.lastSweep?.endedAt ?? 0)
  const unreadTooLong = state.watermark !== null && now - (ended || (state.sweep?.startedAt ?? now)) > deleteRetention
  return { pollAt, sweepAt, unreadTooLong }
}

/** The most urgent step. */
export const nextStep = (stream: StepInput, state: StreamState, now: number): NextStep => {
  const { unreadTooLong, pollAt, sweepAt } = due(stream, state, now)
  const sweepsNext = sweepAt <= now && stream.lastTried === "poll"
  const polls = stream.pollRequested || (pollAt <= now && !sweepsNext)
  // If the sweep was opened more than 14 days ago, the API may no longer show deletes of records that the sweep has already read.
  const fromFirstPage = unreadTooLong && now - (state.sweep?.startedAt ?? now) > deleteRetention
  // A mandatory sweep that keeps failing at one page must not block polling. A sweep from the first page is not stuck.
  const isStuck = state.failing !== null && state.sweep !== null && !fromFirstPage && stream.lastTried === "sweep"
  if (polls && (!unreadTooLong || isStuck) && state.watermark !== null && !isSweepOnly(stream)) return { kind: "poll" }
  if (sweepAt <= now || unreadTooLong || stream.pollRequested) {
    const interval = state.failing === null ? 0 : Duration.toMillis(stream.settings.interval)
    const yields = sweepsNext ? Math.max(pollAt, now + Math.max(interval, stream.pollTook * sweepShare)) : pollAt
    return { kind: "sweep", fromFirstPage, until: unreadTooLong ? Infinity : yields }
  }
  if (stream.refreshOutcome === "more") return { kind: "refresh", until: pollAt }
  return { kind: "wait", until: Math.min(pollAt, sweepAt) }
}

/** Time of the next attempt after a failure, in ms. A failing sweep does not delay polls, if a poll is what follows (R3). */
export const retryAt = (stream: StepInput, state: StreamState, now: number): number => {
  const afterBackoff = now + backoffDelay(state, stream.settings.interval)
  const isFailedSweep = stream.lastTried === "sweep" && state.failing !== null && state.watermark !== null
  if (!isFailedSweep) return afterBackoff
  const pollAt = Math.max(now, due(stream, state, now).pollAt)
  return pollAt < afterBackoff && nextStep(stream, state, pollAt).kind === "poll" ? pollAt : afterBackoff
}
