import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Redacted, Result } from "effect"
import { fileName, loaded } from "../../test/support/config/Checked.ts"
import * as Guard from "../domain/Guard.ts"
import * as Plugin from "../plugin/Plugin.ts"
import * as Config from "./Config.ts"
import { type ConfigFile, secret } from "./ConfigFile.ts"

const quiet = Plugin.make("quiet").on("ats.tag.created", {}, () => Effect.void)
const eu = { url: "https://eu.example.com/v1", key: secret("EU_KEY") }
const us = { url: "https://us.example.com/v1/", key: secret("US_KEY") }
const greenhouse = { id: "greenhouse:acme" }

const inEu = (change: object) => ({ accounts: { eu: { ...eu, ...change } } })
const inGreenhouse = (change: object) => ({ integrations: [{ ...greenhouse, ...change }] })
const redacting = (pointer: string, how = "drop", model = "ats.tag") => ({
  models: { [model]: { redact: { [pointer]: how } } }
})

const secretOf = (text: string) => {
  const initial = Redacted.make(text)
  return { initial, current: Effect.succeed(initial), file: null }
}

/** The configuration of a file that exports this value, with `EU_KEY` and `US_KEY` set. */
const both = (value: unknown, variables: Record<string, string> = {}) =>
  Effect.map(loaded(variables, value), (input) => {
    const secrets = [["EU_KEY", secretOf("eu-s3cret")], ["US_KEY", secretOf("us-s3cret")]] as const
    return Config.check({ ...input, secrets: new Map([...input.secrets, ...secrets]) })
  })

describe("Config from a file", () => {
  it.effect("the address of the database can be a secret, by its type too", () =>
    Effect.gen(function*() {
      const file: ConfigFile = { accounts: { eu }, store: secret("DATABASE_URL") }
      const { store } = Result.getOrThrow(
        yield* both(file, { DATABASE_URL: "postgres://u:p@localhost/hr" })
      )
      assert.strictEqual(store.name, "postgres://localhost/hr")
    }))

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

  /** The location, the value of the file (with the account `eu`, unless it has others), the message and the hint. */
  const table: ReadonlyArray<readonly [where: string, value: unknown, message: RegExp, hint: RegExp]> = [
    ["", [], /is a list/, /object/],
    ["", "x", /is a string/, /object/],
    ["acounts", { acounts: {} }, /is unknown/, /accounts/],
    ["accounts", { accounts: [] }, /is a list/, /object/],
    ["accounts.eu.url", { accounts: { eu: {} } }, /is not set/, /\/v1/],
    ["accounts.eu.key", { accounts: { eu: {} } }, /is not set/, /API key/],
    ["accounts.default.key", { accounts: { default: {} } }, /is not set/, /API key/],
    ["accounts.eu.url", inEu({ url: 5 }), /is a number/, /a string/],
    ["accounts.eu.concurrency", inEu({ concurrency: 0 }), /out of range/, /from 1 to 1000/],
    ["accounts.eu.concurrency", inEu({ concurrency: 2.5 }), /whole number/, /from 1 to 1000/],
    ["accounts.eu.pageSize", inEu({ pageSize: 251 }), /out of range/, /from 1 to 250/],
    ["accounts.eu.requestTimeout", inEu({ requestTimeout: "1 hour" }), /out of range/, /10 minutes/],
    [`accounts["e-u"].url`, { accounts: { "e-u": { ...eu, url: "x" } } }, /not an http/, /\/v1/],
    ["accounts.eu.key", inEu({ key: "pl4in-s3cret" }), /must not contain the secret/, /secret\("NAME"\)/],
    ["accounts.eu.key", inEu({ key: secret("NO_KEY") }), /neither NO_KEY nor NO_KEY_FILE/, /NO_KEY/],
    ["integrations", { integrations: {} }, /is an object/, /list/],
    ["integrations[0]", { integrations: ["a:1"] }, /is a string/, /object/],
    ["integrations[0].id", { integrations: [{}] }, /is not set/, /<tool>:<identifier>/],
    ["integrations[0].account", inGreenhouse({ account: "uk" }), /"uk" is no/, /are eu/],
    ["integrations[0].id", { accounts: { eu, us }, integrations: [greenhouse] }, /no account/, /one of eu, us/],
    ["integrations[0].models", inGreenhouse({ models: [] }), /does not name a model/, /auto/],
    ["integrations[0].models[0]", inGreenhouse({ models: ["ats.tags"] }), /not a model/, /"ats.tag"/],
    ["integrations[0].models", inGreenhouse({ models: "ats.tag" }), /a string/, /list/],
    ["integrations[0].interval", inGreenhouse({ interval: 60 }), /a number/, /a string/],
    ["integrations[0].backfill", inGreenhouse({ backfill: "none" }), /not allowed/, /publish, fill/],
    ["integrations[0].every", inGreenhouse({ every: "1 s" }), /is unknown/, /interval/],
    [`models["hris.payslips"]`, { models: { "hris.payslips": {} } }, /not a model/, /hris.payslip"/],
    [`models["ats.tag"].remoteData`, { models: { "ats.tag": { remoteData: "keep" } } }, /not allowed/, /carry/],
    [`models["ats.tag"].redact.name`, redacting("name"), /Pointer/, /\//],
    [`models["ats.tag"].redact["/names/0/first"]`, redacting("/names/0/first"), /array/, /all members/],
    [`models["ats.tag"].redact["/id"]`, redacting("/id"), /id of the record/, /Remove this rule/],
    [
      `models["hris.payslip"].redact["/employee/id"]`,
      redacting("/employee/id", "drop", "hris.payslip"),
      /recognizes records/,
      /Remove this rule/
    ],
    [`models["ats.tag"].redact["/name"]`, redacting("/name", "hash"), /needs a key/, /ROLLCALL_REDACT_KEY/],
    ["guard.deletes", { guard: { deletes: 1 } }, /is unknown/, /count/],
    ["guard.share", { guard: { share: 20 } }, /out of range/, /from 0 to 1/],
    ["guard.count", { guard: { count: "many" } }, /a string/, /at least 1/],
    ["plugins[0]", { plugins: [{}] }, /not a plugin/, /Plugin\.make/],
    ["plugins[0]", { plugins: [{ default: quiet }] }, /not a plugin/, /import its default export/],
    ["plugins[0]", { plugins: [Plugin.make("idle")] }, /has no handler/, /\.on/],
    ["plugins[1]", { plugins: [quiet, quiet] }, /"quiet" is listed twice/, /Rename/],
    ["store", { store: "postgres://u:pl4in-s3cret@h/d" }, /contains a password/, /secret\("DATABASE_URL"\)/],
    ["retention", { retention: "long" }, /not a duration/, /unit/],
    ["http.port", { http: { port: 70000 } }, /not a port/, /65535/],
    ["http.token", { http: { token: "pl4in-s3cret" } }, /must not contain/, /secret/],
    ["kafka.brokers", { kafka: { topic: "t" } }, /does not name a broker/, /KAFKA_BROKERS/],
    ["kafka.brokers", { kafka: { brokers: "b:1" } }, /a string/, /list/],
    ["kafka.partitions", { kafka: { brokers: ["b:1"], partitions: 0 } }, /out of range/, /1 to 1000/],
    ["kafka.compression", { kafka: { brokers: ["b:1"], compression: "brotli" } }, /not allowed/, /zstd/],
    ["kafka.state", { kafka: { brokers: ["b:1"], state: 1 } }, /a number/, /true or false/]
  ]
  it.effect.each(table)(
    "at %s, %o is a fault with its location and a hint",
    ([path, value, message, hint]) =>
      Effect.gen(function*() {
        const isObject = typeof value === "object" && !Array.isArray(value)
        const result = yield* both(isObject ? { accounts: { eu }, ...value } : value)
        const where = path === "" ? fileName : `${fileName}, ${path}`
        const found = Result.isFailure(result)
          ? result.failure.faults.find((fault) => fault.where === where)
          : undefined
        assert.match(found?.message ?? "none", message)
        assert.match(found?.hint ?? "none", hint)
        assert.notInclude(JSON.stringify(result), "pl4in-s3cret")
      })
  )

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
      const result = Config.check({ ...yield* loaded({ ROLLCALL_HTTP_PORT: "x" }), faults: [fault] })
      assert(Result.isFailure(result))
      assert.deepStrictEqual(result.failure.faults.map(({ where }) => where), [fileName, "ROLLCALL_HTTP_PORT"])
    }))
})
