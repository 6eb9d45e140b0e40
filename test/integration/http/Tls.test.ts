import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import { copyFile, readFile } from "node:fs/promises"
import { request } from "node:https"
import tls, { connect, type DetailedPeerCertificate } from "node:tls"
import { connectTo } from "../../../src/cli/Connection.ts"
import * as Server from "../../../src/http/Server.ts"
import { certificates, missing } from "../kafka/Certificates.ts"
import * as Running from "./Running.ts"

const token = "an-operate-token-of-32-characters"

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
      }).pipe(Running.using({ token, tls: { certFile: path("broker.pem"), keyFile: path("broker.key") } }))
    }).pipe(Effect.scoped))

  it.effect("uses a new certificate within a minute, and keeps the old one while the files do not match", () =>
    Effect.gen(function*() {
      const { path } = yield* certificates
      const [certFile, keyFile] = [path("served.pem"), path("served.key")]
      const serve = (name: string, suffix: string) =>
        Effect.promise(() => copyFile(path(`${name}.${suffix}`), path(`served.${suffix}`)))
      yield* serve("broker", "pem")
      yield* serve("broker", "key")
      const messages = yield* Queue.unbounded<string>()
      const logger = Logger.make(({ message }) => {
        if (String(message).startsWith("certificate")) Queue.offerUnsafe(messages, String(message))
      })
      const afterAMinute = Effect.andThen(TestClock.adjust("1 minute"), Queue.take(messages))
      yield* Effect.gen(function*() {
        assert.strictEqual(yield* Queue.take(messages), "certificate loaded")
        assert.strictEqual(yield* handshake("TLSv1.3"), "broker")
        yield* serve("client", "pem")
        assert.strictEqual(yield* afterAMinute, "certificate not replaced")
        assert.strictEqual(yield* handshake("TLSv1.3"), "broker")
        yield* serve("client", "key")
        assert.strictEqual(yield* afterAMinute, "certificate replaced")
        assert.strictEqual(yield* handshake("TLSv1.3"), "client")
      }).pipe(Running.using({ tls: { certFile, keyFile } }), Effect.provide(Logger.layer([logger])))
    }).pipe(Effect.scoped))

  it.live("is reached by the commands: with the server's own certificate, or with that of its authority", () =>
    Effect.gen(function*() {
      const { path } = yield* certificates
      yield* Effect.gen(function*() {
        const port = yield* portOf
        const ask = (host: string, certFile: string | null, caFile: string | null) =>
          connectTo({ host, port, token: Redacted.make(token), tls: { certFile, caFile } }).pipe(
            Effect.flatMap((client) => client.streams.streams()),
            Effect.match({
              onSuccess: () => "answered",
              onFailure: (error) => "message" in error ? String(error.message) : "other"
            }),
            Effect.provide(NodeHttpClient.layerNodeHttp)
          )
        assert.strictEqual(yield* ask("127.0.0.1", null, path("ca.pem")), "answered")
        assert.strictEqual(yield* ask("localhost", path("broker.pem"), null), "answered")
        assert.match(yield* ask("localhost", null, path("ca.pem")), /not trusted \(ERR_TLS_CERT_ALTNAME_INVALID\)/)
        assert.match(
          yield* ask("127.0.0.1", null, path("other-ca.pem")),
          /not trusted \(UNABLE_TO_VERIFY_LEAF_SIGNATURE\)/
        )
        assert.match(yield* ask("127.0.0.1", path("client.pem"), null), /not trusted/)
        assert.match(yield* ask("127.0.0.1", null, path("none.pem")), /none\.pem cannot be read/)
      }).pipe(Running.using({ token, tls: { certFile: path("broker.pem"), keyFile: path("broker.key") } }))
      yield* Effect.gen(function*() {
        const tls = { certFile: null, caFile: path("ca.pem") }
        const client = yield* connectTo({ host: "127.0.0.1", port: yield* portOf, token: null, tls })
        const error = yield* Effect.flip(client.streams.streams())
        assert.match(String("message" in error && error.message), /does not use TLS/)
      }).pipe(Effect.provide(NodeHttpClient.layerNodeHttp), Running.using())
    }).pipe(Effect.scoped))

  it.effect("does not start with files that do not belong together, and says which", () =>
    Effect.gen(function*() {
      const { path } = yield* certificates
      const failed = (certFile: string, keyFile: string) =>
        Effect.flip(Server.checkAddress({ host: "127.0.0.1", port: 0, tls: { certFile, keyFile } }))
      assert.match((yield* failed(path("broker.pem"), path("client.key"))).message, /are not a certificate and its key/)
      assert.match((yield* failed(path("broker.key"), path("broker.key"))).message, /are not a certificate and its key/)
      assert.match((yield* failed(path("none.pem"), path("broker.key"))).message, /CERT_FILE .*none\.pem.*ENOENT/)
    }).pipe(Effect.scoped))
})
