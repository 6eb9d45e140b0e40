import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Redacted, Result } from "effect"
import { inspect } from "node:util"
import { faultsOf, loaded, settingsOf } from "../../test/support/config/Checked.ts"
import * as Config from "./Config.ts"

describe("Config", () => {
  it.effect("only an account is required, and all other settings have the documented defaults", () =>
    Effect.gen(function*() {
      const value = yield* settingsOf({ ROLLCALL_INTEGRATIONS: "greenhouse:acme, personio:7" })
      assert.deepStrictEqual(value.integrations.map((integration) => integration.id), ["greenhouse:acme", "personio:7"])
      const first = value.integrations[0]!
      assert.strictEqual(first.models, "auto")
      assert.deepStrictEqual(
        [first.interval, first.sweepInterval, value.confirmInterval, value.minOverlap, value.retryBase]
          .map(Duration.toSeconds),
        [60, 6 * 3600, 600, 300, 1]
      )
      assert.deepStrictEqual(value.store, { _tag: "Sqlite", file: "./rollcall.db", name: "./rollcall.db" })
      assert.deepStrictEqual(value.http, {
        host: "127.0.0.1",
        port: 8477,
        token: null,
        readToken: null,
        hosts: [],
        tls: null
      })
      assert.isNull(value.kafka)
      assert.deepStrictEqual(value.log, { level: "info", format: null })
    }))

  const databases = [
    [{ DATABASE_URL: "postgres://me:p4ss@db.internal:6543/feed?sslmode=require" }, "postgres://db.internal:6543/feed"],
    [{ ROLLCALL_STORE: "postgresql://me:p4ss@db/feed?sslmode=verify-full" }, "postgres://db/feed"],
    [
      { ROLLCALL_STORE: "postgres:///feed?host=/run/postgresql&user=me&password=p4ss" },
      "postgres:///run/postgresql/feed"
    ],
    [{ ROLLCALL_STORE: "sqlite:x.db", DATABASE_URL: "postgres://me:p4ss@db/feed" }, "x.db"]
  ] as const
  it.effect.each(databases)("%o is a store named %s (I11)", ([variables, name]) =>
    Effect.gen(function*() {
      const { store } = yield* settingsOf(variables)
      assert.strictEqual(store.name, name)
      assert.notInclude(inspect(store, { depth: null }), "p4ss")
      assert.strictEqual(store._tag === "Postgres", name !== "x.db")
    }))

  it.effect("all faults are reported at once, in one message", () =>
    Effect.gen(function*() {
      const result = Config.check(
        yield* loaded({
          ROLLCALL_API_URL: "https://api.example.com",
          ROLLCALL_MODELS: "ats.aplication",
          ROLLCALL_INTERVAL: "soon",
          ROLLCALL_HTTP_HOST: "0.0.0.0"
        })
      )
      assert(Result.isFailure(result))
      assert.deepStrictEqual(result.failure.faults.map((fault) => fault.where), [
        "ROLLCALL_API_URL",
        "ROLLCALL_API_KEY",
        "ROLLCALL_MODELS",
        "ROLLCALL_INTERVAL",
        "ROLLCALL_HTTP_TOKEN",
        "ROLLCALL_HTTP_TLS_CERT_FILE"
      ])
      for (const fault of result.failure.faults) assert.include(result.failure.message, fault.where)
    }))

  const table: ReadonlyArray<[variable: string, value: string, message: RegExp, hint: RegExp]> = [
    ["ROLLCALL_API_URL", "", /is not set/, /ends in \/v1/],
    ["ROLLCALL_API_URL", "api.example.com/v1", /not an http or https URL/, /https:/],
    ["ROLLCALL_API_URL", "ftp://api.example.com/v1", /not an http or https URL/, /https:/],
    ["ROLLCALL_API_URL", "https://api.example.com/v2", /does not end in \/v1/, /\/v1/],
    ["ROLLCALL_API_URL", "https://me:pw@api.example.com/v1", /contains a user name/, /\/v1/],
    ["ROLLCALL_API_URL", "https://api.example.com/v1?", /contains a user name/, /\/v1/],
    ["ROLLCALL_API_URL", "https://api.example.com/v1#", /contains a user name/, /\/v1/],
    ["ROLLCALL_API_KEY", "", /is not set/, /API key/],
    ["ROLLCALL_CURSOR_PARAMETER", "page token", /cannot be the name of the cursor/, /letters/],
    ["ROLLCALL_CURSOR_PARAMETER", "ids", /cannot be the name of the cursor/, /another list parameter/],
    ["ROLLCALL_CURSOR_PARAMETER", "job_ids", /cannot be the name of the cursor/, /another list parameter/],
    ["ROLLCALL_PAGE_SIZE", "0", /0 is out of range/, /from 1 to 250/],
    ["ROLLCALL_PAGE_SIZE", "many", /not a number/, /from 1 to 250/],
    ["ROLLCALL_REQUEST_TIMEOUT", "10 millis", /out of range/, /from 1 second/],
    ["ROLLCALL_INTEGRATIONS", "greenhouse", /"greenhouse" is not an integration id/, /<tool>:<identifier>/],
    ["ROLLCALL_INTEGRATIONS", "greenhouse:名前", /"greenhouse:名前" is not an integration id/, /plain ASCII/],
    ["ROLLCALL_INTEGRATIONS", "a:1,a:1", /more than once/, /Keep only one/],
    ["ROLLCALL_MODELS", "hris.payslips", /"hris.payslips" is not a model/, /Did you mean "hris.payslip"\?/],
    [
      "ROLLCALL_MODELS",
      "ats.candidate,ats.tag",
      /derived from "ats.application", but not/,
      /Add ats.application/
    ],
    ["ROLLCALL_STORE", "postgres://u:p4ss@db", /does not name a database/, /postgres:/],
    ["ROLLCALL_STORE", "postgres://u:p4ss@db:port/x", /does not name a database/, /postgres:/],
    ["ROLLCALL_STORE", "postgres://u:p4ss@db/x?sslmode=p4ss", /an unknown sslmode/, /require, verify-ca/],
    ["DATABASE_URL", "postgres://u:p4ss@db/x?sslmode=require&sslmode=p4ss", /an unknown sslmode/, /disable/],
    ["DATABASE_URL", "postgres://u:p4ss@db/x?ssl=true", /has the parameter ssl,/, /sslmode=verify-full/],
    ["DATABASE_URL", "postgres://u:p4ss@db/x?sslmode=verify-ca", /without sslrootcert/, /verify-full/],
    ["DATABASE_URL", "postgres://u:p4ss@db/x?sslmode=verify-ca&sslrootcert=system", /without sslrootcert/, /own/],
    ["DATABASE_URL", "postgres://u:p4ss@db/x?sslmode=require&sslcert=p4ss", /only one of sslcert/, /or neither/],
    ["DATABASE_URL", "postgres://u:p4ss@db/x?sslrootcert=p4ss", /does not require encryption/, /verify-full/],
    ["DATABASE_URL", "postgres://u:p4ss@localhost/x?sslmode=prefer&sslkey=p4ss", /does not require/, /verify-full/],
    ["DATABASE_URL", "postgres://u:p4ss@db/x?channel_binding=require", /channel_binding=require/, /verify-full/],
    ["DATABASE_URL", "postgres://u:p4ss@db/x?sslcrl=p4ss", /the parameter sslcrl/, /revoked/],
    ["DATABASE_URL", "postgres://u:p4ss@db/x?schema=hr", /names a schema/, /schema "rollcall"/],
    ["DATABASE_URL", "postgres://u:p4%ss@db/x", /a % that is not followed/, /%25/],
    ["DATABASE_URL", "postgres:///x?host=/run&port=p4ss", /an invalid port/, /65535/],
    ["DATABASE_URL", "postgres://u@db/x?connect_timeout=p4ss", /an invalid connect_timeout/, /seconds/],
    ["ROLLCALL_STORE", "sqlite:file:x.db?mode=rw", /is not a store URL/, /sqlite:<file>/],
    ["ROLLCALL_STORE", "sqlite:postgres://u:p4ss@db/x", /is not a store URL/, /sqlite:<file>/],
    ["ROLLCALL_STORE", "postgres://u:12/p4ss@db/x", /password probably contains an unescaped \//, /%2F/],
    ["ROLLCALL_STORE", "./rollcall.db", /is not a store URL/, /sqlite:<file>/],
    ["DATABASE_URL", "mysql://u:p4ss@db/x", /is not a store URL/, /postgres:/],
    ["ROLLCALL_INTERVAL", "0 seconds", /is not a duration/, /30 seconds/],
    ["ROLLCALL_SWEEP_INTERVAL", "6h", /is not a duration/, /6 hours/],
    ["ROLLCALL_CONFIRM_INTERVAL", "-1 minute", /is not a duration/, /unit/],
    ["ROLLCALL_OVERLAP_MIN", "5", /is not a duration/, /unit/],
    ["ROLLCALL_RETRY_BASE", "Infinity", /is not a duration/, /unit/],
    ["ROLLCALL_HTTP_PORT", "70000", /is not a port/, /65535/],
    ["ROLLCALL_LOG_LEVEL", "loud", /not allowed/, /debug/],
    ["ROLLCALL_LOG_FORMAT", "xml", /not allowed/, /json/],
    ["KAFKA_BROKERS", "kafka://broker", /is not a broker address/, /host:port/],
    ["KAFKA_SSL", "yes", /not allowed/, /true/],
    ["KAFKA_SASL_MECHANISM", "gssapi", /not allowed/, /scram-sha-512/],
    ["ROLLCALL_TOPIC", "rollcall.{modell}", /is not a topic template/, /\{model\}/],
    ["ROLLCALL_KAFKA_TRANSACTIONS", "maybe", /not allowed/, /off/]
  ]
  it.effect.each(table)("%s=%s is a fault with a hint", ([variable, value, message, hint]) =>
    Effect.gen(function*() {
      const found = (yield* faultsOf({ [variable]: value })).find((fault) => fault.where === variable)
      assert.match(found?.message ?? "none", message)
      assert.match(found?.hint ?? "none", hint)
      assert.notInclude(JSON.stringify(found), "p4ss")
    }))

  it.effect("an incomplete Kafka login is a fault for each missing part", () =>
    Effect.gen(function*() {
      const found = yield* faultsOf({ KAFKA_BROKERS: "localhost:9092", KAFKA_SASL_USERNAME: "u" })
      assert.deepStrictEqual(found.map((fault) => fault.where), ["KAFKA_SASL_MECHANISM", "KAFKA_SASL_PASSWORD"])
    }))

  it.effect("secrets are redacted in the value and in every message (I11)", () =>
    Effect.gen(function*() {
      const value = yield* settingsOf({
        KAFKA_BROKERS: "localhost:9092,[::1]:9093",
        KAFKA_SASL_MECHANISM: "SCRAM-SHA-512",
        KAFKA_SASL_USERNAME: "u",
        KAFKA_SASL_PASSWORD: "kafka-pw",
        ROLLCALL_HTTP_HOST: "0.0.0.0",
        ROLLCALL_ALLOW_PLAINTEXT: "http",
        ROLLCALL_HTTP_TOKEN: "http-token-of-thirty-two-letters"
      })
      assert.strictEqual(Redacted.value(yield* value.accounts["default"]!.key), "s3cret-key")
      for (const secret of ["s3cret-key", "kafka-pw", "http-token-of"]) assert.notInclude(JSON.stringify(value), secret)
      assert.deepStrictEqual(value.kafka?.brokers, ["localhost:9092", "[::1]:9093"])
      assert.strictEqual(value.kafka?.sasl?.mechanism, "scram-sha-512")
    }))
})
