/** The doctor's checks of the collector, over real connections. */
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { once } from "node:events"
import { readFile } from "node:fs/promises"
import { createServer, type IncomingHttpHeaders, type RequestListener, type Server } from "node:http"
import { createServer as createTlsServer } from "node:https"
import type { AddressInfo } from "node:net"
import { checkTelemetry } from "../../../src/cli/doctor/TelemetryChecks.ts"
import type { TelemetrySettings } from "../../../src/config/TelemetrySettings.ts"
import { run, runCommand } from "../cli/Program.ts"
import { certificates, missing } from "../kafka/Certificates.ts"

const key = "s3cr3t"

/** Listens on a free port until the scope closes; returns the address without the scheme. */
const listening = (server: Server) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      server.listen(0, "127.0.0.1")
      await once(server, "listening")
      return `127.0.0.1:${(server.address() as AddressInfo).port}`
    }),
    () => Effect.sync(() => void server.close().closeAllConnections())
  )

const answering = (status: number, headers: Record<string, string> = {}) =>
  Effect.map(
    listening(createServer((_, response) => void response.writeHead(status, headers).end(`body with ${key}`))),
    (place) => `http://${place}`
  )

const settingsOf = (
  url: string,
  signal: Partial<NonNullable<TelemetrySettings["metrics"]>> = {}
): TelemetrySettings => ({
  service: "rollcall",
  attributes: {},
  traces: null,
  metrics: {
    url: `${url}/v1/metrics?key=${key}`,
    headers: Effect.succeed({ authorization: key }),
    protocol: "http/protobuf",
    timeout: Duration.seconds(10),
    interval: Duration.minutes(1),
    ...signal
  }
})

const check = (settings: TelemetrySettings) =>
  Effect.map(checkTelemetry(settings), (results) => {
    assert.notInclude(JSON.stringify(results), key)
    return results.map(({ check, hint, message, status }) => `${status} ${check}: ${message}. ${hint ?? ""}`).join("\n")
  })

describe("doctor", () => {
  it("sends an export without data for each signal, with the headers, and reports that it is accepted", async () => {
    const requests: Array<{ path: string | undefined; headers: IncomingHttpHeaders; body: string }> = []
    const collect: RequestListener = (request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk)).on("end", () => {
        requests.push({ path: request.url, headers: request.headers, body: Buffer.concat(chunks).toString() })
        response.end()
      })
    }
    const checks = Effect.gen(function*() {
      const place = yield* listening(createServer(collect))
      const { stderr, stdout } = yield* Effect.promise(() =>
        runCommand(["doctor", "--json"], {
          ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
          ROLLCALL_API_KEY: "k3y",
          ROLLCALL_STORE: "sqlite::memory:",
          OTEL_EXPORTER_OTLP_ENDPOINT: `http://${place}`,
          OTEL_EXPORTER_OTLP_HEADERS: `authorization=${key}`,
          OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/json"
        })
      )
      assert.notInclude(stdout + stderr, key)
      const found: ReadonlyArray<{ check: string; status: string; message: string }> = JSON.parse(stdout).checks
      assert.deepStrictEqual(
        found.filter(({ check }) => check === "traces" || check === "metrics")
          .map(({ check, message, status }) => [check, status, message]),
        ["traces", "metrics"].map((signal) => [
          signal,
          "ok",
          `the collector at http://${place}/v1/${signal} accepts an export`
        ])
      )
    })
    await Effect.runPromise(Effect.scoped(checks))
    const byPath = new Map(requests.map((request) => [request.path, request]))
    const [traces, metrics] = [byPath.get("/v1/traces"), byPath.get("/v1/metrics")]
    assert.deepStrictEqual([traces?.headers["content-type"], traces?.body], [
      "application/json",
      `{"resourceSpans":[]}`
    ])
    assert.deepStrictEqual([metrics?.headers["content-type"], metrics?.body], ["application/x-protobuf", ""])
    assert.deepStrictEqual([...byPath.values()].map(({ headers }) => headers.authorization), [key, key])
  })

  for (
    const [status, expected] of [
      [
        401,
        /^problem metrics: .* status 401: it does not accept the headers\. Check OTEL_EXPORTER_OTLP_METRICS_HEADERS/
      ],
      [403, /^problem .* it does not accept the headers/],
      [404, /^problem .*\. Check the path: \/v1\/metrics is appended to OTEL_EXPORTER_OTLP_ENDPOINT/],
      [415, /^problem .* status 415 to http\/protobuf\. Check OTEL_EXPORTER_OTLP_METRICS_PROTOCOL/],
      [301, /^problem .* Rollcall does not follow redirects$/],
      [503, /^warning .* status 503\. Look at the log of the collector/],
      [500, /^problem .* status 500\. Look at the log of the collector/]
    ] as const
  ) {
    it.live(`says what to do about a collector that answers with status ${status}, and prints no key (I11)`, () =>
      Effect.gen(function*() {
        const url = yield* answering(status, status === 301 ? { location: `https://elsewhere.example/${key}` } : {})
        assert.match(yield* check(settingsOf(url)), expected)
      }).pipe(Effect.scoped))
  }

  it.live("reports a web page, a collector that is not there, and one that does not answer in time", () =>
    Effect.gen(function*() {
      const page = yield* answering(200, { "content-type": "text/html" })
      assert.match(yield* check(settingsOf(page)), /^problem .* answers with a web page\. Check OTEL_/)
      const gone = yield* Effect.scoped(answering(200))
      assert.match(
        yield* check(settingsOf(gone)),
        /^problem metrics: the collector at http:\S+\/v1\/metrics cannot be reached \(ECONNREFUSED\)\. Start the collector/
      )
      const silent = `http://${yield* listening(createServer(() => undefined))}`
      assert.match(
        yield* check(settingsOf(silent, { timeout: Duration.millis(200) })),
        /^problem .* did not answer within 200ms\. Check the collector/
      )
      const unusable = { headers: Effect.succeed("the headers cannot be used: item 1 is not <name>=<value>") }
      assert.match(
        yield* check(settingsOf(silent, unusable)),
        /^problem metrics: the headers cannot be used: item 1 .*\. Check OTEL_EXPORTER_OTLP_METRICS_HEADERS/
      )
    }).pipe(Effect.scoped))

  describe.skipIf(missing !== null)("over TLS", () => {
    it.live("names a certificate that is not trusted, and a server without TLS", () =>
      Effect.gen(function*() {
        const { path } = yield* certificates
        const own = yield* Effect.promise(async () => ({
          key: await readFile(path("broker.key")),
          cert: await readFile(path("broker.pem"))
        }))
        const untrusted = `https://${yield* listening(createTlsServer(own))}`
        assert.match(
          yield* check(settingsOf(untrusted)),
          /^problem .* is not trusted \(\w*(CERT|SIGNATURE)\w*\)\. Set NODE_EXTRA_CA_CERTS .* contain 127\.0\.0\.1$/
        )
        const plain = yield* answering(200)
        assert.match(
          yield* check(settingsOf(plain.replace("http:", "https:"))),
          /^problem .* does not use TLS\. Check OTEL_/
        )
      }).pipe(Effect.scoped))

    it.live("accepts a certificate of NODE_EXTRA_CA_CERTS, and says that a client's certificate cannot be sent", () =>
      Effect.gen(function*() {
        const { path } = yield* certificates
        const own = yield* Effect.promise(async () => ({
          key: await readFile(path("broker.key")),
          cert: await readFile(path("broker.pem")),
          ca: await readFile(path("ca.pem"))
        }))
        const answer: RequestListener = (_, response) => void response.end()
        const open = `https://${yield* listening(createTlsServer(own, answer))}`
        const closed = `https://${yield* listening(createTlsServer({ ...own, requestCert: true }, answer))}`
        const { stdout } = yield* Effect.promise(() =>
          run(["doctor", "--json"], {
            ROLLCALL_API_URL: "http://127.0.0.1:9/v1",
            ROLLCALL_API_KEY: "k3y",
            ROLLCALL_STORE: "sqlite::memory:",
            NODE_EXTRA_CA_CERTS: path("ca.pem"),
            OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: open,
            OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: closed
          })
        )
        const found: ReadonlyArray<{ check: string; status: string; message: string }> = JSON.parse(stdout).checks
        const messageOf = (name: string) =>
          found.flatMap(({ check, message, status }) => check === name ? `${status}: ${message}` : []).join()
        assert.strictEqual(messageOf("traces"), `ok: the collector at ${open}/ accepts an export`)
        assert.match(messageOf("metrics"), /^problem: the collector at \S+ refuses the TLS connection \(\w*ALERT\w*\)$/)
      }).pipe(Effect.scoped))
  })
})
