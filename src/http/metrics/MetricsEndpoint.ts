/**
 * The text of `/metrics`: the metrics that this process counts, and gauges for the state of every stream and plugin in the
 * store.
 *
 * Invariants
 * 1. Of the gauges whose values are in the store, each process of a fleet exports those of its share, so a sum over all processes is right
 *
 * Gotchas
 * - The gauges of the store are written for each scrape, so a stream or a block that is gone leaves no series with its last value
 *   behind. Writing those of many streams lets other requests run in between.
 * - A stream without a watermark has infinite freshness, so that an alert on freshness includes it.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import * as Option from "effect/Option"
import { Processes } from "../../store/Processes.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import * as Share from "../fleet/Share.ts"
import type { PluginList } from "../plugins/PluginApi.ts"
import type { Overview } from "../status/Overview.ts"
import { type Cached, OverviewCache } from "../status/OverviewCache.ts"
import { version } from "../Version.ts"
import { Exposition, type Gauge, labelText } from "./Exposition.ts"

const gauge = (name: string, { description }: Omit<Gauge, "name">): Gauge => ({ name, description })

const freshness = gauge("rollcall_stream_freshness_seconds", {
  description: "Seconds between now and the watermark up to which the stream is complete"
})
const live = gauge("rollcall_records_live", { description: "Published records that are not deleted" })
const pending = gauge("rollcall_pending_changes", { description: "Observed changes that are not published yet" })
const quarantined = gauge("rollcall_quarantined_records", {
  description: "Records that could not be decoded and are kept in the quarantine"
})
const staleRecords = gauge("rollcall_stale_records", {
  description: "Records to be fetched again because they contain content of another record that has changed"
})
const unredacted = gauge("rollcall_redaction_remaining_ratio", {
  description: "Share of the stream's event log that is still to be redacted by rules that were added later"
})
const blocked = gauge("rollcall_stream_blocked", {
  description: "1 while the stream is blocked and cannot be read"
})
const openHolds = gauge("rollcall_holds_open", {
  description: "Holds of the guard that wait for an operator's decision"
})

const published = gauge("rollcall_relay_position", {
  description: "Newest position of the event log that is in the sink"
})
const unpublished = gauge("rollcall_relay_lag_events", {
  description: "Events in the log that are not yet in the sink"
})

const lag = gauge("rollcall_delivery_lag_events", {
  description: "Events of the log for which the handler's deliveries are not made yet"
})
const backlog = gauge("rollcall_delivery_backlog", {
  description: "Deliveries that are due, running, or waiting for their next attempt or for an earlier delivery"
})
const oldest = gauge("rollcall_delivery_oldest_seconds", {
  description: "Age of the oldest delivery that is neither settled nor dead"
})
const dead = gauge("rollcall_dead_letters", {
  description: "Deliveries that failed for good and wait for an operator"
})
const circuitOpen = gauge("rollcall_handler_circuit_open", {
  description: "1 while a handler that failed for several records in a row is only probed"
})
const stopped = gauge("rollcall_plugin_writes_stopped", {
  description: "1 while an operator has stopped the writes of all plugins to the API"
})

const buildInfo = gauge("rollcall_build_info", {
  description: "Always 1; the labels are the version and the id of this process, as in `rollcall fleet`"
})
const fleetProcesses = gauge("rollcall_fleet_processes", {
  description: "Processes that share the store and are alive"
})
const shardsOwned = gauge("rollcall_shards_owned", {
  description: "Shards of the streams that this process owns, of 64 in the fleet"
})

const unavailable = gauge("rollcall_store_unavailable_seconds", {
  description: "How long the store has not answered or not accepted writes; 0 while it is available"
})

const writePluginGauges = (out: Exposition, { items, writes }: PluginList, now: number) => {
  if (items.length > 0) out.set(stopped, writes === "stopped" ? 1 : 0)
  for (const { handlers, plugin } of items) {
    for (const { handler, ...view } of handlers) {
      const labels = labelText({ plugin, handler })
      const age = view.oldest_at === null ? 0 : Math.max(0, now - Date.parse(view.oldest_at)) / 1000
      out.set(lag, view.lag_events, labels)
      out.set(backlog, view.due, labelText({ plugin, handler, state: "due" }))
      out.set(backlog, view.running, labelText({ plugin, handler, state: "running" }))
      out.set(backlog, view.waiting, labelText({ plugin, handler, state: "waiting" }))
      out.set(oldest, age, labels)
      out.set(dead, view.dead, labels)
      out.set(circuitOpen, view.circuit_open === null ? 0 : 1, labels)
    }
  }
}

const writeRedactionGauges = (out: Exposition, { redacting }: Overview, { ofIntegration }: Share.Share) => {
  for (const { integration, model, share } of redacting) {
    if (ofIntegration(integration)) out.set(unredacted, 1 - share, labelText({ integration, model }))
  }
}

/** Streams that are written before other requests may run: about a millisecond. */
const streamsAtATime = 250

const writeStreamGauges = Effect.fnUntraced(
  function*(out: Exposition, { holds, streams }: Overview, { ofIntegration }: Share.Share) {
    const held = Map.groupBy(holds, ({ stream }) => stream)
    for (const [index, { integration, model, ...view }] of streams.entries()) {
      if (index % streamsAtATime === streamsAtATime - 1) yield* Effect.yieldNow
      if (!ofIntegration(integration)) continue
      const labels = labelText({ integration, model })
      out.set(freshness, view.freshness_seconds ?? Infinity, labels)
      out.set(live, view.records_live, labels)
      out.set(quarantined, view.quarantined, labels)
      out.set(openHolds, held.get(view.stream)?.length ?? 0, labels)
      out.set(staleRecords, view.stale_records, labels)
      for (const [reason, rows] of Object.entries(view.pending)) {
        out.set(pending, rows, `${labels},${labelText({ reason })}`)
      }
      if (view.blocked !== null) out.set(blocked, 1, `${labels},${labelText({ reason: view.blocked.reason })}`)
    }
  }
)

const writeRelayGauges = (out: Exposition, { log }: Overview) => {
  out.set(published, log.published)
  out.set(unpublished, log.newest - log.published)
}

const writeFleetGauges = (out: Exposition, self: string, { alive, ofFleet, shards }: Share.Share) => {
  out.set(buildInfo, 1, labelText({ version, process: self }))
  out.set(shardsOwned, shards)
  if (ofFleet) out.set(fleetProcesses, alive)
}

/** Without the metrics of the placement: `rollcall_shards_owned` says what they say. */
const withoutPlacement = (text: string): string => text.replaceAll(/^(# [A-Z]+ )?effect_cluster_.*\n?/gm, "")

/** Prometheus text format. While the store does not answer, the gauges have the values that were last read. */
const renderMetrics = Effect.fnUntraced(function*(publishes: boolean) {
  const { overview, plugins, processes } = yield* OverviewCache
  const { self } = yield* Processes
  const own = withoutPlacement(yield* PrometheusMetrics.format())
  const read = <A>(cached: Effect.Effect<Cached<A>, StoreError>) =>
    Effect.option(Effect.map(cached, ({ value }) => value))
  const [listed, streams, delivering] = yield* Effect.all([read(processes), read(overview), read(plugins)], {
    concurrency: "unbounded"
  })
  const share = Share.make(self, Option.getOrElse(listed, () => []))
  const [now, outage] = [yield* Clock.currentTimeMillis, yield* (yield* Store).outage]
  const out = new Exposition()
  out.set(unavailable, outage === null ? 0 : Math.max(0, now - outage.since) / 1000)
  writeFleetGauges(out, self, share)
  if (Option.isSome(streams)) {
    yield* writeStreamGauges(out, streams.value, share)
    writeRedactionGauges(out, streams.value, share)
    if (publishes && share.ofRelay) writeRelayGauges(out, streams.value)
  }
  if (Option.isSome(delivering) && share.ofDeliveries) writePluginGauges(out, delivering.value, now)
  return own + out.text
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
