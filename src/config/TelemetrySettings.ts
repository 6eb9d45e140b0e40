/**
 * The export of traces and metrics over OTLP: the standard variables of OpenTelemetry.
 *
 * Invariants
 * 1. A mistake here stops no start, because the variables may be those of a whole cluster: the signal is not exported, and there is a warning
 *
 * Gotchas
 * - Values of a signal that is not exported are not checked, because other programs may share the environment.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { ConfigValue } from "./ConfigValue.ts"
import { isLoopback, orAllowPlaintext, type PlaintextConnection } from "./Plaintext.ts"
import type { Fault } from "./RawConfig.ts"
import type { Variable } from "./Variables.ts"

type SignalName = "traces" | "metrics"

/** The variables of each signal; those with TRACES or METRICS take precedence. */
const signalVariables = {
  traces: {
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    protocol: "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    timeout: "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    exporter: "OTEL_TRACES_EXPORTER"
  },
  metrics: {
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    protocol: "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    timeout: "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
    exporter: "OTEL_METRICS_EXPORTER"
  }
} as const satisfies Record<SignalName, Record<string, Variable>>

/** Where a collector on this machine listens. */
const defaultEndpoint = "http://localhost:4318"

const longestTime = 86_400_000

/** A time in milliseconds, as OpenTelemetry writes times. */
const parseMillis = (value: ConfigValue, otherwise: number): Duration.Duration => {
  const text = value.text()
  if (text === undefined) return Duration.millis(otherwise)
  if (!/^\d{1,8}$/.test(text) || Number(text) < 1 || Number(text) > longestTime) {
    value.fault(
      `"${text}" is not a time`,
      `Write milliseconds, a whole number from 1 to ${longestTime}, without a unit`
    )
  }
  return Duration.millis(Number(text) || otherwise)
}

/** The pairs of `name=value,name=value`, whose values are percent-encoded; a string names the problem without the value. */
const parsePairs = (text: string, isName: RegExp, isValue: RegExp): Readonly<Record<string, string>> | string => {
  const pairs: Record<string, string> = {}
  for (const [index, item] of text.split(",").entries()) {
    if (item.trim() === "") continue
    const [, name = "", encoded = ""] = /^\s*([^=\s]+)\s*=(.*)$/s.exec(item) ?? []
    let value: string
    try {
      value = decodeURIComponent(encoded.trim())
    } catch {
      return `item ${index + 1} is not percent-encoded correctly`
    }
    if (!isName.test(name) || !isValue.test(value)) return `item ${index + 1} is not <name>=<value>`
    pairs[name] = value
  }
  return pairs
}
const pairHint = "Write name=value,name=value, with % , and = in values percent-encoded"

const isHeaderName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const isHeaderValue = /^[\t\x20-\x7e\x80-\xff]*$/

/** The headers of each request, read again each time, so that a replaced file takes effect. */
const parseHeaders = (value: ConfigValue): Effect.Effect<Readonly<Record<string, string>> | string> => {
  const secret = value.secret()
  if (secret === undefined) return Effect.succeed({})
  const parse = (text: Redacted.Redacted) => parsePairs(Redacted.value(text), isHeaderName, isHeaderValue)
  const initial = parse(secret.initial)
  if (typeof initial === "string") value.fault(`cannot be used: ${initial}`, pairHint)
  return Effect.map(secret.current, (text) => {
    const headers = parse(text)
    return typeof headers === "string" ? `the headers cannot be used: ${headers}` : headers
  })
}

/** The resource of everything that is exported. */
const parseResource = (section: ConfigValue) => {
  const value = section.variable("OTEL_RESOURCE_ATTRIBUTES")
  const attributes = parsePairs(value.text() ?? "", /^[^\s]{1,255}$/, /^[^\p{Cc}]*$/u)
  if (typeof attributes === "string") {
    value.fault(`cannot be used: ${attributes}`, pairHint)
    return { service: "", attributes: {} }
  }
  const { "service.name": service = "rollcall", ...others } = attributes
  return { service: section.variable("OTEL_SERVICE_NAME").text() ?? service, attributes: others }
}

const samplers = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio"
] as const

/** Which traces are recorded: the share of new ones, and whether those of stored events are continued. */
const parseSampler = (section: ConfigValue) => {
  const own = section.variable("OTEL_TRACES_SAMPLER")
  const sampler = own.oneOf(...samplers) ?? "parentbased_always_on"
  const continues = sampler !== "always_off"
  if (!sampler.endsWith("traceidratio")) return { share: sampler.endsWith("on") ? 1 : 0, continues }
  const value = section.variable("OTEL_TRACES_SAMPLER_ARG")
  const text = value.text() ?? "1"
  const share = Number(text)
  if (!/^(\d|\.)/.test(text) || !(share >= 0 && share <= 1)) {
    value.fault(`"${text}" is not a share`, "Write the share of traces that is recorded, from 0 to 1, such as 0.1")
  }
  return { share, continues }
}

const parseEndpoint = (
  own: ConfigValue,
  general: ConfigValue,
  signal: SignalName,
  allowPlaintext: ReadonlySet<PlaintextConnection>
): string => {
  const value = own.isSet ? own : general
  const url = URL.parse(value.text() ?? defaultEndpoint)
  if (url === null || !/^https?:$/.test(url.protocol)) {
    value.fault(
      "is not the address of a collector",
      "Write the address for OTLP over HTTP, such as https://collector:4318"
    )
    return defaultEndpoint
  }
  if (url.username !== "" || url.password !== "") {
    value.fault("contains a login", "Send it as a header, with OTEL_EXPORTER_OTLP_HEADERS")
  }
  if (url.protocol === "http:" && !isLoopback(url.hostname) && !allowPlaintext.has("otlp")) {
    value.fault(
      `would send ${signal} and the headers unencrypted`,
      `Use https, or a collector on this machine; or, ${orAllowPlaintext("otlp")}`
    )
  }
  if (!own.isSet) url.pathname = `${url.pathname.replace(/\/$/, "")}/v1/${signal}`
  url.hash = ""
  return url.href
}

const protocols = ["http/protobuf", "http/json", "grpc"] as const

const parseProtocol = (value: ConfigValue): "http/protobuf" | "http/json" => {
  const protocol = value.oneOf(...protocols) ?? "http/protobuf"
  if (protocol !== "grpc") return protocol
  value.fault(
    "is grpc, which Rollcall does not speak",
    "Use http/protobuf, and the collector's port for HTTP, usually 4318; or switch the export off with OTEL_SDK_DISABLED=true"
  )
  return "http/protobuf"
}

/** null: the signal is not exported. */
const parseSignal = (section: ConfigValue, signal: SignalName, allowPlaintext: ReadonlySet<PlaintextConnection>) => {
  const names = signalVariables[signal]
  const either = (own: Variable, general: Variable) =>
    section.variable(own).isSet ? section.variable(own) : section.variable(general)
  const endpoint = section.variable(names.endpoint)
  const generalEndpoint = section.variable("OTEL_EXPORTER_OTLP_ENDPOINT")
  const exporter = section.variable(names.exporter)
  const isOn = exporter.isSet ? exporter.oneOf("otlp", "none") === "otlp" : endpoint.isSet || generalEndpoint.isSet
  if (!isOn) return null
  return {
    url: parseEndpoint(endpoint, generalEndpoint, signal, allowPlaintext),
    headers: parseHeaders(either(names.headers, "OTEL_EXPORTER_OTLP_HEADERS")),
    protocol: parseProtocol(either(names.protocol, "OTEL_EXPORTER_OTLP_PROTOCOL")),
    timeout: parseMillis(either(names.timeout, "OTEL_EXPORTER_OTLP_TIMEOUT"), 10_000)
  }
}

/** One signal with everything that it needs. */
const parseExport = {
  traces: (section: ConfigValue, allowPlaintext: ReadonlySet<PlaintextConnection>) => {
    const traces = parseSignal(section, "traces", allowPlaintext)
    return traces && {
      ...traces,
      ...parseSampler(section),
      interval: parseMillis(section.variable("OTEL_BSP_SCHEDULE_DELAY"), 5_000)
    }
  },
  metrics: (section: ConfigValue, allowPlaintext: ReadonlySet<PlaintextConnection>) => {
    const metrics = parseSignal(section, "metrics", allowPlaintext)
    return metrics && {
      ...metrics,
      interval: parseMillis(section.variable("OTEL_METRIC_EXPORT_INTERVAL"), 60_000)
    }
  }
}

export type TelemetrySettings = NonNullable<ReturnType<typeof parseTelemetry>["settings"]>

/** `settings` is null if nothing is exported. `section`: any value of the configuration, because these settings are variables only. */
export const parseTelemetry = (section: ConfigValue, allowPlaintext: ReadonlySet<PlaintextConnection>) => {
  const faults: Array<Fault> = []
  /** Null if there is a mistake. */
  const attempt = <A>(what: string, parse: (section: ConfigValue) => A): A | null => {
    const own: Array<Fault> = []
    const parsed = parse(section.reportingTo((fault) => own.push(fault)))
    for (const { message, ...fault } of own) faults.push({ ...fault, message: `${message}, so ${what} not exported` })
    return own.length === 0 ? parsed : null
  }
  const all = "traces and metrics are"
  const off = attempt(all, (own) => own.variable("OTEL_SDK_DISABLED").flag() ?? false) ?? true
  const traces = off ? null : attempt("traces are", (own) => parseExport.traces(own, allowPlaintext))
  const metrics = off ? null : attempt("metrics are", (own) => parseExport.metrics(own, allowPlaintext))
  const resource = traces === null && metrics === null ? null : attempt(all, parseResource)
  return { settings: resource && { ...resource, traces, metrics }, faults }
}
