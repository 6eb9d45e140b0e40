/**
 * The matters that need attention, from the state of the installation: one per cause, the most urgent first.
 *
 * Invariants
 * 1. Everything that waits for an operator is in a matter: holds, dead letters, blocked streams, open circuits, plugins that do not run
 * 2. All streams with the same reason why they are not read are one matter, across integrations
 *
 * Gotchas
 * - The messages come from the API and from plugins. They are masked before they are stored   (I11).
 */
import { formatTime } from "../../domain/Watermark.ts"
import type { FleetProcess } from "../../store/Processes.ts"
import type { Outage } from "../../store/Store.ts"
import type { HoldView } from "../holds/HoldApi.ts"
import type { PluginList } from "../plugins/PluginApi.ts"
import type { DiskSpace } from "./DiskSpace.ts"
import type { Matter, StreamRow } from "./OverviewApi.ts"

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

export interface Input {
  readonly now: number
  readonly outage: Outage | null
  readonly rows: ReadonlyArray<StreamRow>
  readonly holds: ReadonlyArray<HoldView>
  readonly plugins: PluginList
  readonly deadLetters: ReadonlyArray<DeadLetterGroup>
  readonly processes: ReadonlyArray<FleetProcess>
  /** Events that are not in Kafka yet, and since when the oldest of them waits (our clock, in ms); null without Kafka. */
  readonly relay: { readonly waiting: number; readonly oldestAt: number | null } | null
  /** Null if it is not known. */
  readonly disk: DiskSpace | null
}

/** A relay whose oldest event waits longer is late, in ms. */
export const relayPatience = 60_000
/** Less free space than this share, and than this number of bytes, needs attention. */
const [leastShare, leastBytes] = [0.1, 5 * 1024 ** 3]
const namedIntegrations = 5
const longestDetail = 600

const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? "" : "s"}`

/** Several streams and their integrations, as the scope of a matter. */
const scopeOf = (rows: ReadonlyArray<{ readonly integration: string }>, streams = rows.length) => {
  const integrations = [...new Set(rows.map(({ integration }) => integration))]
  return {
    integrations: integrations.slice(0, namedIntegrations),
    integration_count: integrations.length,
    stream_count: streams
  }
}
const noScope = { integrations: [], integration_count: 0, stream_count: 0 }

const earliest = (times: ReadonlyArray<string | null>): string | null =>
  times.flatMap((time) => time ?? []).toSorted()[0] ?? null

const query = (parameters: Readonly<Record<string, string>>): string => `?${new URLSearchParams(parameters)}`

const holdMatters = (holds: ReadonlyArray<HoldView>): ReadonlyArray<Matter> =>
  holds.filter(({ state }) => state === "open").map((hold) => ({
    id: `hold/${hold.id}`,
    kind: "hold",
    severity: "act",
    title: `${count(hold.records, "change")} of ${hold.model} held back: ${hold.kind}`,
    detail: hold.reason,
    since: hold.opened_at,
    ...scopeOf([hold]),
    action: "Review",
    link: `/holds/${hold.id}`
  }))

/** The page of the stream or integration if there is only one, otherwise the list with the same filter. */
const linkOf = (rows: ReadonlyArray<StreamRow>, state: string): string => {
  const [first] = rows
  if (first === undefined) return "/streams"
  if (rows.length === 1) return `/streams/${encodeURIComponent(first.integration)}/${first.model}`
  const isOne = rows.every(({ integration }) => integration === first.integration)
  return isOne ? `/integrations/${encodeURIComponent(first.integration)}` : `/streams${query({ state })}`
}

const streamMatters = (
  rows: ReadonlyArray<StreamRow>,
  state: "blocked" | "failing",
  title: (rows: ReadonlyArray<StreamRow>) => string
): ReadonlyArray<Matter> =>
  [...Map.groupBy(rows.filter((row) => row.state === state), ({ cause }) => cause)].map(([cause, some]) => ({
    id: `${state}/${cause ?? ""}`,
    kind: state,
    severity: "act",
    title: title(some),
    detail: (cause ?? "").slice(0, longestDetail),
    since: earliest(some.map(({ since }) => since)),
    ...scopeOf(some),
    action: some.length === 1 ? "Open stream" : "Show streams",
    link: linkOf(some, state)
  }))

const lateMatter = (rows: ReadonlyArray<StreamRow>): ReadonlyArray<Matter> => {
  const late = rows.filter(({ state }) => state === "late")
  return late.length === 0 ? [] : [{
    id: "late",
    kind: "late",
    severity: "watch",
    title: `${count(late.length, "stream")} behind the freshness target`,
    detail:
      "The streams are read without errors, but more slowly than they should be: the request budget of the account may be " +
      "used up, or the API has requested a pause. The page of a stream shows that.",
    since: earliest(late.map(({ since }) => since)),
    ...scopeOf(late),
    action: late.length === 1 ? "Open stream" : "Show streams",
    link: linkOf(late, "late")
  }]
}

const deadLetterMatters = (groups: ReadonlyArray<DeadLetterGroup>): ReadonlyArray<Matter> =>
  groups.map(({ count: letters, handler, integrations, message, plugin, since }) => ({
    id: `dead/${plugin}/${handler}`,
    kind: "dead_letters",
    severity: "act",
    title: `${count(letters, "dead letter")} of ${plugin} (${handler})`,
    detail: message.slice(0, longestDetail),
    since,
    ...scopeOf(integrations.map((integration) => ({ integration })), 0),
    action: "Review",
    link: `/dead-letters${query({ plugin, handler })}`
  }))

const pluginMatters = ({ delivering, items, writes }: PluginList): ReadonlyArray<Matter> => {
  const engine: ReadonlyArray<Matter> = delivering.reason === null ? [] : [{
    id: "plugins",
    kind: "plugin",
    severity: "act",
    title: delivering.state === "stopped" ? "Plugins are stopped" : "Plugins wait",
    detail: delivering.reason,
    since: null,
    ...noScope,
    action: "Show plugins",
    link: "/plugins"
  }]
  const stopped: ReadonlyArray<Matter> = writes === "on" ? [] : [{
    id: "writes",
    kind: "switched_off",
    severity: "watch",
    title: "An operator has stopped the writes of all plugins",
    detail: "Deliveries that need to write wait until the writes are resumed.",
    since: null,
    ...noScope,
    action: "Show plugins",
    link: "/plugins"
  }]
  const own = items.flatMap(({ configured, handlers, integrations, on, plugin }): ReadonlyArray<Matter> => {
    const link = `/plugins/${encodeURIComponent(plugin)}`
    const open = handlers.filter(({ circuit_open }) => circuit_open !== null)
    const lacking = integrations.filter(({ state }) => state === "unconfigured")
    return [
      ...open.map(({ circuit_open, handler, oldest_at }): Matter => ({
        id: `circuit/${plugin}/${handler}`,
        kind: "circuit",
        severity: "act",
        title: `Circuit open: ${plugin} (${handler})`,
        detail:
          `${
            count(circuit_open?.failures ?? 0, "failure")
          } in a row, of different records. One delivery is tried from ` +
          "time to time; the others wait and are not lost.",
        since: oldest_at,
        ...noScope,
        action: "Open plugin",
        link
      })),
      ...lacking.length === 0 ? [] : [
        {
          id: `unconfigured/${plugin}`,
          kind: "plugin",
          severity: "act",
          title: `${plugin} does not run in ${count(lacking.length, "integration")}`,
          detail: (lacking[0]?.reason ?? "").slice(0, longestDetail),
          since: null,
          ...scopeOf(lacking, 0),
          action: "Open plugin",
          link
        } satisfies Matter
      ],
      ...!configured || on ? [] : [
        {
          id: `off/${plugin}`,
          kind: "switched_off",
          severity: "watch",
          title: `${plugin} is switched off`,
          detail: "Its deliveries wait, in order, until an operator switches it on.",
          since: null,
          ...noScope,
          action: "Open plugin",
          link
        } satisfies Matter
      ]
    ]
  })
  return [...engine, ...stopped, ...own]
}

const problemTitles: Readonly<Record<string, string>> = {
  kafka: "Publishing to Kafka does not work",
  plugins: "Plugins do not run in a process"
}

/**
 * Problems of the processes. If plugins do not run in the process that returns the matters, `pluginMatters` has that problem, and the
 * problem `plugins` of all processes is left out here.
 */
const processMatters = ({ plugins, processes }: Pick<Input, "plugins" | "processes">): ReadonlyArray<Matter> => {
  const alive = processes.filter(({ state }) => state === "alive")
  const versions = [...new Set(alive.map(({ version }) => version))]
  return [
    ...processes.filter(({ state }) => state === "silent").map(({ host, id, pid, seenAt }): Matter => ({
      id: `silent/${id}`,
      kind: "process",
      severity: "act",
      title: `Process ${pid} on ${host} is silent`,
      detail:
        "It sends no heartbeats: it was killed, is frozen, or does not reach the database. Other processes take its work over.",
      since: formatTime(seenAt),
      ...noScope,
      action: "Show processes",
      link: "/processes"
    })),
    ...alive.flatMap(({ host, id, pid, problems }) =>
      problems.filter(({ name }) => name !== "plugins" || plugins.delivering.reason === null).map((
        { name, reason }
      ): Matter => ({
        id: `${name}/${id}`,
        kind: name === "kafka" ? "kafka" : "process",
        severity: "act",
        title: problemTitles[name] ?? `${name} does not work`,
        detail: `${reason.slice(0, longestDetail)} (process ${pid} on ${host})`,
        since: null,
        ...noScope,
        action: "Show processes",
        link: "/processes"
      }))
    ),
    ...versions.length < 2 ? [] : [
      {
        id: "versions",
        kind: "process",
        severity: "watch",
        title: `The processes run different versions: ${versions.join(", ")}`,
        detail: "This is normal during an update.",
        since: null,
        ...noScope,
        action: "Show processes",
        link: "/processes"
      } satisfies Matter
    ]
  ]
}

const relayMatter = ({ now, processes, relay }: Input): ReadonlyArray<Matter> => {
  const isReported = processes.some(({ problems, state }) =>
    state === "alive" && problems.some(({ name }) => name === "kafka")
  )
  if (relay === null || relay.oldestAt === null || now - relay.oldestAt < relayPatience || isReported) return []
  return [{
    id: "relay",
    kind: "kafka",
    severity: "act",
    title: `${count(relay.waiting, "event")} not in Kafka yet`,
    detail: "Publishing is slower than reading, or does not work. Reading continues until a million events wait.",
    since: formatTime(relay.oldestAt),
    ...noScope,
    action: "Show processes",
    link: "/processes"
  }]
}

const diskMatter = (disk: DiskSpace | null): ReadonlyArray<Matter> => {
  if (disk === null || disk.freeBytes > leastBytes || disk.freeBytes > disk.totalBytes * leastShare) return []
  const free = disk.freeBytes < 1024 ** 3
    ? `${Math.round(disk.freeBytes / 1024 ** 2)} MiB`
    : `${(disk.freeBytes / 1024 ** 3).toFixed(1)} GiB`
  return [{
    id: "disk",
    kind: "disk",
    severity: "act",
    title: `${free} left on the disk of the store`,
    detail: "When the disk is full, nothing is read or published until there is space again. Nothing is lost.",
    since: null,
    ...noScope,
    action: "Show processes",
    link: "/processes"
  }]
}

const quarantineMatter = (rows: ReadonlyArray<StreamRow>): ReadonlyArray<Matter> => {
  const some = rows.filter(({ quarantined }) => quarantined > 0)
  const total = some.reduce((sum, { quarantined }) => sum + quarantined, 0)
  return total === 0 ? [] : [{
    id: "quarantine",
    kind: "quarantine",
    severity: "watch",
    title: `${count(total, "row")} in quarantine`,
    detail: "Rollcall could not store these rows: they have no usable id, are nested too deeply, or are not objects. " +
      "Report them to the provider of the API.",
    since: null,
    ...scopeOf(some),
    action: "Show streams",
    link: some.length === 1 ? linkOf(some, "") : `/streams${query({ order: "quarantined" })}`
  }]
}

const pausedMatter = (rows: ReadonlyArray<StreamRow>): ReadonlyArray<Matter> => {
  const paused = rows.filter(({ state }) => state === "paused")
  return paused.length === 0 ? [] : [{
    id: "paused",
    kind: "switched_off",
    severity: "watch",
    title: `${count(paused.length, "stream")} paused by an operator`,
    detail: "A paused stream is not read until an operator resumes it.",
    since: null,
    ...scopeOf(paused),
    action: paused.length === 1 ? "Open stream" : "Show streams",
    link: linkOf(paused, "paused")
  }]
}

const outageMatter = (outage: Outage | null): ReadonlyArray<Matter> =>
  outage === null ? [] : [{
    id: "store",
    kind: "store",
    severity: "act",
    title: "The store does not answer",
    detail: `${outage.message}; ${outage.hint}`,
    since: formatTime(outage.since),
    ...noScope,
    action: "Show processes",
    link: "/processes"
  }]

/** The most urgent first: what stops everything, then what has lasted longest. */
export const mattersOf = (input: Input): ReadonlyArray<Matter> => {
  const { deadLetters, disk, holds, outage, plugins, rows } = input
  const first = [...outageMatter(outage), ...diskMatter(disk), ...processMatters(input), ...relayMatter(input)]
  const others = [
    ...holdMatters(holds),
    ...streamMatters(rows, "blocked", (some) => `${count(some.length, "stream")} blocked`),
    ...streamMatters(rows, "failing", (some) => `${count(some.length, "stream")} failing`),
    ...deadLetterMatters(deadLetters),
    ...pluginMatters(plugins),
    ...lateMatter(rows),
    ...pausedMatter(rows),
    ...quarantineMatter(rows)
  ]
  const duration = ({ since }: Matter): number => since === null ? 0 : input.now - Date.parse(since)
  const rank = ({ severity }: Matter): number => severity === "act" ? 0 : 1
  return [
    ...first.toSorted((one, other) => rank(one) - rank(other)),
    ...others.toSorted((one, other) => rank(one) - rank(other) || duration(other) - duration(one))
  ].toSorted((one, other) => rank(one) - rank(other))
}
