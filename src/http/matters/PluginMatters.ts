/**
 * The matters of plugins: dead letters, open circuits, plugins that do not run, and what an operator has switched off.
 *
 * Gotchas
 * - The reasons and messages come from plugins and from the API. They are masked before they are stored   (I11).
 */
import type { Matter } from "../contract/OverviewApi.ts"
import type { PluginList } from "../contract/PluginApi.ts"
import { count, detailOf, noScope, query, scopeOf } from "./MatterFields.ts"

/** The oldest dead letter of a handler, and how many the handler has. */
export interface DeadLetterGroup {
  readonly plugin: string
  readonly handler: string
  readonly count: number
  readonly integrations: ReadonlyArray<string>
  /** RFC 3339 */
  readonly since: string
  readonly message: string
}

export const deadLetterMatters = (groups: ReadonlyArray<DeadLetterGroup>): ReadonlyArray<Matter> =>
  groups.map(({ count: letters, handler, integrations, message, plugin, since }) => ({
    id: `dead/${plugin}/${handler}`,
    kind: "dead_letters",
    severity: "act",
    title: `${count(letters, "dead letter")} of ${plugin} (${handler})`,
    detail: detailOf(message),
    since,
    ...scopeOf(integrations.map((integration) => ({ integration })), 0),
    action: "Review",
    link: `/dead-letters${query({ plugin, handler })}`
  }))

const allPlugins = { ...noScope, action: "Show plugins", link: "/plugins" } as const

/** The matters of one plugin. */
const mattersOf = ({ configured, handlers, integrations, on, plugin }: PluginList["items"][number]) => {
  const page = { action: "Open plugin", link: `/plugins/${encodeURIComponent(plugin)}` } as const
  const lacking = integrations.filter(({ state }) => state === "unconfigured")
  const circuits = handlers.filter(({ circuit_open }) => circuit_open !== null).map((
    { circuit_open, handler, oldest_at }
  ): Matter => ({
    id: `circuit/${plugin}/${handler}`,
    kind: "circuit",
    severity: "act",
    title: `Circuit open: ${plugin} (${handler})`,
    detail:
      `${count(circuit_open?.failures ?? 0, "failure")} in a row, of different records. One delivery is tried from ` +
      "time to time; the others wait and are not lost.",
    since: oldest_at,
    ...noScope,
    ...page
  }))
  const waiting = integrations.filter(({ state }) => state === "blocked")
  const blocked: ReadonlyArray<Matter> = waiting.length === 0 ? [] : [{
    id: `blocked/${plugin}`,
    kind: "plugin",
    severity: "act",
    title: `Deliveries of ${plugin} wait for the API in ${count(waiting.length, "integration")}`,
    detail: detailOf(waiting[0]?.reason),
    since: null,
    ...scopeOf(waiting, 0),
    ...page
  }]
  const unconfigured: ReadonlyArray<Matter> = lacking.length === 0 ? [] : [{
    id: `unconfigured/${plugin}`,
    kind: "plugin",
    severity: "act",
    title: `${plugin} does not run in ${count(lacking.length, "integration")}`,
    detail: detailOf(lacking[0]?.reason),
    since: null,
    ...scopeOf(lacking, 0),
    ...page
  }]
  const off: ReadonlyArray<Matter> = !configured || on ? [] : [{
    id: `off/${plugin}`,
    kind: "switched_off",
    severity: "watch",
    title: `${plugin} is switched off`,
    detail: "Its deliveries wait, in order, until an operator switches it on.",
    since: null,
    ...noScope,
    ...page
  }]
  return [...circuits, ...unconfigured, ...blocked, ...off]
}

export const pluginMatters = ({ delivering, items, writes }: PluginList): ReadonlyArray<Matter> => {
  const engine: ReadonlyArray<Matter> = delivering.reason === null ? [] : [{
    id: "plugins",
    kind: "plugin",
    severity: "act",
    title: delivering.state === "stopped" ? "Plugins are stopped" : "Plugins wait",
    detail: delivering.reason,
    since: null,
    ...allPlugins
  }]
  const stopped: ReadonlyArray<Matter> = writes === "on" ? [] : [{
    id: "writes",
    kind: "switched_off",
    severity: "watch",
    title: "An operator has stopped the writes of all plugins",
    detail: "Deliveries that need to write wait until the writes are resumed.",
    since: null,
    ...allPlugins
  }]
  return [...engine, ...stopped, ...items.flatMap(mattersOf)]
}
