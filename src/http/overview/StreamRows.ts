/** A short row for each stream, as the console lists them. Filters and sorts the rows. */
import type { streamOrders, StreamRow } from "../contract/OverviewApi.ts"
import type { Condition } from "../matters/StreamConditions.ts"

type State = Condition["state"]

export const rowOf = (
  { cause, lateSweep, since, state, stream, target }: Condition
): StreamRow => ({
  stream: stream.stream,
  integration: stream.integration,
  model: stream.model,
  state,
  cause: cause === "" ? null : cause,
  since,
  freshness_seconds: stream.freshness_seconds,
  target_seconds: target,
  late_sweep: lateSweep,
  records_live: stream.records_live,
  pending: Object.values(stream.pending).reduce((sum, rows) => sum + rows, 0),
  held: stream.pending["held"] ?? 0,
  quarantined: stream.quarantined
})

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
