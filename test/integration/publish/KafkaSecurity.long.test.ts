import { assert } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import { copyFile, writeFile } from "node:fs/promises"
import type { KafkaConnection } from "../../../src/publish/kafka/KafkaConnection.ts"
import { inDirectory, runCommand } from "../cli/Program.ts"
import * as Broker from "../kafka/Broker.ts"
import { type Certificates, certificates, missing as noCertificates } from "../kafka/Certificates.ts"
import { currentDriver, describeWithDrivers } from "../kafka/Drivers.ts"
import { client, type TokenIssuer, tokenIssuer } from "../kafka/TokenIssuer.ts"
import { entry } from "./Entries.ts"
import { newStore, opened, sinkOf } from "./Publishing.ts"

const missing = Broker.separateMissing ?? noCertificates

class Security extends Context.Service<Security, Certificates & { readonly issuer: TokenIssuer }>()("test/Security") {}

const jaas = "org.apache.kafka.common.security"

/** One TLS port with every login, and one (`spare`) that requires a client's certificate. */
const services = Layer.unwrap(Effect.gen(function*() {
  const files = yield* certificates
  const issuer = yield* tokenIssuer
  yield* Effect.promise(() => writeFile(files.path("jwks.json"), issuer.jwks))
  const jwks = `file://${files.path("jwks.json")}`
  const broker = Broker.separate({
    properties: ({ controller, plain, sasl, spare }) => `
listeners=PLAIN://127.0.0.1:${plain},SASL://127.0.0.1:${sasl},MUTUAL://127.0.0.1:${spare},CONTROLLER://127.0.0.1:${controller}
advertised.listeners=PLAIN://127.0.0.1:${plain},SASL://127.0.0.1:${sasl},MUTUAL://127.0.0.1:${spare}
listener.security.protocol.map=PLAIN:PLAINTEXT,SASL:SASL_SSL,MUTUAL:SSL,CONTROLLER:PLAINTEXT
super.users=User:ANONYMOUS;User:writer;User:CN=client
ssl.keystore.type=PEM
ssl.keystore.location=${files.path("broker.keystore.pem")}
ssl.truststore.type=PEM
ssl.truststore.location=${files.path("ca.pem")}
listener.name.mutual.ssl.client.auth=required
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl.scram-sha-256.sasl.jaas.config=${jaas}.scram.ScramLoginModule required;
listener.name.sasl.scram-sha-512.sasl.jaas.config=${jaas}.scram.ScramLoginModule required;
listener.name.sasl.oauthbearer.sasl.jaas.config=${jaas}.oauthbearer.OAuthBearerLoginModule required;
listener.name.sasl.oauthbearer.sasl.server.callback.handler.class=${jaas}.oauthbearer.OAuthBearerValidatorCallbackHandler
sasl.oauthbearer.jwt.validator.class=${jaas}.oauthbearer.BrokerJwtValidator
sasl.oauthbearer.jwks.endpoint.url=${jwks}
sasl.oauthbearer.expected.audience=kafka
listener.name.sasl.oauthbearer.connections.max.reauth.ms=60000
`,
    machine: [`-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=${jwks}`],
    format: ["SCRAM-SHA-256", "SCRAM-SHA-512"].flatMap((mechanism) => [
      "--add-scram",
      `${mechanism}=[name=writer,password=scr4m-s3cret]`
    ])
  })
  return Layer.merge(broker, Layer.succeed(Security, { ...files, issuer }))
}))

type Port = "sasl" | "spare"

/** A sink that published one event. */
const published = Effect.fnUntraced(function*(port: Port, security: Pick<KafkaConnection, "ssl" | "sasl">) {
  const { [port]: brokers } = yield* Broker.Broker
  const { identity, sink } = yield* opened({ brokers: brokers ?? [], ...security })
  yield* sink.publish(identity, [entry({ position: 1 })])
  return { sink, identity }
})

const messageOf = (...args: Parameters<typeof published>) =>
  Effect.map(Effect.flip(published(...args)), ({ message }) => message)

const password = (mechanism: "plain" | "scram-sha-256" | "scram-sha-512", text: string) => ({
  mechanism,
  username: "writer",
  password: Redacted.make(text)
})
const tokenOf = (text: string) =>
  ({ mechanism: "oauthbearer", token: Effect.succeed(Redacted.make(text)), endpoint: null }) as const
const endpointOf = (url: string, clientSecret = client.clientSecret) =>
  ({
    mechanism: "oauthbearer",
    token: null,
    endpoint: { url, clientId: client.clientId, clientSecret: Redacted.make(clientSecret), scope: "kafka" }
  }) as const

describeWithDrivers("a secured Kafka", missing, services, (it) => {
  for (const mechanism of ["plain", "scram-sha-256", "scram-sha-512"] as const) {
    it.effect(`accepts events over TLS with ${mechanism}, and a wrong password is reported without the password`, () =>
      Effect.gen(function*() {
        const { path } = yield* Security
        const ssl = { caFile: path("ca.pem") }
        const right = mechanism === "plain" ? "writer-secret" : "scr4m-s3cret"
        yield* published("sasl", { ssl, sasl: password(mechanism, right) })
        const message = yield* messageOf("sasl", { ssl, sasl: password(mechanism, "wr0ng-pass") })
        assert.include(message, "uthentication failed")
        assert.include(message, "KAFKA_SASL_PASSWORD")
        assert.notInclude(message, "wr0ng-pass")
      }))
  }

  it.effect("accepts events with the certificate of a client", () =>
    Effect.gen(function*() {
      const { path } = yield* Security
      const files = { caFile: path("ca.pem"), certFile: path("client.pem"), keyFile: path("client.key") }
      yield* published("spare", { ssl: files })
      yield* published("spare", { ssl: { ...files, serverName: "kafka.test" } })
    }))

  it.effect("is reported if the broker's certificate is signed by another authority, or is for another name", () =>
    Effect.gen(function*() {
      const { path } = yield* Security
      const login = { sasl: password("plain", "writer-secret") }
      yield* Effect.acquireRelease(
        Effect.sync(() => process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0"),
        () => Effect.sync(() => delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"])
      )
      for (const ssl of [true, { caFile: path("other-ca.pem") }]) {
        const message = yield* messageOf("sasl", { ssl, ...login })
        assert.include(message, "not trusted")
        assert.include(message, "KAFKA_SSL_CA_FILE")
      }
      const ssl = { caFile: path("ca.pem"), serverName: "other.test" }
      assert.include(yield* messageOf("sasl", { ssl, ...login }), "KAFKA_SSL_SERVER_NAME")
    }))

  it.effect("is reported if it refuses the client's certificate, or gets none", () =>
    Effect.gen(function*() {
      const { path } = yield* Security
      const caFile = path("ca.pem")
      const stranger = { caFile, certFile: path("stranger.pem"), keyFile: path("stranger.key") }
      for (const ssl of [{ caFile }, stranger]) {
        assert.include(yield* messageOf("spare", { ssl }), "KAFKA_SSL_CERT_FILE")
      }
    }))

  it.effect("is not contacted with files that cannot be used, and each is named with the reason", () =>
    Effect.gen(function*() {
      const { path } = yield* Security
      const caFile = path("ca.pem")
      const own = { caFile, certFile: path("client.pem"), keyFile: path("client.key") }
      const cases = [
        [{ caFile: path("none.pem") }, "none.pem cannot be read (ENOENT)"],
        [{ caFile: path("jwks.json") }, "jwks.json is not a PEM file"],
        [{ ...own, keyFile: path("client.pem") }, "client.pem is not a PEM file"],
        [{ ...own, keyFile: path("stranger.key") }, "does not belong to the certificate"],
        [{ ...own, certFile: path("expired.pem"), keyFile: path("expired.key") }, "expired.pem expired at"]
      ] as const
      for (const [ssl, text] of cases) assert.include(yield* messageOf("spare", { ssl }), text)
    }))

  it.effect("accepts a client again after its certificate was renewed, without a restart", () =>
    Effect.gen(function*() {
      const { path } = yield* Security
      const use = (name: string) =>
        Effect.promise(() =>
          Promise.all(["pem", "key"].map((end) => copyFile(path(`${name}.${end}`), path(`mounted.${end}`))))
        )
      const ssl = { caFile: path("ca.pem"), certFile: path("mounted.pem"), keyFile: path("mounted.key") }
      const { spare } = yield* Broker.Broker
      const [sink, identity] = [yield* sinkOf({ brokers: spare ?? [], ssl }), newStore()]
      yield* use("expired")
      assert.include((yield* Effect.flip(sink.open(identity))).message, "expired at")
      yield* use("client")
      assert.isNull(yield* sink.open(identity))
    }))

  it.effect("accepts events with a token, and an expired or foreign one is reported without the token", () =>
    Effect.gen(function*() {
      const { issuer, path } = yield* Security
      const ssl = { caFile: path("ca.pem") }
      yield* published("sasl", { ssl, sasl: tokenOf(issuer.token(300)) })
      const expired = issuer.token(-300)
      const message = yield* messageOf("sasl", { ssl, sasl: tokenOf(expired) })
      assert.match(message, /the token expired at 20\d\d-.*KAFKA_SASL_TOKEN_FILE/)
      const foreign = `${issuer.token(300).slice(0, -20)}${"A".repeat(20)}`
      const refused = yield* messageOf("sasl", { ssl, sasl: tokenOf(foreign) })
      assert.match(refused, /refused the token \(invalid_token\).*its issuer, audience/s)
      for (const text of [message, refused]) assert.notInclude(text, expired.slice(0, 20))
    }))

  it.effect("gets a new token from the token endpoint before the last one expires, while events are published", () =>
    Effect.gen(function*() {
      const { issuer, path } = yield* Security
      issuer.lifetimeSeconds = 13
      issuer.issued = 0
      const { identity, sink } = yield* published("sasl", {
        ssl: { caFile: path("ca.pem") },
        sasl: endpointOf(issuer.url)
      })
      let position = 1
      yield* Effect.suspend(() => sink.publish(identity, [entry({ position: ++position })])).pipe(
        Effect.repeat(Schedule.spaced("100 millis").pipe(Schedule.upTo({ duration: "15 seconds" })))
      )
      assert.isAtLeast(issuer.issued, 2)
      issuer.lifetimeSeconds = 300
    }))

  it.effect("gets another token after it refused one during a send", () =>
    Effect.gen(function*() {
      const { issuer, path } = yield* Security
      const { start, stop } = yield* Broker.Broker
      const { identity, sink } = yield* published("sasl", {
        ssl: { caFile: path("ca.pem") },
        sasl: endpointOf(issuer.url)
      })
      issuer.rotate()
      yield* stop()
      yield* Effect.promise(() => writeFile(path("jwks.json"), issuer.jwks))
      yield* start
      // @platformatic/kafka logs in again within the send, with another token
      if (currentDriver() === "kafkajs") {
        const { message } = yield* Effect.flip(sink.publish(identity, [entry({ position: 2 })]))
        assert.include(message, "the brokers refused the token (invalid_token)")
        assert.strictEqual((yield* sink.open(identity))?.position, 1)
      }
      yield* sink.publish(identity, [entry({ position: 2 })])
      assert.strictEqual((yield* sink.open(identity))?.position, 2)
    }))

  it.effect("is not contacted without a token: the endpoint's refusal, or its silence, is reported", () =>
    Effect.gen(function*() {
      const { issuer, path } = yield* Security
      const ssl = { caFile: path("ca.pem") }
      const refused = yield* messageOf("sasl", { ssl, sasl: endpointOf(issuer.url, "wr0ng-secret") })
      assert.include(refused, "refused the client (invalid_client)")
      assert.include(refused, "KAFKA_SASL_CLIENT_SECRET")
      assert.notInclude(refused, "wr0ng-secret")
      const silent = yield* messageOf("sasl", { ssl, sasl: endpointOf("http://127.0.0.1:1/token") })
      assert.include(silent, "127.0.0.1:1/token did not respond (ECONNREFUSED)")
      assert.include(silent, "KAFKA_SASL_TOKEN_URL")
    }))

  it.effect(
    "is examined by doctor, and logged by start, with the settings from variables and files",
    () =>
      Effect.gen(function*() {
        const { issuer, path } = yield* Security
        const { sasl } = yield* Broker.Broker
        yield* Effect.promise(() => writeFile(path("token"), issuer.token(300)))
        yield* Effect.promise(() => writeFile(path("client-secret"), client.clientSecret))
        const environment = {
          ROLLCALL_STORE: `sqlite:${path(`${currentDriver()}.db`)}`,
          ROLLCALL_API_URL: "http://127.0.0.1:1/v1",
          ROLLCALL_API_KEY: "k",
          KAFKA_BROKERS: (sasl ?? []).join(),
          ROLLCALL_KAFKA_DRIVER: currentDriver(),
          KAFKA_SSL_CA_FILE: path("ca.pem")
        }
        const kafkaChecks = (own: Readonly<Record<string, string>>) =>
          Effect.map(
            Effect.promise(() => runCommand(["doctor", "--json"], { ...environment, ...own })),
            ({ stdout }) => JSON.parse(stdout).checks.filter(({ check }: { check: string }) => check === "kafka")
          )
        const cases: ReadonlyArray<readonly [Readonly<Record<string, string>>, string]> = [
          [{ KAFKA_SASL_MECHANISM: "oauthbearer", KAFKA_SASL_TOKEN_FILE: path("token") }, "ok"],
          [{
            KAFKA_SASL_MECHANISM: "oauthbearer",
            KAFKA_SASL_TOKEN_URL: issuer.url,
            KAFKA_SASL_CLIENT_ID: client.clientId,
            KAFKA_SASL_CLIENT_SECRET_FILE: path("client-secret"),
            KAFKA_SASL_SCOPE: "kafka"
          }, "ok"],
          [{
            KAFKA_SASL_MECHANISM: "scram-sha-512",
            KAFKA_SASL_USERNAME: "writer",
            KAFKA_SASL_PASSWORD: "wr0ng-pass"
          }, "problem"]
        ]
        for (const [own, status] of cases) {
          const [found] = yield* kafkaChecks(own)
          assert.strictEqual(found?.status, status, JSON.stringify(found))
          assert.notInclude(JSON.stringify(found), "wr0ng-pass")
        }
        const [wrong] = cases.at(-1)!
        yield* Effect.promise(() =>
          inDirectory(async (_, start) => {
            const service = start(["start"], { ...environment, ...wrong, ROLLCALL_HTTP_PORT: "0" })
            await service.says(/KAFKA_SASL_PASSWORD/, "stderr")
            const { stderr, stdout } = await service.stop()
            assert.notInclude(stderr + stdout, "wr0ng-pass")
          })
        )
      })
  )
})
