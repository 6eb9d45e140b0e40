import { assert, describe, it } from "@effect/vitest"
import * as EffectConfig from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
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
      assert.include(faults[0]?.message, `["GREETING"]`)
      assert.include(faults[0]?.hint, "with({ … })")
    }).pipe(given({ TOKEN: "hush-hush", TEAM_SIZE: "3" })))

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
