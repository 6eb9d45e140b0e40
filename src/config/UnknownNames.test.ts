import { assert, describe, it } from "@effect/vitest"
import * as EffectConfig from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import { builtInModels, modelNames } from "../domain/BuiltInModels.ts"
import * as Plugin from "../plugin/Plugin.ts"
import type { Settings } from "./Config.ts"
import { loadEnvironment } from "./RawConfig.ts"
import { findIneffective, findUnknownVariables } from "./UnknownNames.ts"

/** `secrets`: the variables that the file names as secrets. */
const unknown = (environment: Record<string, string>, file: unknown = {}, secrets: ReadonlyArray<string> = []) =>
  Effect.flatMap(
    loadEnvironment,
    (input) =>
      findUnknownVariables({
        ...input,
        secrets: new Map(secrets.map((name) => [name, "not set"])),
        file: { name: "rollcall.config.ts", value: file }
      }, environment)
  ).pipe(
    Effect.map((found) => found.map(({ hint, where }) => [where, /^[^;.?]*/.exec(hint)?.[0]])),
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnvRecord(environment))
  )

const misspelled: ReadonlyArray<[name: string, meant: string]> = [
  ["ROLLCALL_INTERVALL", "ROLLCALL_INTERVAL"],
  ["ROLLCALL_HTTP_TOKEN_FIEL", "ROLLCALL_HTTP_TOKEN_FILE"],
  ["ROLLCAL_STORE", "ROLLCALL_STORE"],
  ["rollcall_models", "ROLLCALL_MODELS"],
  ["ROLLCALL_PORT", "ROLLCALL_HTTP_PORT"],
  ["ROLLCALL_BROKERS", "KAFKA_BROKERS"],
  ["KAFKA_BROKER", "KAFKA_BROKERS"],
  ["KAFKA_SASL_PASWORD_FILE", "KAFKA_SASL_PASSWORD_FILE"],
  ["OTEL_TRACE_EXPORTER", "OTEL_TRACES_EXPORTER"]
]

const known: ReadonlyArray<Record<string, string>> = [
  {
    ROLLCALL_API_KEY_FILE: "/run/key",
    ROLLCALL_HTTP_READ_TOKEN_FILE: "/run/token",
    KAFKA_SASL_PASSWORD_FILE: "/run/p"
  },
  // Kubernetes sets these for a service named rollcall, in every pod of the namespace
  { ROLLCALL_SERVICE_HOST: "10.0.0.1", ROLLCALL_SERVICE_PORT: "8477", ROLLCALL_SERVICE_PORT_HTTP: "8477" },
  { ROLLCALL_PORT: "tcp://10.0.0.1:8477", ROLLCALL_PORT_8477_TCP: "tcp://10.0.0.1:8477" },
  { ROLLCALL_PORT_8477_TCP_PROTO: "tcp", ROLLCALL_PORT_8477_TCP_PORT: "8477", ROLLCALL_PORT_8477_TCP_ADDR: "10.0.0.1" },
  // the variables of a broker's container, and of other programs
  { KAFKA_NODE_ID: "1", KAFKA_HEAP_OPTS: "-Xmx1g", KAFKA_LISTENERS: "x", KAFKA_BOOTSTRAP_SERVERS: "b:9092" },
  { KAFKA_BROKER: "b:9092", KAFKA_BROKERS: "b:9092" },
  { PATH: "/bin", HOME: "/", ROLL: "1", ROLLUP_WATCH: "true", DATABASE_URI: "x" },
  // variables of OpenTelemetry that other programs read
  { OTEL_LOGS_EXPORTER: "otlp", OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: "x", OTEL_PROPAGATORS: "b3", OTEL_LOG_LEVEL: "info" },
  { OTEL_EXPORTER_OTLP_CERTIFICATE: "x", OTEL_EXPORTER_OTLP_COMPRESSION: "gzip", OTEL_BSP_MAX_QUEUE_SIZE: "1" },
  { OTEL_EXPORTER_OTLP_HEADERS_FILE: "/run/headers" },
  { ROLLCALL_INTERVALL: "" }
]

describe("a variable that Rollcall does not know", () => {
  it.effect.each(misspelled)("%s is reported with the closest name, %s", ([name, meant]) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* unknown({ [name]: "x" }), [[name, `Did you mean ${meant}`]])
    }))

  it.effect("is reported with the closest name even if it is far from every name", () =>
    Effect.gen(function*() {
      const [found] = yield* unknown({ ROLLCALL_SEND_TO_ELASTICSEARCH: "x" })
      assert.strictEqual(found?.[0], "ROLLCALL_SEND_TO_ELASTICSEARCH")
      assert.match(String(found?.[1]), /^Did you mean ROLLCALL_/)
    }))

  it.effect.each(known)("is not among %o", (environment) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* unknown(environment), [])
    }))

  it.effect("is not one that the configuration file names as a secret, or its _FILE", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* unknown({ ROLLCALL_EU_KEY_FILE: "/run/key" }, {}, ["ROLLCALL_EU_KEY"]), [])
      assert.deepStrictEqual(yield* unknown({ ROLLCALL_EU_KEY: "k" }, {}, ["ROLLCALL_EU_KEY"]), [])
      assert.strictEqual((yield* unknown({ ROLLCALL_US_KEY: "k" }, {}, ["ROLLCALL_EU_KEY"])).length, 1)
    }))

  it.effect("is not one that the configuration of a plugin looks up, or its _FILE", () =>
    Effect.gen(function*() {
      const plugin = Plugin.make("own", {
        config: EffectConfig.all({
          one: EffectConfig.String("ROLLCALL_CHANNEL"),
          two: EffectConfig.option(EffectConfig.nested(EffectConfig.String("TOKEN"), "ROLLCALL_CHAT"))
        })
      })
      const environment = { ROLLCALL_CHANNEL: "c", ROLLCALL_CHAT_TOKEN_FILE: "/run/token" }
      assert.deepStrictEqual(yield* unknown(environment, { plugins: [plugin] }), [])
      assert.strictEqual((yield* unknown(environment)).length, 2)
    }))

  it.effect("that holds a file name of a setting that is not a secret gets a hint that says so", () =>
    Effect.gen(function*() {
      const [found] = yield* unknown({ ROLLCALL_API_URL_FILE: "/run/url" })
      assert.deepStrictEqual(found, [
        "ROLLCALL_API_URL_FILE",
        "Set ROLLCALL_API_URL itself: only secrets are read from files"
      ])
    }))

  it.effect("is reported briefly and at once, however long its name is and however many there are", () =>
    Effect.gen(function*() {
      const many = Object.fromEntries(
        Array.from({ length: 2_000 }, (_, n) => [`ROLLCALL_${n}_${"X".repeat(5_000)}`, "x"])
      )
      const found = yield* unknown(many)
      assert.strictEqual(found.length, 20)
      for (const [where] of found) assert.isAtMost(String(where).length, 101)
    }))
})

const none = { integrations: [], plugins: [], models: {}, telemetryFaults: [] }
const file = { file: { name: "rollcall.config.ts", value: {} } }

describe("a redaction rule", () => {
  const found = (model: typeof modelNames[number], ...pointers: ReadonlyArray<string>) => {
    const redact = Object.fromEntries(pointers.map((pointer) => [pointer, "drop" as const]))
    return findIneffective(file, { ...none, known: builtInModels, models: { [model]: { remoteData: "drop", redact } } })
  }

  it.each(
    [
      ["ats.tag", "/nam", "/name"],
      ["ats.application", "/candidate/frist_name", "/candidate/first_name"],
      ["ats.application", "/first_name", "/candidate/first_name"],
      ["ats.application", "/candidate/email_addresses/email", "/candidate/email_addresses/email_address"],
      ["ats.application", "/candidat/first_name", "/candidate"],
      ["ats.candidate", "/phone_number", "/phone_numbers"]
    ] as const
  )("of %s at %s that names no known field is reported with %s", (model, pointer, meant) => {
    const [fault, ...others] = found(model, pointer)
    assert.deepStrictEqual(others, [])
    assert.strictEqual(fault?.where, `rollcall.config.ts, models["${model}"].redact["${pointer}"]`)
    assert.match(fault?.message ?? "", /names no field/)
    const [, first] = /Did you mean (\S+?)(\?| or)/.exec(fault?.hint ?? "") ?? []
    assert.strictEqual(first, meant)
  })

  it("of a known field, or below a value of free form, is not reported", () => {
    const known = [
      "/candidate",
      "/candidate/phone_numbers/phone_number",
      "/candidate/custom_fields/birthday",
      "/custom_fields/anything/below",
      "/candidate/integration_fields/value",
      "/remote_data/person/name",
      "/screening_question_answers/answer/content"
    ]
    assert.deepStrictEqual(found("ats.application", ...known), [])
    assert.deepStrictEqual(found("ats.candidate", "/location/city", "/first_name"), [])
  })

  it("is not quoted if it may be a secret (I11)", () => {
    const secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
    const [fault] = found("ats.tag", `/${secret}`)
    const hidden = `redact["(${secret.length + 1} characters)"]`
    assert.strictEqual(fault?.where, `rollcall.config.ts, models["ats.tag"].${hidden}`)
    assert.notInclude(JSON.stringify(fault), secret)
  })

  it("is reported for each model", () => {
    for (const model of modelNames) assert.strictEqual(found(model, "/no_such_field_at_all").length, 1, model)
  })
})

describe("an integration in the settings of a plugin", () => {
  const found = (...ids: ReadonlyArray<string>) => {
    const uses = Object.fromEntries(ids.map((id) => [id, false] as const))
    const plugin = Plugin.make("mail").with({ integrations: uses }).on("ats.tag.created", {}, () => Effect.void)
    const integrations = ["greenhouse:acme", "workday:acme", "lever:tenant-1"].map((id) =>
      ({ id }) as Settings["integrations"][number]
    )
    return findIneffective(file, { ...none, known: builtInModels, integrations, plugins: [plugin] })
  }

  it("is reported with the declared id that it resembles", () => {
    const [fault, ...others] = found("greenhouse:acmee")
    assert.deepStrictEqual(others, [])
    assert.strictEqual(fault?.where, `plugin mail, integrations["greenhouse:acmee"]`)
    assert.include(fault?.hint, "Did you mean greenhouse:acme?")
  })

  it("is not reported if it is declared, or resembles no declared one that the plugin does not name", () => {
    assert.deepStrictEqual(found("greenhouse:acme", "greenhouse:acme-corp", "lever:tenant-2"), [])
    assert.deepStrictEqual(found(), [])
  })
})
