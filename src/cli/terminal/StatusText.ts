/** The terminal output of `rollcall status`: first each problem with its cause, then the tables. Pure. */
import type { FleetView } from "../../http/contract/FleetApi.ts"
import type { HoldView } from "../../http/contract/HoldApi.ts"
import type { PluginList } from "../../http/contract/PluginApi.ts"
import type { ReadinessCheck } from "../../http/contract/Problem.ts"
import type { StreamView } from "../../http/contract/StreamApi.ts"
import { earliest, type Matter, mattersOf } from "../../http/matters/Matters.ts"
import { conditionOf, defaultIntervals } from "../../http/matters/StreamConditions.ts"
import { oneLine } from "../../telemetry/TerminalText.ts"
import { pluginListText } from "./PluginText.ts"
import { groupStreams, type StreamGroup, subjectOf } from "./StreamGroups.ts"
import { formatCount, formatMinute, formatPlural, holdTable, streamGroupTable } from "./Tables.ts"

export interface Status {
  /** Why most streams are not read; null if they are. */
  readonly outage: string | null
  readonly checks: ReadonlyArray<typeof ReadinessCheck.Type>
  readonly streams: ReadonlyArray<StreamView>
  readonly holds: ReadonlyArray<HoldView>
  readonly plugins: PluginList
  readonly fleet: FleetView
}

const logOf = ({ log_url: url }: { readonly log_url?: string }): string => url === undefined ? "" : `; log: ${url}`

/** Why the streams of a group are not read, since when, and what to do, as text; null if they are read. */
const causeText = ({ cause, streams }: StreamGroup): string | null => {
  const { blocked, failing, stream } = streams[0]!
  const since = (what: "blocked" | "failing") => formatMinute(earliest(streams.map((one) => one[what]?.since ?? null)))
  if (cause === "blocked" && blocked !== null) {
    return `blocked (${blocked.reason}) since ${since("blocked")}: ${blocked.message}${logOf(blocked)}`
  }
  if (cause === "failing" && failing !== null) {
    const count = Math.max(...streams.map((one) => one.failing?.count ?? 0))
    const times = count === 1 ? "once" : `${count} times`
    return `failing since ${since("failing")}, ${times}: ${failing.message}${logOf(failing)}`
  }
  return cause === null
    ? null
    : `paused by an operator: \`rollcall streams resume ${
      streams.length === 1 ? stream : "<stream>"
    }\` continues reading`
}

type PluginMatter = Extract<Matter, { readonly plugin: string }>

const conditions = {
  off: "is off",
  unconfigured: "is not configured",
  removed: "cannot run",
  blocked: "waits for the API"
} as const

/** The lines of a matter of a plugin. Integrations with the same reason share a line. */
const pluginLines = (matter: PluginMatter): ReadonlyArray<string> => {
  const { plugin } = matter
  switch (matter.cause) {
    case "left_over":
      return [`plugin ${plugin} is no longer configured, but has deliveries left`]
    case "plugin_off":
      return [`plugin ${plugin} is switched off: its deliveries wait; \`rollcall plugins on ${plugin}\` resumes them`]
    case "not_running":
      return [...Map.groupBy(matter.integrations, ({ reason }) => reason)].map(([reason, group]) => {
        const where = group.map(({ integration }) => integration).join(", ")
        return `plugin ${plugin} ${conditions[matter.state]} in ${where}: ${reason ?? matter.state}`
      })
    case "circuit":
      return [
        `plugin ${plugin}, ${matter.handler}: ${matter.failures} records failed in a row, so deliveries are tried one at a time ` +
        `until one succeeds; the next is tried at ${matter.until}`
      ]
    case "dead_letters": {
      const letters = formatPlural(matter.count, "dead letter")
      return [
        `plugin ${plugin}, ${matter.handler}: ${letters}: \`rollcall deadletters list --plugin ${plugin}\` shows why`
      ]
    }
    case "waiting": {
      const deliveries = formatPlural(matter.count, "delivery waits", "deliveries wait")
      return [
        `plugin ${plugin}, ${matter.handler}: ${deliveries} for the next attempt or behind an earlier delivery of the same ` +
        `record, the oldest since ${formatMinute(matter.since)}`
      ]
    }
  }
}

/** The lines of a plugin. If it does not run at all, its other matters follow from that. */
const pluginCauses = (matters: ReadonlyArray<Matter>): ReadonlyArray<string> => {
  const own = matters.filter((matter): matter is PluginMatter => "plugin" in matter)
  const idle = new Set(
    own.flatMap(({ cause, plugin }) => cause === "left_over" || cause === "plugin_off" ? plugin : [])
  )
  return own.flatMap((matter) =>
    idle.has(matter.plugin) && matter.cause !== "left_over" && matter.cause !== "plugin_off" ? [] : pluginLines(matter)
  )
}

/**
 * The causes in the checks. Checks of single streams are left out, because the table of groups explains them. Only the streams that wait
 * for their first response are counted here.
 */
const checkCauses = (checks: Status["checks"], matters: ReadonlyArray<Matter>): ReadonlyArray<string> => [
  ...checks.filter(({ name, ok, reason }) => (!ok || reason !== null) && !name.startsWith("stream "))
    .map(({ name, reason }) => `${name}: ${reason}`),
  ...matters.flatMap((matter) =>
    matter.cause === "starting"
      ? [`${formatPlural(matter.streams.length, "stream waits", "streams wait")} for the first response from the API`]
      : []
  )
]

/** Other processes that are silent or have a problem. Problems of this process are among its checks. */
const fleetCauses = (matters: ReadonlyArray<Matter>, current: string | undefined): ReadonlyArray<string> =>
  matters.flatMap((matter) => {
    if (matter.cause === "versions") return [`the processes have different versions: ${matter.versions.join(", ")}`]
    if (matter.cause !== "silent" && matter.cause !== "problem") return []
    const { host, id, silence } = matter.process
    const name = `process ${id.slice(0, 8)} on ${host}`
    if (id === current) return []
    return matter.cause === "problem" ? [`${name}, ${matter.name}: ${matter.reason}`] : [
      `${name} has not reported for ${formatCount(Math.round(silence / 1000))} s: \`rollcall fleet\` shows its work`
    ]
  })

export const statusText = ({ checks, fleet, holds, outage, plugins, streams }: Status): string => {
  const matters = mattersOf({
    // late streams, for which the intervals of their integrations are needed, are not shown
    streams: streams.map((stream) => conditionOf(stream, defaultIntervals)),
    plugins,
    processes: fleet.items.map((process) => ({
      ...process,
      seenAt: Date.parse(process.last_heartbeat_at),
      silence: process.silence_seconds * 1000
    }))
  })
  const groups = groupStreams(streams, matters)
  const causes = [
    ...checkCauses(checks, matters),
    ...groups.flatMap((group) => group.cause === null ? [] : [`${subjectOf(group)}: ${causeText(group)}`]),
    ...pluginCauses(matters),
    ...fleetCauses(matters, fleet.items.find(({ current }) => current)?.id)
  ]
  const alive = fleet.items.filter(({ state }) => state === "alive").length
  const isReady = checks.every(({ ok }) => ok)
  return [
    ...outage === null ? [] : [oneLine(outage)],
    `${isReady ? outage === null ? "ready" : "degraded" : "not ready"}, ${formatPlural(streams.length, "stream")}${
      alive > 1 ? `, ${alive} processes` : ""
    }`,
    ...causes.map((cause) => oneLine(`  ${cause}`)),
    ...(groups.length > 0 ? [`\n${streamGroupTable(groups)}`] : []),
    ...(holds.length > 0
      ? [`\nwaiting for a decision:\n${holdTable(holds)}`]
      : []),
    ...(plugins.items.length > 0 ? [`\n${pluginListText(plugins)}`] : [])
  ].join("\n")
}
