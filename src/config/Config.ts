/**
 * Turns the raw configuration into one checked value. Hides the names of variables and properties, which of the two takes
 * precedence, and the defaults.
 *
 * Invariants
 * 1. Every fault of the environment and of the file is reported, not only the first. Each names the location, the problem
 *    and the fix.
 * 2. Secrets leave this module only as `Redacted`, and no fault quotes a secret   (I11)
 *
 * Gotchas
 * - The environment takes precedence: if a variable is set, the matching property of the file is not even checked.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Guard from "../domain/Guard.ts"
import type { Model } from "../domain/Model.ts"
import { isPlugin, type Plugin } from "../plugin/Plugin.ts"
import { configurationOf, type IncompleteConfiguration, isEnabledIn } from "../plugin/PluginConfiguration.ts"
import { type ConfigValue, makeReader, notSet, type SectionReader } from "./ConfigValue.ts"
import {
  type HttpSettings,
  type KafkaSettings,
  type LogSettings,
  parseHttp,
  parseKafka,
  parseLog
} from "./DeploymentSettings.ts"
import {
  type Account,
  type Integration,
  type ModelSettings,
  parseAccounts,
  parseIntegrationBody,
  parseIntegrations,
  parseModelSettings
} from "./IntegrationSettings.ts"
import { ConfigFaults, type Fault, type RawConfig } from "./RawConfig.ts"
import { parseStore, type StoreLocation } from "./StoreSettings.ts"

export interface Settings {
  readonly accounts: Readonly<Record<string, Account>>
  readonly integrations: ReadonlyArray<Integration>
  readonly models: { readonly [model in Model]?: ModelSettings }
  /** Key of the hashes that replace redacted values. */
  readonly redactKey: Redacted.Redacted | null
  readonly confirmInterval: Duration.Duration
  readonly overlapMin: Duration.Duration
  readonly retryBase: Duration.Duration
  /** From how many changes on the guard holds them until an operator decides. */
  readonly guard: Guard.Thresholds
  readonly store: StoreLocation
  /** How long the event log is kept. */
  readonly retention: Duration.Duration
  readonly http: HttpSettings
  readonly kafka: KafkaSettings | null
  readonly log: LogSettings
  readonly plugins: ReadonlyArray<Plugin<unknown>>
}

// ---- all settings -------------------------------------------------------------------------------------------------

const properties = [
  "accounts",
  "integrations",
  "models",
  "redactKey",
  "confirmInterval",
  "overlapMin",
  "retryBase",
  "store",
  "retention",
  "http",
  "kafka",
  "log",
  "guard",
  "plugins"
] as const

/** The reader of all variables and of all top-level properties of the file. */
type AllSections = SectionReader<(typeof properties)[number]>

/** If the file could not be loaded, its content is unknown, so no value is reported as missing. */
const evaluate = <A>(input: RawConfig, build: (sections: AllSections) => A) => {
  const faults: Array<Fault> = [...input.faults]
  const reader = makeReader(input, (fault) => {
    if (fault.message !== notSet || input.faults.length === 0) faults.push(fault)
  })
  return { value: build({ ...reader, file: reader.root.fields(...properties) }), faults }
}

const resultOf = <A>(input: RawConfig, build: (sections: AllSections) => A): Result.Result<A, ConfigFaults> => {
  const { faults, value } = evaluate(input, build)
  return faults.length === 0 ? Result.succeed(value) : Result.fail(new ConfigFaults({ faults }))
}

const parseSettings = (sections: AllSections): Settings => {
  const { file, variable } = sections
  const duration = (value: ConfigValue, fallback: Duration.Input) =>
    value.duration() ?? Duration.fromInputUnsafe(fallback)
  const accounts = parseAccounts(sections)
  return {
    accounts,
    integrations: parseIntegrations(sections, Object.keys(accounts)),
    ...parseModelSettings(sections),
    confirmInterval: duration(variable("ROLLCALL_CONFIRM_INTERVAL").or(file.confirmInterval), "10 minutes"),
    overlapMin: duration(variable("ROLLCALL_OVERLAP_MIN").or(file.overlapMin), "5 minutes"),
    retryBase: duration(variable("ROLLCALL_RETRY_BASE").or(file.retryBase), "1 second"),
    guard: parseGuard(file.guard),
    store: parseStore(sections),
    retention: duration(file.retention, "7 days"),
    http: parseHttp(sections),
    kafka: parseKafka(sections),
    log: parseLog(sections),
    plugins: parsePlugins(file.plugins)
  }
}

/** Everything `start` needs. Pure. */
export const check = (input: RawConfig): Result.Result<Settings, ConfigFaults> => resultOf(input, parseSettings)

/** The address of the operating API, for commands such as `status` and `tail` that call the running process. Pure. */
export const checkHttp = (input: RawConfig): Result.Result<HttpSettings, ConfigFaults> => resultOf(input, parseHttp)

/** The log settings. Faults are ignored here because `check` reports them, and the logger must exist to print them. */
export const parseLogSettings = (input: RawConfig): LogSettings => evaluate(input, parseLog).value

/**
 * Checks the body of a request to add an integration at run time. It has the properties of an integration in the file.
 * They take precedence over the environment, because the request is about this one integration. Pure.
 */
export const checkIntegration = (
  input: RawConfig,
  accounts: ReadonlyArray<string>,
  body: unknown
): Result.Result<Integration, ConfigFaults> => {
  const faults: Array<Fault> = []
  const reader = makeReader({ ...input, file: { name: "body", value: body } }, (fault) => faults.push(fault))
  const integration = parseIntegrationBody(reader, accounts)
  return faults.length === 0 ? Result.succeed(integration) : Result.fail(new ConfigFaults({ faults }))
}

// ---- plugins ------------------------------------------------------------------------------------------------------

/** A plugin in a declared integration in which the plugin is enabled. */
export interface PluginUse {
  readonly plugin: string
  readonly integration: string
  /** The plugin's variable or value that is missing or invalid; null if its configuration is complete. */
  readonly fault: Fault | null
}

const faultOf = ({ integration, message, plugin }: IncompleteConfiguration): Fault => ({
  where: `plugin ${plugin} in ${integration}`,
  message: message.replace(/^SchemaError\(([\s\S]*)\)$/, "$1").replace(/\s+/g, " "),
  hint: "Set the variable with that name, or add it to `values` in the plugin's `with({ … })`"
})

/** Every integration in which a plugin is enabled, and whether the plugin's configuration is complete there. */
export const findPluginUses = (
  { integrations, plugins }: Pick<Settings, "integrations" | "plugins">
): Effect.Effect<ReadonlyArray<PluginUse>> =>
  Effect.forEach(
    plugins.flatMap((plugin) =>
      integrations.filter(({ id }) => isEnabledIn(plugin, id)).map(({ id }) => ({ id, plugin }))
    ),
    ({ id, plugin }) =>
      Effect.map(Effect.result(configurationOf(plugin, id)), (found): PluginUse => ({
        plugin: plugin.name,
        integration: id,
        fault: Result.isFailure(found) ? faultOf(found.failure) : null
      }))
  )

/** Fails unless the configuration of every plugin is complete in every integration in which it is enabled. */
export const checkPlugins = (settings: Pick<Settings, "integrations" | "plugins">): Effect.Effect<void, ConfigFaults> =>
  Effect.flatMap(findPluginUses(settings), (uses) => {
    const faults = uses.flatMap(({ fault }) => fault === null ? [] : [fault])
    return faults.length === 0 ? Effect.void : Effect.fail(new ConfigFaults({ faults }))
  })

const parsePlugins = (list: ConfigValue): Settings["plugins"] => {
  const names = new Set<string>()
  return list.items().flatMap((item) => {
    const plugin = item.value
    if (!isPlugin(plugin)) {
      item.fault(
        "is not a plugin",
        "List the result of `Plugin.make(…)`; if it is a function that makes a plugin, call it"
      )
      return []
    }
    const { issues, handlers, name } = plugin
    for (const { hint, message } of issues) item.fault(message, hint)
    if (names.has(name)) item.fault(`"${name}" is listed twice`, "Rename or remove one of the two plugins")
    if (handlers.length === 0) item.fault(`"${name}" has no handler`, "Add a handler with `.on`, `.batch` or `.every`")
    names.add(name)
    return [plugin]
  })
}

// ---- the guard ----------------------------------------------------------------------------------------------------

const parseGuard = (section: ConfigValue): Guard.Thresholds => {
  const { count, scopeCount, scopeShare, share, smallCount, smallShare, window } = section.fields(
    "window",
    "count",
    "share",
    "smallCount",
    "smallShare",
    "scopeCount",
    "scopeShare"
  )
  const defaults = Guard.thresholds
  const records = (value: ConfigValue, fallback: number) => value.number(1, Number.MAX_SAFE_INTEGER) ?? fallback
  const part = (value: ConfigValue, fallback: number) => value.number(0, 1) ?? fallback
  return {
    window: window.duration() ?? defaults.window,
    count: records(count, defaults.count),
    share: part(share, defaults.share),
    smallCount: records(smallCount, defaults.smallCount),
    smallShare: part(smallShare, defaults.smallShare),
    scopeCount: records(scopeCount, defaults.scopeCount),
    scopeShare: part(scopeShare, defaults.scopeShare)
  }
}
