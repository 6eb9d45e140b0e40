import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { settingsOf } from "../../test/support/config/Checked.ts"
import { temporaryFolder } from "../../test/support/TemporaryFolder.ts"

const telemetryOf = (variables: Record<string, string>) =>
  Effect.map(settingsOf(variables), ({ telemetry }) => telemetry)
const faultsOf = (variables: Record<string, string>) =>
  Effect.map(settingsOf(variables), ({ telemetryFaults }) => telemetryFaults)

const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "https://collector.example.com/otlp/" }

describe("the export over OTLP", () => {
  it.effect.each([
    {},
    { OTEL_SERVICE_NAME: "hr", OTEL_EXPORTER_OTLP_PROTOCOL: "grpc", OTEL_TRACES_SAMPLER: "nonsense" },
    { ...endpoint, OTEL_SDK_DISABLED: "true", OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
    { ...endpoint, OTEL_TRACES_EXPORTER: "none", OTEL_METRICS_EXPORTER: "none" },
    { OTEL_EXPORTER_OTLP_ENDPOINT: "" }
  ])(
    "is off with %o, and no other value is checked",
    (variables: Record<string, string>) => Effect.map(telemetryOf(variables), (settings) => assert.isNull(settings))
  )

  it.effect("has the standard addresses, and the defaults of OpenTelemetry", () =>
    Effect.gen(function*() {
      const { metrics, service, traces } = (yield* telemetryOf(endpoint))!
      assert.strictEqual(service, "rollcall")
      assert.strictEqual(traces?.url, "https://collector.example.com/otlp/v1/traces")
      assert.strictEqual(metrics?.url, "https://collector.example.com/otlp/v1/metrics")
      assert.deepInclude(traces, { protocol: "http/protobuf", share: 1, continues: true })
      assert.deepStrictEqual(
        [traces?.interval, traces?.timeout, metrics?.interval].map((one) => Duration.toMillis(one!)),
        [5_000, 10_000, 60_000]
      )
    }))

  it.effect("of a single signal is switched on by its exporter or its address, which is used as it is", () =>
    Effect.gen(function*() {
      const byExporter = yield* telemetryOf({ OTEL_TRACES_EXPORTER: "otlp" })
      assert.strictEqual(byExporter?.traces?.url, "http://localhost:4318/v1/traces")
      assert.isNull(byExporter?.metrics)
      const byAddress = yield* telemetryOf({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "https://m.example.com/api/push" })
      assert.strictEqual(byAddress?.metrics?.url, "https://m.example.com/api/push")
      assert.isNull(byAddress?.traces)
    }))

  it.effect("takes the variables of a signal before the general ones", () =>
    Effect.gen(function*() {
      const { metrics, traces } = (yield* telemetryOf({
        ...endpoint,
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
        OTEL_EXPORTER_OTLP_METRICS_PROTOCOL: "http/protobuf",
        OTEL_EXPORTER_OTLP_TIMEOUT: "3000",
        OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: "250",
        OTEL_EXPORTER_OTLP_HEADERS: "x-tenant=a%2Cb, x-other = 1",
        OTEL_EXPORTER_OTLP_TRACES_HEADERS: "x-tenant=t",
        OTEL_BSP_SCHEDULE_DELAY: "100",
        OTEL_METRIC_EXPORT_INTERVAL: "1000"
      }))!
      assert.deepStrictEqual([traces?.protocol, metrics?.protocol], ["http/json", "http/protobuf"])
      assert.deepStrictEqual([traces!.timeout, metrics!.timeout].map(Duration.toMillis), [250, 3000])
      assert.deepStrictEqual([traces!.interval, metrics!.interval].map(Duration.toMillis), [100, 1000])
      assert.deepStrictEqual(yield* traces!.headers, { "x-tenant": "t" })
      assert.deepStrictEqual(yield* metrics!.headers, { "x-tenant": "a,b", "x-other": "1" })
    }))

  it.effect("has the name and the attributes of the resource; OTEL_SERVICE_NAME comes before them", () =>
    Effect.gen(function*() {
      const attributes = "service.name=hr,team=caf%C3%A9,service.instance.id=pod-1"
      const { attributes: found, service } =
        (yield* telemetryOf({ ...endpoint, OTEL_RESOURCE_ATTRIBUTES: attributes }))!
      assert.strictEqual(service, "hr")
      assert.deepStrictEqual(found, { team: "café", "service.instance.id": "pod-1" })
      const named = { ...endpoint, OTEL_RESOURCE_ATTRIBUTES: attributes, OTEL_SERVICE_NAME: "own" }
      assert.strictEqual((yield* telemetryOf(named))?.service, "own")
    }))

  it.effect.each(
    [
      ["always_on", undefined, 1, true],
      ["always_off", undefined, 0, false],
      ["traceidratio", "0.25", 0.25, true],
      ["parentbased_always_on", undefined, 1, true],
      ["parentbased_always_off", undefined, 0, true],
      ["parentbased_traceidratio", "1e-3", 0.001, true],
      ["parentbased_traceidratio", undefined, 1, true]
    ] as const
  )(
    "records the share of traces of %s with the argument %s",
    ([sampler, arg, share, continues]) =>
      Effect.gen(function*() {
        const variables = arg === undefined ? {} : { OTEL_TRACES_SAMPLER_ARG: arg }
        const settings = yield* telemetryOf({ ...endpoint, OTEL_TRACES_SAMPLER: sampler, ...variables })
        assert.deepInclude(settings?.traces, { share, continues })
      })
  )

  /** The variable, its value, the message, the hint, and the other variables. */
  const faulty: ReadonlyArray<readonly [name: string, value: string, message: RegExp, hint: RegExp, others?: object]> =
    [
      ["OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317", /not the address/, /4318/, {}],
      ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "x", /not the address/, /https/, {}],
      ["OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "https://u:p4ss@c.example.com/", /login/, /HEADERS/, {}],
      ["OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", /grpc/, /http\/protobuf.*4318/],
      ["OTEL_EXPORTER_OTLP_PROTOCOL", "thrift", /not allowed/, /http\/json/],
      ["OTEL_TRACES_EXPORTER", "jaeger", /not allowed/, /otlp, none/, {}],
      ["OTEL_METRICS_EXPORTER", "prometheus", /not allowed/, /otlp, none/],
      ["OTEL_TRACES_SAMPLER", "jaeger_remote", /not allowed/, /traceidratio/],
      ["OTEL_SDK_DISABLED", "yes", /not allowed/, /true, false/],
      ["OTEL_EXPORTER_OTLP_TIMEOUT", "10s", /not a time/, /milliseconds/],
      ["OTEL_METRIC_EXPORT_INTERVAL", "0", /not a time/, /milliseconds/],
      ["OTEL_BSP_SCHEDULE_DELAY", "-1", /not a time/, /milliseconds/],
      ["OTEL_EXPORTER_OTLP_HEADERS", "p4ss", /item 1/, /name=value/],
      ["OTEL_EXPORTER_OTLP_HEADERS", "a=1,x y=p4ss", /item 2/, /percent/],
      ["OTEL_EXPORTER_OTLP_HEADERS", "a=p4ss%0d%0ax", /item 1/, /name=value/],
      ["OTEL_RESOURCE_ATTRIBUTES", "a=%zz", /percent-encoded/, /name=value/]
    ]
  it.effect.each(faulty)(
    "is left out with a warning, and without a mistake that stops the start: %s=%s",
    ([where, value, message, hint, others = endpoint]) =>
      Effect.gen(function*() {
        const variables = { ...others, [where]: value }
        const faults = yield* faultsOf(variables)
        assert.deepStrictEqual([...new Set(faults.map((fault) => fault.where))], [where])
        assert.match(faults[0]!.message, message)
        const settings = yield* telemetryOf(variables)
        const isOf = { traces: /TRACES|SAMPLER|BSP/.test(where), metrics: /METRIC/.test(where) }
        const isShared = !isOf.traces && !isOf.metrics
        for (const signal of ["traces", "metrics"] as const) {
          const isExported = "OTEL_EXPORTER_OTLP_ENDPOINT" in variables && !isShared && !isOf[signal]
          assert.strictEqual((settings?.[signal] ?? null) !== null, isExported, signal)
          const isNamed = faults.some(({ message }) => message.includes(signal) && message.endsWith("not exported"))
          assert.strictEqual(isNamed, isShared || isOf[signal], signal)
        }
        assert.match(faults[0]!.hint, hint)
        assert.notInclude(JSON.stringify(faults), "p4ss")
      })
  )

  it.effect.each(["1.5", "-0.1", "half", "Infinity"])(
    "is left out for traces with the share %s",
    (arg) =>
      Effect.gen(function*() {
        const sampler = { OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: arg }
        const [fault] = yield* faultsOf({ ...endpoint, ...sampler })
        assert.strictEqual(fault?.where, "OTEL_TRACES_SAMPLER_ARG")
      })
  )

  it.effect("with several mistakes has a warning for each", () =>
    Effect.gen(function*() {
      const faults = yield* faultsOf({
        OTEL_TRACES_EXPORTER: "otlp",
        OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
        OTEL_TRACES_SAMPLER: "all"
      })
      assert.sameMembers(faults.map(({ where }) => where), ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_TRACES_SAMPLER"])
    }))

  it.effect("reads the headers from a file again for each export, and says why it cannot use them", () =>
    Effect.gen(function*() {
      const file = join(yield* temporaryFolder, "headers")
      writeFileSync(file, "authorization=Bearer%20one\n")
      const settings = yield* telemetryOf({ ...endpoint, OTEL_EXPORTER_OTLP_HEADERS_FILE: file })
      const headers = settings!.traces!.headers
      assert.deepStrictEqual(yield* headers, { authorization: "Bearer one" })
      writeFileSync(file, "authorization=Bearer%20two\n")
      assert.deepStrictEqual(yield* headers, { authorization: "Bearer two" })
      writeFileSync(file, "p4ss")
      assert.match(String(yield* headers), /cannot be used: item 1 is not <name>=<value>$/)
    }))
})
