/**
 * The text of `/metrics`: what the process counted itself, and the state of every stream as the store has it now.
 *
 * Gotchas
 * - Gauges of streams are made anew for each scrape, in a registry of their own: a stream or a block that went away
 *   leaves no series behind that stands still for ever.
 * - A stream without a watermark is infinitely stale, so that an alarm on freshness sees it.
 */
import * as Effect from "effect/Effect"
import * as Metric from "effect/Metric"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import { type Overview, overview } from "./Overview.ts"

const freshness = Metric.gauge("rollcall_stream_freshness_seconds", {
  description: "Seconds between now and the watermark up to which the stream is complete"
})
const live = Metric.gauge("rollcall_records_live", { description: "Records that exist, as last published" })
const pending = Metric.gauge("rollcall_pending_rows", { description: "Changes observed and not yet published" })
const quarantined = Metric.gauge("rollcall_quarantined_rows", { description: "Unreadable records that were set aside" })
const owed = Metric.gauge("rollcall_owed_refreshes", {
  description: "Records to be re-read because content they repeat was seen changed elsewhere"
})
const blocked = Metric.gauge("rollcall_stream_blocked", { description: "1 while the stream cannot be read" })
const openHolds = Metric.gauge("rollcall_holds_open", {
  description: "Waves of changes that the guard keeps back until someone decides"
})

const streamGauges = ({ holds, streams }: Overview) =>
  Effect.forEach(streams, ({ integration, model, ...view }) => {
    const set = (gauge: Metric.Gauge<number>, value: number, labels: Record<string, string> = {}) =>
      Metric.update(Metric.withAttributes(gauge, { stream: integration, model, ...labels }), value)
    return Effect.all([
      set(freshness, view.freshness_seconds ?? Infinity),
      set(live, view.records_live),
      set(quarantined, view.quarantined),
      set(openHolds, holds.filter(({ stream }) => stream === view.stream).length),
      set(owed, view.owed),
      ...Object.entries(view.pending).map(([reason, rows]) => set(pending, rows, { reason })),
      ...(view.blocked === null ? [] : [set(blocked, 1, { reason: view.blocked.reason })])
    ])
  }).pipe(
    Effect.andThen(PrometheusMetrics.format()),
    Effect.provideService(Metric.MetricRegistry, new Map())
  )

/** Prometheus text format. Without the store: what the process counted. */
export const scrape = Effect.gen(function*() {
  const own = yield* PrometheusMetrics.format()
  const streams = yield* Effect.matchEffect(overview, {
    onFailure: () => Effect.succeed(""),
    onSuccess: streamGauges
  })
  return own + streams
})
