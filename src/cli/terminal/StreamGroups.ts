/**
 * Groups streams by the reason why they are not read. If an integration is broken, all its streams fail, and people see one line instead of
 * one per model.
 */
import type { StreamView } from "../../http/contract/StreamApi.ts"
import type { Matter } from "../../http/matters/Matters.ts"

const unread = ["blocked", "failing", "paused"] as const

export interface StreamGroup {
  readonly integration: string
  /** At least one stream. Several streams have the same cause. */
  readonly streams: ReadonlyArray<StreamView>
  /** Why the streams are not read; null if they are read. */
  readonly cause: (typeof unread)[number] | null
  /** Whether these are all streams of the integration. */
  readonly isWhole: boolean
}

/** The groups, in the order of their first streams. */
export const groupStreams = (
  streams: ReadonlyArray<StreamView>,
  matters: ReadonlyArray<Matter>
): ReadonlyArray<StreamGroup> => {
  const byIntegration = Map.groupBy(streams, ({ integration }) => integration)
  const matterOf = new Map(matters.flatMap((matter, index) => {
    const cause = "streams" in matter ? unread.find((one) => one === matter.cause) : undefined
    if (cause === undefined || !("streams" in matter)) return []
    return matter.streams.map(({ stream }) => [stream.stream, { cause, index }] as const)
  }))
  const groups = Map.groupBy(streams, ({ integration, stream }) => {
    const matter = matterOf.get(stream)
    return matter === undefined ? stream : `${integration} ${matter.index}`
  })
  return [...groups.values()].map((group) => {
    const { integration, stream } = group[0]!
    const isWhole = byIntegration.get(integration)?.length === group.length
    return { integration, streams: group, cause: matterOf.get(stream)?.cause ?? null, isWhole }
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
