/**
 * What a stream does next, out of its state and the time: a poll, a sweep, the refresh of records, or nothing for a while.
 *
 * Invariants
 * 1. A stream that was away for longer than the API remembers deletes sweeps before it polls   (W11)
 * 2. A sweep gives way to a poll that is due and goes on after it: freshness does not suffer from long readings
 * 3. After a failure it is the other's turn, where both are due: where polls fail for ever the list may be read all the
 *    same, and where sweeps do the changes
 * 4. What ended in the future ended before our clock was set back: nobody waits until it has caught up   (W4)
 */
import * as Duration from "effect/Duration"
import type { Run, StreamState } from "../../store/State.ts"
import { isSweepOnly, type Stream } from "../read/Pages.ts"
import { backoffDelay } from "./StreamLifecycle.ts"

/** Moments are of our clock, ms. */
export type NextStep =
  | { readonly kind: "poll" }
  /** `anew`: from the first page, whatever was left open. */
  | { readonly kind: "sweep"; readonly fromFirstPage: boolean; readonly until: number }
  | { readonly kind: "refresh"; readonly until: number }
  | { readonly kind: "wait"; readonly until: number }

/** What decides beside the stream's state, and stands in no store. */
export interface StepInput extends Pick<Stream, "key" | "settings"> {
  /** An operator wants it read now. */
  readonly pollRequested: boolean
  /** Tried last. */
  readonly lastTried: Run["kind"]
  /** What the last refresh left to do. */
  readonly refreshOutcome: "done" | "more" | "sweep"
  /** Share of its intervals by which this round is longer: streams that began together drift apart. */
  readonly jitter: number
}

/** Longest the API remembers deletes. */
const deleteRetention = Duration.toMillis(Duration.days(14))
/** Polls that read the whole list come this much less often (W12). */
const unfilteredPollFactor = 10
/** Sweeps that have to find what polls cannot come this much more often (C6). */
const emptyPollSweepFactor = 6

const due = (stream: StepInput, state: StreamState, now: number) => {
  const interval = Duration.toMillis(stream.settings.interval) * (1 + stream.jitter)
  const past = (time: number) => time > now ? -Infinity : time
  const sweptAt = past(state.lastSweep?.endedAt ?? -Infinity)
  if (isSweepOnly(stream)) {
    return { pollAt: Infinity, sweepAt: state.sweep === null ? sweptAt + interval : -Infinity, away: false }
  }
  const sweepInterval = Duration.toMillis(stream.settings.sweepInterval) * (1 + stream.jitter) /
    (state.pollsReturn === "nothing" ? emptyPollSweepFactor : 1)
  const lastRead = past(state.lastPoll?.endedAt ?? state.sweep?.startedAt ?? state.lastSweep?.endedAt ?? now)
  const pollAt = state.watermark === null
    ? now + interval
    : lastRead + interval * (state.pollsReturn === "everything" ? unfilteredPollFactor : 1)
  const mustSweep = state.sweep !== null || state.backfilledAt === null || state.lastSweep?.mustRepeat === true
  const sweepAt = state.watermark === null || mustSweep || stream.refreshOutcome === "sweep"
    ? -Infinity
    : sweptAt + sweepInterval
  const ended = Math.max(state.lastPoll?.endedAt ?? 0, state.lastSweep?.endedAt ?? 0)
  const away = state.watermark !== null && now - (ended || (state.sweep?.startedAt ?? now)) > deleteRetention
  return { pollAt, sweepAt, away }
}

/** Whatever is most urgent. */
export const nextStep = (stream: StepInput, state: StreamState, now: number): NextStep => {
  const { away, pollAt, sweepAt } = due(stream, state, now)
  const sweepInstead = sweepAt <= now && state.failing !== null && stream.lastTried === "poll"
  const polls = stream.pollRequested || (pollAt <= now && !sweepInstead)
  // of a sweep that was left open so long ago nobody knows what became of the records it has met
  const fromFirstPage = away && now - (state.sweep?.startedAt ?? now) > deleteRetention
  // one bad page of the sweep that comes first keeps no poll away: begun anew, it will be read to its end
  const isStuck = state.failing !== null && state.sweep !== null && !fromFirstPage && stream.lastTried === "sweep"
  if (polls && (!away || isStuck) && state.watermark !== null && !isSweepOnly(stream)) return { kind: "poll" }
  if (sweepAt <= now || away || stream.pollRequested) {
    const yields = sweepInstead ? now + Duration.toMillis(stream.settings.interval) : pollAt
    return { kind: "sweep", fromFirstPage, until: away ? Infinity : yields }
  }
  if (stream.refreshOutcome === "more") return { kind: "refresh", until: pollAt }
  return { kind: "wait", until: Math.min(pollAt, sweepAt) }
}

/** When a stream that cannot be read is tried again, ms. A sweep that fails delays no poll (R3). */
export const retryAt = (stream: StepInput, state: StreamState, now: number): number => {
  const rested = now + backoffDelay(state, stream.settings.interval)
  const delaysPolls = stream.lastTried === "sweep" && state.failing !== null && state.watermark !== null
  return delaysPolls ? Math.min(rested, due(stream, state, now).pollAt) : rested
}
