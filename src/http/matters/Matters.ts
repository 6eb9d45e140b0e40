/**
 * The matters that need attention, from the state of the installation: one per cause, the most urgent first.
 *
 * Invariants
 * 1. Everything that waits for an operator is in a matter: holds, dead letters, blocked streams, open circuits, plugins that do not run
 */
import { formatTime } from "../../domain/Watermark.ts"
import type { FleetProcess } from "../../store/Processes.ts"
import type { Outage } from "../../store/Store.ts"
import type { HoldView } from "../contract/HoldApi.ts"
import type { Matter, StreamRow } from "../contract/OverviewApi.ts"
import type { PluginList } from "../contract/PluginApi.ts"
import type { DiskSpace } from "../status/DiskSpace.ts"
import { count, detailOf, noScope } from "./MatterFields.ts"
import { type DeadLetterGroup, deadLetterMatters, pluginMatters } from "./PluginMatters.ts"
import { holdMatters, unreadMatters, watchedStreamMatters } from "./StreamMatters.ts"

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

const allProcesses = { ...noScope, action: "Show processes", link: "/processes" } as const

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
      ...allProcesses
    })),
    ...alive.flatMap(({ host, id, pid, problems }) =>
      problems.filter(({ name }) => name !== "plugins" || plugins.delivering.reason === null).map((
        { name, reason }
      ): Matter => ({
        id: `${name}/${id}`,
        kind: name === "kafka" ? "kafka" : "process",
        severity: "act",
        title: problemTitles[name] ?? `${name} does not work`,
        detail: `${detailOf(reason)} (process ${pid} on ${host})`,
        since: null,
        ...allProcesses
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
        ...allProcesses
      } satisfies Matter
    ]
  ]
}

const relayMatter = ({ now, processes, relay }: Input): ReadonlyArray<Matter> => {
  const isReported = processes.some(({ problems }) => problems.some(({ name }) => name === "kafka"))
  if (relay === null || relay.oldestAt === null || now - relay.oldestAt < relayPatience || isReported) return []
  return [{
    id: "relay",
    kind: "kafka",
    severity: "act",
    title: `${count(relay.waiting, "event")} not in Kafka yet`,
    detail: "Publishing is slower than reading, or does not work. Reading continues until a million events wait.",
    since: formatTime(relay.oldestAt),
    ...allProcesses
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
    ...allProcesses
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
    ...allProcesses
  }]

/** The most urgent first: what stops everything, then what has lasted longest. */
export const mattersOf = (input: Input): ReadonlyArray<Matter> => {
  const { deadLetters, disk, holds, outage, plugins, rows } = input
  const first = [...outageMatter(outage), ...diskMatter(disk), ...processMatters(input), ...relayMatter(input)]
  const others = [
    ...holdMatters(holds),
    ...unreadMatters(rows),
    ...deadLetterMatters(deadLetters),
    ...pluginMatters(plugins),
    ...watchedStreamMatters(rows)
  ]
  const duration = ({ since }: Matter): number => since === null ? 0 : input.now - Date.parse(since)
  const rank = ({ severity }: Matter): number => severity === "act" ? 0 : 1
  return [...first, ...others.toSorted((one, other) => duration(other) - duration(one))]
    .toSorted((one, other) => rank(one) - rank(other))
}
