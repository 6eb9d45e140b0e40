/** The terminal output of `rollcall status`: first each problem with its cause, then the tables. Pure. */
import type { FleetView } from "../../http/contract/FleetApi.ts"
import type { HoldView } from "../../http/contract/HoldApi.ts"
import type { Matter, OverviewView } from "../../http/contract/OverviewApi.ts"
import type { PluginList } from "../../http/contract/PluginApi.ts"
import type { ReadinessCheck } from "../../http/contract/Problem.ts"
import type { StreamView } from "../../http/contract/StreamApi.ts"
import { conditionOf, defaultIntervals } from "../../http/matters/StreamConditions.ts"
import { oneLine } from "../../telemetry/TerminalText.ts"
import { pluginTable } from "./PluginText.ts"
import { formatCount, formatMinute, formatPlural, holdTable, streamGroupTable } from "./Tables.ts"

export interface Status extends Pick<OverviewView, "matters" | "omitted"> {
  /** Why most streams are not read; null if they are. */
  readonly outage: string | null
  readonly checks: ReadonlyArray<typeof ReadinessCheck.Type>
  readonly streams: ReadonlyArray<StreamView>
  readonly holds: ReadonlyArray<HoldView>
  readonly plugins: PluginList
  readonly fleet: FleetView
}

/** A matter in the words of the console, and below them its integrations, its time and the next command. */
const matterLines = ({ command, detail, integration_count, integrations, since, title }: Matter) => {
  const others = integration_count - integrations.length
  const more = [
    ...integration_count === 0
      ? []
      : [integrations.join(", ") + (others > 0 ? ` and ${formatCount(others)} more` : "")],
    ...since === null ? [] : [`since ${formatMinute(since)}`],
    `\`${command}\``
  ]
  return [detail === "" ? title : `${title}: ${detail}`, `  ${more.join("; ")}`]
}

/** All streams of an integration that are not read for the same reason, and every other stream by itself. */
const groupsOf = (streams: ReadonlyArray<StreamView>): ReadonlyArray<ReadonlyArray<StreamView>> =>
  [...Map.groupBy(streams, ({ integration }) => integration).values()].flatMap((own) => {
    const causes = own.map((stream) => conditionOf(stream, defaultIntervals))
      .map(({ cause, state }) => /blocked|failing|paused/.test(state) ? `${state} ${cause}` : null)
    return causes[0] !== null && new Set(causes).size === 1 ? [own] : own.map((stream) => [stream])
  })

export const statusText = (
  { checks, fleet, holds, matters, omitted, outage, plugins, streams }: Status
): string => {
  const waiting = streams.filter(({ blocked, failing, paused, phase }) =>
    phase === "starting" && blocked === null && failing === null && !paused
  )
  // the check of the store and the table of the holds show more
  const shown = matters.filter(({ kind }) => kind !== "store" && kind !== "hold")
  const hidden = omitted - Math.max(0, holds.length - matters.filter(({ kind }) => kind === "hold").length)
  const lines = [
    // what the table of streams or a matter says already is left out
    ...checks.filter(({ name, reason }) =>
      reason !== null && !/^(stream |sweeps$)/.test(name) && !shown.some(({ detail }) => detail.includes(reason))
    ).map(({ name, reason }) => `${name}: ${reason}`),
    ...waiting.length === 0
      ? []
      : [`${formatPlural(waiting.length, "stream waits", "streams wait")} for the first response from the API`],
    ...shown.flatMap(matterLines),
    ...hidden <= 0 ? [] : [`${formatCount(hidden)} more are not shown`]
  ]
  const alive = fleet.items.filter(({ state }) => state === "alive").length
  const isReady = checks.every(({ ok }) => ok)
  return [
    ...outage === null ? [] : [oneLine(outage)],
    `${isReady ? outage === null ? "ready" : "degraded" : "not ready"}, ${formatPlural(streams.length, "stream")}${
      alive > 1 ? `, ${alive} processes` : ""
    }`,
    ...lines.map((line) => oneLine(`  ${line}`)),
    ...(streams.length > 0 ? [`\n${streamGroupTable(groupsOf(streams))}`] : []),
    ...(holds.length > 0
      ? [`\nwaiting for a decision:\n${holdTable(holds)}`]
      : []),
    ...(plugins.items.length > 0 ? [`\n${pluginTable(plugins.items)}`] : [])
  ].join("\n")
}
