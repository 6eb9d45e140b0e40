/**
 * Exports traces and metrics over OTLP, with Effect's exporter.
 *
 * Invariants
 * 1. A shutdown exports the latest spans and metrics, and takes at most `shutdownTimeout` for each signal
 *
 * Gotchas
 * - Effect's exporter knows only the metrics that this process counts. The others are read and added when it makes the request.
 * - Effect's exporter would read OTEL_RESOURCE_ATTRIBUTES a second time, unchecked. An empty `ConfigProvider` prevents that.
 */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import * as OtlpExporter from "effect/observability/OtlpExporter"
import * as OtlpMetrics from "effect/observability/OtlpMetrics"
import * as OtlpSerialization from "effect/observability/OtlpSerialization"
import * as OtlpTracer from "effect/observability/OtlpTracer"
import { isExported, MetricExport, type Series } from "./MetricExport.ts"
import * as OtlpClient from "./OtlpClient.ts"
import { Tracing } from "./Tracing.ts"

/** Where one signal is sent, and how. */
export interface Signal extends Omit<OtlpClient.OtlpClientOptions, "signal"> {
  readonly protocol: "http/json" | "http/protobuf"
  /** Longest time between two exports. */
  readonly interval: Duration.Duration
}

export interface OtlpOptions {
  readonly service: string
  /** Attributes of the resource, besides the name of the service. */
  readonly attributes: Readonly<Record<string, string>>
  /** null: traces are not exported. */
  readonly traces: Signal & { readonly share: number; readonly continues: boolean } | null
  /** null: metrics are not exported. */
  readonly metrics: Signal | null
}

const shutdownTimeout = Duration.seconds(2)
/** How long an export waits for the metrics that are read; it is made without them then. */
const readTimeout = Duration.seconds(5)
const lastReadTimeout = Duration.seconds(1)

const withoutVariables = Layer.succeed(ConfigProvider.ConfigProvider)(ConfigProvider.fromUnknown({}))

const serializationOf = ({ protocol }: Signal) =>
  protocol === "http/json" ? OtlpSerialization.layerJson : OtlpSerialization.layerProtobuf

const exporterOptions = ({ attributes, service }: OtlpOptions, { url }: Signal) => ({
  url,
  resource: { serviceName: service, attributes },
  shutdownTimeout
})

/** The services of an exporter of this signal. */
const requirements = (signal: "traces" | "metrics", options: Signal) =>
  Layer.mergeAll(
    Layer.effect(HttpClient.HttpClient, OtlpClient.make({ ...options, signal })),
    OtlpExporter.layerFlusher,
    withoutVariables
  )

const tracesLayer = (options: OtlpOptions, traces: NonNullable<OtlpOptions["traces"]>) =>
  Layer.effect(
    Tracing,
    Effect.map(
      OtlpTracer.make({ ...exporterOptions(options, traces), exportInterval: traces.interval }),
      (tracer) => ({ tracer, share: traces.share, continues: traces.continues })
    )
  ).pipe(Layer.provide([requirements("traces", traces), serializationOf(traces)]))

type Metrics = OtlpMetrics.MetricsData["resourceMetrics"][number]["scopeMetrics"][number]["metrics"]

const cumulative = 2

const toMetrics = (series: ReadonlyArray<Series>, startedAt: string, now: string): Metrics =>
  [...Map.groupBy(series, ({ family }) => family)].map(([{ description, name, type = "gauge" }, own]) => {
    const dataPoints = own.map(({ labels, value }) => ({
      attributes: Object.entries(labels).map(([key, stringValue]) => ({ key, value: { stringValue } })),
      startTimeUnixNano: startedAt,
      timeUnixNano: now,
      asDouble: value
    }))
    const data = type === "counter"
      ? { sum: { dataPoints, aggregationTemporality: cumulative, isMonotonic: true } } as const
      : { gauge: { dataPoints } }
    return { name, description, unit: "1", ...data }
  })

const metricsLayer = (options: OtlpOptions, metrics: Signal) =>
  Layer.effect(
    MetricExport,
    Effect.gen(function*() {
      let read: Effect.Effect<ReadonlyArray<Series>> | null = null
      /** Read for the next export. */
      let series: ReadonlyArray<Series> = []
      const serialization = yield* OtlpSerialization.OtlpSerialization
      const startedAt = String(BigInt(Date.now()) * 1_000_000n)
      const complete = (data: OtlpMetrics.MetricsData): OtlpMetrics.MetricsData => {
        const read = toMetrics(series, startedAt, String(BigInt(Date.now()) * 1_000_000n))
        series = []
        return {
          resourceMetrics: data.resourceMetrics.map((resource) => ({
            ...resource,
            scopeMetrics: resource.scopeMetrics.map((scope) => ({
              ...scope,
              metrics: [...scope.metrics.filter(({ name }) => isExported(name)), ...read]
            }))
          }))
        }
      }
      yield* OtlpMetrics.make({ ...exporterOptions(options, metrics), exportInterval: Duration.infinity }).pipe(
        Effect.provideService(OtlpSerialization.OtlpSerialization, {
          ...serialization,
          metrics: (data) => serialization.metrics(complete(data))
        })
      )
      const readNow = (limit: Duration.Duration) =>
        Effect.suspend(() => read ?? Effect.succeed([])).pipe(
          Effect.timeoutOrElse({ duration: limit, orElse: () => Effect.succeed([]) }),
          Effect.map((found) => void (series = found)),
          Effect.catchCause((cause) => Effect.logDebug("metrics could not be read for an export", cause))
        )
      const { flush } = yield* OtlpExporter.Flusher
      yield* Effect.forkScoped(
        Effect.forever(Effect.sleep(metrics.interval).pipe(Effect.andThen(readNow(readTimeout)), Effect.andThen(flush)))
      )
      return {
        readWith: (reader: Effect.Effect<ReadonlyArray<Series>>) =>
          Effect.acquireRelease(
            Effect.sync(() => void (read = reader)),
            () => Effect.ensuring(readNow(lastReadTimeout), Effect.sync(() => void (read = null)))
          )
      }
    })
  ).pipe(Layer.provide([requirements("metrics", metrics), serializationOf(metrics)]))

/** Exports while the layer exists, and a last time when it is closed. */
export const layer = (options: OtlpOptions): Layer.Layer<never, never, HttpClient.HttpClient> =>
  Layer.merge(
    options.traces === null ? Layer.empty : tracesLayer(options, options.traces),
    options.metrics === null ? Layer.empty : metricsLayer(options, options.metrics)
  )
