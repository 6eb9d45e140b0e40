/**
 * The doctor's checks of the OTLP collector: each exported signal sends an export without data, as the running process would.
 *
 * Gotchas
 * - Headers and the query of an address may contain a key, and the collector's response may repeat them, so none of them is printed.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type { HttpClientResponse } from "effect/http/HttpClientResponse"
import * as OtlpSerialization from "effect/observability/OtlpSerialization"
import type { TelemetrySettings } from "../../config/TelemetrySettings.ts"
import * as OutgoingHttp from "../../network/OutgoingHttp.ts"
import { placeOf } from "../../telemetry/OtlpClient.ts"
import { codeOf } from "../client/ApiClient.ts"
import { type CheckResult, ok, problem, warning } from "./CheckResult.ts"

type SignalName = "traces" | "metrics"
type Signal = Pick<NonNullable<TelemetrySettings[SignalName]>, "url" | "headers" | "protocol" | "timeout">

/** The names of both variables with which an operator may have set a part of a signal. */
const variablesOf = (part: "ENDPOINT" | "HEADERS" | "PROTOCOL", signal: SignalName): string =>
  `OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_${part} or OTEL_EXPORTER_OTLP_${part}`

const describeError = (signal: SignalName, { url }: Signal, error: unknown): CheckResult => {
  const place = placeOf(url)
  const code = codeOf(error)
  const shown = code === "" ? "" : ` (${code})`
  if (/WRONG_VERSION_NUMBER|^EPROTO$|PACKET_LENGTH/.test(code)) {
    return problem(signal, `the server at ${place} does not use TLS`, `Check ${variablesOf("ENDPOINT", signal)}`)
  }
  if (/ALERT/.test(code)) {
    const hint = "Use a collector that does not require the certificate of a client: Rollcall sends none to a collector"
    return problem(signal, `the collector at ${place} refuses the TLS connection${shown}`, hint)
  }
  if (/CERT|SIGNATURE|ALTNAME/.test(code)) {
    const hint =
      `Set NODE_EXTRA_CA_CERTS to the certificate of the authority that signed it; it must be valid now and contain ${
        URL.parse(url)?.hostname
      }`
    return problem(signal, `the certificate of the collector at ${place} is not trusted${shown}`, hint)
  }
  const hint = `Start the collector, or check ${variablesOf("ENDPOINT", signal)} and the network between`
  return problem(signal, `the collector at ${place} cannot be reached${shown}`, hint)
}

const describeResponse = (
  signal: SignalName,
  { protocol, url }: Signal,
  { headers, status }: HttpClientResponse
): CheckResult => {
  const place = placeOf(url)
  const answer = `the collector at ${place} answers with status ${status}`
  if (status >= 200 && status < 300) {
    return /html/i.test(headers["content-type"] ?? "")
      ? problem(signal, `the server at ${place} answers with a web page`, `Check ${variablesOf("ENDPOINT", signal)}`)
      : ok(signal, `the collector at ${place} accepts an export`)
  }
  if (status >= 300 && status < 400) {
    const hint = `Set ${
      variablesOf("ENDPOINT", signal)
    } to the address it redirects to: Rollcall does not follow redirects`
    return problem(signal, answer, hint)
  }
  switch (status) {
    case 401:
    case 403:
      return problem(signal, `${answer}: it does not accept the headers`, `Check ${variablesOf("HEADERS", signal)}`)
    case 404:
    case 405:
      return problem(
        signal,
        answer,
        `Check the path: /v1/${signal} is appended to OTEL_EXPORTER_OTLP_ENDPOINT, and nothing to OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_ENDPOINT`
      )
    case 400:
    case 415:
      return problem(signal, `${answer} to ${protocol}`, `Check ${variablesOf("PROTOCOL", signal)}`)
    case 429:
    case 502:
    case 503:
    case 504:
      return warning(
        signal,
        answer,
        "Look at the log of the collector if this lasts: exports that it refuses are dropped"
      )
    default:
      return problem(signal, answer, `Look at the log of the collector, and check ${variablesOf("ENDPOINT", signal)}`)
  }
}

const checkSignal = Effect.fnUntraced(function*(signal: SignalName, settings: Signal) {
  const { headers, protocol, timeout, url } = settings
  const own = yield* headers
  if (typeof own === "string") return problem(signal, own, `Check ${variablesOf("HEADERS", signal)}`)
  const serialization = yield* OtlpSerialization.OtlpSerialization.pipe(
    Effect.provide(protocol === "http/json" ? OtlpSerialization.layerJson : OtlpSerialization.layerProtobuf)
  )
  const body = signal === "traces"
    ? serialization.traces({ resourceSpans: [] })
    : serialization.metrics({ resourceMetrics: [] })
  const client = yield* HttpClient.HttpClient
  const request = HttpClientRequest.post(url).pipe(HttpClientRequest.setBody(body), HttpClientRequest.setHeaders(own))
  return yield* client.execute(request).pipe(
    Effect.map((response) => describeResponse(signal, settings, response)),
    Effect.catch((error) => Effect.succeed(describeError(signal, settings, error))),
    Effect.timeoutOrElse({
      duration: timeout,
      orElse: () =>
        Effect.succeed(
          problem(
            signal,
            `the collector at ${placeOf(url)} did not answer within ${Duration.format(timeout)}`,
            `Check the collector and ${variablesOf("ENDPOINT", signal)}`
          )
        )
    })
  )
})

/** null: nothing is exported, and nothing is checked. */
export const checkTelemetry = (telemetry: TelemetrySettings | null): Effect.Effect<ReadonlyArray<CheckResult>> =>
  Effect.forEach(
    (["traces", "metrics"] as const).flatMap((signal) => {
      const settings = telemetry?.[signal] ?? null
      return settings === null ? [] : [checkSignal(signal, settings)]
    }),
    (check) => check,
    { concurrency: 2 }
  ).pipe(Effect.provide(OutgoingHttp.layer()))
