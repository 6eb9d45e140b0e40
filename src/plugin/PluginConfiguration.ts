/**
 * Whether a plugin is on in an integration, and its configuration there.
 *
 * Gotchas
 * - Precedence of values: those of the integration, then those of the plugin, then the environment.
 */
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Plugin } from "./Plugin.ts"

/** A plugin's configuration is missing a value or has an invalid one. The message names the setting, never its value   (I11). */
export class IncompleteConfiguration extends Schema.TaggedError<IncompleteConfiguration>()("IncompleteConfiguration", {
  plugin: Schema.String,
  integration: Schema.String,
  message: Schema.String
}) {}

export const isEnabledIn = ({ settings }: Pick<Plugin<unknown>, "settings">, integration: string): boolean => {
  const own = settings.integrations?.[integration]
  return own === undefined ? settings.others !== false : own !== false
}

const providerFor = ({ settings }: Pick<Plugin<unknown>, "settings">, integration: string) =>
  Effect.map(ConfigProvider.ConfigProvider, (environment) => {
    const own = settings.integrations?.[integration]
    return [typeof own === "object" ? own.values : {}, settings.values ?? {}]
      .map((values) => ConfigProvider.fromUnknown(values))
      .reduceRight((otherwise, provider) => ConfigProvider.orElse(provider, otherwise), environment)
  })

/** The configuration that a plugin's handlers receive in an integration. */
export const configurationOf = <C>(
  plugin: Plugin<C>,
  integration: string
): Effect.Effect<C, IncompleteConfiguration> => {
  const unconfigured = (message: string) => new IncompleteConfiguration({ plugin: plugin.name, integration, message })
  return Effect.flatMap(
    providerFor(plugin, integration),
    (provider) => (plugin.definition.config ?? Config.succeed({} as C)).parse(provider)
  ).pipe(
    Effect.mapError(({ message }) => unconfigured(message)),
    // the thrown error is left out of the message: it may contain a configuration value
    Effect.catchDefect(() => Effect.fail(unconfigured("a function in the plugin's configuration threw an error")))
  )
}
