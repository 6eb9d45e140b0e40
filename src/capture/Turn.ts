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
import type { Reading, StreamState } from "../store/State.ts"
import { isWhole, type Stream } from "./Pages.ts"
import { restAfter } from "./StreamState.ts"

/** Moments are of our clock, ms. */
export type Turn =
  | { readonly turn: "poll" }
  /** `anew`: from the first page, whatever was left open. */
  | { readonly turn: "sweep"; readonly anew: boolean; readonly until: number }
  | { readonly turn: "refresh"; readonly until: number }
  | { readonly turn: "rest"; readonly until: number }

/** What decides beside the stream's state, and stands in no store. */
export interface InTurn extends Pick<Stream, "key" | "settings"> {
  /** An operator wants it read now. */
  readonly pollAsked: boolean
  /** Tried last. */
  readonly last: Reading["kind"]
  /** What the last refresh left to do. */
  readonly owes: "done" | "more" | "sweep"
  /** Share of its intervals by which this round is longer: streams that began together drift apart. */
  readonly jitter: number
}

/** Longest the API remembers deletes. */
const memory = Duration.toMillis(Duration.days(14))
/** Polls that read the whole list come this much less often (W12). */
const gentle = 10
/** Sweeps that have to find what polls cannot come this much more often (C6). */
const hurried = 6

const due = (stream: InTurn, state: StreamState, now: number) => {
  const interval = Duration.toMillis(stream.settings.interval) * (1 + stream.jitter)
  const past = (time: number) => time > now ? -Infinity : time
  const sweptAt = past(state.lastSweep?.endedAt ?? -Infinity)
  if (isWhole(stream)) {
    return { pollAt: Infinity, sweepAt: state.sweep === null ? sweptAt + interval : -Infinity, away: false }
  }
  const sweepInterval = Duration.toMillis(stream.settings.sweepInterval) * (1 + stream.jitter) /
    (state.polls === "nothing" ? hurried : 1)
  const lastRead = past(state.lastPoll?.endedAt ?? state.sweep?.startedAt ?? state.lastSweep?.endedAt ?? now)
  const pollAt = state.watermark === null
    ? now + interval
    : lastRead + interval * (state.polls === "everything" ? gentle : 1)
  const isOwed = state.sweep !== null || state.backfilledAt === null || state.lastSweep?.again === true
  const sweepAt = state.watermark === null || isOwed || stream.owes === "sweep" ? -Infinity : sweptAt + sweepInterval
  const ended = Math.max(state.lastPoll?.endedAt ?? 0, state.lastSweep?.endedAt ?? 0)
  const away = state.watermark !== null && now - (ended || (state.sweep?.startedAt ?? now)) > memory
  return { pollAt, sweepAt, away }
}

/** Whatever is most urgent. */
export const nextTurn = (stream: InTurn, state: StreamState, now: number): Turn => {
  const { away, pollAt, sweepAt } = due(stream, state, now)
  const instead = sweepAt <= now && state.failing !== null && stream.last === "poll"
  const polls = stream.pollAsked || (pollAt <= now && !instead)
  // of a sweep that was left open so long ago nobody knows what became of the records it has met
  const anew = away && now - (state.sweep?.startedAt ?? now) > memory
  // one bad page of the sweep that comes first keeps no poll away: begun anew, it will be read to its end
  const isStuck = state.failing !== null && state.sweep !== null && !anew && stream.last === "sweep"
  if (polls && (!away || isStuck) && state.watermark !== null && !isWhole(stream)) return { turn: "poll" }
  if (sweepAt <= now || away || stream.pollAsked) {
    const yields = instead ? now + Duration.toMillis(stream.settings.interval) : pollAt
    return { turn: "sweep", anew, until: away ? Infinity : yields }
  }
  if (stream.owes === "more") return { turn: "refresh", until: pollAt }
  return { turn: "rest", until: Math.min(pollAt, sweepAt) }
}

/** When a stream that cannot be read is tried again, ms. A sweep that fails delays no poll (R3). */
export const retryAt = (stream: InTurn, state: StreamState, now: number): number => {
  const rested = now + restAfter(state, stream.settings.interval)
  const delaysPolls = stream.last === "sweep" && state.failing !== null && state.watermark !== null
  return delaysPolls ? Math.min(rested, due(stream, state, now).pollAt) : rested
}
