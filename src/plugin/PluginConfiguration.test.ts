import { assert, describe, it } from "@effect/vitest"
import * as EffectConfig from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryFolder } from "../../test/support/TemporaryFolder.ts"
import { checkPlugins } from "../config/Config.ts"
import type { Integration } from "../config/IntegrationSettings.ts"
import * as Plugin from "./Plugin.ts"
import { configurationOf, isEnabledIn } from "./PluginConfiguration.ts"

const plugin = Plugin.make("greeter", {
  config: EffectConfig.all({
    greeting: EffectConfig.String("GREETING"),
    team: EffectConfig.nested(EffectConfig.Int("SIZE"), "TEAM"),
    token: EffectConfig.Redacted("TOKEN")
  })
}).on("ats.tag.created", {}, () => Effect.void)

const environment = { GREETING: "hello", TEAM_SIZE: "3", TOKEN: "hush-hush" }
const given = (variables: Record<string, string>) =>
  Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnvRecord(variables))

const integration = (id: string) => ({ id }) as Integration

describe("a plugin's configuration", () => {
  it.effect("values of the integration precede those of the plugin, which precede the environment", () =>
    Effect.gen(function*() {
      const used = plugin.with({
        values: { GREETING: "good day", TEAM: { SIZE: 5 } },
        integrations: { "greenhouse:acme": { values: { GREETING: "howdy" } } }
      })
      const [here, there] = yield* Effect.forEach(
        ["greenhouse:acme", "lever:acme"],
        (id) => configurationOf(used, id)
      )
      assert.deepStrictEqual([here?.greeting, here?.team], ["howdy", 5])
      assert.deepStrictEqual([there?.greeting, there?.team], ["good day", 5])
      assert.strictEqual((yield* configurationOf(plugin, "lever:acme")).team, 3)
    }).pipe(given(environment)))

  it.effect("values of several calls of `with` add up, and a later value replaces an earlier one", () =>
    Effect.gen(function*() {
      const table = Plugin.make("table", {
        config: EffectConfig.all({
          names: EffectConfig.schema(Schema.Record(Schema.String, Schema.String), "NAMES"),
          team: EffectConfig.nested(
            EffectConfig.all({ size: EffectConfig.Int("SIZE"), lead: EffectConfig.String("LEAD") }),
            "TEAM"
          )
        })
      }).on("ats.tag.created", {}, () => Effect.void)
      const used = table
        .with({ values: { NAMES: { a: "1" }, TEAM: { SIZE: 5, LEAD: "Ada" } }, others: false })
        .with({ values: { NAMES: { b: "2" } }, integrations: { "lever:acme": { values: { TEAM: { SIZE: 6 } } } } })
        .with({ values: { TEAM: { LEAD: "Bob" } }, integrations: { "bob:acme": true } })
        .with({ integrations: { "lever:acme": { values: { TEAM: { LEAD: "Cy" } } } }, from: "oldest" })
      const team = { size: 5, lead: "Bob" }
      // a table is one value, so it is replaced as a whole
      assert.deepStrictEqual(yield* configurationOf(used, "bob:acme"), { names: { b: "2" }, team })
      assert.deepStrictEqual((yield* configurationOf(used, "lever:acme")).team, { size: 6, lead: "Cy" })
      assert.deepStrictEqual(["bob:acme", "lever:acme", "x:acme"].map((id) => isEnabledIn(used, id)), [
        true,
        true,
        false
      ])
      assert.strictEqual(used.settings.from, "oldest")
      const on = used.with({ integrations: { "lever:acme": true } })
      assert.deepStrictEqual((yield* configurationOf(on, "lever:acme")).team, { size: 6, lead: "Cy" })
      const off = used.with({ integrations: { "lever:acme": false } })
      assert.isFalse(isEnabledIn(off, "lever:acme"))
    }).pipe(given({})))

  it("a setting that is undefined leaves the earlier one as it is", () => {
    // without `exactOptionalPropertyTypes`, the types of a plugin's author allow undefined
    const unset = {
      others: undefined,
      from: undefined,
      values: undefined,
      integrations: undefined
    } as unknown as Plugin.Settings
    const used = plugin.with({ others: false, from: "oldest" }).with(unset)
    assert.deepStrictEqual(used.issues, [])
    assert.deepStrictEqual([isEnabledIn(used, "bob:acme"), used.settings.from], [false, "oldest"])
  })

  it("a plugin is on in all integrations unless its settings name some", () => {
    assert.isTrue(isEnabledIn(plugin, "greenhouse:acme"))
    const some = plugin.with({ others: false, integrations: { "greenhouse:acme": true, "lever:acme": { values: {} } } })
    assert.deepStrictEqual(["greenhouse:acme", "lever:acme", "bob:acme"].map((id) => isEnabledIn(some, id)), [
      true,
      true,
      false
    ])
    assert.isFalse(isEnabledIn(plugin.with({ integrations: { "bob:acme": false } }), "bob:acme"))
  })

  it.effect("a missing value is reported at start for each integration in which the plugin is on", () =>
    Effect.gen(function*() {
      const plugins = [plugin.with({ integrations: { "bob:acme": false } })]
      const integrations = ["greenhouse:acme", "lever:acme", "bob:acme"].map(integration)
      const { faults } = yield* Effect.flip(checkPlugins({ integrations, plugins }))
      assert.deepStrictEqual(faults.map(({ where }) => where), [
        "plugin greeter in greenhouse:acme",
        "plugin greeter in lever:acme"
      ])
      assert.strictEqual(faults[0]?.message, "GREETING is not set")
      assert.include(faults[0]?.hint, "with({ … })")
    }).pipe(given({ TOKEN: "hush-hush", TEAM_SIZE: "3" })))

  it.effect("all missing values are named at once, whatever their types, and no optional one", () =>
    Effect.gen(function*() {
      const every = Plugin.make("every", {
        config: EffectConfig.all({
          text: EffectConfig.NonEmptyString("TEXT"),
          port: EffectConfig.Port("PORT"),
          optional: EffectConfig.option(EffectConfig.String("OPTIONAL")),
          given: EffectConfig.String("GIVEN"),
          url: EffectConfig.URL("URL"),
          group: EffectConfig.nested(
            EffectConfig.all({ wait: EffectConfig.Duration("WAIT"), size: EffectConfig.ByteSize("SIZE") }),
            "GROUP"
          ),
          mode: EffectConfig.Literals(["fast", "slow"], "MODE").pipe(
            EffectConfig.flatMap((mode) =>
              mode === "fast" ? EffectConfig.String("FAST_ONLY") : EffectConfig.succeed(mode)
            )
          ),
          other: EffectConfig.String("FIRST_NAME").pipe(EffectConfig.orElse(() => EffectConfig.String("SECOND_NAME"))),
          defaulted: EffectConfig.Int("DEFAULTED").pipe(EffectConfig.withDefault(1)),
          date: EffectConfig.Date("DATE"),
          level: EffectConfig.LogLevel("LEVEL"),
          flag: EffectConfig.Boolean("FLAG"),
          secret: EffectConfig.Redacted("SECRET").pipe(EffectConfig.map(() => {
            throw new Error("a function that accepts no sample")
          }))
        })
      }).on("ats.tag.created", {}, () => Effect.void)
      const { message } = yield* Effect.flip(configurationOf(every, "lever:acme"))
      const names = [
        "TEXT",
        "PORT",
        "URL",
        "GROUP_WAIT",
        "GROUP_SIZE",
        "MODE",
        "SECOND_NAME",
        "DATE",
        "LEVEL",
        "FLAG",
        "SECRET"
      ]
      assert.strictEqual(message, names.map((name) => `${name} is not set`).join("; "))
    }).pipe(given({ GIVEN: "x" })))

  it.effect("a missing value hides neither one in a file that cannot be read, nor an invalid one", () =>
    Effect.gen(function*() {
      const { message } = yield* Effect.flip(configurationOf(plugin, "lever:acme"))
      assert.strictEqual(
        message,
        "GREETING is not set; TEAM_SIZE is not set; TOKEN_FILE names a file that is empty or cannot be read"
      )
      const invalid = yield* configurationOf(plugin.with({ values: { TEAM: { SIZE: "many" } } }), "lever:acme").pipe(
        Effect.flip
      )
      assert.match(invalid.message, /^Expected .* number at \["TEAM"\]\["SIZE"\]$/)
    }).pipe(given({ TOKEN_FILE: "/missing" })))

  describe("that names a file", () => {
    const { TOKEN: _, ...others } = environment
    const tokenIn = (variables: Record<string, string>, used = plugin) =>
      configurationOf(used, "lever:acme").pipe(Effect.map(({ token }) => Redacted.value(token)), given(variables))

    it.effect("with <NAME>_FILE takes the value from it, without white space around it", () =>
      Effect.gen(function*() {
        const file = join(yield* temporaryFolder, "token")
        writeFileSync(file, " from-file\n")
        assert.strictEqual(yield* tokenIn({ ...others, TOKEN_FILE: file }), "from-file")
        assert.strictEqual(yield* tokenIn({ ...others, TOKEN: "", TOKEN_FILE: file }), "from-file")
        assert.strictEqual(
          yield* tokenIn({ ...others, TOKEN_FILE: file }, plugin.with({ values: { TOKEN: "value" } })),
          "value"
        )
        writeFileSync(file, "12")
        const nested = yield* configurationOf(plugin, "lever:acme").pipe(
          given({ GREETING: "hi", TOKEN: "t", TEAM_SIZE_FILE: file })
        )
        assert.strictEqual(nested.team, 12)
      }))

    it.effect("is incomplete if both are set, or the file is missing or empty, and the message does not quote either (I11)", () =>
      Effect.gen(function*() {
        const file = join(yield* temporaryFolder, "token")
        const why = (variables: Record<string, string>) =>
          Effect.map(Effect.flip(tokenIn({ ...others, ...variables })), ({ message }) => message)
        assert.include(
          yield* why({ TOKEN_FILE: "sk_live_51H8xYz" }),
          "TOKEN_FILE names a file that is empty or cannot be read"
        )
        writeFileSync(file, " \n")
        assert.include(yield* why({ TOKEN_FILE: file }), "TOKEN_FILE names a file that is empty")
        assert.include(yield* why({ TOKEN: "hush-hush", TOKEN_FILE: file }), "TOKEN and TOKEN_FILE are both set")
        for (const variables of [{ TOKEN_FILE: "sk_live_51H8xYz" }, { TOKEN: "hush-hush", TOKEN_FILE: file }]) {
          assert.notMatch(yield* why(variables), /hush|sk_live/)
        }
      }))

    it.effect("is incomplete if the file of an optional value cannot be read", () =>
      Effect.gen(function*() {
        const optional = Plugin.make("optional", {
          config: EffectConfig.all({
            token: EffectConfig.option(EffectConfig.Redacted("TOKEN")),
            size: EffectConfig.Int("SIZE").pipe(EffectConfig.withDefault(3))
          })
        })
        const { message } = yield* configurationOf(optional, "lever:acme").pipe(
          Effect.flip,
          given({ TOKEN_FILE: "/missing", TOKEN_OLD: "old" })
        )
        assert.strictEqual(message, "TOKEN_FILE names a file that is empty or cannot be read")
        assert.strictEqual((yield* configurationOf(optional, "lever:acme").pipe(given({}))).size, 3)
      }))

    it.effect("does not change a group of values that has one named FILE", () =>
      Effect.gen(function*() {
        const grouped = Plugin.make("grouped", {
          config: EffectConfig.schema(Schema.Struct({ FILE: Schema.String, SIZE: Schema.String }), "TEAM")
        })
        const config = yield* configurationOf(grouped, "lever:acme").pipe(given({ TEAM_FILE: "a.txt", TEAM_SIZE: "3" }))
        assert.deepStrictEqual(config, { FILE: "a.txt", SIZE: "3" })
      }))
  })

  it.effect("the message about an invalid value does not contain the value (I11)", () =>
    Effect.gen(function*() {
      const picky = Plugin.make("picky", {
        config: EffectConfig.all([EffectConfig.Port("TOKEN")])
      }).on("ats.tag.created", {}, () => Effect.void)
      const { message } = yield* Effect.flip(configurationOf(picky, "lever:acme"))
      assert.include(message, `["TOKEN"]`)
      assert.notInclude(message, "hush")
      const chooses = Plugin.make("chooses", { config: EffectConfig.Literals(["a", "b"], "TOKEN") })
      assert.notInclude((yield* Effect.flip(configurationOf(chooses, "lever:acme"))).message, "hush")
    }).pipe(given(environment)))
})
