/**
 * The state of the store's streams, integrations and open holds: each stream with its counts. The HTTP API, the metrics, the console and
 * readiness all use this overview. It leaves out derived streams and streams that are no longer configured: they are not read, so they must
 * not raise an alert.
 *
 * Gotchas
 * - The views contain more properties of the stored states than their schemas name. Encoding a response drops them.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { isReadable } from "../../capture/StreamLifecycle.ts"
import { CurrentModels } from "../../domain/BuiltInModels.ts"
import { formatPosition } from "../../domain/ChangeEvent.ts"
import { type Models, type StreamKey, streamName } from "../../domain/Model.ts"
import { completeTo, formatTime, knownOffset } from "../../domain/Watermark.ts"
import { relayReader } from "../../store/EventLog.ts"
import type { IntegrationState, StreamCounts, StreamQuery, StreamState } from "../../store/State.ts"
import { type Outage, Store } from "../../store/Store.ts"
import type { IntegrationView } from "../contract/Api.ts"
import type { HoldView } from "../contract/HoldApi.ts"
import { formatTimeOrNull } from "../contract/Schemas.ts"
import type { StreamView } from "../contract/StreamApi.ts"
import { completenessText } from "./Completeness.ts"
import { holdView } from "./HoldViews.ts"
import { mapInParts } from "./InParts.ts"

export interface LogProgress {
  /** The newest position of the event log. */
  readonly newestPosition: number
  /** The position up to which the log is in Kafka. */
  readonly published: number
  /** When the oldest event that is not in Kafka was detected; our clock, in ms. Null if there is no such event, or if it cannot be read. */
  readonly unpublishedSince: number | null
}

export interface StoreOverview {
  readonly streams: ReadonlyArray<StreamView>
  /** The streams whose stored content is being redacted, including those that are not read. */
  readonly redacting: ReadonlyArray<StreamKey>
  readonly integrations: ReadonlyArray<IntegrationView>
  /** How many live records each integration has that is not read, although its streams are not shown. */
  readonly keptRecords: ReadonlyMap<string, number>
  /** Holds that wait for a decision, newest first. */
  readonly holds: ReadonlyArray<HoldView>
  readonly log: LogProgress
}

const progressOf = ({ backfilledAt, sweep }: StreamState, live: number, now: number): StreamView["progress"] => {
  if (sweep === null) return null
  const records = sweep.rowCounts.read
  const rate = records / Math.max(1, (now - sweep.startedAt) / 1000)
  return {
    kind: backfilledAt === null ? "backfill" : "sweep",
    pass: sweep.pass ?? 1,
    records,
    pages: sweep.pages,
    started_at: formatTime(sweep.startedAt),
    records_per_second: rate,
    seconds_left: backfilledAt === null || rate === 0 ? null : Math.max(0, live - records) / rate
  }
}

const redactingOf = ({ redacting }: StreamState): StreamView["redacting"] => {
  if (redacting === undefined) return null
  const { after, newest, rewritten, startedAt, table } = redacting
  const share = table === "events" && newest > 0 ? 1 - Number(after) / newest : 0
  return { started_at: formatTime(startedAt), rows: rewritten, share: Math.max(0, Math.min(1, share)) }
}

const maxHolds = 1_000

/** The view of the integration with its own streams, in a list; an empty list if the integration was erased. */
const integrationView = (
  integration: IntegrationState,
  own: ReadonlyArray<StreamView>,
  keptRecords: StoreOverview["keptRecords"]
): ReadonlyArray<IntegrationView> => {
  const { interval, generation, state, sweepInterval } = integration
  if (state === "erased") return []
  return [{
    ...integration,
    state,
    interval_seconds: interval / 1000,
    sweep_interval_seconds: sweepInterval / 1000,
    generation: Math.max(generation, ...own.map((stream) => stream.generation)),
    streams: own.length,
    live: own.filter((stream) => stream.phase === "live").length,
    blocked: own.filter((stream) => stream.blocked !== null).length,
    failing: own.filter((stream) => stream.blocked === null && stream.failing !== null).length,
    records_live: keptRecords.get(integration.id) ?? own.reduce((sum, stream) => sum + stream.records_live, 0)
  }]
}

/**
 * The freshness of a stream: the age of its watermark, in seconds, so a greater value is less fresh. It is measured by the clock of the API
 * server, from which the watermark comes. By our clock, a server clock that is ahead would hide a stream that makes no progress (W4).
 */
const freshnessOf = ({ clockOffsets, watermark }: StreamState, now: number): number | null =>
  watermark === null ? null : Math.max(0, (now + (knownOffset(clockOffsets) ?? 0) - watermark) / 1000)

const noRows: StreamCounts = { live: 0, quarantined: 0, stale: 0, pending: {} }

const failureOf = ({ logUrl, since }: { readonly logUrl?: string; readonly since: number }) => ({
  since: formatTime(since),
  ...(logUrl === undefined ? {} : { log_url: logUrl })
})

/** `position`: the newest position of the log when the state was read. `now`: our clock at that time, in ms. */
const streamView = (state: StreamState, counts: StreamCounts, position: string, now: number): StreamView => {
  const { blocked, failing } = state
  return {
    ...state,
    stream: streamName(state),
    blocked: blocked && { ...blocked, ...failureOf(blocked) },
    failing: failing && {
      ...failing,
      ...failureOf(failing),
      ...failing.openedBy === undefined ? {} : { opened_by: failing.openedBy }
    },
    watermark: formatTimeOrNull(state.watermark),
    complete_to: formatTimeOrNull(completeTo(state)),
    complete_to_remark: completenessText(state),
    position,
    freshness_seconds: freshnessOf(state, now),
    records_live: counts.live,
    pending: { ...counts.pending },
    quarantined: counts.quarantined,
    stale_records: counts.stale,
    polls_return: state.pollsReturn ?? "changes",
    progress: progressOf(state, counts.live, now),
    redacting: redactingOf(state),
    last_poll_at: formatTimeOrNull(state.lastPoll?.endedAt),
    last_sweep_at: formatTimeOrNull(state.lastSweep?.endedAt),
    sweep_age_seconds: state.lastSweep === null ? null : Math.max(0, (now - state.lastSweep.endedAt) / 1000),
    last_poll_started_at: formatTimeOrNull(state.lastPoll?.startedAt),
    last_sweep_started_at: formatTimeOrNull(state.lastSweep?.startedAt),
    sweep_repeats: state.lastSweep?.mustRepeat === true
  }
}

const isShown = (models: Models) => {
  const isRead = isReadable(models)
  return (state: StreamState): boolean => state.retired !== true && isRead(state)
}

/** A page of streams, in the order of their names. */
export interface StreamPage {
  readonly items: ReadonlyArray<StreamView>
  /** The last stream that was read; null if no stream follows. A page can have fewer streams than its limit. */
  readonly next: string | null
}

/** Reads the streams of a page, and no others. */
export const streamPage = Effect.fnUntraced(function*(query: StreamQuery) {
  const store = yield* Store
  const now = yield* Clock.currentTimeMillis
  const models = yield* CurrentModels
  const { chain, position, streams } = yield* store.streamPage(query)
  const at = formatPosition(store.identity, position, chain)
  const last = streams.at(-1)
  const isOne = isShown(models)
  return {
    items: streams.flatMap(({ counts, state }) => isOne(state) ? [streamView(state, counts, at, now)] : []),
    next: last === undefined || streams.length < query.limit ? null : streamName(last.state)
  } satisfies StreamPage
})

/** The same page of an overview that was read earlier. */
export const pageOfOverview = ({ streams }: StoreOverview, query: StreamQuery): StreamPage => {
  const { after, integrations, limit, models } = query
  const isAfter = ({ integration, model }: StreamView) =>
    after === undefined || integration > after.integration || (integration === after.integration && model > after.model)
  const found = streams.filter((view) =>
    isAfter(view) && (integrations?.includes(view.integration) ?? true) && (models?.includes(view.model) ?? true)
  )
  const items = found.slice(0, limit)
  return { items, next: found.length > limit ? items.at(-1)!.stream : null }
}

/**
 * Maximum number of rows that are searched for the oldest event, because a backfill may have stored millions of rows that are never
 * published.
 */
const searchedRows = 1_000

/** A damaged row must not hide the rest of the overview. */
const unpublishedSince = (store: Store["Service"], newest: number, published: number) =>
  published >= newest
    ? Effect.succeed(null)
    : store.readLog({ after: published, upTo: published + searchedRows, limit: 1 }).pipe(
      Effect.map(([entry]) => entry?.detectedAt ?? null),
      Effect.orElseSucceed(() => null)
    )

/**
 * Reads everything that the overview shows. This effect only reads; `show` makes the views, because other statements may wait until the
 * reads have ended.
 */
const read = Effect.gen(function*() {
  const store = yield* Store
  const now = yield* Clock.currentTimeMillis
  const counts = yield* store.counts
  const { chain, position, streams } = yield* store.streamsAtPosition
  const integrations = yield* store.integrations
  const holds = yield* store.holds({ states: ["open"], limit: maxHolds })
  const published = yield* store.readerPosition(relayReader)
  const log: LogProgress = {
    newestPosition: position,
    published,
    unpublishedSince: yield* unpublishedSince(store, position, published)
  }
  return { now, counts, position: formatPosition(store.identity, position, chain), streams, integrations, holds, log }
})

/** Makes the views of what was read. Other requests may run meanwhile. */
const show = Effect.fnUntraced(function*({ now, log, position, ...found }: Effect.Success<typeof read>) {
  const counts = new Map(found.counts.map((row) => [streamName(row), row]))
  const models = yield* CurrentModels
  const shown = new Map(found.streams.filter(isShown(models)).map((state) => [streamName(state), state]))
  const streams = yield* mapInParts(
    [...shown],
    ([name, state]) => streamView(state, counts.get(name) ?? noRows, position, now)
  )
  const redacting = found.streams.filter((state) => state.redacting !== undefined)
  const byIntegration = Map.groupBy(streams, ({ integration }) => integration)
  const ofIntegration = Map.groupBy(found.counts, ({ integration }) => integration)
  const keptRecords = new Map(
    found.integrations.flatMap(({ id, state }): ReadonlyArray<[string, number]> =>
      state === "active" ? [] : [[id, (ofIntegration.get(id) ?? []).reduce((sum, { live }) => sum + live, 0)]]
    )
  )
  const integrations = found.integrations.flatMap((one) =>
    integrationView(one, byIntegration.get(one.id) ?? [], keptRecords)
  )
  const holds = found.holds.flatMap((hold) => {
    const state = shown.get(streamName(hold))
    const integration = found.integrations.find(({ id }) => id === hold.integration) ?? null
    return state === undefined ? [] : [holdView(models, hold, { state, integration, now })]
  })
  return { streams, redacting, integrations, keptRecords, holds, log } satisfies StoreOverview
})

export const storeOverview = Effect.flatMap(Store, ({ batchReads }) => Effect.flatMap(batchReads(read), show))

/** The view of an integration, in a list; an empty list if the integration was erased. */
export const viewOfIntegration = (integration: IntegrationState) =>
  Effect.map(
    storeOverview,
    ({ keptRecords, streams }) =>
      integrationView(integration, streams.filter((stream) => stream.integration === integration.id), keptRecords)
  )

/** Why the store cannot be used and since when, as text; null while the store answers. */
export const outageText = (outage: Outage | null): string | null =>
  outage === null ? null : `${outage.message}, since ${formatTime(outage.since)}; ${outage.hint}`
