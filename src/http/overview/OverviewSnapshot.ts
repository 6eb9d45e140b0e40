/**
 * The state of the installation at one moment, as all clients get it: the view, a row for each stream, and the sample of the history.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { formatTime } from "../../domain/Watermark.ts"
import type { DeadLetter } from "../../store/DeadLetters.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import type { HistorySample } from "../../store/Operators.ts"
import type { FleetProcess } from "../../store/Processes.ts"
import { Store } from "../../store/Store.ts"
import type { OverviewView, StreamRow } from "../contract/OverviewApi.ts"
import type { PluginList } from "../contract/PluginApi.ts"
import { headlineOf, type Installation, mattersOf, type OldestDeadLetter } from "../matters/Matters.ts"
import { conditionBy } from "../matters/StreamConditions.ts"
import { diskSpaceOf } from "../status/DiskSpace.ts"
import type { StoreOverview } from "../status/StoreOverview.ts"
import { dataPath, type Positions } from "./DataPath.ts"
import { viewsOf } from "./MatterViews.ts"
import { rowOf } from "./StreamRows.ts"

/** Least time between two snapshots, in ms. */
export const shortestInterval = 2_000
/** How long positions are kept for rates, in ms. */
const rateWindow = 60_000
const mostMatters = 200
/** Interval between two reads of the size of the store, in ms: PostgreSQL looks at all files of the database for it. */
const sizeInterval = 60_000

export interface Snapshot {
  readonly view: OverviewView
  /** The view as JSON, made once for all clients. */
  readonly text: string
  readonly rows: ReadonlyArray<StreamRow>
  readonly sample: HistorySample
  /** When it was read; our clock, in ms. */
  readonly at: number
}

export interface Options {
  /** Whether the event log is published to a sink. */
  readonly publishes: boolean
  /** The folder of the store, whose free space is shown; null if it is not on this machine. */
  readonly folder: string | null
}

/** The data of one read of the store and of the plugins. */
export interface Read {
  readonly overview: StoreOverview
  readonly plugins: PluginList
  readonly processes: ReadonlyArray<FleetProcess>
  readonly at: number
}

/** The message of an unknown outcome says that already. */
const causeText = ({ message, reason, refusal }: DeadLetter["failure"]): string =>
  refusal === "OutcomeUnknown" ? message : `${refusal ?? reason}: ${message}`

const noDeliveries: Pick<Installation, "deadLetters" | "open"> = { deadLetters: [], open: [] }

/**
 * The oldest dead letter of each handler that has some: it shows since when and why. The integrations in which deliveries are open, if a
 * circuit is open or a dead letter exists.
 */
const deliveriesOf = Effect.fnUntraced(function*({ items }: PluginList) {
  const { backlog, deadLetters } = yield* Deliveries
  const handlers = items.flatMap(({ handlers, plugin }) =>
    handlers.flatMap(({ circuit_open, dead, handler }) =>
      dead > 0 || circuit_open !== null ? [{ plugin, handler, dead }] : []
    )
  )
  if (handlers.length === 0) return noDeliveries
  const open = yield* backlog
  const found: Array<OldestDeadLetter> = []
  for (const { handler, plugin } of handlers.filter(({ dead }) => dead > 0)) {
    const [oldest] = yield* deadLetters({ plugin, handler, limit: 1 })
    if (oldest === undefined) continue
    found.push({
      plugin,
      handler,
      integrations: open.filter((one) => one.plugin === plugin && one.handler === handler && one.dead > 0)
        .map(({ integration }) => integration),
      since: formatTime(oldest.failure.at),
      message: causeText(oldest.failure)
    })
  }
  return { deadLetters: found, open: open.filter(({ oldest }) => oldest !== null) }
})

const dispatchedOf = ({ items }: PluginList, newest: number): number | null => {
  const lags = items.flatMap(({ configured, handlers }) =>
    configured ? handlers.filter(({ trigger }) => trigger?.kind !== "tick").map(({ lag_events }) => lag_events) : []
  )
  return lags.length === 0 ? null : newest - Math.max(...lags)
}

const percentile = (sorted: ReadonlyArray<number>, share: number): number | null =>
  sorted.length === 0 ? null : sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? null

/** How far the streams are behind: a greater value is less fresh. */
const freshnessOf = (rows: ReadonlyArray<StreamRow>): OverviewView["freshness"] => {
  const read = rows.filter(({ freshness_seconds, state }) =>
    freshness_seconds !== null && state !== "paused" && state !== "backfilling"
  )
  const sorted = read.map(({ freshness_seconds }) => freshness_seconds ?? 0).toSorted((one, other) => one - other)
  const worst = sorted.at(-1) ?? null
  return {
    median_seconds: percentile(sorted, 0.5),
    p95_seconds: percentile(sorted, 0.95),
    worst_seconds: worst,
    worst_stream: read.find(({ freshness_seconds }) => freshness_seconds === worst)?.stream ?? null,
    streams: read.length
  }
}

const countsOf = (rows: ReadonlyArray<StreamRow>): OverviewView["streams"] => {
  const of = (...states: ReadonlyArray<StreamRow["state"]>) => rows.filter(({ state }) => states.includes(state)).length
  return {
    total: rows.length,
    live: of("ok", "late"),
    backfilling: of("backfilling"),
    blocked: of("blocked"),
    failing: of("failing"),
    paused: of("paused"),
    late: of("late")
  }
}

const openCircuitsOf = ({ items }: PluginList): number =>
  items.flatMap(({ handlers }) => handlers).filter(({ circuit_open }) => circuit_open !== null).length

const deadOf = ({ items }: PluginList): number =>
  items.flatMap(({ handlers }) => handlers).reduce((sum, { dead }) => sum + dead, 0)

const sampleOf = (
  { dead_letters, freshness, open_holds, path, streams }: OverviewView,
  { at, overview }: Read
): HistorySample => {
  const { median_seconds: median, p95_seconds: p95, worst_seconds: worst } = freshness
  return {
    at,
    ...median === null ? {} : { median },
    ...p95 === null ? {} : { p95 },
    ...worst === null ? {} : { worst },
    events: overview.log.newestPosition,
    unpublished: path.find(({ step }) => step === "kafka")?.waiting ?? 0,
    deliveries: path.find(({ step }) => step === "handlers")?.waiting ?? 0,
    deadLetters: dead_letters,
    late: streams.late,
    blocked: streams.blocked,
    failing: streams.failing,
    holds: open_holds
  }
}

/** If there are too many, holds are left out first: they are many at once, and would hide all matters that are less urgent. */
const limited = (matters: OverviewView["matters"]): OverviewView["matters"] => {
  const others = matters.filter(({ kind }) => kind !== "hold").length
  let holds = Math.max(mostMatters / 2, mostMatters - others)
  return matters.filter(({ kind }) => kind !== "hold" || holds-- > 0).slice(0, mostMatters)
}

/** Makes one snapshot after another. Rates compare the positions of a snapshot with those of earlier ones. */
export const make = ({ folder, publishes }: Options) => {
  const positions: Array<Positions> = []
  let size: { readonly bytes: number; readonly at: number } | null = null
  const sizeAt = Effect.fnUntraced(function*(now: number) {
    if (size === null || now - size.at >= sizeInterval) {
      const bytes = yield* Effect.option((yield* Store).size)
      if (bytes._tag === "Some") size = { bytes: bytes.value, at: now }
    }
    return size?.bytes ?? null
  })

  const keep = (now: Positions): Positions | null => {
    const [oldest = null] = positions.filter(({ at }) => at >= now.at - rateWindow - shortestInterval && at < now.at)
    positions.push(now)
    while (positions.length > 0 && positions[0]!.at < now.at - rateWindow - shortestInterval) positions.shift()
    return oldest
  }

  return Effect.fnUntraced(
    function*(read: Read): Effect.fn.Return<Snapshot, never, Store | Deliveries> {
      const { at, overview, plugins, processes } = read
      const { names, transitionNames } = yield* CurrentModels
      const { holds, integrations, log, streams } = overview
      const now = yield* Clock.currentTimeMillis
      const outage = yield* (yield* Store).outage
      const conditions = streams.map(conditionBy(integrations))
      const rows = conditions.map(rowOf)
      const oldestAt = publishes ? log.unpublishedSince : null
      const deliveries = yield* Effect.orElseSucceed(deliveriesOf(plugins), () => noDeliveries)
      const relay = publishes ? { waiting: log.newestPosition - log.published, oldestAt, now } : null
      const disk = yield* diskSpaceOf(folder)
      const current = {
        at,
        newest: log.newestPosition,
        published: log.published,
        dispatched: dispatchedOf(plugins, log.newestPosition)
      }
      const all = mattersOf({ outage, streams: conditions, holds, plugins, ...deliveries, processes, relay, disk })
      const known = integrations.filter(({ blocked, streams }) => blocked < streams).map(({ id }) => id)
      const matters = viewsOf(all, known)
      const view: OverviewView = {
        as_of: formatTime(at),
        outage: headlineOf(all),
        matters: limited(matters),
        omitted: Math.max(0, matters.length - mostMatters),
        path: dataPath({
          now: current,
          before: keep(current),
          streams,
          rows,
          holds: holds.map(({ opened_at }) => opened_at),
          plugins,
          publishes,
          unpublishedSince: oldestAt
        }),
        streams: countsOf(rows),
        open_holds: holds.length,
        open_circuits: openCircuitsOf(plugins),
        dead_letters: deadOf(plugins),
        integrations: integrations.filter(({ state }) => state === "active").length,
        records: rows.reduce((sum, { records_live }) => sum + records_live, 0),
        freshness: freshnessOf(rows),
        store: {
          size_bytes: yield* sizeAt(now),
          free_bytes: disk?.freeBytes ?? null,
          disk_bytes: disk?.totalBytes ?? null
        },
        processes: {
          alive: Math.max(1, processes.filter(({ state }) => state === "alive").length),
          silent: processes.filter(({ state }) => state === "silent").length
        },
        models: names,
        transitions: transitionNames
      }
      return { view, text: JSON.stringify(view), rows, sample: sampleOf(view, read), at }
    }
  )
}
