/**
 * A short row for each stream: its state in one word, and its freshness against its target. Filters and sorts the rows.
 *
 * Invariants
 * 1. A stream whose freshness exceeds its target is `late`, whatever the reason, unless its state already says why: `blocked`, `paused`,
 *    `failing` or `backfilling`
 */
import * as Duration from "effect/Duration"
import { isStreamModel, registry } from "../../domain/Model.ts"
import type { IntegrationView } from "../contract/Api.ts"
import type { streamOrders, StreamRow, streamStates } from "../contract/OverviewApi.ts"
import type { StreamView } from "../contract/StreamApi.ts"

/** How many intervals of its polls a stream may be behind. */
const intervalsBehind = 3
/** In seconds. */
const leastTarget = 120
/** How many sweep intervals the last complete sweep of a stream may be old. */
const sweepIntervalsBehind = 2
/** Polls that return the whole list run less often (see `NextStep`). */
const unfilteredFactor = 10

/** The freshness, in seconds, above which a stream is late. `interval`: the time between two polls, in seconds. */
export const targetOf = ({ polls_return }: Pick<StreamView, "polls_return">, interval: number): number =>
  Math.max(leastTarget, intervalsBehind * interval * (polls_return === "everything" ? unfilteredFactor : 1))

/** The times between two polls, and between two sweeps, in seconds. */
export type Intervals = Pick<IntegrationView, "interval_seconds" | "sweep_interval_seconds">
/** For a stream whose integration is not known. */
export const defaultIntervals: Intervals = { interval_seconds: 60, sweep_interval_seconds: 21_600 }

/**
 * The age of the last complete sweep, divided by its target: above 1 the sweep is late, and deletes and nested changes are found late. Null
 * for a stream that is not swept: it is paused, blocked or backfilling. Null too for a stream without polls: sweeps replace its polls, so its
 * freshness says how late they are.
 */
export const sweepLatenessOf = (
  { blocked, model, paused, phase, sweep_age_seconds: age }: StreamView,
  { sweep_interval_seconds }: Intervals
): number | null =>
  age === null || paused || blocked !== null || phase !== "live" ||
    (isStreamModel(model) && registry[model].sweepOnly === true)
    ? null
    : age / Math.max(leastTarget, sweepIntervalsBehind * sweep_interval_seconds)

const asText = (seconds: number): string => Duration.format(Duration.seconds(Math.round(seconds)))

/** The late sweep of a stream as a sentence; null if its sweep is not late. */
export const lateSweepText = (stream: StreamView, intervals: Intervals): string | null =>
  (sweepLatenessOf(stream, intervals) ?? 0) <= 1 ?
    null :
    `The last complete sweep of ${stream.stream} ended ${
      asText(stream.sweep_age_seconds ?? 0)
    } ago, and its sweep interval is ${
      asText(intervals.sweep_interval_seconds)
    }: deletes and nested changes may be found late.`

type State = (typeof streamStates)[number]

const stateOf = (stream: StreamView, target: number): State => {
  if (stream.blocked !== null) return "blocked"
  if (stream.paused) return "paused"
  if (stream.failing !== null) return "failing"
  if (stream.phase !== "live") return "backfilling"
  return stream.freshness_seconds !== null && stream.freshness_seconds > target ? "late" : "ok"
}

export const rowOf = (stream: StreamView, intervals: Intervals): StreamRow => {
  const target = targetOf(stream, intervals.interval_seconds)
  const state = stateOf(stream, target)
  const reason = state === "blocked" ? stream.blocked : state === "failing" ? stream.failing : null
  return {
    stream: stream.stream,
    integration: stream.integration,
    model: stream.model,
    state,
    cause: reason?.message ?? null,
    since: reason?.since ?? (state === "late" ? stream.watermark : null),
    freshness_seconds: stream.freshness_seconds,
    target_seconds: target,
    late_sweep: lateSweepText(stream, intervals),
    records_live: stream.records_live,
    pending: Object.values(stream.pending).reduce((sum, rows) => sum + rows, 0),
    quarantined: stream.quarantined
  }
}

export const rowsOf = (
  streams: ReadonlyArray<StreamView>,
  integrations: ReadonlyArray<IntegrationView>
): ReadonlyArray<StreamRow> => {
  const intervals = new Map(integrations.map((one) => [one.id, one]))
  return streams.map((stream) => rowOf(stream, intervals.get(stream.integration) ?? defaultIntervals))
}

const urgency: Readonly<Record<State, number>> = { blocked: 0, failing: 1, late: 2, backfilling: 3, paused: 4, ok: 5 }

/** How far a late stream is behind; other streams are sorted by name, so that their rows stay where they are. */
const behind = ({ freshness_seconds, state, target_seconds }: StreamRow): number =>
  state === "late" ? (freshness_seconds ?? 0) / target_seconds : 0

const byName = (one: StreamRow, other: StreamRow): number =>
  one.stream < other.stream ? -1 : one.stream > other.stream ? 1 : 0

type Order = (typeof streamOrders)[number]

const orders: Readonly<Record<Order, (one: StreamRow, other: StreamRow) => number>> = {
  urgency: (one, other) => urgency[one.state] - urgency[other.state] || behind(other) - behind(one),
  stream: byName,
  freshness: (one, other) => (other.freshness_seconds ?? Infinity) - (one.freshness_seconds ?? Infinity) || 0,
  records: (one, other) => other.records_live - one.records_live,
  pending: (one, other) => other.pending - one.pending,
  quarantined: (one, other) => other.quarantined - one.quarantined
}

export interface RowQuery {
  readonly search?: string | undefined
  readonly state?: State | undefined
  readonly integration?: string | undefined
  readonly order?: Order | undefined
  /** How many rows to leave out. */
  readonly after?: number | undefined
  readonly limit?: number | undefined
}

/** A page of the rows that match, and how many match. Rows that are equal in the order are sorted by name. */
export const select = (
  rows: ReadonlyArray<StreamRow>,
  { after = 0, integration, limit = 100, order = "urgency", search = "", state }: RowQuery
): { readonly items: ReadonlyArray<StreamRow>; readonly total: number; readonly next: string | null } => {
  const words = search.toLowerCase().split(/\s+/).filter((word) => word !== "")
  const matching = rows.filter((row) => {
    if (state !== undefined && row.state !== state) return false
    if (integration !== undefined && row.integration !== integration) return false
    const text = `${row.stream} ${row.cause ?? ""}`.toLowerCase()
    return words.every((word) => text.includes(word))
  })
  const compare = orders[order]
  const sorted = matching.toSorted((one, other) => compare(one, other) || byName(one, other))
  const end = after + limit
  return { items: sorted.slice(after, end), total: sorted.length, next: end < sorted.length ? String(end) : null }
}
