/**
 * Turns the raw configuration into one checked value.
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
import * as Result from "effect/Result"
import { type AnyList, entryOf } from "../domain/DefinedList.ts"
import * as Guard from "../domain/Guard.ts"
import { identityOf, type Models } from "../domain/Model.ts"
import { isPlugin, type Plugin } from "../plugin/Plugin.ts"
import { configurationOf, type IncompleteConfiguration, isEnabledIn } from "../plugin/PluginConfiguration.ts"
import { ConfigValue, notSet } from "./ConfigValue.ts"
import { type LogSettings, parseHttp, parseHttpClient, parseLog } from "./DeploymentSettings.ts"
import {
  type Integration,
  parseAccounts,
  parseIntegrationBody,
  parseIntegrations,
  parseModelSettings
} from "./IntegrationSettings.ts"
import { parseKafka } from "./KafkaSettings.ts"
import { parseLists } from "./ListSettings.ts"
import { parseAllowPlaintext } from "./Plaintext.ts"
import { parseProxies } from "./ProxySettings.ts"
import { ConfigFaults, type Fault, type RawConfig } from "./RawConfig.ts"
import { parseEncryptionKeys, parseStore } from "./StoreSettings.ts"
import { parseTelemetry } from "./TelemetrySettings.ts"

// ---- all settings -------------------------------------------------------------------------------------------------

/** The properties that the file may have. Any other property is a fault, even if the caller evaluates only some of these. */
const sectionsOf = (root: ConfigValue) =>
  root.fields({
    accounts: null,
    integrations: null,
    lists: null,
    models: null,
    redactKey: "ROLLCALL_REDACT_KEY",
    encryptionKey: "ROLLCALL_ENCRYPTION_KEY",
    confirmInterval: "ROLLCALL_CONFIRM_INTERVAL",
    overlapMin: "ROLLCALL_OVERLAP_MIN",
    retryBase: "ROLLCALL_RETRY_BASE",
    allowPlaintext: "ROLLCALL_ALLOW_PLAINTEXT",
    store: ["ROLLCALL_STORE", "DATABASE_URL"],
    retention: null,
    http: null,
    kafka: null,
    log: null,
    guard: null,
    plugins: null
  })
type Sections = ReturnType<typeof sectionsOf>

/** If the file could not be loaded, its content is unknown, so no value is reported as missing. */
const evaluate = <A>(input: RawConfig, build: (sections: Sections) => A) => {
  const faults: Array<Fault> = [...input.faults]
  const root = ConfigValue.root(input, (fault) => {
    if (fault.message !== notSet || input.faults.length === 0) faults.push(fault)
  })
  return { value: build(sectionsOf(root)), faults }
}

const toResult = <A>({ faults, value }: { readonly faults: ReadonlyArray<Fault>; readonly value: A }) =>
  faults.length === 0 ? Result.succeed(value) : Result.fail(new ConfigFaults({ faults }))

export type Settings = ReturnType<typeof parseSettings>

const parseSettings = (sections: Sections) => {
  const allowPlaintext = parseAllowPlaintext(sections.allowPlaintext)
  const accounts = parseAccounts(sections.accounts, allowPlaintext)
  const known = parseLists(sections.lists)
  const integrations = parseIntegrations(known, sections.integrations, Object.keys(accounts))
  const redactKey = sections.redactKey.secret()?.initial ?? null
  const telemetry = parseTelemetry(sections.log, allowPlaintext)
  return {
    accounts,
    integrations,
    /** The models that this process knows. */
    known,
    models: parseModelSettings(known, sections.models, sections.redactKey),
    /** Key of the hashes that replace redacted values. */
    redactKey,
    /** Keys that encrypt content in the store, the newest first. If there are none, content is not encrypted. */
    encryptionKeys: parseEncryptionKeys(sections.encryptionKey),
    confirmInterval: sections.confirmInterval.duration() ?? Duration.minutes(10),
    minOverlap: sections.overlapMin.duration() ?? Duration.minutes(5),
    retryBase: sections.retryBase.duration() ?? Duration.seconds(1),
    /** The limits above which changes wait for a decision of an operator. */
    guard: parseGuard(sections.guard),
    store: parseStore(sections.store, allowPlaintext),
    /** How long events, their places in the sink, quarantined rows and steps of the delivery journal are kept. */
    retention: sections.retention.duration() ?? Duration.days(7),
    http: parseHttp(sections.http, allowPlaintext),
    kafka: parseKafka(sections.kafka, allowPlaintext),
    /** Settings of the log lines that the process prints, not of the event log. */
    log: parseLog(sections.log),
    proxies: parseProxies(sections.log),
    /** Export of traces and metrics; null: none. */
    telemetry: telemetry.settings,
    /** Mistakes because of which something is not exported. */
    telemetryFaults: telemetry.faults,
    plugins: parsePlugins(known, sections.plugins)
  }
}

/** The settings that `rollcall start` needs. Pure. */
export const check = (input: RawConfig): Result.Result<Settings, ConfigFaults> =>
  toResult(evaluate(input, parseSettings))

/** The address of the operating API, for commands such as `status` and `tail` that call the running process. Pure. */
export const checkHttpClient = (input: RawConfig): Result.Result<ReturnType<typeof parseHttpClient>, ConfigFaults> =>
  toResult(evaluate(input, ({ allowPlaintext, http }) => parseHttpClient(http, parseAllowPlaintext(allowPlaintext))))

/** The settings of Kafka; null without brokers. Pure. */
export const checkKafka = (input: RawConfig): Result.Result<ReturnType<typeof parseKafka>, ConfigFaults> =>
  toResult(evaluate(input, ({ allowPlaintext, kafka }) => parseKafka(kafka, parseAllowPlaintext(allowPlaintext))))

/** The models of the configuration, for commands that read records of the running process. Pure. */
export const checkModels = (input: RawConfig): Result.Result<Models, ConfigFaults> =>
  toResult(evaluate(input, ({ lists }) => parseLists(lists)))

/** The proxies for requests to other servers. Pure. */
export const checkProxies = (input: RawConfig): Result.Result<ReturnType<typeof parseProxies>, ConfigFaults> =>
  toResult(evaluate(input, ({ log }) => parseProxies(log)))

/** The log settings. Faults are ignored here because `check` reports them, and the logger must exist to print them. */
export const parseLogSettings = (input: RawConfig): LogSettings => evaluate(input, ({ log }) => parseLog(log)).value

/**
 * Checks the body of a request to add an integration at run time. The body has the same properties as an integration in the file. They
 * take precedence over the environment, because the request concerns only this integration. Pure.
 */
export const checkIntegration = (
  input: RawConfig,
  known: Models,
  accounts: ReadonlyArray<string>,
  body: unknown
): Result.Result<Integration, ConfigFaults> => {
  const faults: Array<Fault> = []
  const root = ConfigValue.root({ ...input, file: { name: "body", value: body } }, (fault) => faults.push(fault))
  return toResult({ value: parseIntegrationBody(known, root, accounts), faults })
}

// ---- plugins ------------------------------------------------------------------------------------------------------

/** A plugin in a declared integration in which the plugin is enabled. */
export interface PluginUse {
  readonly plugin: string
  readonly integration: string
  /** The missing or invalid variable or value of the plugin; null if the plugin's configuration is complete. */
  readonly fault: Fault | null
}

const faultOf = ({ integration, message, plugin }: IncompleteConfiguration): Fault => ({
  where: `plugin ${plugin} in ${integration}`,
  message,
  hint:
    "Set each named variable, or the same name with _FILE after it to the path of a file, or add the value to `values` in the " +
    "plugin's `with({ … })`"
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

/** Fails if the configuration of a plugin is incomplete in an integration in which the plugin is enabled. */
export const checkPlugins = (settings: Pick<Settings, "integrations" | "plugins">): Effect.Effect<void, ConfigFaults> =>
  Effect.flatMap(findPluginUses(settings), (uses) => {
    const faults = uses.flatMap(({ fault }) => fault === null ? [] : [fault])
    return faults.length === 0 ? Effect.void : Effect.fail(new ConfigFaults({ faults }))
  })

/** Whether the service reads this list by the same definition. */
const isDefined = (known: Models, list: AnyList): boolean => {
  const entry = known.entryOf(list.model)
  return entry !== undefined && JSON.stringify(identityOf(entry)) === JSON.stringify(identityOf(entryOf(list)))
}

const parsePlugins = (known: Models, list: ConfigValue): ReadonlyArray<Plugin<unknown>> => {
  const names = new Set<string>()
  return list.items().flatMap((item) => {
    const plugin = item.value
    if (!isPlugin(plugin)) {
      item.fault(
        "is not a plugin",
        typeof plugin === "object" && plugin !== null && "default" in plugin && isPlugin(plugin.default)
          ? "It is a module: import its default export, without `* as`"
          : "List the result of `Plugin.make(…)`; if it is a function that makes a plugin, call it"
      )
      return []
    }
    const { issues, handlers, lists, name } = plugin
    for (const unknown of lists.filter((one) => !isDefined(known, one))) {
      item.fault(
        `"${name}" handles events of "${unknown.model}", and \`lists\` does not have this definition`,
        "Add the result of `defineList(…)` that the plugin uses to `lists`"
      )
    }
    for (const { hint, message } of issues) item.fault(message, hint)
    if (names.has(name)) item.fault(`"${name}" is listed twice`, "Rename or remove one of the two plugins")
    if (handlers.length === 0) {
      item.fault(
        `"${name}" has no handler`,
        "Add a handler with `.on`, `.batch` or `.every`, and export the plugin that they return"
      )
    }
    names.add(name)
    return [plugin]
  })
}

// ---- the guard ----------------------------------------------------------------------------------------------------

const parseGuard = (section: ConfigValue): Guard.Thresholds => {
  const own = section.fields({
    window: null,
    count: null,
    share: null,
    smallCount: null,
    smallShare: null,
    scopeCount: null,
    scopeShare: null
  })
  const defaults = Guard.defaultThresholds
  const count = (name: "count" | "smallCount" | "scopeCount") =>
    own[name].number(1, Number.MAX_SAFE_INTEGER) ?? defaults[name]
  const share = (name: "share" | "smallShare" | "scopeShare") => own[name].number(0, 1) ?? defaults[name]
  return {
    window: own.window.duration() ?? defaults.window,
    count: count("count"),
    share: share("share"),
    smallCount: count("smallCount"),
    smallShare: share("smallShare"),
    scopeCount: count("scopeCount"),
    scopeShare: share("scopeShare")
  }
}
