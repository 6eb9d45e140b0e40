import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { check, checkKafka } from "./Config.ts"
import { secret } from "./ConfigFile.ts"
import { type RawConfig, type SecretValue } from "./RawConfig.ts"

const secretValue = (text: string): SecretValue => {
  const initial = Redacted.make(text)
  return { initial, current: Effect.succeed(initial), file: null }
}
const account = { accounts: { eu: { url: "https://api.example.com/v1", key: secret("KEY") } } }
const secrets = new Map(
  ["KEY", "KAFKA_SASL_PASSWORD", "KAFKA_SASL_TOKEN", "KAFKA_SASL_CLIENT_SECRET"].map((
    name
  ) => [name, secretValue("s3cret")])
)

const checked = (
  kafka: unknown,
  variables: RawConfig["variables"] = {},
  root: Readonly<Record<string, unknown>> = {}
) =>
  check({ variables, secrets, faults: [], file: { name: "rollcall.config.ts", value: { ...account, kafka, ...root } } })

const kafkaOf = (...input: Parameters<typeof checked>) => Result.getOrThrow(checked(...input)).kafka
const faultsOf = (...input: Parameters<typeof checked>) => {
  const result = checked(...input)
  return Result.isFailure(result) ? result.failure.faults : []
}

const remote = { brokers: ["kafka-1.example.com:9093"] }
const login = { mechanism: "scram-sha-512", username: "u", password: secret("KAFKA_SASL_PASSWORD") }
const endpoint = { mechanism: "oauthbearer", clientId: "c", clientSecret: secret("KAFKA_SASL_CLIENT_SECRET") }

describe("the settings of Kafka", () => {
  it("are checked alone for `schema`, so that it prints the configured topics even if no account is configured", () => {
    const alone = (kafka: unknown) =>
      checkKafka({ variables: {}, secrets, faults: [], file: { name: "rollcall.config.ts", value: { kafka } } })
    assert.strictEqual(
      Result.getOrThrow(alone({ brokers: ["localhost:9092"], topic: "hr.{model}" }))?.topic,
      "hr.{model}"
    )
    assert.isNull(Result.getOrThrow(alone(undefined)))
    assert.isTrue(Result.isFailure(alone({ brokers: ["localhost:9092"], topic: "hr.{modl}" })))
  })

  it.each([[["kafka-1.example.com:9092"]], [["localhost:9092", "10.0.0.7:9092"]], [["[fe80::1]:9092"]]])(
    "plaintext to %o is a fault that names the setting which allows it",
    (brokers) => {
      const [fault, ...others] = faultsOf({ brokers })
      assert.isEmpty(others)
      assert.strictEqual(fault?.where, "rollcall.config.ts, kafka.brokers")
      assert.include(fault?.message, `names ${brokers.at(-1)}, and encryption is off: personal data`)
      assert.include(fault?.hint, "KAFKA_SSL=true")
      assert.include(fault?.hint, "add kafka to ROLLCALL_ALLOW_PLAINTEXT")
      assert.lengthOf(faultsOf({ brokers }, {}, { allowPlaintext: ["api", "postgres"] }), 1)
    }
  )

  it("a broker without a port that exists is a fault", () => {
    const wrong = "localhost localhost:0 localhost:70000 [::1]:65536 [1::2::3]:9092 [localhost]:9092 ::1:9092"
    for (const broker of wrong.split(" ")) {
      assert.include(faultsOf({ brokers: [broker] })[0]?.message, `"${broker}" is not a broker address`)
    }
  })

  it("a login without encryption beyond this machine is a fault, whatever the mechanism", () => {
    for (const mechanism of ["plain", "scram-sha-256"]) {
      const [fault] = faultsOf({ ...remote, sasl: { ...login, mechanism } })
      assert.include(fault?.message, "the login and personal data")
    }
  })

  it("plaintext is accepted to this machine, and to others if it is allowed", () => {
    for (const broker of ["localhost:9092", "127.0.0.1:9092", "[::1]:9092"]) {
      assert.isFalse(kafkaOf({ brokers: [broker] })?.ssl)
    }
    assert.isFalse(kafkaOf(remote, { ROLLCALL_ALLOW_PLAINTEXT: ["kafka"] })?.ssl)
    assert.isFalse(kafkaOf(remote, {}, { allowPlaintext: ["kafka"] })?.ssl)
  })

  it("any of the files switches encryption on, and variables replace the properties of the file one by one", () => {
    const ssl = { caFile: "ca.pem", serverName: "kafka" }
    assert.deepStrictEqual(kafkaOf({ ...remote, ssl: true })?.ssl, {})
    assert.deepStrictEqual(kafkaOf({ ...remote, ssl })?.ssl, ssl)
    assert.deepStrictEqual(kafkaOf(remote, { KAFKA_SSL_CA_FILE: "v.pem" })?.ssl, { caFile: "v.pem" })
    assert.deepStrictEqual(kafkaOf({ ...remote, ssl }, { KAFKA_SSL: "true", KAFKA_SSL_CA_FILE: "v.pem" })?.ssl, {
      caFile: "v.pem",
      serverName: "kafka"
    })
  })

  it("a certificate without its key, and a file while encryption is off, are faults", () => {
    assert.deepStrictEqual(
      faultsOf({ ...remote, ssl: { certFile: "c.pem" } }).map(({ message, where }) => [where, message]),
      [["rollcall.config.ts, kafka.ssl.keyFile", "is not set"]]
    )
    const [off] = faultsOf({ brokers: ["localhost:1"] }, { KAFKA_SSL: "false", KAFKA_SSL_CA_FILE: "ca.pem" })
    assert.strictEqual(off?.where, "KAFKA_SSL_CA_FILE")
    assert.include(off?.message, "encryption is off")
  })

  it("a token, or an endpoint that issues tokens, logs in with oauthbearer", () => {
    const ssl = true
    const token = kafkaOf({ ...remote, ssl, sasl: { mechanism: "oauthbearer", token: secret("KAFKA_SASL_TOKEN") } })
    assert.deepInclude(token?.sasl, { mechanism: "oauthbearer", endpoint: null })
    const issued = kafkaOf({ ...remote, ssl, sasl: { ...endpoint, tokenUrl: "https://id.example.com/token" } })
    assert.deepInclude(issued?.sasl?.mechanism === "oauthbearer" ? issued.sasl.endpoint : null, {
      url: "https://id.example.com/token",
      clientId: "c",
      scope: null
    })
    assert.notInclude(JSON.stringify([token, issued]), "s3cret")
  })

  const table: ReadonlyArray<readonly [sasl: unknown, where: string, message: RegExp, hint: RegExp]> = [
    [{ username: "u", password: login.password }, "mechanism", /not set/, /mechanism/],
    [{ ...login, mechanism: "gssapi" }, "mechanism", /not allowed/, /oauthbearer/],
    [{ ...login, clientId: "c" }, "clientId", /no meaning/, /username, password/],
    [{ mechanism: "oauthbearer" }, "tokenUrl", /not set/, /KAFKA_SASL_TOKEN_FILE/],
    [{ ...endpoint, token: secret("KAFKA_SASL_TOKEN") }, "clientId", /no meaning/, /token/],
    [
      { ...endpoint, tokenUrl: "http://id.example.com/token" },
      "tokenUrl",
      /unencrypted/,
      /add kafka to ROLLCALL_ALLOW_PLAINTEXT/
    ],
    [{ ...endpoint, tokenUrl: "https://u:p4ss@id.example.com/" }, "tokenUrl", /login/, /clientSecret/],
    [{ ...endpoint, tokenUrl: "id.example.com" }, "tokenUrl", /not the address/, /https/]
  ]
  it.each(table)("%o is a fault with its location and a hint", (sasl, where, message, hint) => {
    const faults = faultsOf({ ...remote, ssl: true, sasl })
    const found = faults.find((fault) => fault.where === `rollcall.config.ts, kafka.sasl.${where}`)
    assert.match(found?.message ?? JSON.stringify(faults), message)
    assert.match(found?.hint ?? "", hint)
    assert.notMatch(JSON.stringify(faults), /p4ss/)
  })

  const ssl = true
  const registry = { url: "https://registry.example.com", username: "u", password: secret("KAFKA_SASL_PASSWORD") }
  const kafkaTable: ReadonlyArray<readonly [kafka: object, where: string, message: RegExp, hint: RegExp]> = [
    [{ format: "avro" }, "format", /not allowed/, /cloudevents, debezium/],
    [{ tombstones: false }, "tombstones", /no effect/, /debezium/],
    [{ schemas: "connect" }, "schemas", /no effect/, /debezium/],
    [{ format: "debezium", schemas: "avro" }, "schemas", /not allowed/, /connect/],
    [
      { format: "debezium", schemas: "connect", schemaRegistry: { url: "https://registry.example.com" } },
      "schemas",
      /into the messages/,
      /Remove one/
    ],
    [{ schemaRegistry: { ...registry, url: undefined } }, "schemaRegistry.url", /not set/, /address/],
    [{ schemaRegistry: { url: "https://registry.example.com?tenant=a" } }, "schemaRegistry.url", /query/, /appended/],
    [{ schemaRegistry: { url: "https://registry.example.com/#x" } }, "schemaRegistry.url", /fragment/, /appended/],
    [{ replicationFactor: 0 }, "replicationFactor", /out of range/, /from 1 to 100/],
    [{ schemaRegistry: { ...registry, url: "registry" } }, "schemaRegistry.url", /not the address/, /https/],
    [
      { schemaRegistry: { ...registry, url: "http://registry.example.com" } },
      "schemaRegistry.url",
      /login unencrypted/,
      /add kafka/
    ],
    [
      { schemaRegistry: { ...registry, url: "https://u:p4ss@r.example.com" } },
      "schemaRegistry.url",
      /login/,
      /username/
    ],
    [{ schemaRegistry: { ...registry, password: undefined } }, "schemaRegistry.password", /not set/, /together/],
    [{ schemaRegistry: registry, topic: "hr" }, "topic", /no \{model\}/, /Add \{model\}/],
    [{ schemaRegistry: { ...registry, token: "t" } }, "schemaRegistry.token", /unknown/, /Known properties/]
  ]
  it.each(kafkaTable)("kafka: %o is a fault with its location and a hint", (kafka, where, message, hint) => {
    const [found, ...others] = faultsOf({ ...remote, ssl, ...kafka })
    assert.deepStrictEqual(others, [])
    assert.strictEqual(found?.where, `rollcall.config.ts, kafka.${where}`)
    assert.match(found?.message ?? "", message)
    assert.match(found?.hint ?? "", hint)
    assert.notMatch(JSON.stringify(found), /p4ss/)
  })

  it("a registry needs no login, and its password is not in the settings' text", () => {
    assert.isNull(kafkaOf({ ...remote, ssl, schemaRegistry: { url: "http://127.0.0.1:8081" } })?.schemaRegistry?.login)
    const settings = kafkaOf({ ...remote, ssl, schemaRegistry: registry })
    assert.strictEqual(settings?.schemaRegistry?.login?.username, "u")
    assert.notInclude(JSON.stringify(settings), "s3cret")
  })
})
