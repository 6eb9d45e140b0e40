/** The terminal output of `rollcall status`: first each problem with its cause, then the tables. Pure. */
import type { PluginView } from "../../delivery/admin/PluginAdmin.ts"
import type { FleetView } from "../../http/contract/FleetApi.ts"
import type { HoldView } from "../../http/contract/HoldApi.ts"
import type { PluginList } from "../../http/contract/PluginApi.ts"
import type { ReadinessCheck } from "../../http/contract/Problem.ts"
import type { StreamView } from "../../http/contract/StreamApi.ts"
import { groupStreams, subjectOf } from "../../http/status/StreamGroups.ts"
import { oneLine } from "../../telemetry/TerminalText.ts"
import { pluginListText } from "./PluginText.ts"
import { formatCount, formatMinute, formatPlural, holdTable, streamGroupTable } from "./Tables.ts"

export interface Status {
  readonly checks: ReadonlyArray<typeof ReadinessCheck.Type>
  readonly streams: ReadonlyArray<StreamView>
  readonly holds: ReadonlyArray<HoldView>
  readonly plugins: PluginList
  readonly fleet: FleetView
}

const handlerCauses = (plugin: PluginView): ReadonlyArray<string> =>
  plugin.handlers.flatMap(({ circuit_open, dead, handler, oldest_at, waiting }) => {
    const name = `plugin ${plugin.plugin}, ${handler}`
    return [
      ...(circuit_open === null ? [] : [
        `${name}: ${circuit_open.failures} records failed in a row, so deliveries are tried one at a time until one ` +
        `succeeds; the next is tried at ${circuit_open.until}`
      ]),
      ...(dead === 0 ? [] : [
        `${name}: ${
          formatPlural(dead, "dead letter")
        }: \`rollcall deadletters list --plugin ${plugin.plugin}\` shows why`
      ]),
      ...(waiting === 0 || dead > 0 || circuit_open !== null ? [] : [
        `${name}: ${formatPlural(waiting, "delivery waits", "deliveries wait")} for the next attempt or behind an ` +
        `earlier delivery of the same record, the oldest since ${formatMinute(oldest_at)}`
      ])
    ]
  })

const conditions = {
  off: "is off",
  unconfigured: "is not configured",
  removed: "cannot run",
  blocked: "waits for the API"
} as const

/** Integrations in which the plugin does not run, one line per reason. */
const integrationCauses = ({ integrations, plugin }: PluginView): ReadonlyArray<string> =>
  [...Map.groupBy(integrations, ({ reason, state }) => `${state} ${reason}`).values()].flatMap((group) => {
    const { reason, state } = group[0]!
    const where = group.map(({ integration }) => integration).join(", ")
    return state === "on" ? [] : [`plugin ${plugin} ${conditions[state]} in ${where}: ${reason ?? state}`]
  })

const pluginCauses = (plugin: PluginView): ReadonlyArray<string> => {
  if (!plugin.configured) return [`plugin ${plugin.plugin} is no longer configured, but has deliveries left`]
  if (!plugin.on) {
    return [
      `plugin ${plugin.plugin} is switched off: its deliveries wait; \`rollcall plugins on ${plugin.plugin}\` resumes them`
    ]
  }
  return [...integrationCauses(plugin), ...handlerCauses(plugin)]
}

/**
 * The causes in the checks. Checks of single streams are left out, because the table of groups explains them. Only the streams that wait
 * for their first response are counted here.
 */
const checkCauses = (checks: Status["checks"], streams: Status["streams"]): ReadonlyArray<string> => {
  const shown = checks.filter(({ ok, reason }) => !ok || reason !== null)
  const starting = streams.filter(({ blocked, failing, paused, phase }) =>
    phase === "starting" && blocked === null && failing === null && !paused
  )
  return [
    ...shown.filter(({ name }) => !name.startsWith("stream ")).map(({ name, reason }) => `${name}: ${reason}`),
    ...(starting.length === 0
      ? []
      : [`${formatPlural(starting.length, "stream waits", "streams wait")} for the first response from the API`])
  ]
}

/** Other processes that are silent or have a problem. Problems of this process are among its checks. */
const fleetCauses = ({ items, versions }: FleetView): ReadonlyArray<string> => [
  ...items.filter(({ current }) => !current).flatMap(({ host, id, problems, silence_seconds, state }) => {
    const name = `process ${id.slice(0, 8)} on ${host}`
    return state === "silent"
      ? [
        `${name} has not reported for ${formatCount(Math.round(silence_seconds))} s: \`rollcall fleet\` shows its work`
      ]
      : problems.map((problem) => `${name}, ${problem.name}: ${problem.reason}`)
  }),
  ...(versions.length > 1 ? [`the processes have different versions: ${versions.join(", ")}`] : [])
]

export const statusText = ({ checks, fleet, holds, plugins, streams }: Status): string => {
  const groups = groupStreams(streams)
  const causes = [
    ...checkCauses(checks, streams),
    ...groups.flatMap((group) => group.cause === null ? [] : [`${subjectOf(group)}: ${group.cause}`]),
    ...plugins.items.flatMap(pluginCauses),
    ...fleetCauses(fleet)
  ]
  const alive = fleet.items.filter(({ state }) => state === "alive").length
  return [
    `${checks.every(({ ok }) => ok) ? "ready" : "not ready"}, ${formatPlural(streams.length, "stream")}${
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
