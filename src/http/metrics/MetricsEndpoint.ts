/**
 * The text of `/metrics`: the metrics that this process counts, and gauges for the state of every stream and plugin in the
 * store.
 *
 * Invariants
 * 1. Of the gauges whose values are in the store, each process of a fleet exports those of its share, so a sum over all processes is right
 *
 * Gotchas
 * - The gauges are built for each scrape in a new registry, so a stream or a block that is gone leaves no series
 *   with its last value behind.
 * - A stream without a watermark has infinite freshness, so that an alert on freshness includes it.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Metric from "effect/Metric"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import * as Option from "effect/Option"
import { Processes } from "../../store/Processes.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import * as Share from "../fleet/Share.ts"
import type { PluginList } from "../plugins/PluginApi.ts"
import type { Overview } from "../status/Overview.ts"
import { type Cached, OverviewCache } from "../status/OverviewCache.ts"
import { version } from "../Version.ts"

const freshness = Metric.gauge("rollcall_stream_freshness_seconds", {
  description: "Seconds between now and the watermark up to which the stream is complete"
})
const live = Metric.gauge("rollcall_records_live", { description: "Published records that are not deleted" })
const pending = Metric.gauge("rollcall_pending_changes", { description: "Observed changes that are not published yet" })
const quarantined = Metric.gauge("rollcall_quarantined_records", {
  description: "Records that could not be decoded and are kept in the quarantine"
})
const staleRecords = Metric.gauge("rollcall_stale_records", {
  description: "Records to be fetched again because they contain content of another record that has changed"
})
const unredacted = Metric.gauge("rollcall_redaction_remaining_ratio", {
  description: "Share of the stream's event log that is still to be redacted by rules that were added later"
})
const blocked = Metric.gauge("rollcall_stream_blocked", {
  description: "1 while the stream is blocked and cannot be read"
})
const openHolds = Metric.gauge("rollcall_holds_open", {
  description: "Holds of the guard that wait for an operator's decision"
})

const published = Metric.gauge("rollcall_relay_position", {
  description: "Newest position of the event log that is in the sink"
})
const unpublished = Metric.gauge("rollcall_relay_lag_events", {
  description: "Events in the log that are not yet in the sink"
})

const lag = Metric.gauge("rollcall_delivery_lag_events", {
  description: "Events of the log for which the handler's deliveries are not made yet"
})
const backlog = Metric.gauge("rollcall_delivery_backlog", {
  description: "Deliveries that are due, running, or waiting for their next attempt or for an earlier delivery"
})
const oldest = Metric.gauge("rollcall_delivery_oldest_seconds", {
  description: "Age of the oldest delivery that is neither settled nor dead"
})
const dead = Metric.gauge("rollcall_dead_letters", {
  description: "Deliveries that failed for good and wait for an operator"
})
const circuitOpen = Metric.gauge("rollcall_handler_circuit_open", {
  description: "1 while a handler that failed for several records in a row is only probed"
})
const stopped = Metric.gauge("rollcall_plugin_writes_stopped", {
  description: "1 while an operator has stopped the writes of all plugins to the API"
})

const buildInfo = Metric.gauge("rollcall_build_info", {
  description: "Always 1; the labels are the version and the id of this process, as in `rollcall fleet`"
})
const fleetProcesses = Metric.gauge("rollcall_fleet_processes", {
  description: "Processes that share the store and are alive"
})
const shardsOwned = Metric.gauge("rollcall_shards_owned", {
  description: "Shards of the streams that this process owns, of 64 in the fleet"
})

const unavailable = Metric.gauge("rollcall_store_unavailable_seconds", {
  description: "How long the store has not answered or not accepted writes; 0 while it is available"
})

const set = (gauge: Metric.Gauge<number>, value: number, labels: Readonly<Record<string, string>> = {}) =>
  Metric.update(Metric.withAttributes(gauge, labels), value)

const updatePluginGauges = Effect.fnUntraced(function*({ items, writes }: PluginList) {
  const now = yield* Clock.currentTimeMillis
  if (items.length > 0) yield* set(stopped, writes === "stopped" ? 1 : 0)
  for (const { handlers, plugin } of items) {
    for (const { handler, ...view } of handlers) {
      const labels = { plugin, handler }
      const age = view.oldest_at === null ? 0 : Math.max(0, now - Date.parse(view.oldest_at)) / 1000
      yield* set(lag, view.lag_events, labels)
      yield* set(backlog, view.due, { ...labels, state: "due" })
      yield* set(backlog, view.running, { ...labels, state: "running" })
      yield* set(backlog, view.waiting, { ...labels, state: "waiting" })
      yield* set(oldest, age, labels)
      yield* set(dead, view.dead, labels)
    }
  }
})

/** A handler's circuit is open in one process, so each process exports its own. */
const updateCircuitGauges = Effect.fnUntraced(function*({ items }: PluginList) {
  for (const { handlers, plugin } of items) {
    for (const { circuit_open, handler } of handlers) {
      yield* set(circuitOpen, circuit_open === null ? 0 : 1, { plugin, handler })
    }
  }
})

const updateRedactionGauges = ({ redacting }: Overview, { ofIntegration }: Share.Share) =>
  Effect.forEach(
    redacting.filter(({ integration }) => ofIntegration(integration)),
    ({ integration, model, share }) => set(unredacted, 1 - share, { integration, model })
  )

const updateStreamGauges = ({ holds, streams }: Overview, { ofIntegration }: Share.Share) =>
  Effect.forEach(streams.filter(({ integration }) => ofIntegration(integration)), ({ integration, model, ...view }) => {
    const labels = { integration, model }
    return Effect.all([
      set(freshness, view.freshness_seconds ?? Infinity, labels),
      set(live, view.records_live, labels),
      set(quarantined, view.quarantined, labels),
      set(openHolds, holds.filter(({ stream }) => stream === view.stream).length, labels),
      set(staleRecords, view.stale_records, labels),
      ...Object.entries(view.pending).map(([reason, rows]) => set(pending, rows, { ...labels, reason })),
      ...(view.blocked === null ? [] : [set(blocked, 1, { ...labels, reason: view.blocked.reason })])
    ])
  })

const updateRelayGauges = ({ log }: Overview) =>
  Effect.andThen(set(published, log.published), set(unpublished, log.newest - log.published))

const updateStoreGauge = Effect.gen(function*() {
  const { outage } = yield* Store
  const [now, found] = [yield* Clock.currentTimeMillis, yield* outage]
  yield* set(unavailable, found === null ? 0 : Math.max(0, now - found.since) / 1000)
})

const updateFleetGauges = Effect.fnUntraced(function*(self: string, { alive, ofFleet, shards }: Share.Share) {
  yield* set(buildInfo, 1, { version, process: self })
  yield* set(shardsOwned, shards)
  if (ofFleet) yield* set(fleetProcesses, alive)
})

/** Without the metrics of the placement: `rollcall_shards_owned` says what they say. */
const withoutPlacement = (text: string): string => text.replaceAll(/^(# [A-Z]+ )?effect_cluster_.*\n?/gm, "")

/** Prometheus text format. While the store does not answer, the gauges have the values that were last read. */
const renderMetrics = Effect.fnUntraced(function*(publishes: boolean) {
  const { overview, plugins, processes } = yield* OverviewCache
  const { self } = yield* Processes
  const own = withoutPlacement(yield* PrometheusMetrics.format())
  const stored = yield* Effect.gen(function*() {
    const read = <A>(cached: Effect.Effect<Cached<A>, StoreError>) =>
      Effect.option(Effect.map(cached, ({ value }) => value))
    const [listed, streams, delivering] = yield* Effect.all([read(processes), read(overview), read(plugins)], {
      concurrency: "unbounded"
    })
    const share = Share.make(self, Option.getOrElse(listed, () => []))
    yield* updateStoreGauge
    yield* updateFleetGauges(self, share)
    if (Option.isSome(streams)) {
      yield* updateStreamGauges(streams.value, share)
      yield* updateRedactionGauges(streams.value, share)
      if (publishes && share.ofRelay) yield* updateRelayGauges(streams.value)
    }
    if (Option.isSome(delivering)) {
      if (share.ofDeliveries) yield* updatePluginGauges(delivering.value)
      yield* updateCircuitGauges(delivering.value)
    }
    return yield* PrometheusMetrics.format()
  }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  return own + stored
})

/** `publishes`: whether the event log is published to a sink. */
export const layer = (publishes: boolean) =>
  HttpRouter.add(
    "GET",
    "/metrics",
    Effect.map(
      renderMetrics(publishes),
      (text) => HttpServerResponse.text(text, { contentType: "text/plain; version=0.0.4; charset=utf-8" })
    )
  )
