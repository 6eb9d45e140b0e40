/**
 * The condition of a stream: its state in one word, and its freshness against its target.
 *
 * Invariants
 * 1. A stream whose freshness exceeds its target is `late`, whatever the reason, unless its state already says why: `blocked`, `paused`,
 *    `failing` or `backfilling`
 */
import { elapsedText } from "../../domain/ElapsedText.ts"
import type { IntegrationView } from "../contract/Api.ts"
import type { streamStates } from "../contract/OverviewApi.ts"
import type { StreamView } from "../contract/StreamApi.ts"

export interface Condition {
  readonly stream: StreamView
  readonly state: (typeof streamStates)[number]
  /** Why it is blocked or failing, as text; null in other states. */
  readonly message: string | null
  /** The message, or the failure that opened the circuit; "" in other states. Equal for all streams with the same cause. */
  readonly cause: string
  /** Since when it is blocked, failing or late; null in other states. RFC 3339. */
  readonly since: string | null
  /** The stream is late if its freshness exceeds this, in seconds. */
  readonly target: number
  /**
   * The age of the last complete sweep, divided by its target: above 1 the sweep is late, and deletes and nested changes are found late.
   * Null for a stream that is paused, blocked or backfilling, or was never swept. Null too for a stream that is only swept and never polled:
   * there a late sweep already makes the freshness exceed its target.
   */
  readonly sweepLateness: number | null
  /** The late sweep as a sentence; null if the sweep is not late. */
  readonly lateSweep: string | null
  /** False while it waits for its first response of the API. A blocked or paused stream counts as started. */
  readonly hasStarted: boolean
}

/** How many intervals of its polls a stream may be behind. */
const intervalsBehind = 3
/** In seconds. */
const leastTarget = 120
/** How many sweep intervals the last complete sweep of a stream may be old. */
const sweepIntervalsBehind = 2
/** Polls that return the whole list run less often (see `NextStep`). */
const unfilteredFactor = 10

/** The times between two polls, and between two sweeps, in seconds. */
export type Intervals = Pick<IntegrationView, "interval_seconds" | "sweep_interval_seconds">
/** For a stream whose integration is not known. */
export const defaultIntervals: Intervals = { interval_seconds: 60, sweep_interval_seconds: 21_600 }

const sweepLatenessOf = (
  { blocked, last_poll_started_at: polled, paused, phase, sweep_age_seconds: age }: StreamView,
  { sweep_interval_seconds }: Intervals
): number | null =>
  age === null || paused || blocked !== null || phase !== "live" || polled === null
    ? null
    : age / Math.max(leastTarget, sweepIntervalsBehind * sweep_interval_seconds)

const lateSweepText = (stream: StreamView, { sweep_interval_seconds }: Intervals): string =>
  `The last complete sweep of ${stream.stream} ended ${
    elapsedText(stream.sweep_age_seconds ?? 0)
  } ago, and its sweep interval is ${
    elapsedText(sweep_interval_seconds)
  }: deletes and nested changes may be found late.`

const stateOf = (stream: StreamView, target: number): Condition["state"] => {
  if (stream.blocked !== null) return "blocked"
  if (stream.paused) return "paused"
  if (stream.failing !== null) return "failing"
  if (stream.phase !== "live") return "backfilling"
  return stream.freshness_seconds !== null && stream.freshness_seconds > target ? "late" : "ok"
}

export const conditionOf = (stream: StreamView, intervals: Intervals): Condition => {
  const { interval_seconds: interval } = intervals
  const target = Math.max(
    leastTarget,
    intervalsBehind * interval * (stream.polls_return === "everything" ? unfilteredFactor : 1)
  )
  const state = stateOf(stream, target)
  const reason = state === "blocked" ? stream.blocked : state === "failing" ? stream.failing : null
  const sweepLateness = sweepLatenessOf(stream, intervals)
  return {
    stream,
    state,
    message: reason?.message ?? null,
    cause: (state === "failing" ? stream.failing?.opened_by : undefined) ?? reason?.message ?? "",
    since: reason?.since ?? (state === "late" ? stream.watermark : null),
    target,
    sweepLateness,
    lateSweep: sweepLateness !== null && sweepLateness > 1 ? lateSweepText(stream, intervals) : null,
    hasStarted: stream.phase !== "starting" || state === "blocked" || state === "paused"
  }
}

/** Whether the API does not know the integration of the stream: its id may be misspelled. */
export const isUnknown = ({ blocked }: Pick<StreamView, "blocked">): boolean =>
  blocked?.message.includes("INTEGRATION_NOT_FOUND") === true

/** The condition of a stream of one of these integrations. */
export const conditionBy = (integrations: ReadonlyArray<IntegrationView>): (stream: StreamView) => Condition => {
  const intervals = new Map(integrations.map((one) => [one.id, one]))
  return (stream) => conditionOf(stream, intervals.get(stream.integration) ?? defaultIntervals)
}
