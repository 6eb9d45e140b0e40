/** The path of a change, from the source to the handlers: for each step its rate, what waits there, and since when. */
import type { Step, StreamRow } from "../contract/OverviewApi.ts"
import type { PluginList } from "../contract/PluginApi.ts"
import { formatTimeOrNull } from "../contract/Schemas.ts"
import type { StreamView } from "../contract/StreamApi.ts"
import { earliest, isOutage, isRelayLate } from "../matters/Matters.ts"

/** Positions in the log at one moment; our clock, in ms. */
export interface Positions {
  readonly at: number
  readonly newest: number
  readonly published: number
  /** Null if no handler reads the log. */
  readonly dispatched: number | null
}

export interface Input {
  readonly now: Positions
  /** The same, up to a minute earlier; null if it is not known. */
  readonly before: Positions | null
  readonly streams: ReadonlyArray<StreamView>
  readonly rows: ReadonlyArray<StreamRow>
  /** Opening times of holds, RFC 3339. */
  readonly holds: ReadonlyArray<string>
  readonly plugins: PluginList
  readonly publishes: boolean
  /** Since when the oldest event waits that is not in Kafka; our clock, in ms. */
  readonly unpublishedSince: number | null
}

/** The newest poll of a stream counts for the rate if it ended less than this time ago, in ms. */
const window = 60_000
/** A handler whose oldest delivery waits longer is late, in ms. */
const deliveryPatience = 300_000

/** Records per second: those of the newest poll of each stream in the last minute, and of running sweeps. */
const readRate = (streams: ReadonlyArray<StreamView & { readonly lastPoll?: LastPoll }>, now: number): number =>
  streams.reduce((sum, { lastPoll, progress }) => {
    const polled = lastPoll != null && now - lastPoll.endedAt < window ? lastPoll.rowCounts.read * 1000 / window : 0
    return sum + polled + (progress?.records_per_second ?? 0)
  }, 0)

/** Views keep the stored state of their streams, which their schema drops (see `StoreOverview`). */
type LastPoll = { readonly endedAt: number; readonly rowCounts: { readonly read: number } } | null

const perSecond = (
  { before, now }: Pick<Input, "before" | "now">,
  of: (positions: Positions) => number | null
): number | null => {
  const [first, last] = [before && of(before), of(now)]
  return before === null || first === null || last === null || now.at <= before.at
    ? null
    : Math.max(0, (last - first) * 1000 / (now.at - before.at))
}

export const dataPath = (input: Input): ReadonlyArray<Step> => {
  const { holds, now, plugins, publishes, rows, streams, unpublishedSince } = input
  const behind = rows.filter(({ state }) => state === "late" || state === "blocked" || state === "failing")
  const unread = behind.filter(({ state }) => state !== "late").length
  const isUnread = isOutage(unread, rows.filter(({ state }) => state !== "paused").length)
  const pending = rows.reduce((sum, row) => sum + row.pending, 0)
  const handlers = plugins.items.flatMap(({ handlers }) => handlers)
  const unsettled = handlers.reduce((sum, { due, running, waiting }) => sum + due + running + waiting, 0)
  const oldest = earliest(handlers.map(({ oldest_at }) => oldest_at))
  const isStopped = plugins.delivering.state === "stopped"
  return [
    {
      step: "source",
      state: rows.length === 0 ? "unused" : isUnread ? "stopped" : behind.length > 0 ? "late" : "ok",
      rate: readRate(streams, now.at),
      waiting: behind.length,
      oldest_at: earliest(behind.map(({ since }) => since)),
      remark: rows.length === 0 ? "There is no stream to read" : null
    },
    {
      step: "log",
      state: holds.length > 0 ? "late" : "ok",
      rate: perSecond(input, ({ newest }) => newest),
      waiting: pending,
      oldest_at: earliest(holds),
      remark: null
    },
    {
      step: "kafka",
      state: !publishes
        ? "unused"
        : isRelayLate(unpublishedSince, now.at)
        ? "late"
        : "ok",
      rate: publishes ? perSecond(input, ({ published }) => published) : null,
      waiting: publishes ? now.newest - now.published : 0,
      oldest_at: formatTimeOrNull(unpublishedSince),
      remark: publishes ? null : "Kafka is not configured; readers use GET /v1/events"
    },
    {
      step: "handlers",
      state: plugins.items.length === 0
        ? "unused"
        : isStopped
        ? "stopped"
        : handlers.some(({ circuit_open }) => circuit_open !== null) ||
            (oldest !== null && now.at - Date.parse(oldest) > deliveryPatience)
        ? "late"
        : "ok",
      rate: perSecond(input, ({ dispatched }) => dispatched),
      waiting: unsettled,
      oldest_at: oldest,
      remark: plugins.items.length === 0 ? "No plugin is configured" : plugins.delivering.reason
    }
  ]
}
