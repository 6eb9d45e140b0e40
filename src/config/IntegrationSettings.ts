/**
 * The settings of accounts and integrations, and how the records of each model are processed.
 *
 * Gotchas
 * - `ROLLCALL_API_KEY` alone does not add an account `default` to the accounts of the file: one of these accounts may use that variable
 *   as its key.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { cursorParameter, isCursorParameter, pageSizeLimits } from "../api/Lists.ts"
import { closestName } from "../domain/ClosestName.ts"
import type { Model, Models } from "../domain/Model.ts"
import type { RemoteData } from "../domain/Processing.ts"
import { display } from "../domain/Quote.ts"
import type { Redaction } from "../domain/Redaction.ts"
import { defaultConcurrency } from "../domain/RequestShare.ts"
import { whyRequired } from "../domain/RequiredPaths.ts"
import { type ConfigValue, notSet } from "./ConfigValue.ts"
import { isLoopback, orAllowPlaintext, type PlaintextConnection } from "./Plaintext.ts"
import { parseAccountProxy } from "./ProxySettings.ts"

// ---- accounts -----------------------------------------------------------------------------------------------------

/** The base URL of the API, without a slash at its end. */
const parseUrl = (value: ConfigValue, allowPlaintext: ReadonlySet<PlaintextConnection>): string => {
  const hint = "Set it to the base URL of the API, which ends in /v1, such as https://api.example.com/v1"
  if (!value.isSet) value.fault(notSet, hint)
  const text = value.text()
  if (text === undefined) return ""
  const parsed = URL.parse(text)
  if (parsed === null || (parsed.protocol !== "http:" && parsed.protocol !== "https:")) {
    value.fault("is not an http or https URL", hint)
  } else if (parsed.username !== "" || parsed.password !== "" || /[?#]/.test(text)) {
    value.fault("contains a user name, a password, `?` or `#`", hint)
  } else if (!/\/v1\/?$/.test(parsed.pathname)) {
    value.fault("does not end in /v1", hint)
  } else if (parsed.protocol === "http:" && !isLoopback(parsed.hostname) && !allowPlaintext.has("api")) {
    value.fault(
      "is http, which would send the API key and every record unencrypted to another machine",
      `Write https://; ${orAllowPlaintext("api")}`
    )
  }
  return text.replace(/\/$/, "")
}

/** The name of the query parameter that carries the cursor of lists. */
const parseCursorParameter = (value: ConfigValue): string => {
  const name = value.text() ?? cursorParameter
  if (!isCursorParameter(name)) {
    value.fault(
      `"${name}" cannot be the name of the cursor parameter`,
      "Use letters and digits, and not the name of another list parameter"
    )
  }
  return name
}

/** An answer that takes longer is lost with the first change of the network. */
const longestRequestTimeout = Duration.minutes(10)

/** The settings of requests, which an integration may have in place of those of its account; undefined if they are not set. */
const parseRequestSettings = (pageSize: ConfigValue, requestTimeout: ConfigValue) => {
  const timeout = requestTimeout.duration()
  if (
    timeout !== undefined && (Duration.toSeconds(timeout) < 1 || Duration.isGreaterThan(timeout, longestRequestTimeout))
  ) {
    requestTimeout.fault(`${Duration.format(timeout)} is out of range`, "Write a duration from 1 second to 10 minutes")
  }
  return { pageSize: pageSize.count(pageSizeLimits.min, pageSizeLimits.max), requestTimeout: timeout }
}

/** More requests at once are a mistake: they would only wait for the rate limit of the API. */
const maxConcurrency = 1000

export type Account = ReturnType<typeof parseAccount>

const parseAccount = (
  entry: ConfigValue,
  isDefault: boolean,
  allowPlaintext: ReadonlySet<PlaintextConnection>
) => {
  const own = entry.fields({
    url: isDefault ? "ROLLCALL_API_URL" : null,
    key: isDefault ? "ROLLCALL_API_KEY" : null,
    cursorParameter: isDefault ? "ROLLCALL_CURSOR_PARAMETER" : null,
    pageSize: isDefault ? "ROLLCALL_PAGE_SIZE" : null,
    requestTimeout: isDefault ? "ROLLCALL_REQUEST_TIMEOUT" : null,
    concurrency: null,
    proxy: isDefault ? "ROLLCALL_API_PROXY" : null
  })
  const url = parseUrl(own.url, allowPlaintext)
  if (!own.key.isSet) own.key.fault(notSet, "Set it to the API key of the account that the URL belongs to")
  return {
    url,
    /** Reads the current key, so that a key that is rotated at run time takes effect at once. */
    key: own.key.secret()?.current ?? Effect.succeed(Redacted.make("")),
    cursorParameter: parseCursorParameter(own.cursorParameter),
    ...parseRequestSettings(own.pageSize, own.requestTimeout),
    concurrency: own.concurrency.count(1, maxConcurrency) ?? defaultConcurrency,
    proxies: parseAccountProxy(own.proxy)
  }
}

export const parseAccounts = (
  accounts: ConfigValue,
  allowPlaintext: ReadonlySet<PlaintextConnection>
): Readonly<Record<string, Account>> => {
  const declared = accounts.entries().map(([name, entry]) =>
    [name, parseAccount(entry, name === "default", allowPlaintext)] as const
  )
  const isFromEnvironment = declared.length === 0 ||
    (accounts.variable("ROLLCALL_API_URL").isSet && declared.every(([name]) => name !== "default"))
  if (!isFromEnvironment) return Object.fromEntries(declared)
  return Object.fromEntries([["default", parseAccount(accounts.unset("default"), true, allowPlaintext)], ...declared])
}

// ---- integrations -------------------------------------------------------------------------------------------------

/** Maximum length of a list of models. A longer list is a mistake, or an attempt to keep the process busy. */
const maxModels = 100

/** Reports a fault and returns undefined if the model does not exist. */
const parseModel = ({ names: known }: Models, value: ConfigValue, name: string): Model | undefined => {
  const model = known.find((model) => model === name)
  if (model === undefined) {
    value.fault(
      `"${name}" is not a model`,
      `Did you mean "${closestName(name, known)}"? The models are ${known.join(", ")}`
    )
  }
  return model
}

/** Undefined if none are set; `auto`: every model that the integration's tool may support. */
const parseModelNames = (models: Models, list: ConfigValue): "auto" | ReadonlyArray<Model> | undefined => {
  const isAuto = list.value === "auto" || (Array.isArray(list.value) && list.value.join() === "auto")
  if (!list.isSet || isAuto) return isAuto ? "auto" : undefined
  const items = list.items()
  if (items.length > maxModels) {
    list.fault(`names ${items.length} models`, `There are only ${models.names.length}: ${models.names.join(", ")}`)
    return undefined
  }
  const names = new Set(items.map((item) => parseModel(models, item, item.text() ?? "")))
  if (names.size === 0) list.fault("does not name a model", "To read every model, leave it out or write auto")
  for (const model of names) {
    const from = model === undefined ? undefined : models.derivedOf(model)?.from
    if (from !== undefined && !names.has(from)) {
      list.fault(`names "${model}", which is derived from "${from}", but not "${from}"`, `Add ${from}`)
    }
  }
  return models.names.filter((model) => names.has(model))
}

/** The account of an integration: the one that it names, or else the only account, or else `default`. */
const parseAccountName = (id: ConfigValue, value: ConfigValue | undefined, accounts: ReadonlyArray<string>): string => {
  const [only = "default", ...others] = accounts
  const name = value?.text() ?? (others.length === 0 ? only : "default")
  if (accounts.includes(name)) return name
  if (value?.isSet === true) {
    value.fault(`"${name}" is not an account`, `The accounts are ${accounts.map(display).join(", ")}`)
  } else id.fault("has no account", `Set its \`account\` to one of ${accounts.map(display).join(", ")}`)
  return name
}

const addedFields = {
  id: null,
  account: null,
  models: null,
  interval: null,
  sweepInterval: null,
  backfill: null
} as const
/** An integration in the file may also have settings of its requests. They are not stored, so one that is added at run time has none. */
const declaredFields = { ...addedFields, pageSize: null, requestTimeout: null } as const
type IntegrationFields = { readonly [name in keyof typeof addedFields]: ConfigValue }

/** The settings in the environment, which apply to all integrations. */
const parseEnvironmentDefaults = (models: Models, section: ConfigValue) => ({
  models: parseModelNames(models, section.variable("ROLLCALL_MODELS")),
  interval: section.variable("ROLLCALL_INTERVAL").duration(),
  sweepInterval: section.variable("ROLLCALL_SWEEP_INTERVAL").duration()
})

/** Decides between the setting of the environment and the integration's own setting if both are present. */
type Precedence = <A>(environment: A | undefined, own: () => A | undefined) => A | undefined

/** The id is sent in a header, so it is visible ASCII, and it is part of URL paths, so it has no slash and a length limit. */
const integrationId = /^(?=[!-~]{3,255}$)[^:/]+:[^/]+$/
const idHint = "An id is <tool>:<identifier> in plain ASCII, such as greenhouse:acme, with at most 255 characters"

export type Integration = ReturnType<typeof parseIntegration>

const parseIntegration = (
  models: Models,
  id: ConfigValue,
  own: IntegrationFields | undefined,
  accounts: ReadonlyArray<string>,
  environment: ReturnType<typeof parseEnvironmentDefaults>,
  choose: Precedence
) => {
  const text = id.text() ?? ""
  if (!id.isSet) id.fault(notSet, idHint)
  else if (!integrationId.test(text)) {
    id.fault(`"${text}" is not an integration id`, idHint)
  }
  return {
    id: text,
    account: parseAccountName(id, own?.account, accounts),
    models: choose(environment.models, () => own && parseModelNames(models, own.models)) ?? "auto",
    interval: choose(environment.interval, () => own?.interval.duration()) ?? Duration.minutes(1),
    sweepInterval: choose(environment.sweepInterval, () => own?.sweepInterval.duration()) ?? Duration.hours(6),
    /** Whether the first sweep publishes existing records, or only stores them. */
    backfill: own?.backfill.oneOf("publish", "fill") ?? "publish"
  }
}

/** `accounts`: the names of the configured accounts. */
export const parseIntegrations = (
  models: Models,
  integrations: ConfigValue,
  accounts: ReadonlyArray<string>
): ReadonlyArray<Integration & Partial<ReturnType<typeof parseRequestSettings>>> => {
  const environment = parseEnvironmentDefaults(models, integrations)
  const declared = integrations.items().map((entry) => entry.fields(declaredFields))
  const chosen = integrations.variable("ROLLCALL_INTEGRATIONS")
  const ids = chosen.isSet ? chosen.items() : declared.map(({ id }) => id)
  const seenIds = new Set<string>()
  return ids.map((id) => {
    const own = declared.find((entry) => entry.id.value === id.value)
    const integration = parseIntegration(
      models,
      id,
      own,
      accounts,
      environment,
      (environment, own) => environment ?? own()
    )
    if (integration.id !== "" && seenIds.has(integration.id)) {
      id.fault(`"${integration.id}" is listed more than once`, "Keep only one of them")
    }
    seenIds.add(integration.id)
    return { ...integration, ...own && parseRequestSettings(own.pageSize, own.requestTimeout) }
  })
}

/** Parses one integration whose own settings take precedence over the environment. */
export const parseIntegrationBody = (
  models: Models,
  body: ConfigValue,
  accounts: ReadonlyArray<string>
): Integration => {
  const own = body.fields(addedFields)
  const environment = parseEnvironmentDefaults(models, body)
  return parseIntegration(models, own.id, own, accounts, environment, (environment, own) => own() ?? environment)
}

// ---- records ------------------------------------------------------------------------------------------------------

/** How the records of one model are changed before they are stored. */
export interface ModelSettings {
  readonly remoteData: RemoteData
  /** By JSON Pointer: how the value at that path is redacted. */
  readonly redact: Readonly<Record<string, Redaction>>
}

/** `redactKey`: the key of the hashes that replace redacted values. */
export const parseModelSettings = (
  known: Models,
  section: ConfigValue,
  redactKey: ConfigValue
): { readonly [model in Model]?: ModelSettings } => {
  const models: { [model in Model]?: ModelSettings } = {}
  for (const [name, entry] of section.entries()) {
    const model = parseModel(known, entry, name)
    const own = entry.fields({ remoteData: null, redact: null })
    const redact: Record<string, Redaction> = {}
    for (const [pointer, how] of own.redact.entries()) {
      if (!pointer.startsWith("/")) how.fault("is not a JSON Pointer", "Write a path such as /candidate/first_name")
      if (/\/\d+(\/|$)/.test(pointer)) {
        how.fault(
          "names a member of an array by its number",
          "Leave the number out: a pointer applies to all members of an array"
        )
      }
      const why = model === undefined ? undefined : whyRequired(known, model, pointer)
      if (why !== undefined) {
        how.fault(
          `must not be redacted, because ${why}`,
          "Remove this rule: ids and times of changes and deletes are not personal data by themselves"
        )
      }
      const redaction = how.oneOf("drop", "hash")
      if (redaction === "hash" && !redactKey.isSet) {
        how.fault("needs a key", "Set ROLLCALL_REDACT_KEY to a long random string, and never change it")
      }
      if (redaction !== undefined) redact[pointer] = redaction
    }
    const remoteData = own.remoteData.oneOf("drop", "carry", "track") ?? "drop"
    if (model !== undefined) models[model] = { remoteData, redact }
  }
  return models
}
