import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Metric from "effect/Metric"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { copyFile, readFile, writeFile } from "node:fs/promises"
import { request, type RequestOptions } from "node:https"
import * as net from "node:net"
import tls, { connect, type DetailedPeerCertificate } from "node:tls"
import { fileURLToPath } from "node:url"
import { connectTo } from "../../../src/cli/client/Connection.ts"
import * as Server from "../../../src/http/Server.ts"
import { certificates, missing } from "../kafka/Certificates.ts"
import * as Running from "./Running.ts"

const { token } = Running

const handshake = (maxVersion: "TLSv1.1" | "TLSv1.3") =>
  Effect.flatMap(Server.Server, ({ url }) =>
    Effect.promise(() =>
      new Promise<string>((resolve) => {
        const socket = connect({
          host: "127.0.0.1",
          port: Number(new URL(url).port),
          rejectUnauthorized: false,
          minVersion: "TLSv1",
          maxVersion,
          ciphers: "DEFAULT@SECLEVEL=0"
        })
        socket.once("secureConnect", () => {
          const { subject }: DetailedPeerCertificate = socket.getPeerCertificate(true)
          socket.destroy()
          resolve(subject.CN as string)
        })
        socket.once("error", () => resolve("refused"))
      })
    ))

/** As with the option `--tls-min-v1.0` of Node.js, and a configuration of OpenSSL that allows TLS 1.0. */
const oldTlsByDefault = Effect.acquireRelease(
  Effect.sync(() => {
    const { DEFAULT_CIPHERS, DEFAULT_MIN_VERSION } = tls
    Object.assign(tls, { DEFAULT_CIPHERS: "DEFAULT@SECLEVEL=0", DEFAULT_MIN_VERSION: "TLSv1" })
    return { DEFAULT_CIPHERS, DEFAULT_MIN_VERSION }
  }),
  (before) => Effect.sync(() => Object.assign(tls, before))
)

const settings = (path: (name: string) => string, authorities: string | null = "ca.pem") => ({
  certFile: path("broker.pem"),
  keyFile: path("broker.key"),
  clientCaFile: authorities === null ? null : path(authorities)
})

/** Lists the streams over a new connection: `answered`, or the reason why not and the next step. */
const listed = (host: string, port: number, tls: Exclude<Parameters<typeof connectTo>[0]["tls"], null>) =>
  connectTo({ host, port, token: Redacted.make(token), tls }).pipe(
    Effect.flatMap((client) => client.allStreams),
    Effect.match({
      onSuccess: () => "answered",
      onFailure: (error) => "hint" in error ? `${error.message}; ${error.hint}` : "other"
    }),
    Effect.provide(NodeHttpClient.layerNodeHttp)
  )

/** Lines about certificates in the log. `afterAMinute`: the next one, a minute later. */
const certificateLog = Effect.map(Queue.unbounded<string>(), (messages) => ({
  next: Queue.take(messages),
  afterAMinute: Effect.andThen(TestClock.adjust("1 minute"), Queue.take(messages)),
  logged: Effect.provide(Logger.layer([
    Logger.make(({ message }) => {
      if (String(message).startsWith("certificate")) Queue.offerUnsafe(messages, String(message))
    })
  ]))
}))

const portOf = Effect.map(Server.Server, ({ url }) => Number(new URL(url).port))

describe.skipIf(missing !== null)("the operating API over TLS", () => {
  it.live("answers with HSTS and secure cookies, and not to versions before TLS 1.2", () =>
    Effect.gen(function*() {
      const { path } = yield* certificates
      yield* oldTlsByDefault
      yield* Effect.gen(function*() {
        const { url } = yield* Server.Server
        assert.match(url, /^https:\/\/127\.0\.0\.1:\d+$/)
        const ca = yield* Effect.promise(() => readFile(path("ca.pem")))
        const { headers, status } = yield* Effect.promise(() =>
          new Promise<{ status?: number | undefined; headers: Record<string, unknown> }>((resolve, reject) => {
            const form = { "content-type": "application/x-www-form-urlencoded", origin: url }
            const sent = request(`${url}/login`, { method: "POST", ca, headers: form }, (answer) => {
              answer.resume()
              resolve({ status: answer.statusCode, headers: answer.headers })
            })
            sent.on("error", reject)
            sent.end(`token=${token}`)
          })
        )
        assert.deepStrictEqual([status, headers["strict-transport-security"]], [303, "max-age=31536000"])
        assert.match(String(headers["set-cookie"]), /^__Host-rollcall_\d+=\S+; .*Secure/)
        assert.strictEqual(yield* handshake("TLSv1.1"), "refused")
        assert.strictEqual(yield* handshake("TLSv1.3"), "broker")
      }).pipe(Running.using({ token, tls: settings(path, null) }))
    }).pipe(Effect.scoped))

  it.effect("uses a new certificate within a minute, and keeps the old one while the files do not match", () =>
    Effect.gen(function*() {
      const { path } = yield* certificates
      const [certFile, keyFile] = [path("served.pem"), path("served.key")]
      const serve = (name: string, suffix: string) =>
        Effect.promise(() => copyFile(path(`${name}.${suffix}`), path(`served.${suffix}`)))
      yield* serve("broker", "pem")
      yield* serve("broker", "key")
      const { afterAMinute, logged, next } = yield* certificateLog
      yield* Effect.gen(function*() {
        assert.strictEqual(yield* next, "certificate loaded")
        assert.strictEqual(yield* handshake("TLSv1.3"), "broker")
        yield* serve("client", "pem")
        assert.strictEqual(yield* afterAMinute, "certificate not replaced")
        assert.strictEqual(yield* handshake("TLSv1.3"), "broker")
        yield* serve("client", "key")
        assert.strictEqual(yield* afterAMinute, "certificate replaced")
        assert.strictEqual(yield* handshake("TLSv1.3"), "client")
      }).pipe(
        Running.using({ tls: { certFile, keyFile, clientCaFile: null } }),
        logged
      )
    }).pipe(Effect.scoped))

  it.live("is reached by the commands: with the server's own certificate, or with that of its authority", () =>
    Effect.gen(function*() {
      const { path } = yield* certificates
      yield* Effect.gen(function*() {
        const port = yield* portOf
        const ask = (host: string, certFile: string | null, caFile: string | null) =>
          listed(host, port, { certFile, caFile, client: null })
        assert.strictEqual(yield* ask("127.0.0.1", null, path("ca.pem")), "answered")
        assert.strictEqual(yield* ask("localhost", path("broker.pem"), null), "answered")
        assert.match(yield* ask("localhost", null, path("ca.pem")), /not trusted \(ERR_TLS_CERT_ALTNAME_INVALID\)/)
        assert.match(
          yield* ask("127.0.0.1", null, path("other-ca.pem")),
          /not trusted \(UNABLE_TO_VERIFY_LEAF_SIGNATURE\)/
        )
        assert.match(yield* ask("127.0.0.1", path("client.pem"), null), /not trusted/)
        assert.match(yield* ask("127.0.0.1", null, path("none.pem")), /none\.pem cannot be read/)
      }).pipe(Running.using({ token, tls: settings(path, null) }))
      yield* Effect.gen(function*() {
        const tls = { certFile: null, caFile: path("ca.pem"), client: null }
        const client = yield* connectTo({ host: "127.0.0.1", port: yield* portOf, token: null, tls })
        const error = yield* Effect.flip(client.allStreams)
        assert.match(String("message" in error && error.message), /does not use TLS/)
      }).pipe(Effect.provide(NodeHttpClient.layerNodeHttp), Running.using())
    }).pipe(Effect.scoped))

  it.effect("does not start with files that do not belong together, and says which", () =>
    Effect.gen(function*() {
      const { path } = yield* certificates
      const failed = (certFile: string, keyFile: string) =>
        Effect.flip(
          Server.checkAddress({ host: "127.0.0.1", port: 0, tls: { certFile, keyFile, clientCaFile: null } })
        )
      assert.match((yield* failed(path("broker.pem"), path("client.key"))).message, /are not a certificate and its key/)
      assert.match((yield* failed(path("broker.key"), path("broker.key"))).message, /are not a certificate and its key/)
      assert.match((yield* failed(path("none.pem"), path("broker.key"))).message, /CERT_FILE .*none\.pem.*ENOENT/)
    }).pipe(Effect.scoped))
})

describe.skipIf(missing !== null)("the operating API with certificates of clients", () => {
  /** The answer to a request, or the code of the error. `session`: resumes this TLS session. */
  const statusOf = Effect.fnUntraced(
    function*(
      path: (name: string) => string,
      name: string | null,
      url = "/health/live",
      options: RequestOptions & { readonly session?: Buffer } = {}
    ) {
      const port = yield* portOf
      const read = (file: string) => readFile(path(file))
      return yield* Effect.promise(async () => {
        const pair = name === null ? {} : { cert: await read(`${name}.pem`), key: await read(`${name}.key`) }
        const headers = { authorization: `Bearer ${token}` }
        const sent = request({
          host: "127.0.0.1",
          port,
          path: url,
          headers,
          agent: false,
          ca: await read("ca.pem"),
          ...pair,
          ...options
        })
        return new Promise<number | string>((resolve) => {
          sent.once("response", (answer) => resolve(answer.resume().statusCode ?? 0))
          sent.once("error", (error) => resolve("code" in error ? String(error.code) : error.message))
          sent.end()
        })
      })
    }
  )
  const refused = /^(ERR_SSL_\w*ALERT_\w+|ECONNRESET|EPIPE)$/

  it.live("answers only clients with a certificate of the authority, also on /health, and besides needs the token", () =>
    Effect.gen(function*() {
      const { path } = yield* certificates
      yield* Effect.gen(function*() {
        for (const url of ["/health/live", "/v1/streams"]) {
          assert.strictEqual(yield* statusOf(path, "client", url), 200)
          for (const name of [null, "stranger", "expired"]) {
            assert.match(String(yield* statusOf(path, name, url)), refused, `${name} ${url}`)
          }
        }
        assert.strictEqual(yield* statusOf(path, "client", "/v1/streams", { headers: {} }), 401)
        const failed = (yield* Metric.snapshot).find(({ id }) => id === "rollcall_http_handshakes_failed_total")
        assert.deepInclude(failed?.state, { count: 6 })
      }).pipe(Running.using({ token, tls: settings(path) }))
    }).pipe(Effect.scoped, Effect.provideService(Metric.MetricRegistry, new Map())))

  it.live("is reached by commands with a certificate and by the health check, and others learn what they lack", () =>
    Effect.gen(function*() {
      const { path } = yield* certificates
      yield* Effect.gen(function*() {
        const port = yield* portOf
        const ask = (name: string | null, keyName = name) => {
          const client = name === null ? null : { certFile: path(`${name}.pem`), keyFile: path(`${keyName}.key`) }
          return listed("127.0.0.1", port, { certFile: null, caFile: path("ca.pem"), client })
        }
        assert.strictEqual(yield* ask("client"), "answered")
        // the alert of the server may be lost, because it closes the connection at once
        const lacking =
          /(or requires one|no Rollcall process answers|ended before it answered).*set ROLLCALL_HTTP_TLS_CLIENT_CERT_FILE/
        assert.match(yield* ask(null), lacking)
        assert.match(yield* ask("stranger"), lacking)
        assert.match(yield* ask("client", "stranger"), /are not a certificate and its key/)
        assert.match(yield* ask("none"), /none\.pem cannot be read; .*ROLLCALL_HTTP_TLS_CLIENT_CERT_FILE/)
        const check = (environment: Record<string, string>) =>
          Effect.promise(() =>
            new Promise<number | null>((resolve) => {
              const script = new URL("../../../deploy/healthcheck.js", import.meta.url)
              const env = { ROLLCALL_HTTP_PORT: String(port), ...environment }
              spawn(process.execPath, [fileURLToPath(script)], { env, stdio: "ignore" }).once("exit", resolve)
            })
          )
        const ofClient = {
          ROLLCALL_HTTP_TLS_CLIENT_CERT_FILE: path("client.pem"),
          ROLLCALL_HTTP_TLS_CLIENT_KEY_FILE: path("client.key")
        }
        assert.deepStrictEqual([yield* check(ofClient), yield* check({})], [0, 1])
      }).pipe(Running.using({ token, tls: settings(path) }))
    }).pipe(Effect.scoped))

  it.effect("refuses the certificates of an authority that was replaced within a minute, on open connections with and without a handshake and in a resumed TLS session too", () =>
    Effect.gen(function*() {
      const { path } = yield* certificates
      yield* Effect.promise(() => copyFile(path("ca.pem"), path("clients.pem")))
      const { afterAMinute, logged, next } = yield* certificateLog
      yield* Effect.gen(function*() {
        yield* next
        const port = yield* portOf
        const pair = yield* Effect.promise(async () => ({
          ca: await readFile(path("ca.pem")),
          cert: await readFile(path("client.pem")),
          key: await readFile(path("client.key"))
        }))
        const open = connect({ host: "127.0.0.1", port, ...pair })
        const session = yield* Effect.promise(() =>
          new Promise<Buffer>((resolve) => {
            open.once("session", resolve)
            open.write("GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
          })
        )
        assert.strictEqual(yield* statusOf(path, "client", "/health/live", { session }), 200)
        const closed = once(open.resume(), "close")
        /** A connection whose handshake starts only after the authority is replaced. */
        const early = yield* Effect.acquireRelease(
          Effect.promise(async () => {
            const socket = net.connect(port, "127.0.0.1").on("error", () => {})
            await once(socket, "connect")
            return socket.resume()
          }),
          (socket) => Effect.sync(() => socket.destroy())
        )
        yield* Effect.promise(() => writeFile(path("clients.pem"), "not a certificate"))
        assert.strictEqual(yield* afterAMinute, "certificate not replaced")
        assert.strictEqual(yield* statusOf(path, "client"), 200)
        yield* Effect.promise(() => copyFile(path("other-ca.pem"), path("clients.pem")))
        assert.strictEqual(yield* afterAMinute, "certificate replaced")
        yield* Effect.promise(() => closed)
        const answer = yield* Effect.promise(() =>
          new Promise<string>((resolve) => {
            if (early.destroyed) return resolve("closed")
            early.once("close", () => resolve("closed"))
            const late = connect({ socket: early, servername: "kafka.test", ...pair }).on("error", () => {})
            late.once("data", (data) => resolve(String(data)))
            late.write("GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
          })
        )
        assert.strictEqual(answer, "closed")
        assert.match(String(yield* statusOf(path, "client")), refused)
        assert.match(String(yield* statusOf(path, "client", "/health/live", { session })), refused)
        assert.strictEqual(yield* statusOf(path, "stranger"), 200)
      }).pipe(
        Effect.scoped,
        Running.using({ token, tls: settings(path, "clients.pem") }),
        logged
      )
    }).pipe(Effect.scoped))

  it.live("accepts the certificates of all authorities in the file, and refuses a file whose second part is damaged", () =>
    Effect.gen(function*() {
      const { path } = yield* certificates
      const join = (target: string, end?: number) =>
        Effect.promise(async () => {
          const parts = await Promise.all(["other-ca.pem", "ca.pem"].map((name) => readFile(path(name), "utf8")))
          await writeFile(path(target), parts.join("").slice(0, end))
        })
      yield* join("authorities.pem")
      yield* Effect.gen(function*() {
        assert.strictEqual(yield* statusOf(path, "stranger"), 200)
        assert.strictEqual(yield* statusOf(path, "client"), 200)
      }).pipe(Running.using({ token, tls: settings(path, "authorities.pem") }))
      yield* join("cut-authorities.pem", -80)
      const tls = settings(path, "cut-authorities.pem")
      const failed = yield* Effect.flip(Server.checkAddress({ host: "127.0.0.1", port: 0, tls }))
      assert.match(failed.message, /cut-authorities\.pem is not a certificate/)
    }).pipe(Effect.scoped))

  it.effect("does not start with a file that is not a certificate, and says which", () =>
    Effect.gen(function*() {
      const { path } = yield* certificates
      const failed = (authorities: string) =>
        Effect.flip(Server.checkAddress({ host: "127.0.0.1", port: 0, tls: settings(path, authorities) }))
      assert.match((yield* failed("ca.key")).message, /ca\.key is not a certificate/)
      assert.match((yield* failed("none.pem")).message, /CLIENT_CA_FILE .*none\.pem.*ENOENT/)
    }).pipe(Effect.scoped))
})
