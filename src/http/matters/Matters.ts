/**
 * The matters of an installation: each cause that needs attention, and how badly. They are computed here and nowhere else, from the state of
 * the installation. Other modules show them:
 *
 * | where | which matters |
 * |---|---|
 * | the console and `rollcall status` (`overview/MatterViews.ts`) | all; `unread` and `store` as the headline |
 * | `doctor` (`cli/doctor/FleetChecks.ts`, `AddressCheck.ts`) | those of processes; `unread` |
 * | readiness (`http/health/HealthHandlers.ts`, `app/Readiness.ts`) | `unread` as `degraded`; `late_sweep` |
 *
 * The streams in the metrics and in the health checks come from `StreamConditions.ts`, not from here. The alerts of Prometheus have their own
 * expressions.
 *
 * A new cause needs a member of `Matter`, a line in `mattersOf` and a row in the table below. The type check then asks for its case in
 * `MatterViews.ts`. If the console shows it as a new kind, the kind is added in `contract/OverviewApi.ts` and `console/pages/Overview.tsx`.
 * `doctor` shows other causes only if you add them there.
 *
 * | cause | scope | severity | remedy | alert |
 * |---|---|---|---|---|
 * | store | everything | act | the hint of the outage | RollcallStoreUnavailable |
 * | disk | everything | act | free disk space | RollcallDiskSpaceLow |
 * | silent | a process | act | start another one, or stop it | RollcallProcessDown |
 * | problem | a process | act | its reason says it | RollcallKafkaUnavailable, RollcallPluginsStopped |
 * | versions | all processes | watch | finish the update | |
 * | relay | everything | act | look at Kafka and the process that publishes | RollcallPublishingLate |
 * | engine | all plugins | act | its reason says it | RollcallPluginsStopped |
 * | writes_stopped | all plugins | watch | resume the writes | RollcallPluginWritesStopped |
 * | hold | a stream | act | approve or reject it | RollcallHoldPending |
 * | unread | more than half of the streams that are not paused | act | the cause of most of them | RollcallFeedDown |
 * | blocked | streams with the same reason | act | change the key, the permission or the connection | RollcallIntegrationBlocked |
 * | failing | streams with the same reason | act | the reason says it; every run is repeated | RollcallStreamsFailing |
 * | plugin_off | a plugin | watch | switch it on | |
 * | left_over | a plugin | watch | configure it again | |
 * | not_running | a plugin in integrations | act if it is not configured or the API refuses it, otherwise watch | its reason says it | RollcallPluginUnconfigured |
 * | circuit | a handler of a plugin that is on, with open deliveries | act | repair what it calls | RollcallHandlerCircuitOpen |
 * | dead_letters | a handler | act | send them again, resolve or discard them | RollcallDeadLetters |
 * | late | streams | watch | a larger request budget, or longer intervals | RollcallFeedLate, RollcallFeedDown |
 * | late_sweep | streams | watch | a longer sweep interval | RollcallSweepsLate |
 * | paused | streams | watch | resume them | |
 * | quarantine | streams | watch | report the rows to the provider of the API | |
 *
 * Invariants
 * 1. Everything that waits for an operator is in a matter: holds, dead letters, blocked streams, open circuits, plugins that do not run
 * 2. All streams with the same reason why they are not read are one matter, across integrations
 */
import type { PluginIntegration, PluginView } from "../../delivery/admin/PluginAdmin.ts"
import type { HandlerName } from "../../domain/HandlerCircuit.ts"
import { formatTime, timeInWords } from "../../domain/Watermark.ts"
import type { FleetProcess } from "../../store/Processes.ts"
import type { Outage } from "../../store/Store.ts"
import type { HoldView } from "../contract/HoldApi.ts"
import type { PluginList } from "../contract/PluginApi.ts"
import { formatTimeOrNull } from "../contract/Schemas.ts"
import type { DiskSpace } from "../status/DiskSpace.ts"
import type { Condition } from "./StreamConditions.ts"

type Process = Pick<FleetProcess, "id" | "host" | "pid" | "version" | "state" | "problems" | "seenAt" | "silence">

/** The oldest dead letter of a handler. */
export interface OldestDeadLetter extends HandlerName {
  readonly integrations: ReadonlyArray<string>
  /** RFC 3339 */
  readonly since: string
  readonly message: string
}

/** The state from which the matters are computed. A part that is not known is left out. */
export interface Installation {
  readonly outage: Outage | null
  /** Null if it is not known. */
  readonly disk: DiskSpace | null
  readonly processes: ReadonlyArray<Process>
  /**
   * `waiting`: how many events are not in Kafka yet. `oldestAt`: since when the oldest of them waits; null if none does. `now`: when both
   * were read. Our clock, in ms. Null without Kafka.
   */
  readonly relay: { readonly waiting: number; readonly oldestAt: number | null; readonly now: number } | null
  readonly streams: ReadonlyArray<Condition>
  readonly holds: ReadonlyArray<HoldView>
  readonly plugins: PluginList
  readonly deadLetters: ReadonlyArray<OldestDeadLetter>
  /** The integrations of each handler in which its deliveries are open. */
  readonly open: ReadonlyArray<HandlerName & { readonly integration: string }>
}

type StreamCause = "blocked" | "failing" | "late" | "late_sweep" | "paused" | "quarantine"

type PluginCause =
  | { readonly cause: "plugin_off" | "left_over" }
  | {
    readonly cause: "not_running"
    readonly state: Exclude<PluginIntegration["state"], "on">
    /** The same in all the integrations. */
    readonly reason: string | null
    readonly integrations: ReadonlyArray<PluginIntegration>
  }
  | {
    readonly cause: "dead_letters"
    readonly handler: string
    readonly count: number
    /** Null if it was not read. */
    readonly oldest: OldestDeadLetter | null
    /** The circuit of the handler is open although no delivery waits for it. */
    readonly isOpen: boolean
  }
  | {
    readonly cause: "circuit"
    readonly handler: string
    readonly failures: number
    readonly until: string
    /** Those in which deliveries wait; none if it was not read. */
    readonly integrations: ReadonlyArray<string>
  }

/** `since`: RFC 3339; null if the state does not show it. */
export type Matter =
  & { readonly severity: "act" | "watch"; readonly since: string | null }
  & (
    | { readonly cause: "store"; readonly outage: Outage }
    | { readonly cause: "disk"; readonly disk: DiskSpace }
    | { readonly cause: "silent"; readonly process: Process }
    | { readonly cause: "problem"; readonly process: Process; readonly name: string; readonly reason: string }
    | { readonly cause: "versions"; readonly versions: ReadonlyArray<string> }
    | { readonly cause: "relay"; readonly waiting: number }
    | { readonly cause: "engine"; readonly state: PluginList["delivering"]["state"]; readonly reason: string }
    | { readonly cause: "writes_stopped" }
    | { readonly cause: "hold"; readonly hold: HoldView }
    | {
      readonly cause: StreamCause
      /** At least one. */
      readonly streams: ReadonlyArray<Condition>
    }
    | {
      readonly cause: "unread"
      readonly unread: number
      /** How many streams should be read: all that are not paused. */
      readonly expected: number
      /** The cause of most of them; if some stopped for another reason, the message counts both. */
      readonly message: string
      readonly hasOthers: boolean
    }
    | { readonly plugin: string } & PluginCause
  )

/** An outage of the store, or of most of the feed, in words: the headline of the console and of `rollcall status`. */
export interface Headline {
  readonly title: string
  readonly cause: string
  /** RFC 3339 */
  readonly since: string | null
}

/** A relay whose oldest event waits longer is late, in ms. */
const relayPatience = 60_000
/** `oldestAt`: the time since which the oldest unpublished event waits; null if every event is in Kafka. Our clock, in ms. */
export const isRelayLate = (oldestAt: number | null, now: number): boolean =>
  oldestAt !== null && now - oldestAt >= relayPatience

/** Less free space than this share, and than this number of bytes, needs attention. */
const [leastShare, leastBytes] = [0.1, 5 * 1024 ** 3]
const isLow = ({ freeBytes, totalBytes }: DiskSpace): boolean =>
  freeBytes <= leastBytes && freeBytes <= totalBytes * leastShare

export const earliest = (times: ReadonlyArray<string | null>): string | null =>
  times.flatMap((time) => time ?? []).toSorted()[0] ?? null

/** Versions of the processes that are alive. More than one is normal during an update. */
export const versionsOf = (processes: ReadonlyArray<Pick<Process, "state" | "version">>): ReadonlyArray<string> => [
  ...new Set(processes.flatMap(({ state, version }) => state === "alive" ? [version] : []))
]

const processMatters = (processes: ReadonlyArray<Process>): ReadonlyArray<Matter> => {
  const versions = versionsOf(processes)
  return [
    ...processes.filter(({ state }) => state === "silent").map((process) =>
      ({ cause: "silent", severity: "act", since: formatTime(process.seenAt), process }) as const
    ),
    ...processes.filter(({ state }) => state === "alive").flatMap((process) =>
      process.problems.map((problem) =>
        ({ cause: "problem", severity: "act", since: null, process, ...problem }) as const
      )
    ),
    ...versions.length < 2 ? [] : [{ cause: "versions", severity: "watch", since: null, versions } as const]
  ]
}

const sinceOf = (streams: ReadonlyArray<Condition>): string | null => earliest(streams.map(({ since }) => since))

const ofStreams = (
  cause: StreamCause,
  severity: Matter["severity"],
  streams: ReadonlyArray<Condition>,
  since: string | null = null
): ReadonlyArray<Matter> => streams.length === 0 ? [] : [{ cause, severity, since, streams }]

const inState = (streams: ReadonlyArray<Condition>, state: Condition["state"]) =>
  streams.filter((one) => one.state === state)

const byCause = (streams: ReadonlyArray<Condition>) => [...Map.groupBy(streams, ({ cause }) => cause).entries()]

const unreadMatters = (streams: ReadonlyArray<Condition>, state: "blocked" | "failing"): ReadonlyArray<Matter> =>
  byCause(inState(streams, state)).flatMap(([, some]) => ofStreams(state, "act", some, sinceOf(some)))

/** Whether the streams that are not read are an outage: more than half of those that should be read. */
export const isOutage = (unread: number, expected: number): boolean => unread > expected / 2

/** When a stream was last read to the end, or since when it is not read if it never was. RFC 3339. */
const lastReadOf = ({ since, stream: { last_poll_at, last_sweep_at } }: Condition): string | null =>
  [last_poll_at, last_sweep_at].flatMap((time) => time ?? []).toSorted().at(-1) ?? since

/** Streams that were read until so long before an outage began are part of it, in ms; earlier ones had a cause of their own. */
const outageSpan = 600_000

/**
 * The outage began when the last stream was read, or, if some are still read, when one stream made it more than half. Its cause is the one of
 * most streams that stopped then: others may have been blocked for days.
 */
const outageMatters = (streams: ReadonlyArray<Condition>): ReadonlyArray<Matter> => {
  const unread = streams.filter(({ state }) => state === "blocked" || state === "failing")
  const expected = streams.filter(({ state }) => state !== "paused").length
  if (!isOutage(unread.length, expected)) return []
  // a stream that was added during the outage was never read
  const known = unread.filter(({ stream }) => stream.phase !== "starting")
  const isWhole = unread.length === expected && known.length > 0
  const stopOf = (one: Condition): string | null => isWhole ? lastReadOf(one) : one.since
  const stops = (isWhole ? known : unread).flatMap((one) => stopOf(one) ?? []).toSorted()
  const since = (isWhole ? undefined : stops[Math.floor(expected / 2)]) ?? stops.at(-1) ?? null
  const earliestStop = since === null ? 0 : Date.parse(since) - outageSpan
  const part = unread.filter((one) => Date.parse(stopOf(one) ?? since ?? "") >= earliestStop)
  const [most] = byCause(part).toSorted(([, one], [, other]) => other.length - one.length)
  const cause = most?.[0] ?? ""
  const others = unread.filter((one) => one.cause !== cause)
  const rest = others.some((one) => part.includes(one)) ? "stopped for other reasons" : "had stopped before"
  const message = others.length === 0
    ? cause
    : `${cause.replace(/\.$/, "")}. This stopped ${unread.length - others.length} streams; ${others.length} ${rest}`
  return [{
    cause: "unread",
    severity: "act",
    since,
    unread: unread.length,
    expected,
    message,
    hasOthers: others.length > 0
  }]
}

const watchedMatters = (streams: ReadonlyArray<Condition>): ReadonlyArray<Matter> => {
  const late = inState(streams, "late")
  return [
    ...ofStreams("late", "watch", late, sinceOf(late)),
    ...ofStreams("late_sweep", "watch", streams.filter(({ lateSweep }) => lateSweep !== null)),
    ...ofStreams("paused", "watch", inState(streams, "paused")),
    ...ofStreams("quarantine", "watch", streams.filter(({ stream }) => stream.quarantined > 0))
  ]
}

/** That the configuration leaves out an integration is not a matter, and a plugin that is off everywhere is one already. */
const isMatter = ({ reason, state }: PluginIntegration): boolean => state !== "off" || reason === "by an operator"

const notRunning = ["unconfigured", "blocked", "off", "removed"] as const

const pluginMatters = (
  { configured, handlers, integrations, on, plugin }: PluginView,
  oldest: ReadonlyArray<OldestDeadLetter>,
  open: Installation["open"]
): ReadonlyArray<Matter> => [
  ...!configured || !on
    ? [{ cause: configured ? "plugin_off" : "left_over", severity: "watch", since: null, plugin } as const]
    : [],
  ...notRunning.flatMap((state): ReadonlyArray<Matter> => {
    const some = integrations.filter((one) => one.state === state && isMatter(one))
    const severity = state === "unconfigured" || state === "blocked" ? "act" : "watch"
    return [...Map.groupBy(some, ({ reason }) => reason)].map(([reason, integrations]) =>
      ({ cause: "not_running", severity, since: null, plugin, state, reason, integrations }) as const
    )
  }),
  ...handlers.flatMap(({ circuit_open: circuit, dead, handler, oldest_at }): ReadonlyArray<Matter> => {
    const is = (one: HandlerName) => one.plugin === plugin && one.handler === handler
    const first = oldest.find(is) ?? null
    const of = { plugin, handler }
    const waitingIn = open.filter(is).map(({ integration }) => integration)
    return [
      // nothing is tried while the plugin is off
      ...circuit === null || oldest_at === null || !on ? [] : [
        { cause: "circuit", severity: "act", since: oldest_at, ...of, ...circuit, integrations: waitingIn } as const
      ],
      ...dead === 0 ? [] : [
        {
          cause: "dead_letters",
          severity: "act",
          since: first?.since ?? null,
          ...of,
          count: dead,
          oldest: first,
          isOpen: circuit !== null && oldest_at === null
        } as const
      ]
    ]
  })
]

const noPlugins: PluginList = {
  items: [],
  next: null,
  writes: "on",
  delivering: { state: "running", reason: null }
}

/** In the order of the table above. */
export const mattersOf = ({
  deadLetters = [],
  disk = null,
  holds = [],
  open = [],
  outage = null,
  plugins: { delivering, items, writes } = noPlugins,
  processes = [],
  relay = null,
  streams = []
}: Partial<Installation>): ReadonlyArray<Matter> => [
  ...outage === null ? [] : [{ cause: "store", severity: "act", since: formatTime(outage.since), outage } as const],
  ...disk === null || !isLow(disk) ? [] : [{ cause: "disk", severity: "act", since: null, disk } as const],
  ...processMatters(processes),
  ...relay === null || !isRelayLate(relay.oldestAt, relay.now) ? [] : [
    { cause: "relay", severity: "act", since: formatTimeOrNull(relay.oldestAt), waiting: relay.waiting } as const
  ],
  ...delivering.reason === null ? [] : [
    { cause: "engine", severity: "act", since: null, state: delivering.state, reason: delivering.reason } as const
  ],
  ...writes === "on" ? [] : [{ cause: "writes_stopped", severity: "watch", since: null } as const],
  ...holds.filter(({ state }) => state === "open").map((hold) =>
    ({ cause: "hold", severity: "act", since: hold.opened_at, hold }) as const
  ),
  ...outageMatters(streams),
  ...unreadMatters(streams, "blocked"),
  ...unreadMatters(streams, "failing"),
  ...items.flatMap((plugin) => pluginMatters(plugin, deadLetters, open)),
  ...watchedMatters(streams)
]

/** Null while most of the feed is read. */
export const headlineOf = (matters: ReadonlyArray<Matter>): Headline | null => {
  for (const matter of matters) {
    const { since } = matter
    if (matter.cause === "store") {
      const { hint, message } = matter.outage
      return {
        title: "The store does not answer; the page shows what was read last",
        cause: `${message}; ${hint}`,
        since
      }
    }
    if (matter.cause === "unread") {
      const { expected, hasOthers, message, unread } = matter
      const when = since === null ? "" : ` since ${timeInWords(since)}`
      const what = unread === expected ? "Nothing has been read" : "Most streams have not been read"
      // two counts of streams side by side would have to be compared
      const count = unread === expected && hasOthers ? "" : ` (${unread} of ${expected} streams)`
      return { title: `${what}${when}${count}`, cause: message, since }
    }
  }
  return null
}
