import { assert, describe, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, Redacted, Result } from "effect"
import * as Guard from "../domain/Guard.ts"
import * as Plugin from "../plugin/Plugin.ts"
import * as Config from "./Config.ts"
import { secret } from "./ConfigFile.ts"
import { loadEnvironment } from "./RawConfig.ts"

const quiet = Plugin.make("quiet").on("ats.tag.created", {}, () => Effect.void)
const fileName = "rollcall.config.ts"
const eu = { url: "https://eu.example.com/v1", key: secret("EU_KEY") }
const us = { url: "https://us.example.com/v1/", key: secret("US_KEY") }
const greenhouse = { id: "greenhouse:acme" }

/** The configuration of a file that exports this value, with `EU_KEY` and `US_KEY` set. */
const both = (value: unknown, variables: Record<string, string> = {}) =>
  loadEnvironment.pipe(
    Effect.map((input) => {
      const secretOf = (text: string) => ({
        initial: Redacted.make(text),
        current: Effect.succeed(Redacted.make(text)),
        file: null
      })
      const secrets = [["EU_KEY", secretOf("eu-s3cret")], ["US_KEY", secretOf("us-s3cret")]] as const
      return Config.check({
        ...input,
        secrets: new Map([...input.secrets, ...secrets]),
        file: { name: fileName, value }
      })
    }),
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnvRecord(variables))
  )

describe("Config from a file", () => {
  it.effect("accounts have their own URLs and keys, and integrations their own models and intervals", () =>
    Effect.gen(function*() {
      const value = Result.getOrThrow(
        yield* both({
          accounts: {
            eu,
            us: { ...us, cursorParameter: "page_token", concurrency: 40, pageSize: 100, requestTimeout: "2 minutes" }
          },
          integrations: [
            { ...greenhouse, account: "us", models: ["ats.tag", "ats.offer"], interval: "10 seconds" },
            { id: "personio:7", account: "eu", sweepInterval: "1 day", backfill: "publish", pageSize: 50 }
          ],
          models: { "hris.payslip": { remoteData: "track", redact: { "/totals": "drop" } } },
          retention: "30 days",
          store: "sqlite:/data/rollcall.db",
          http: { host: "::1", port: 80, token: secret("US_KEY") },
          kafka: {
            brokers: ["b1:9092", "b2:9092"],
            ssl: true,
            sasl: { mechanism: "plain", username: "u", password: secret("EU_KEY") },
            topic: "t.{model}",
            state: true,
            partitions: 12,
            replicationFactor: 2,
            driver: "platformatic",
            compression: "zstd",
            format: "debezium",
            tombstones: false,
            schemaRegistry: { url: "https://registry.example.com", username: "u", password: secret("EU_KEY") },
            transactions: false
          },
          log: { level: "debug", format: "json" },
          guard: { window: "12 hours", count: 50, scopeShare: 0.5 },
          plugins: []
        })
      )
      assert.deepStrictEqual(Object.keys(value.accounts), ["eu", "us"])
      assert.strictEqual(value.accounts["us"]!.url, "https://us.example.com/v1")
      assert.strictEqual(Redacted.value(yield* value.accounts["us"]!.key), "us-s3cret")
      assert.deepStrictEqual(Object.values(value.accounts).map(({ cursorParameter }) => cursorParameter), [
        "cursor",
        "page_token"
      ])
      assert.deepStrictEqual(Object.values(value.accounts).map(({ concurrency }) => concurrency), [8, 40])
      assert.deepStrictEqual(Object.values(value.accounts).map(({ pageSize }) => pageSize), [undefined, 100])
      assert.deepStrictEqual(value.accounts["us"]!.requestTimeout, Duration.minutes(2))
      const [first, second] = value.integrations
      assert.deepStrictEqual([first!.pageSize, second!.pageSize, second!.requestTimeout], [undefined, 50, undefined])
      assert.deepStrictEqual([first!.account, first!.models], ["us", ["ats.offer", "ats.tag"]])
      assert.deepStrictEqual([second!.account, second!.models], ["eu", "auto"])
      const lengths = value.integrations.flatMap(({ interval, sweepInterval }) => [interval, sweepInterval])
      assert.deepStrictEqual(lengths.map(Duration.toSeconds), [10, 6 * 3600, 60, 24 * 3600])
      assert.deepStrictEqual(value.models, { "hris.payslip": { remoteData: "track", redact: { "/totals": "drop" } } })
      assert.strictEqual(Duration.toDays(value.retention), 30)
      assert.deepStrictEqual(value.guard, {
        ...Guard.defaultThresholds,
        window: Duration.hours(12),
        count: 50,
        scopeShare: 0.5
      })
      assert.strictEqual(value.store.name, "/data/rollcall.db")
      assert.deepStrictEqual([value.http.host, value.http.port], ["::1", 80])
      const { sasl, schemaRegistry, ...kafka } = value.kafka!
      assert.strictEqual(schemaRegistry?.login?.username, "u")
      assert.deepStrictEqual(kafka, {
        brokers: ["b1:9092", "b2:9092"],
        ssl: {},
        topic: "t.{model}",
        state: true,
        partitions: 12,
        replicationFactor: 2,
        driver: "platformatic",
        compression: "zstd",
        format: "debezium",
        tombstones: false,
        transactions: false
      })
      assert.strictEqual(sasl?.mechanism, "plain")
      assert.deepStrictEqual(value.log, { level: "debug", format: "json" })
      assert.notMatch(JSON.stringify(value), /s3cret/)
    }))

  it.effect("the environment takes precedence, for every integration", () =>
    Effect.gen(function*() {
      const value = Result.getOrThrow(
        yield* both({
          accounts: { default: { ...eu, cursorParameter: "after" }, us },
          integrations: [{ ...greenhouse, account: "us", interval: "1 hour", models: ["ats.tag"] }, { id: "a:1" }],
          store: "sqlite:x.db",
          kafka: { topic: "file", state: true }
        }, {
          ROLLCALL_API_URL: "https://other.example.com/v1",
          ROLLCALL_API_KEY: "other",
          ROLLCALL_CURSOR_PARAMETER: "page_token",
          ROLLCALL_INTEGRATIONS: "greenhouse:acme,b:2",
          ROLLCALL_INTERVAL: "5 seconds",
          ROLLCALL_MODELS: "auto",
          ROLLCALL_STORE: "sqlite:y.db",
          KAFKA_BROKERS: "localhost:1"
        })
      )
      assert.strictEqual(value.accounts["default"]!.url, "https://other.example.com/v1")
      assert.strictEqual(Redacted.value(yield* value.accounts["default"]!.key), "other")
      assert.strictEqual(value.accounts["default"]!.cursorParameter, "page_token")
      assert.strictEqual(value.accounts["us"]!.cursorParameter, "cursor")
      assert.deepStrictEqual(
        value.integrations.map((
          { account, id, interval, models }
        ) => [id, account, Duration.toSeconds(interval), models]),
        [["greenhouse:acme", "us", 5, "auto"], ["b:2", "default", 5, "auto"]]
      )
      assert.strictEqual(value.store.name, "y.db")
      assert.deepStrictEqual([value.kafka?.topic, value.kafka?.state, value.kafka?.brokers], ["file", true, [
        "localhost:1"
      ]])
    }))

  it.effect("every integration uses the only account, and a key alone adds no account", () =>
    Effect.gen(function*() {
      const value = Result.getOrThrow(
        yield* both({ accounts: { eu }, integrations: [greenhouse] }, { ROLLCALL_API_KEY: "k" })
      )
      assert.deepStrictEqual(Object.keys(value.accounts), ["eu"])
      assert.strictEqual(value.integrations[0]!.account, "eu")
    }))

  it.effect("faults of the file and the environment are reported at once, each with its location", () =>
    Effect.gen(function*() {
      const result = yield* both(
        { accounts: { eu: { ...eu, url: "eu" } }, integrations: [{ ...greenhouse, interval: "soon" }] },
        { ROLLCALL_LOG_LEVEL: "loud", ROLLCALL_SWEEP_INTERVAL: "never" }
      )
      assert(Result.isFailure(result))
      assert.sameMembers(result.failure.faults.map((fault) => fault.where), [
        "rollcall.config.ts, accounts.eu.url",
        "rollcall.config.ts, integrations[0].interval",
        "ROLLCALL_LOG_LEVEL",
        "ROLLCALL_SWEEP_INTERVAL"
      ])
      for (const { hint, message, where } of result.failure.faults) {
        assert.include(result.failure.message, `${where}: ${message}. ${hint}.`)
      }
    }))

  const account = { accounts: { eu } }
  const table: ReadonlyArray<[value: unknown, where: string, message: RegExp, hint: RegExp]> = [
    [[], "", /is a list/, /object/],
    ["x", "", /is a string/, /object/],
    [{ acounts: {} }, "acounts", /is unknown/, /accounts/],
    [{ accounts: [] }, "accounts", /is a list/, /object/],
    [{ accounts: { eu: {} } }, "accounts.eu.url", /is not set/, /\/v1/],
    [{ accounts: { eu: {} } }, "accounts.eu.key", /is not set/, /API key/],
    [{ accounts: { default: {} } }, "accounts.default.key", /is not set/, /API key/],
    [{ accounts: { eu: { ...eu, url: 5 } } }, "accounts.eu.url", /is a number/, /a string/],
    [{ accounts: { eu: { ...eu, concurrency: 0 } } }, "accounts.eu.concurrency", /out of range/, /from 1 to 1000/],
    [{ accounts: { eu: { ...eu, concurrency: 2.5 } } }, "accounts.eu.concurrency", /whole number/, /from 1 to 1000/],
    [{ accounts: { eu: { ...eu, pageSize: 251 } } }, "accounts.eu.pageSize", /out of range/, /from 1 to 250/],
    [
      { accounts: { eu: { ...eu, requestTimeout: "1 hour" } } },
      "accounts.eu.requestTimeout",
      /out of range/,
      /10 minutes/
    ],
    [{ accounts: { "e-u": { ...eu, url: "x" } } }, `accounts["e-u"].url`, /not an http/, /\/v1/],
    [
      { accounts: { eu: { ...eu, key: "pl4in-s3cret" } } },
      "accounts.eu.key",
      /must not contain the secret/,
      /secret\("NAME"\)/
    ],
    [
      { accounts: { eu: { ...eu, key: secret("NO_KEY") } } },
      "accounts.eu.key",
      /neither NO_KEY nor NO_KEY_FILE/,
      /NO_KEY/
    ],
    [{ ...account, integrations: {} }, "integrations", /is an object/, /list/],
    [{ ...account, integrations: ["a:1"] }, "integrations[0]", /is a string/, /object/],
    [{ ...account, integrations: [{}] }, "integrations[0].id", /is not set/, /<tool>:<identifier>/],
    [{ ...account, integrations: [{ id: "acme" }] }, "integrations[0].id", /not an integration id/, /<tool>/],
    [{ ...account, integrations: [greenhouse, greenhouse] }, "integrations[1].id", /more than once/, /Keep/],
    [
      { ...account, integrations: [{ ...greenhouse, account: "uk" }] },
      "integrations[0].account",
      /"uk" is no/,
      /are eu/
    ],
    [{ accounts: { eu, us }, integrations: [greenhouse] }, "integrations[0].id", /no account/, /one of eu, us/],
    [
      { ...account, integrations: [{ ...greenhouse, models: [] }] },
      "integrations[0].models",
      /does not name a model/,
      /auto/
    ],
    [
      { ...account, integrations: [{ ...greenhouse, models: ["ats.tags"] }] },
      "integrations[0].models[0]",
      /not a model/,
      /"ats.tag"/
    ],
    [
      { ...account, integrations: [{ ...greenhouse, models: "ats.tag" }] },
      "integrations[0].models",
      /a string/,
      /list/
    ],
    [
      { ...account, integrations: [{ ...greenhouse, interval: 60 }] },
      "integrations[0].interval",
      /a number/,
      /a string/
    ],
    [
      { ...account, integrations: [{ ...greenhouse, backfill: "none" }] },
      "integrations[0].backfill",
      /not allowed/,
      /publish, fill/
    ],
    [
      { ...account, integrations: [{ ...greenhouse, every: "1 s" }] },
      "integrations[0].every",
      /is unknown/,
      /interval/
    ],
    [{ ...account, models: { "hris.payslips": {} } }, `models["hris.payslips"]`, /not a model/, /hris.payslip"/],
    [
      { ...account, models: { "ats.tag": { remoteData: "keep" } } },
      `models["ats.tag"].remoteData`,
      /not allowed/,
      /carry/
    ],
    [
      { ...account, models: { "ats.tag": { redact: { name: "drop" } } } },
      `models["ats.tag"].redact.name`,
      /Pointer/,
      /\//
    ],
    [
      { ...account, models: { "ats.tag": { redact: { "/names/0/first": "drop" } } } },
      `models["ats.tag"].redact["/names/0/first"]`,
      /array/,
      /all members/
    ],
    [
      { ...account, models: { "ats.tag": { redact: { "/id": "drop" } } } },
      `models["ats.tag"].redact["/id"]`,
      /id of the record/,
      /Remove this rule/
    ],
    [
      { ...account, models: { "hris.payslip": { redact: { "/employee/id": "drop" } } } },
      `models["hris.payslip"].redact["/employee/id"]`,
      /recognizes records/,
      /Remove this rule/
    ],
    [
      { ...account, models: { "ats.tag": { redact: { "/name": "hash" } } } },
      `models["ats.tag"].redact["/name"]`,
      /needs a key/,
      /ROLLCALL_REDACT_KEY/
    ],
    [{ ...account, guard: { deletes: 1 } }, "guard.deletes", /is unknown/, /count/],
    [{ ...account, guard: { share: 20 } }, "guard.share", /out of range/, /from 0 to 1/],
    [{ ...account, guard: { count: "many" } }, "guard.count", /a string/, /at least 1/],
    [{ ...account, plugins: [{}] }, "plugins[0]", /not a plugin/, /Plugin\.make/],
    [{ ...account, plugins: [Plugin.make("idle")] }, "plugins[0]", /has no handler/, /\.on/],
    [{ ...account, plugins: [quiet, quiet] }, "plugins[1]", /"quiet" is listed twice/, /Rename/],
    [
      { ...account, store: "postgres://u:pl4in-s3cret@h/d" },
      "store",
      /contains a password/,
      /secret\("DATABASE_URL"\)/
    ],
    [{ ...account, retention: "long" }, "retention", /not a duration/, /unit/],
    [{ ...account, http: { port: 70000 } }, "http.port", /not a port/, /65535/],
    [{ ...account, http: { token: "pl4in-s3cret" } }, "http.token", /must not contain/, /secret/],
    [{ ...account, kafka: { topic: "t" } }, "kafka.brokers", /does not name a broker/, /KAFKA_BROKERS/],
    [{ ...account, kafka: { brokers: "b:1" } }, "kafka.brokers", /a string/, /list/],
    [{ ...account, kafka: { brokers: ["b:1"], ssl: "yes" } }, "kafka.ssl", /not allowed/, /true/],
    [{ ...account, kafka: { brokers: ["b:1"], partitions: 0 } }, "kafka.partitions", /out of range/, /1 to 1000/],
    [{ ...account, kafka: { brokers: ["b:1"], partitions: 1.5 } }, "kafka.partitions", /whole/, /1 to 1000/],
    [{ ...account, kafka: { brokers: ["b:1"], compression: "brotli" } }, "kafka.compression", /not allowed/, /zstd/],
    [{ ...account, kafka: { brokers: ["b:1"], driver: "librdkafka" } }, "kafka.driver", /not allowed/, /platformatic/],
    [{ ...account, kafka: { brokers: ["b:1"], state: 1 } }, "kafka.state", /a number/, /true or false/],
    [
      { ...account, kafka: { brokers: ["b:1"], sasl: { username: "u" } } },
      "kafka.sasl.password",
      /not set/,
      /together/
    ],
    [{ ...account, log: { level: "loud" } }, "log.level", /not allowed/, /debug/]
  ]
  for (const [value, path, message, hint] of table) {
    it.effect(`${JSON.stringify(value)} is a fault with its location and a hint`, () =>
      Effect.gen(function*() {
        const result = yield* both(value)
        const where = path === "" ? fileName : `${fileName}, ${path}`
        const found = Result.isFailure(result)
          ? result.failure.faults.find((fault) => fault.where === where)
          : undefined
        assert.match(found?.message ?? "none", message)
        assert.match(found?.hint ?? "none", hint)
        assert.notInclude(JSON.stringify(result), "pl4in-s3cret")
      }))
  }

  it.effect("a promise or a map is a fault, because its settings, such as rules of redaction, would have no effect", () =>
    Effect.gen(function*() {
      const variables = { ROLLCALL_API_URL: eu.url, ROLLCALL_API_KEY: "s3cret-key" }
      const models = { "ats.application": { redact: { "/candidate/first_name": "drop" } } }
      const cases = [
        [Promise.resolve({ models }), fileName, "is not a plain object (Promise)"],
        [{ models: new Map(Object.entries(models)) }, `${fileName}, models`, "is not a plain object (Map)"]
      ] as const
      for (const [value, where, message] of cases) {
        const result = yield* both(value, variables)
        const faults = Result.isFailure(result) ? result.failure.faults : []
        assert.deepStrictEqual(faults.map((fault) => [fault.where, fault.message]), [[where, message]])
      }
      assert.isTrue(Result.isSuccess(yield* both(Object.assign(Object.create(null), { models }), variables)))
    }))

  it.effect("settings are not reported as missing if the file cannot be loaded", () =>
    Effect.gen(function*() {
      const fault = { where: fileName, message: "cannot be loaded", hint: "Correct it" }
      const result = yield* loadEnvironment.pipe(
        Effect.map((input) => Config.check({ ...input, faults: [fault] })),
        Effect.provideService(
          ConfigProvider.ConfigProvider,
          ConfigProvider.fromEnvRecord({ ROLLCALL_HTTP_PORT: "x" })
        )
      )
      assert(Result.isFailure(result))
      assert.deepStrictEqual(result.failure.faults.map(({ where }) => where), [fileName, "ROLLCALL_HTTP_PORT"])
    }))
})
