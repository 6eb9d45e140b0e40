/**
 * Whether a plugin is on in an integration, and its configuration there.
 *
 * Gotchas
 * - Values of the integration take precedence over values of the plugin, and these take precedence over the environment. Of several
 *   calls of `with`, the later one takes precedence.
 * - The file of a variable is read once in each process, when the configuration is read.
 */
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { readFile } from "node:fs/promises"
import { missingValues } from "./MissingValues.ts"
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

/** The name of a variable in the environment, such as `TEAM_SIZE`. */
const variableOf = (path: ConfigProvider.Path): string => path.join("_")

const readText = (path: string): Effect.Effect<string> =>
  Effect.tryPromise(() => readFile(path, "utf8")).pipe(
    Effect.map((text) => text.trim()),
    Effect.orElseSucceed(() => "")
  )

/** Names of variables, collected while a configuration is read. */
interface Lookups {
  /** Variables that the plugin looked up. */
  readonly wanted: Set<string>
  /** The variables `<NAME>_FILE` whose file is empty or cannot be read. */
  readonly unreadable: Set<string>
}

/** The environment, in which `<NAME>_FILE` may name a file with the value of `<NAME>`. */
const withFiles = (environment: ConfigProvider.ConfigProvider, { unreadable, wanted }: Lookups) =>
  ConfigProvider.make((path) =>
    Effect.gen(function*() {
      wanted.add(variableOf(path))
      const node = yield* environment.load(path)
      const last = path.at(-1)
      if (typeof last !== "string") return node
      const own = [...path.slice(0, -1), `${last}_FILE`]
      const file = (yield* environment.load(own))?.value?.trim() ?? ""
      if (file === "") return node
      if ((node?.value?.trim() ?? "") !== "") {
        const message = `${variableOf(path)} and ${variableOf(own)} are both set`
        return yield* new ConfigProvider.SourceError({ message })
      }
      const value = yield* readText(file)
      if (value !== "") return node?._tag === "Record" ? { ...node, value } : ConfigProvider.makeValue(value)
      unreadable.add(variableOf(own))
      return node
    })
  )

const providerFor = (
  { settings }: Pick<Plugin<unknown>, "settings">,
  integration: string,
  lookups: Lookups
) =>
  Effect.map(ConfigProvider.ConfigProvider, (environment) => {
    const own = settings.integrations?.[integration]
    return [...typeof own === "object" ? own.values : [], ...settings.values ?? []]
      .map((values) => ConfigProvider.fromUnknown(values))
      .reduceRight(
        (otherwise, provider) => ConfigProvider.orElse(provider, otherwise),
        withFiles(environment, lookups)
      )
  })

const configOf = <C>({ definition }: Plugin<C>): Config.Config<C> => definition.config ?? Config.succeed({} as C)

const textOf = ({ message }: Config.ConfigError): string =>
  message.replace(/^SchemaError\(([\s\S]*)\)$/, "$1").replace(/\s+/g, " ")

/** The configuration that a plugin's handlers receive in an integration. */
export const configurationOf = <C>(
  plugin: Plugin<C>,
  integration: string
): Effect.Effect<C, IncompleteConfiguration> =>
  Effect.suspend(() => {
    const lookups: Lookups = { wanted: new Set(), unreadable: new Set() }
    const unconfigured = (...messages: ReadonlyArray<string>) =>
      new IncompleteConfiguration({ plugin: plugin.name, integration, message: messages.join("; ") })
    // a variable that the plugin itself looks up contains the value `FILE` of a group, not the path of a file
    const unreadable = () => [...lookups.unreadable].filter((name) => !lookups.wanted.has(name))
    const unconfiguredWith = (files: ReadonlyArray<string>, ...messages: ReadonlyArray<string>) =>
      unconfigured(...messages, ...files.map((name) => `${name} names a file that is empty or cannot be read`))
    const explain = (provider: ConfigProvider.ConfigProvider, error: Config.ConfigError) => {
      const files = unreadable()
      return Effect.map(missingValues(configOf(plugin), provider, error), (paths) => {
        const unset = paths.map(variableOf).filter((name) => !files.includes(`${name}_FILE`))
        return paths.length === 0
          ? unconfiguredWith(files, textOf(error))
          : unconfiguredWith(files, ...unset.map((name) => `${name} is not set`))
      })
    }
    return providerFor(plugin, integration, lookups).pipe(
      Effect.flatMap((provider) =>
        Effect.catch(configOf(plugin).parse(provider), (error) => Effect.flip(explain(provider, error)))
      ),
      // an optional value whose file is missing must not be treated as not set
      Effect.filterOrFail(() => unreadable().length === 0, () => unconfiguredWith(unreadable())),
      // the thrown error is left out of the message: it may contain a configuration value
      Effect.catchDefect(() => Effect.fail(unconfigured("a function in the plugin's configuration threw an error")))
    )
  })

/** The variables that a plugin's configuration looks up. */
export const variablesOf = (plugin: Plugin<unknown>): Effect.Effect<ReadonlySet<string>> =>
  Effect.flatMap(ConfigProvider.ConfigProvider, (environment) => {
    const names = new Set<string>()
    const recording = ConfigProvider.make((path) => {
      names.add(variableOf(path))
      return environment.load(path)
    })
    return Effect.as(Effect.exit(configOf(plugin).parse(recording)), names)
  })
