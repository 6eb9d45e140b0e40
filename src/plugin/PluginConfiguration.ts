/**
 * A plugin as it is used in one integration: whether it is on there, and with which configuration.
 *
 * Gotchas
 * - A value counts before the environment, one for the integration before one for all.
 */
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Plugin } from "./Plugin.ts"

/** What of a plugin's configuration is missing or wrong, and where. Says nothing of what was found there   (I11). */
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

/** The configuration that a plugin's handlers are given in an integration. */
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
    // what it was thrown may repeat what was read
    Effect.catchDefect(() => Effect.fail(unconfigured("a function of its configuration threw an error")))
  )
}
