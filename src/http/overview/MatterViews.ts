/**
 * The matters in words, as the console and `rollcall status` show them, the most urgent first: with a title, the cause, and the page and the
 * command with which something can be done.
 *
 * Gotchas
 * - Some reasons and messages come from plugins and from the API. They are masked before they are stored   (I11).
 */
import { similarName } from "../../domain/ClosestName.ts"
import { timeInWords } from "../../domain/Watermark.ts"
import type { Matter as MatterView } from "../contract/OverviewApi.ts"
import type { Matter } from "../matters/Matters.ts"
import { type Condition, isUnknown } from "../matters/StreamConditions.ts"
import { shellWord } from "./ShellWord.ts"

type Scope = Pick<MatterView, "integrations" | "integration_count" | "stream_count">
/** The page and the command with which something can be done, and the scope if the matter concerns integrations. */
type Place = Pick<MatterView, "action" | "link" | "command"> & Partial<Scope>
type StreamMatter = Extract<Matter, { readonly streams: unknown }>
type PluginMatter = Extract<Matter, { readonly plugin: string }>

const namedIntegrations = 5
const longestDetail = 600

const count = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? "" : "s"}`

/** A message of the API, of a plugin or of a process, as the detail of a matter. */
const short = (message: string | null | undefined): string => (message ?? "").slice(0, longestDetail)

/** The text as a sentence, so that another one can follow. */
const closed = (text: string): string => text === "" || /[.!?]$/.test(text) ? text : `${text}.`

/** Several streams and their integrations, as the scope of a matter. */
const scopeOf = (rows: ReadonlyArray<{ readonly integration: string }>, streams = rows.length): Scope => {
  const integrations = [...new Set(rows.map(({ integration }) => integration))]
  return {
    integrations: integrations.slice(0, namedIntegrations),
    integration_count: integrations.length,
    stream_count: streams
  }
}

const shown = (kind: MatterView["kind"], id: string, title: string, detail: string, place: Place) => ({
  kind,
  id,
  title,
  detail,
  ...scopeOf([]),
  ...place
})
type Shown = ReturnType<typeof shown>

const query = (parameters: Readonly<Record<string, string>>): string => `?${new URLSearchParams(parameters)}`

/** The page of the stream or integration if there is only one, otherwise the list with this query. */
const linkOf = (streams: ReadonlyArray<Condition["stream"]>, search: string): string => {
  const [first] = streams
  if (first === undefined) return "/streams"
  if (streams.length === 1) return `/streams/${encodeURIComponent(first.integration)}/${first.model}`
  const isOne = streams.every(({ integration }) => integration === first.integration)
  return isOne ? `/integrations/${encodeURIComponent(first.integration)}` : `/streams${search}`
}

const lateDetail =
  "The streams are read without errors, but more slowly than they should be: the request budget of the account may be " +
  "used up, or the API has requested a pause. The stream's page shows which."
const quarantineDetail =
  "Rollcall could not store these rows: they have no usable id, are nested too deeply, or are not objects. " +
  "Report them to the provider of the API."

/** For integrations that the API does not know: the similar ids that it knows, as a sentence. */
const meantText = (streams: ReadonlyArray<Condition["stream"]>, known: ReadonlyArray<string>): string => {
  const unknown = scopeOf(streams.filter(isUnknown)).integrations
  const meant = unknown.flatMap((id) => {
    const similar = similarName(id, known)
    return similar === null ? [] : [`${similar} instead of ${id}`]
  })
  return meant.length === 0 ? "" : ` Did you mean ${meant.join(", ")}? Then remove the misspelled integration.`
}

const ofStreams = ({ cause, streams: conditions }: StreamMatter, known: ReadonlyArray<string>): Shown => {
  const streams = conditions.map(({ stream }) => stream)
  const [{ cause: why = "", lateSweep = null } = {}] = conditions
  const several = count(streams.length, "stream")
  const one = streams.length === 1 ? shellWord(streams[0]?.stream ?? "") : null
  const place = (search: string) => {
    const link = linkOf(streams, search)
    const action = streams.length === 1
      ? "Open stream"
      : link.startsWith("/integrations")
      ? "Open integration"
      : "Show streams"
    const command = one === null ? "rollcall streams list" : `rollcall streams show ${one}`
    return { ...scopeOf(streams), action, link, command }
  }
  switch (cause) {
    case "blocked":
    case "failing": {
      const log = streams[0]?.[cause]?.log_url
      const detail = `${closed(short(why))}${meantText(streams, known)}${log === undefined ? "" : ` Log: ${log}`}`
      const there = place(query({ state: cause }))
      const ids = scopeOf(streams).integrations
      const isWrong = cause === "blocked" && ids.length === 1 && streams.every(isUnknown)
      return shown(cause, `${cause}/${why}`, `${several} ${cause}`, detail, {
        ...there,
        ...isWrong ? { action: "Open integration", link: `/integrations/${encodeURIComponent(ids[0] ?? "")}` } : {}
      })
    }
    case "late":
      return shown(
        "late",
        "late",
        `${several} behind the freshness target`,
        lateDetail,
        place(query({ state: "late" }))
      )
    case "late_sweep": {
      const detail = `${lateSweep} The store or the API may be slow; the page of the stream shows its last runs.`
      return shown("late_sweep", "late_sweep", `${several} not swept in time`, detail, place(""))
    }
    case "paused": {
      const detail = "A paused stream is not read until an operator resumes it."
      const command = `rollcall streams resume ${one ?? "<stream>"}`
      const there = { ...place(query({ state: "paused" })), command }
      return shown("switched_off", "paused", `${several} paused by an operator`, detail, there)
    }
    case "quarantine": {
      const rows = streams.reduce((sum, { quarantined }) => sum + quarantined, 0)
      const link = streams.length === 1 ? linkOf(streams, "") : `/streams${query({ order: "quarantined" })}`
      const there = { ...place(""), action: "Show streams", link }
      return shown("quarantine", "quarantine", `${count(rows, "row")} in quarantine`, quarantineDetail, there)
    }
  }
}

const ofPlugin = (matter: PluginMatter): Shown => {
  const { plugin } = matter
  const page = {
    action: "Open plugin",
    link: `/plugins/${encodeURIComponent(plugin)}`,
    command: `rollcall plugins show ${plugin}`
  }
  switch (matter.cause) {
    case "left_over": {
      const detail = "It has deliveries left, which wait until it is configured again."
      return shown("plugin", `left_over/${plugin}`, `${plugin} is no longer configured`, detail, page)
    }
    case "plugin_off": {
      const detail = "Its deliveries wait, in order, until an operator switches it on."
      const there = { ...page, command: `rollcall plugins on ${plugin}` }
      return shown("switched_off", `off/${plugin}`, `${plugin} is switched off`, detail, there)
    }
    case "not_running": {
      const { integrations, reason, state } = matter
      const where = count(integrations.length, "integration")
      const titles = {
        blocked: `Deliveries of ${plugin} wait for the API in ${where}`,
        off: `${plugin} is switched off in ${where}`,
        removed: `Deliveries of ${plugin} wait in ${count(integrations.length, "removed integration")}`,
        unconfigured: `${plugin} does not run in ${where}`
      }
      const kind = state === "off" ? "switched_off" : "plugin"
      const there = { ...scopeOf(integrations, 0), ...page }
      return shown(kind, `${state}/${plugin}/${reason}`, titles[state], closed(short(reason)), there)
    }
    case "dead_letters": {
      const { handler, oldest } = matter
      const title = `${count(matter.count, "dead letter")} of ${plugin} (${handler})`
      const scope = scopeOf((oldest?.integrations ?? []).map((integration) => ({ integration })), 0)
      const there = {
        ...scope,
        action: "Review",
        link: `/dead-letters${query({ plugin, handler })}`,
        command: `rollcall deadletters list --plugin ${plugin} --handler ${shellWord(handler)}`
      }
      const circuit = matter.isOpen ? " The circuit of the handler is open: its next delivery is a try." : ""
      return shown(
        "dead_letters",
        `dead/${plugin}/${handler}`,
        title,
        `${closed(short(oldest?.message))}${circuit}`,
        there
      )
    }
    case "circuit": {
      const detail =
        `${
          count(matter.failures, "failure")
        } in a row, of different records. One delivery is tried from time to time, the next at ` +
        `${timeInWords(matter.until)}; the others wait and are not lost.`
      const { handler } = matter
      const there = {
        ...scopeOf(matter.integrations.map((integration) => ({ integration })), 0),
        ...page,
        command: `rollcall plugins try ${plugin} ${shellWord(handler)}`
      }
      return shown("circuit", `circuit/${plugin}/${handler}`, `Circuit open: ${plugin} (${handler})`, detail, there)
    }
  }
}

const heldKinds = { deletes: ": deletes", restores: ": restores", scope: "" } as const
const problemTitles: Readonly<Record<string, string>> = {
  kafka: "Publishing to Kafka does not work",
  plugins: "Plugins do not run in a process"
}
const silentDetail =
  "It sends no heartbeats: it was killed, is frozen, or does not reach the database. Other processes take its work over."

const sizeText = (bytes: number): string =>
  bytes < 1024 ** 3 ? `${Math.round(bytes / 1024 ** 2)} MiB` : `${(bytes / 1024 ** 3).toFixed(1)} GiB`

/** Null for the headline. */
const shownOf = (matter: Matter, known: ReadonlyArray<string>): Shown | null => {
  const processes = { action: "Show processes", link: "/processes", command: "rollcall fleet" }
  const plugins = { action: "Show plugins", link: "/plugins", command: "rollcall plugins list" }
  if ("plugin" in matter) return ofPlugin(matter)
  if ("streams" in matter) return ofStreams(matter, known)
  switch (matter.cause) {
    // it is the headline, and its causes are matters too
    case "unread":
      return null
    case "store": {
      const { hint, message } = matter.outage
      return shown("store", "store", "The store does not answer", `${message}; ${hint}`, processes)
    }
    case "disk": {
      const detail = "When the disk is full, nothing is read or published until there is space again. Nothing is lost."
      return shown(
        "disk",
        "disk",
        `${sizeText(matter.disk.freeBytes)} left on the disk of the store`,
        detail,
        processes
      )
    }
    case "silent": {
      const { host, id, pid } = matter.process
      return shown("process", `silent/${id}`, `Process ${pid} on ${host} is silent`, silentDetail, processes)
    }
    case "problem": {
      const { name, process: { host, id, pid }, reason } = matter
      const title = problemTitles[name] ?? `${name} does not work`
      const detail = `${short(reason)} (process ${pid} on ${host})`
      return shown(name === "kafka" ? "kafka" : "process", `${name}/${id}`, title, detail, processes)
    }
    case "versions": {
      const title = `The processes run different versions: ${matter.versions.join(", ")}`
      return shown("process", "versions", title, "This is normal during an update.", processes)
    }
    case "relay": {
      const detail =
        "Publishing is slower than reading, or does not work. Reading continues until a million events wait."
      return shown("kafka", "relay", `${count(matter.waiting, "event")} not in Kafka yet`, detail, processes)
    }
    case "engine": {
      const title = matter.state === "stopped" ? "Plugins are stopped" : "Plugins wait"
      return shown("plugin", "plugins", title, matter.reason, plugins)
    }
    case "writes_stopped": {
      const title = "An operator has stopped the writes of all plugins"
      const detail = "Deliveries that need to write wait until the writes are resumed."
      return shown("switched_off", "writes", title, detail, { ...plugins, command: "rollcall plugins resume-writes" })
    }
    case "hold": {
      const { hold } = matter
      const title = `${count(hold.records, "change")} of ${hold.model} held back${heldKinds[hold.kind]}`
      const command = `rollcall holds show ${hold.id}`
      const there = { ...scopeOf([hold]), action: "Review", link: `/holds/${hold.id}`, command }
      return shown("hold", `hold/${hold.id}`, title, hold.reason, there)
    }
  }
}

/** Matters of the whole installation. They come before the others of their severity, in the order in which they were computed. */
const first: ReadonlySet<Matter["cause"]> = new Set(["store", "disk", "silent", "problem", "versions", "relay"])

const rankOf = ({ cause, severity }: Matter): number => (severity === "act" ? 0 : 2) + (first.has(cause) ? 0 : 1)

/** The order of the list: the most unread streams first; then holds, first those that a sweep ends, then those with the most records. */
const impactOf = (matter: Matter): readonly [streams: number, deadlines: number, records: number] => {
  if (matter.cause === "hold") return [0, matter.hold.sweep_at === null ? 0 : 1, matter.hold.records]
  return [matter.cause === "blocked" || matter.cause === "failing" ? matter.streams.length : 0, 0, 0]
}

const byImpact = (one: Matter, other: Matter): number => {
  const [a, b] = [impactOf(one), impactOf(other)]
  return b[0] - a[0] || b[1] - a[1] || b[2] - a[2]
}

/** The matter that has lasted longest comes first; a matter without a time comes last. */
const byTime = (one: Matter, other: Matter): number => {
  if (first.has(one.cause) || one.since === other.since) return 0
  return one.since === null || (other.since !== null && one.since > other.since) ? 1 : -1
}

/** The same trouble is shown once, with its reason. */
const withoutRepeated = (matters: ReadonlyArray<Matter>): ReadonlyArray<Matter> => {
  const reasons = matters.flatMap((matter) => matter.cause === "engine" ? matter.reason : [])
  const hasKafka = matters.some((matter) => matter.cause === "problem" && matter.name === "kafka")
  return matters.filter((matter) =>
    !(matter.cause === "problem" && matter.name === "plugins" && reasons.includes(matter.reason)) &&
    !(matter.cause === "relay" && hasKafka)
  )
}

/** `known`: the integrations that the API knows. */
export const viewsOf = (matters: ReadonlyArray<Matter>, known: ReadonlyArray<string> = []): ReadonlyArray<MatterView> =>
  withoutRepeated(matters).toSorted((one, other) =>
    rankOf(one) - rankOf(other) || byImpact(one, other) || byTime(one, other)
  ).flatMap((matter) => {
    const found = shownOf(matter, known)
    return found === null ? [] : [{ ...found, severity: matter.severity, since: matter.since }]
  })
