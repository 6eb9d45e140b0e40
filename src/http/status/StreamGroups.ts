/**
 * Groups streams by the reason why they are not read, and describes the reason. If an integration is broken, all its streams fail, and
 * people see one line instead of one per model.
 */
import type { StreamView } from "../contract/StreamApi.ts"

export interface StreamGroup {
  readonly integration: string
  /** At least one stream. Several streams have the same cause. */
  readonly streams: ReadonlyArray<StreamView>
  /** Why the streams are not read, since when, and what to do, as text; null if they are read. */
  readonly cause: string | null
  /** Whether these are all streams of the integration. */
  readonly isWhole: boolean
}

/** Equal for streams with the same reason why they are not read; null for a stream that is read. */
const causeKey = ({ blocked, failing, paused }: StreamView): string | null => {
  if (blocked !== null) return JSON.stringify(["blocked", blocked.reason, blocked.message])
  if (paused) return "paused"
  return failing === null ? null : JSON.stringify(["failing", failing.message])
}

/** `2026-03-01 12:00Z` */
const minuteOf = (times: ReadonlyArray<string>): string =>
  `${times.toSorted()[0]?.slice(0, 16).replace("T", " ") ?? ""}Z`

const logOf = ({ log_url: url }: { readonly log_url?: string }): string => url === undefined ? "" : `; log: ${url}`

const causeText = (streams: ReadonlyArray<StreamView>): string | null => {
  const [first] = streams
  if (first === undefined) return null
  const since = (what: "blocked" | "failing") => minuteOf(streams.flatMap((stream) => stream[what]?.since ?? []))
  if (first.blocked !== null) {
    return `blocked (${first.blocked.reason}) since ${since("blocked")}: ${first.blocked.message}${
      logOf(first.blocked)
    }`
  }
  if (first.paused) {
    const stream = streams.length === 1 ? first.stream : "<stream>"
    return `paused by an operator: \`rollcall streams resume ${stream}\` continues reading`
  }
  if (first.failing === null) return null
  const count = Math.max(...streams.map(({ failing }) => failing?.count ?? 0))
  return `failing since ${since("failing")}, ${count === 1 ? "once" : `${count} times`}: ${first.failing.message}${
    logOf(first.failing)
  }`
}

/** The groups, in the order of their first streams. */
export const groupStreams = (streams: ReadonlyArray<StreamView>): ReadonlyArray<StreamGroup> => {
  const byIntegration = Map.groupBy(streams, ({ integration }) => integration)
  const groups = Map.groupBy(streams, (stream) => {
    const cause = causeKey(stream)
    return cause === null ? stream.stream : `${stream.integration} ${cause}`
  })
  return [...groups.values()].map((group) => {
    const { integration } = group[0]!
    const isWhole = byIntegration.get(integration)?.length === group.length
    return { integration, streams: group, cause: causeText(group), isWhole }
  })
}

/** `ats.tag`, or `7 models` */
export const modelsOf = ({ streams }: StreamGroup): string =>
  streams.length === 1 ? streams[0]!.model : `${streams.length} models`

/** `greenhouse:acme/ats.tag`, `greenhouse:acme (all 12 models)`, or `greenhouse:acme (2 models: ats.tag, ats.offer)` */
export const subjectOf = ({ integration, isWhole, streams }: StreamGroup): string => {
  if (streams.length === 1) return streams[0]!.stream
  const names = isWhole ? "" : `: ${streams.map(({ model }) => model).join(", ")}`
  return `${integration} (${isWhole ? "all " : ""}${streams.length} models${names})`
}

export const pendingOf = ({ pending }: StreamView): number =>
  Object.values(pending).reduce((sum, rows) => sum + rows, 0)

export const sumOf = (streams: StreamGroup["streams"], count: (stream: StreamView) => number): number =>
  streams.reduce((sum, stream) => sum + count(stream), 0)

/** The freshness of the stream that is furthest behind: the greatest value, in seconds. Null if a stream has none. */
export const freshnessOf = (streams: StreamGroup["streams"]): number | null =>
  streams.some(({ freshness_seconds }) => freshness_seconds === null)
    ? null
    : Math.max(...streams.map(({ freshness_seconds }) => freshness_seconds ?? 0))
