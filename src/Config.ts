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
 * - `ROLLCALL_API_KEY` alone does not add an account `default` to those of the file: the file may have given it to one.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { cursorParameter, isCursorParameter } from "./api/Lists.ts"
import { ConfigFaults, type Fault, type Input } from "./ConfigInput.ts"
import { storeOf, type StorePlace } from "./ConfigStore.ts"
import { missing, nearest, type Place, type Places, placesOf } from "./ConfigValue.ts"
import * as Guard from "./domain/Guard.ts"
import { derivedRegistry, isDerived, type Model, streamModels, withDerived } from "./domain/Model.ts"
import type { Redaction, RemoteData } from "./domain/Processing.ts"
import { configurationOf, isOn, type Unconfigured } from "./plugin/Configured.ts"
import { isPlugin, type Plugin } from "./plugin/Plugin.ts"

export interface Account {
  /** Ends in `/v1`. */
  readonly url: string
  /** As it is now: a key that is exchanged while we run counts at once. */
  readonly key: Effect.Effect<Redacted.Redacted>
  /** Query name of the cursor of lists. */
  readonly cursorParameter: string
}

export interface Integration {
  /** `<tool>:<identifier>` */
  readonly id: string
  readonly account: string
  /** `auto`: all that the integration's tool is not known to lack. */
  readonly models: "auto" | ReadonlyArray<Model>
  readonly interval: Duration.Duration
  readonly sweepInterval: Duration.Duration
  /** Whether old records are published, or only taken in. */
  readonly backfill: "publish" | "fill"
}

/** What is done to the records of one model before they are stored. */
export interface Treatment {
  readonly remoteData: RemoteData
  /** JSON Pointer → what is done there. */
  readonly redact: Readonly<Record<string, Redaction>>
}

export interface Http {
  readonly host: string
  readonly port: number
  /** Demanded from every caller when present. */
  readonly token: Redacted.Redacted | null
}

export const saslMechanisms = ["plain", "scram-sha-256", "scram-sha-512"] as const

export interface Kafka {
  /** `host:port` */
  readonly brokers: ReadonlyArray<string>
  readonly ssl: boolean
  readonly sasl: {
    readonly mechanism: (typeof saslMechanisms)[number]
    readonly username: string
    readonly password: Redacted.Redacted
  } | null
  /** Template with `{model}` and `{integration}`. */
  readonly topic: string
  /** Whether the latest content of each record also goes to a compacted topic. */
  readonly state: boolean
  readonly transactions: boolean
}

export const logLevels = ["trace", "debug", "info", "warn", "error"] as const
export type LogFormat = "pretty" | "json"

export interface Log {
  readonly level: (typeof logLevels)[number]
  /** null: pretty on a terminal, JSON elsewhere. */
  readonly format: LogFormat | null
}

export interface Settings {
  readonly accounts: Readonly<Record<string, Account>>
  readonly integrations: ReadonlyArray<Integration>
  readonly models: { readonly [model in Model]?: Treatment }
  /** Key of the hashes that redaction makes. */
  readonly redactKey: Redacted.Redacted | null
  readonly confirmInterval: Duration.Duration
  readonly overlapMin: Duration.Duration
  readonly retryBase: Duration.Duration
  /** What is held until someone decides. */
  readonly guard: Guard.Thresholds
  readonly store: StorePlace
  /** How long the event log is kept. */
  readonly retention: Duration.Duration
  readonly http: Http
  readonly kafka: Kafka | null
  readonly log: Log
  readonly plugins: ReadonlyArray<Plugin<unknown>>
}

// ---- the whole ----------------------------------------------------------------------------------------------------

/** All that was found; of the file its properties. */
type Found = Places & { readonly file: ReturnType<typeof propertiesOf> }

const propertiesOf = (root: Place) =>
  root.fields(
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
  )

/** Of a file that could not be loaded it is unknown what it says: nothing is called missing then. */
const evaluate = <A>(input: Input, build: (found: Found) => A) => {
  const faults: Array<Fault> = [...input.faults]
  const places = placesOf(input, (fault) => {
    if (fault.message !== missing || input.faults.length === 0) faults.push(fault)
  })
  return { value: build({ ...places, file: propertiesOf(places.root) }), faults }
}

const checked = <A>(input: Input, build: (found: Found) => A): Result.Result<A, ConfigFaults> => {
  const { faults, value } = evaluate(input, build)
  return faults.length === 0 ? Result.succeed(value) : Result.fail(new ConfigFaults({ faults }))
}

const settingsOf = (found: Found): Settings => {
  const { file, variable } = found
  const length = (place: Place, otherwise: Duration.Input) => place.length() ?? Duration.fromInputUnsafe(otherwise)
  const accounts = accountsOf(found)
  return {
    accounts,
    integrations: integrationsOf(found, Object.keys(accounts)),
    ...treatmentOf(found),
    confirmInterval: length(variable("ROLLCALL_CONFIRM_INTERVAL").or(file.confirmInterval), "10 minutes"),
    overlapMin: length(variable("ROLLCALL_OVERLAP_MIN").or(file.overlapMin), "5 minutes"),
    retryBase: length(variable("ROLLCALL_RETRY_BASE").or(file.retryBase), "1 second"),
    guard: guardOf(file.guard),
    store: storeOf(found, file.store),
    retention: length(file.retention, "7 days"),
    http: httpOf(found),
    kafka: kafkaOf(found),
    log: logOf(found),
    plugins: pluginsOf(file.plugins)
  }
}

/** Everything `start` needs. Pure. */
export const check = (input: Input): Result.Result<Settings, ConfigFaults> => checked(input, settingsOf)

/** A plugin in an integration that is declared and where it is on. */
export interface PluginUse {
  readonly plugin: string
  readonly integration: string
  /** What it needs to be told, and is not. */
  readonly fault: Fault | null
}

const faultOf = ({ integration, message, plugin }: Unconfigured): Fault => ({
  where: `plugin ${plugin} in ${integration}`,
  message: message.replace(/^SchemaError\(([\s\S]*)\)$/, "$1").replace(/\s+/g, " "),
  hint: "Set the variable of that name, or give it in `values` of the plugin's `with({ … })`"
})

/** Where the plugins are used, and whether each finds there what it needs to be told. */
export const pluginUses = (
  { integrations, plugins }: Pick<Settings, "integrations" | "plugins">
): Effect.Effect<ReadonlyArray<PluginUse>> =>
  Effect.forEach(
    plugins.flatMap((plugin) => integrations.filter(({ id }) => isOn(plugin, id)).map(({ id }) => ({ id, plugin }))),
    ({ id, plugin }) =>
      Effect.map(Effect.result(configurationOf(plugin, id)), (found): PluginUse => ({
        plugin: plugin.name,
        integration: id,
        fault: Result.isFailure(found) ? faultOf(found.failure) : null
      }))
  )

/** Whether the plugins find what they need to be told, wherever they are used. */
export const checkPlugins = (settings: Pick<Settings, "integrations" | "plugins">): Effect.Effect<void, ConfigFaults> =>
  Effect.flatMap(pluginUses(settings), (uses) => {
    const faults = uses.flatMap(({ fault }) => fault === null ? [] : [fault])
    return faults.length === 0 ? Effect.void : Effect.fail(new ConfigFaults({ faults }))
  })

/** What `status` and `tail` need: where the operating API of the running process is. Pure. */
export const checkHttp = (input: Input): Result.Result<Http, ConfigFaults> => checked(input, httpOf)

/** The log settings, faults ignored: they are reported by `check`, and faults must be printable before that. */
export const logSettings = (input: Input): Log => evaluate(input, logOf).value

// ---- plugins ------------------------------------------------------------------------------------------------------

const pluginsOf = (place: Place): Settings["plugins"] => {
  const names = new Set<string>()
  return place.items().flatMap((item) => {
    const plugin = item.value
    if (!isPlugin(plugin)) {
      item.fault("is no plugin", "Name what `Plugin.make(…)` gives; a function that makes one is to be called")
      return []
    }
    const { handlers, name } = plugin
    if (names.has(name)) item.fault(`"${name}" is there twice`, "Give one of them another name, or leave one out")
    if (handlers.length === 0) item.fault(`"${name}" handles nothing`, "Give it a handler: `.on`, `.batch` or `.every`")
    names.add(name)
    return [plugin]
  })
}

// ---- accounts -----------------------------------------------------------------------------------------------------

const urlOf = (place: Place): string => {
  const hint = "Set it to the API's base address, which ends in /v1, such as https://api.example.com/v1"
  if (!place.isSet) place.fault(missing, hint)
  const text = place.text()
  if (text === undefined) return ""
  const parsed = URL.parse(text)
  if (parsed === null || (parsed.protocol !== "http:" && parsed.protocol !== "https:")) {
    place.fault("is no http or https address", hint)
  } else if (parsed.username !== "" || parsed.password !== "" || parsed.search !== "" || parsed.hash !== "") {
    place.fault("holds more than an address (a login, `?` or `#`)", hint)
  } else if (!/\/v1\/?$/.test(parsed.pathname)) {
    place.fault("does not end in /v1", hint)
  }
  return text.replace(/\/$/, "")
}

const cursorParameterOf = (place: Place): string => {
  const name = place.text() ?? cursorParameter
  if (!isCursorParameter(name)) {
    place.fault(
      `"${name}" cannot be the name of the cursor`,
      "Use letters and digits, and no other parameter of the lists"
    )
  }
  return name
}

const accountsOf = ({ file, secretAt, variable }: Found): Settings["accounts"] => {
  const account = (url: Place, key: Place, cursor: Place): Account => {
    const address = urlOf(url)
    if (!key.isSet) key.fault(missing, "Set it to the API key of the account that the address belongs to")
    return {
      url: address,
      key: secretAt(key)?.current ?? Effect.succeed(Redacted.make("")),
      cursorParameter: cursorParameterOf(cursor)
    }
  }
  const url = variable("ROLLCALL_API_URL")
  const key = variable("ROLLCALL_API_KEY")
  const cursor = variable("ROLLCALL_CURSOR_PARAMETER")
  const declared = file.accounts.entries().map(([name, place]) => {
    const own = place.fields("url", "key", "cursorParameter")
    const found = name === "default"
      ? account(url.or(own.url), key.or(own.key), cursor.or(own.cursorParameter))
      : account(own.url, own.key, own.cursorParameter)
    return [name, found] as const
  })
  const fromEnvironment = declared.length === 0 || (url.isSet && declared.every(([name]) => name !== "default"))
  return Object.fromEntries(fromEnvironment ? [["default", account(url, key, cursor)], ...declared] : declared)
}

// ---- what is read -------------------------------------------------------------------------------------------------

const known = withDerived(streamModels)

/** undefined, and a fault, if there is no such model. */
const modelOf = (place: Place, name: string): Model | undefined => {
  const model = known.find((model) => model === name)
  if (model === undefined) {
    place.fault(`"${name}" is no model`, `Did you mean "${nearest(name, known)}"? The models are ${known.join(", ")}`)
  }
  return model
}

const modelsOf = (place: Place): Integration["models"] | undefined => {
  const isAuto = place.value === "auto" || (Array.isArray(place.value) && place.value.join() === "auto")
  if (!place.isSet || isAuto) return isAuto ? "auto" : undefined
  const names = new Set(place.items().map((item) => modelOf(item, item.text() ?? "")))
  if (names.size === 0) place.fault("names no model", "Leave it out, or write auto, to read all there are")
  for (const model of names) {
    if (model === undefined || !isDerived(model)) continue
    const { from } = derivedRegistry[model]
    if (!names.has(from)) place.fault(`"${model}" is found in "${from}", which is not named`, `Add ${from}`)
  }
  return known.filter((model) => names.has(model))
}

/** The only account, or `default`, unless told otherwise. */
const accountOf = (id: Place, place: Place | undefined, accounts: ReadonlyArray<string>): string => {
  const [only = "default", ...others] = accounts
  const name = place?.text() ?? (others.length === 0 ? only : "default")
  if (accounts.includes(name)) return name
  if (place?.isSet === true) place.fault(`"${name}" is no account`, `The accounts are ${accounts.join(", ")}`)
  else id.fault("belongs to no account", `Its \`account\` is to be one of ${accounts.join(", ")}`)
  return name
}

const fieldsOf = (place: Place) => place.fields("id", "account", "models", "interval", "sweepInterval", "backfill")

/** What the environment says of all integrations. */
const usualOf = ({ list, variable }: Places) => ({
  models: modelsOf(list("ROLLCALL_MODELS")),
  interval: variable("ROLLCALL_INTERVAL").length(),
  sweepInterval: variable("ROLLCALL_SWEEP_INTERVAL").length()
})

/** Which counts where both are there: what is usual, or what an integration says itself. */
type Choice = <A>(usual: A | undefined, own: () => A | undefined) => A | undefined

/** It travels in a header, so it is visible ASCII; and in a path, so it has no slash and an end. */
const integrationId = /^(?=[!-~]{3,255}$)[^:/]+:[^/]+$/
const idHint = "An id is <tool>:<identifier> in plain ASCII, such as greenhouse:acme"

const integrationOf = (
  id: Place,
  own: ReturnType<typeof fieldsOf> | undefined,
  accounts: ReadonlyArray<string>,
  usual: ReturnType<typeof usualOf>,
  choose: Choice
): Integration => {
  const text = id.text() ?? ""
  if (!id.isSet) id.fault(missing, idHint)
  else if (!integrationId.test(text)) {
    id.fault(`"${text}" is no integration id`, idHint)
  }
  return {
    id: text,
    account: accountOf(id, own?.account, accounts),
    models: choose(usual.models, () => own && modelsOf(own.models)) ?? "auto",
    interval: choose(usual.interval, () => own?.interval.length()) ?? Duration.minutes(1),
    sweepInterval: choose(usual.sweepInterval, () => own?.sweepInterval.length()) ?? Duration.hours(6),
    backfill: own?.backfill.oneOf("publish", "fill") ?? "publish"
  }
}

const integrationsOf = (found: Found, accounts: ReadonlyArray<string>): Settings["integrations"] => {
  const usual = usualOf(found)
  const declared = found.file.integrations.items().map(fieldsOf)
  const chosen = found.list("ROLLCALL_INTEGRATIONS")
  const ids = chosen.isSet ? chosen.items() : declared.map(({ id }) => id)
  const met = new Set<string>()
  return ids.map((place) => {
    const own = declared.find((entry) => entry.id.value === place.value)
    const integration = integrationOf(place, own, accounts, usual, (usual, own) => usual ?? own())
    if (integration.id !== "" && met.has(integration.id)) {
      place.fault(`"${integration.id}" stands there more than once`, "Leave one of them")
    }
    met.add(integration.id)
    return integration
  })
}

/**
 * An integration that is to be added at run time: written like those of the file. What it says itself counts before the
 * environment, for who asks means this one. Pure.
 */
export const checkIntegration = (
  input: Input,
  accounts: ReadonlyArray<string>,
  body: unknown
): Result.Result<Integration, ConfigFaults> => {
  const faults: Array<Fault> = []
  const places = placesOf({ ...input, file: { name: "body", value: body } }, (fault) => faults.push(fault))
  const own = fieldsOf(places.root)
  const integration = integrationOf(own.id, own, accounts, usualOf(places), (usual, own) => own() ?? usual)
  return faults.length === 0 ? Result.succeed(integration) : Result.fail(new ConfigFaults({ faults }))
}

const treatmentOf = ({ file, secretAt, variable }: Found): Pick<Settings, "models" | "redactKey"> => {
  const key = variable("ROLLCALL_REDACT_KEY").or(file.redactKey)
  const redactKey = secretAt(key)?.initial ?? null
  const models: { [model in Model]?: Treatment } = {}
  for (const [name, place] of file.models.entries()) {
    const model = modelOf(place, name)
    const own = place.fields("remoteData", "redact")
    const redact: Record<string, Redaction> = {}
    for (const [pointer, how] of own.redact.entries()) {
      if (!pointer.startsWith("/")) how.fault("is no JSON Pointer", "Write a path such as /candidate/first_name")
      if (pointer === "/id") how.fault("would leave records without their id", "Leave it out")
      const redaction = how.oneOf("drop", "hash")
      if (redaction === "hash" && !key.isSet) {
        how.fault("needs a key", "Set ROLLCALL_REDACT_KEY to a long random text, and keep it")
      }
      if (redaction !== undefined) redact[pointer] = redaction
    }
    const remoteData = own.remoteData.oneOf("drop", "carry", "track") ?? "drop"
    if (model !== undefined) models[model] = { remoteData, redact }
  }
  return { models, redactKey }
}

const guardOf = (place: Place): Guard.Thresholds => {
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
  const records = (place: Place, otherwise: number) => place.number(1, Number.MAX_SAFE_INTEGER) ?? otherwise
  const part = (place: Place, otherwise: number) => place.number(0, 1) ?? otherwise
  return {
    window: window.length() ?? usual.window,
    count: records(count, usual.count),
    share: part(share, usual.share),
    smallCount: records(smallCount, usual.smallCount),
    smallShare: part(smallShare, usual.smallShare),
    scopeCount: records(scopeCount, usual.scopeCount),
    scopeShare: part(scopeShare, usual.scopeShare)
  }
}

// ---- where it goes ------------------------------------------------------------------------------------------------

/** Whether only this machine can reach an address. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127(\.\d+){3}$/.test(host)

const httpOf = ({ file, secretAt, variable }: Found): Http => {
  const own = file.http.fields("host", "port", "token")
  const host = variable("ROLLCALL_HTTP_HOST").or(own.host).text() ?? "127.0.0.1"
  const portPlace = variable("ROLLCALL_HTTP_PORT").or(own.port)
  const port = String(portPlace.value ?? 8477)
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535) {
    portPlace.fault(`"${port}" is no port`, "Use a number from 1 to 65535, or 0 for any free one")
  }
  const tokenPlace = variable("ROLLCALL_HTTP_TOKEN").or(own.token)
  const token = secretAt(tokenPlace)?.initial ?? null
  if (!isLoopback(host) && !tokenPlace.isSet) {
    variable("ROLLCALL_HTTP_TOKEN").fault(
      `is not set, and the operating API binds to ${host}, which others can reach`,
      "Set a long random token, or bind to 127.0.0.1"
    )
  }
  return { host, port: Number(port), token }
}

const saslOf = (mechanism: Place, username: Place, password: Place, secretAt: Found["secretAt"]): Kafka["sasl"] => {
  const parts = [mechanism, username, password]
  if (parts.every((part) => !part.isSet)) return null
  for (const part of parts.filter((part) => !part.isSet)) {
    part.fault(missing, "Mechanism, user name and password are set together or not at all")
  }
  return {
    mechanism: mechanism.oneOf(...saslMechanisms) ?? "plain",
    username: username.text() ?? "",
    password: secretAt(password)?.initial ?? Redacted.make("")
  }
}

const kafkaOf = ({ file, list, secretAt, variable }: Found): Kafka | null => {
  const own = file.kafka.fields("brokers", "ssl", "sasl", "topic", "state", "transactions")
  const login = own.sasl.fields("mechanism", "username", "password")
  const brokersPlace = list("KAFKA_BROKERS").or(own.brokers)
  const brokers = brokersPlace.items().map((place) => {
    const broker = place.text() ?? ""
    if (!/^[^\s:/]+:\d{1,5}$|^\[[0-9a-fA-F:]+\]:\d{1,5}$/.test(broker)) {
      place.fault(`"${broker}" is no broker`, "Write host:port, several with commas between")
    }
    return broker
  })
  const ssl = variable("KAFKA_SSL").or(own.ssl).flag() ?? false
  const sasl = saslOf(
    variable("KAFKA_SASL_MECHANISM").or(login.mechanism),
    variable("KAFKA_SASL_USERNAME").or(login.username),
    variable("KAFKA_SASL_PASSWORD").or(login.password),
    secretAt
  )
  const topicPlace = variable("ROLLCALL_TOPIC").or(own.topic)
  const topic = topicPlace.text() ?? "rollcall.{model}"
  if (!/^[A-Za-z0-9._-]+$/.test(topic.replaceAll("{model}", "m").replaceAll("{integration}", "i"))) {
    topicPlace.fault(
      `"${topic}" is no topic template`,
      "Use letters, digits, `.`, `_`, `-` and the places {model} and {integration}"
    )
  }
  const state = own.state.flag() ?? false
  const transactions = variable("ROLLCALL_KAFKA_TRANSACTIONS").or(own.transactions).flag("on", "off") ?? true
  if (file.kafka.isSet && brokers.length === 0) {
    own.brokers.fault("names no broker", "Write host:port of one or more, set KAFKA_BROKERS, or leave kafka out")
  }
  return brokers.length === 0 ? null : { brokers, ssl, sasl, topic, state, transactions }
}

const logOf = ({ file, variable }: Found): Log => {
  const own = file.log.fields("level", "format")
  return {
    level: variable("ROLLCALL_LOG_LEVEL").or(own.level).oneOf(...logLevels) ?? "info",
    format: variable("ROLLCALL_LOG_FORMAT").or(own.format).oneOf("pretty", "json") ?? null
  }
}
