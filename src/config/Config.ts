/**
 * Turns what is configured into one checked value. Hides which variables and properties there are, which of them wins,
 * and their defaults.
 *
 * Invariants
 * 1. Every fault of the environment and of the file is reported, not only the first; each says what is wrong, where, and
 *    what to do.
 * 2. Secrets leave this module only as `Redacted`; no fault quotes one   (I11)
 *
 * Gotchas
 * - The environment wins: what the file says in the same place is then not looked at.
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
  /** Key of the hashes that redaction makes. */
  readonly redactKey: Redacted.Redacted | null
  readonly confirmInterval: Duration.Duration
  readonly overlapMin: Duration.Duration
  readonly retryBase: Duration.Duration
  /** What is held until someone decides. */
  readonly guard: Guard.Thresholds
  readonly store: StoreLocation
  /** How long the event log is kept. */
  readonly retention: Duration.Duration
  readonly http: HttpSettings
  readonly kafka: KafkaSettings | null
  readonly log: LogSettings
  readonly plugins: ReadonlyArray<Plugin<unknown>>
}

// ---- the whole ----------------------------------------------------------------------------------------------------

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

/** All that was found; of the file its properties. */
type AllSections = SectionReader<(typeof properties)[number]>

/** Of a file that could not be loaded it is unknown what it says: nothing is called missing then. */
const evaluate = <A>(input: RawConfig, build: (found: AllSections) => A) => {
  const faults: Array<Fault> = [...input.faults]
  const places = makeReader(input, (fault) => {
    if (fault.message !== notSet || input.faults.length === 0) faults.push(fault)
  })
  return { value: build({ ...places, file: places.root.fields(...properties) }), faults }
}

const resultOf = <A>(input: RawConfig, build: (found: AllSections) => A): Result.Result<A, ConfigFaults> => {
  const { faults, value } = evaluate(input, build)
  return faults.length === 0 ? Result.succeed(value) : Result.fail(new ConfigFaults({ faults }))
}

const parseSettings = (found: AllSections): Settings => {
  const { file, variable } = found
  const length = (place: ConfigValue, otherwise: Duration.Input) =>
    place.duration() ?? Duration.fromInputUnsafe(otherwise)
  const accounts = parseAccounts(found)
  return {
    accounts,
    integrations: parseIntegrations(found, Object.keys(accounts)),
    ...parseModelSettings(found),
    confirmInterval: length(variable("ROLLCALL_CONFIRM_INTERVAL").or(file.confirmInterval), "10 minutes"),
    overlapMin: length(variable("ROLLCALL_OVERLAP_MIN").or(file.overlapMin), "5 minutes"),
    retryBase: length(variable("ROLLCALL_RETRY_BASE").or(file.retryBase), "1 second"),
    guard: parseGuard(file.guard),
    store: parseStore(found),
    retention: length(file.retention, "7 days"),
    http: parseHttp(found),
    kafka: parseKafka(found),
    log: parseLog(found),
    plugins: parsePlugins(file.plugins)
  }
}

/** Everything `start` needs. Pure. */
export const check = (input: RawConfig): Result.Result<Settings, ConfigFaults> => resultOf(input, parseSettings)

/** What `status` and `tail` need: where the operating API of the running process is. Pure. */
export const checkHttp = (input: RawConfig): Result.Result<HttpSettings, ConfigFaults> => resultOf(input, parseHttp)

/** The log settings, faults ignored: they are reported by `check`, and faults must be printable before that. */
export const parseLogSettings = (input: RawConfig): LogSettings => evaluate(input, parseLog).value

/**
 * An integration that is to be added at run time: written like those of the file. What it says itself counts before the
 * environment, for who asks means this one. Pure.
 */
export const checkIntegration = (
  input: RawConfig,
  accounts: ReadonlyArray<string>,
  body: unknown
): Result.Result<Integration, ConfigFaults> => {
  const faults: Array<Fault> = []
  const places = makeReader({ ...input, file: { name: "body", value: body } }, (fault) => faults.push(fault))
  const integration = parseIntegrationBody(places, accounts)
  return faults.length === 0 ? Result.succeed(integration) : Result.fail(new ConfigFaults({ faults }))
}

// ---- plugins ------------------------------------------------------------------------------------------------------

/** A plugin in an integration that is declared and where it is on. */
export interface PluginUse {
  readonly plugin: string
  readonly integration: string
  /** What it needs to be told, and is not. */
  readonly fault: Fault | null
}

const faultOf = ({ integration, message, plugin }: IncompleteConfiguration): Fault => ({
  where: `plugin ${plugin} in ${integration}`,
  message: message.replace(/^SchemaError\(([\s\S]*)\)$/, "$1").replace(/\s+/g, " "),
  hint: "Set the variable of that name, or give it in `values` of the plugin's `with({ … })`"
})

/** Where the plugins are used, and whether each finds there what it needs to be told. */
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

/** Whether the plugins find what they need to be told, wherever they are used. */
export const checkPlugins = (settings: Pick<Settings, "integrations" | "plugins">): Effect.Effect<void, ConfigFaults> =>
  Effect.flatMap(findPluginUses(settings), (uses) => {
    const faults = uses.flatMap(({ fault }) => fault === null ? [] : [fault])
    return faults.length === 0 ? Effect.void : Effect.fail(new ConfigFaults({ faults }))
  })

const parsePlugins = (place: ConfigValue): Settings["plugins"] => {
  const names = new Set<string>()
  return place.items().flatMap((item) => {
    const plugin = item.value
    if (!isPlugin(plugin)) {
      item.fault("is no plugin", "Name what `Plugin.make(…)` gives; a function that makes one is to be called")
      return []
    }
    const { issues, handlers, name } = plugin
    for (const { hint, message } of issues) item.fault(message, hint)
    if (names.has(name)) item.fault(`"${name}" is there twice`, "Give one of them another name, or leave one out")
    if (handlers.length === 0) item.fault(`"${name}" handles nothing`, "Give it a handler: `.on`, `.batch` or `.every`")
    names.add(name)
    return [plugin]
  })
}

// ---- the guard ----------------------------------------------------------------------------------------------------

const parseGuard = (place: ConfigValue): Guard.Thresholds => {
  const { count, scopeCount, scopeShare, share, smallCount, smallShare, window } = place.fields(
    "window",
    "count",
    "share",
    "smallCount",
    "smallShare",
    "scopeCount",
    "scopeShare"
  )
  const usual = Guard.thresholds
  const records = (place: ConfigValue, otherwise: number) => place.number(1, Number.MAX_SAFE_INTEGER) ?? otherwise
  const part = (place: ConfigValue, otherwise: number) => place.number(0, 1) ?? otherwise
  return {
    window: window.duration() ?? usual.window,
    count: records(count, usual.count),
    share: part(share, usual.share),
    smallCount: records(smallCount, usual.smallCount),
    smallShare: part(smallShare, usual.smallShare),
    scopeCount: records(scopeCount, usual.scopeCount),
    scopeShare: part(scopeShare, usual.scopeShare)
  }
}
