/**
 * The metrics of `/metrics` and of exports: those that this process counts, its resources, and gauges for the state in the store.
 *
 * Invariants
 * 1. Of the gauges whose values are in the store, each process of a fleet exports those of its share, so a sum over all processes is right
 * 2. No label has a value for each integration or stream, so the number of series is bounded   (I9)
 *
 * Gotchas
 * - The gauges of the store are written for each scrape, so a handler that is gone leaves no series with its last value behind.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import * as Option from "effect/Option"
import { Processes } from "../../store/Processes.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { isExported, MetricExport } from "../../telemetry/MetricExport.ts"
import type { PluginList } from "../contract/PluginApi.ts"
import { version } from "../contract/Version.ts"
import type { Dependency } from "../health/HealthHandlers.ts"
import { type DiskSpace, diskSpaceOf } from "../status/DiskSpace.ts"
import { type Cached, OverviewCache } from "../status/OverviewCache.ts"
import * as Share from "../status/Share.ts"
import type { StoreOverview } from "../status/StoreOverview.ts"
import { Exposition, gauge } from "./Exposition.ts"
import { writeProcessMetrics } from "./ProcessMetrics.ts"
import { writeStreamMetrics } from "./StreamMetrics.ts"

const published = gauge("rollcall_relay_position", "Position of the event log up to which all events are in Kafka")
const unpublished = gauge("rollcall_relay_lag_events", "Events of the log that are not in Kafka yet")
const unpublishedAge = gauge(
  "rollcall_relay_oldest_event_seconds",
  "Time since the oldest event that is not in Kafka yet was detected, which for an approved hold was before the hold; 0 if all are"
)

const lag = gauge(
  "rollcall_delivery_lag_events",
  "Events of the log for which a handler has no deliveries yet: the delivery engine is stopped or far behind"
)
const backlog = gauge(
  "rollcall_delivery_backlog",
  "Deliveries that are due, running, or waiting for their next attempt or for an earlier delivery, by plugin, handler and state"
)
const oldest = gauge("rollcall_delivery_oldest_seconds", "Age of the oldest delivery that is neither settled nor dead")
const dead = gauge(
  "rollcall_dead_letters",
  "Deliveries that were given up and wait for an operator, by plugin and handler"
)
const circuitOpen = gauge(
  "rollcall_handler_circuit_open",
  "1 while the circuit of a handler is open: it failed for ten records in a row, and is only probed"
)
const pluginIntegrations = gauge(
  "rollcall_plugin_integrations",
  "Integrations of a plugin by state: on, off, unconfigured (its configuration is missing there), removed, blocked (the API accepts no requests)"
)
const stopped = gauge(
  "rollcall_plugin_writes_stopped",
  "1 while an operator has stopped the writes of all plugins to the API"
)

const buildInfo = gauge(
  "rollcall_build_info",
  "Always 1; the labels are the version and the id of this process, as in `rollcall fleet`"
)
const fleetProcesses = gauge("rollcall_fleet_processes", "Processes that share the store and are alive")
const shardsOwned = gauge("rollcall_shards_owned", "Shards of the streams that this process owns, of 64")
const shardsUnowned = gauge(
  "rollcall_shards_unowned",
  "Shards that no living process owns: their streams are not read"
)

const dependencyUp = gauge(
  "rollcall_dependency_up",
  "0 while a part of the process waits or has stopped: kafka, plugins, or fleet (its share of the work); /health/ready has the reason"
)
const unavailable = gauge(
  "rollcall_store_unavailable_seconds",
  "How long the store has not answered or not accepted writes; 0 while it is available"
)
const diskFree = gauge(
  "rollcall_store_disk_free_bytes",
  "Free space on the disk of a SQLite store. With PostgreSQL, watch the disk of the server"
)
const diskSize = gauge("rollcall_store_disk_size_bytes", "Size of the disk of a SQLite store")

const pluginStates = ["on", "off", "unconfigured", "removed", "blocked"] as const

const writePluginGauges = (out: Exposition, { items, writes }: PluginList, now: number) => {
  if (items.length > 0) out.set(stopped, writes === "stopped" ? 1 : 0)
  for (const { handlers, integrations, plugin } of items) {
    const states = Map.groupBy(integrations, ({ state }) => state)
    for (const state of pluginStates) out.set(pluginIntegrations, states.get(state)?.length ?? 0, { plugin, state })
    for (const { handler, ...view } of handlers) {
      const labels = { plugin, handler }
      const age = view.oldest_at === null ? 0 : Math.max(0, now - Date.parse(view.oldest_at)) / 1000
      out.set(lag, view.lag_events, labels)
      for (const state of ["due", "running", "waiting"] as const) out.set(backlog, view[state], { ...labels, state })
      out.set(oldest, age, labels)
      out.set(dead, view.dead, labels)
      out.set(circuitOpen, view.circuit_open === null ? 0 : 1, labels)
    }
  }
}

const writeRelayGauges = (out: Exposition, { log }: StoreOverview, now: number) => {
  out.set(published, log.published)
  out.set(unpublished, log.newestPosition - log.published)
  out.set(unpublishedAge, log.unpublishedSince === null ? 0 : Math.max(0, now - log.unpublishedSince) / 1000)
}

const writeFleetGauges = (out: Exposition, self: string, { alive, ofFleet, shards, unowned }: Share.Share) => {
  out.set(buildInfo, 1, { version, process: self })
  out.set(shardsOwned, shards)
  if (!ofFleet) return
  out.set(fleetProcesses, alive)
  out.set(shardsUnowned, unowned)
}

const writeDiskGauges = (out: Exposition, disk: DiskSpace | null) => {
  if (disk === null) return
  out.set(diskFree, disk.freeBytes)
  out.set(diskSize, disk.totalBytes)
}

const onlyExported = (text: string): string =>
  text.replaceAll(/^(?:# [A-Z]+ )?(\w+).*\n?/gm, (line, name) => isExported(name) ? line : "")

export interface Options {
  /** Whether the event log is published to a sink. */
  readonly publishes: boolean
  /** The folder of the store, whose free space is shown; null if it is not on this machine. */
  readonly storeFolder: string | null
  readonly dependencies: ReadonlyArray<Dependency>
}

/** The metrics that are read. While the store does not answer, the gauges have the values that were last read. */
const readMetrics = Effect.fnUntraced(function*({ dependencies, publishes, storeFolder }: Options) {
  const { overview, plugins, processes } = yield* OverviewCache
  const { self } = yield* Processes
  const read = <A>(cached: Effect.Effect<Cached<A>, StoreError>) =>
    Effect.option(Effect.map(cached, ({ value }) => value))
  const [listed, streams, delivering, disk] = yield* Effect.all(
    [read(processes), read(overview), read(plugins), diskSpaceOf(storeFolder)],
    { concurrency: "unbounded" }
  )
  const share = Share.make(self, Option.getOrElse(listed, () => []))
  const [now, outage] = [yield* Clock.currentTimeMillis, yield* (yield* Store).outage]
  const out = new Exposition()
  yield* writeProcessMetrics(out)
  out.set(unavailable, outage === null ? 0 : Math.max(0, now - outage.since) / 1000)
  for (const { name, problem } of dependencies) {
    if (problem !== undefined) out.set(dependencyUp, (yield* problem) === null ? 1 : 0, { dependency: name })
  }
  writeDiskGauges(out, disk)
  writeFleetGauges(out, self, share)
  if (Option.isSome(streams)) {
    yield* writeStreamMetrics(out, streams.value, share.ofIntegration)
    if (publishes && share.ofRelay) writeRelayGauges(out, streams.value, now)
  }
  if (Option.isSome(delivering) && share.ofDeliveries) writePluginGauges(out, delivering.value, now)
  return out
})

/** Prometheus text format. */
const renderMetrics = Effect.fnUntraced(function*(options: Options) {
  const own = onlyExported(yield* PrometheusMetrics.format())
  return own + (yield* readMetrics(options)).text
})

/** Hands the metrics that are read to the exporter, if this process has one. */
const exportLayer = (options: Options) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const exporter = yield* MetricExport
    if (exporter === null) return
    const context = yield* Effect.context<OverviewCache | Processes | Store>()
    yield* exporter.readWith(
      Effect.provideContext(Effect.map(readMetrics(options), ({ series }) => series), context)
    )
  }))

export const layer = (options: Options) =>
  Layer.merge(
    exportLayer(options),
    HttpRouter.add(
      "GET",
      "/metrics",
      Effect.map(
        renderMetrics(options),
        (text) => HttpServerResponse.text(text, { contentType: "text/plain; version=0.0.4; charset=utf-8" })
      )
    )
  )
