/**
 * The settings of accounts and integrations, and how the records of each model are processed. Hides how the settings of
 * an integration are merged from the file, the environment and the defaults.
 *
 * Gotchas
 * - `ROLLCALL_API_KEY` alone does not add an account `default` to the accounts of the file: one of them may use that
 *   variable as its key.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { cursorParameter, isCursorParameter } from "../api/Lists.ts"
import { closestName } from "../domain/ClosestName.ts"
import { derivedRegistry, isDerived, type Model, streamModels, withDerived } from "../domain/Model.ts"
import type { Redaction, RemoteData } from "../domain/Processing.ts"
import { type ConfigReader, type ConfigValue, notSet, type SectionReader } from "./ConfigValue.ts"

export interface Account {
  /** Ends in `/v1`. */
  readonly url: string
  /** Reads the current key, so a key that is rotated at run time takes effect at once. */
  readonly key: Effect.Effect<Redacted.Redacted>
  /** Name of the query parameter that carries the cursor of lists. */
  readonly cursorParameter: string
}

export interface Integration {
  /** `<tool>:<identifier>` */
  readonly id: string
  readonly account: string
  /** `auto`: every model that the integration's tool may support. */
  readonly models: "auto" | ReadonlyArray<Model>
  readonly interval: Duration.Duration
  readonly sweepInterval: Duration.Duration
  /** Whether the first sweep publishes existing records, or only stores them. */
  readonly backfill: "publish" | "fill"
}

/** How the records of one model are changed before they are stored. */
export interface ModelSettings {
  readonly remoteData: RemoteData
  /** JSON Pointer → how the value there is redacted. */
  readonly redact: Readonly<Record<string, Redaction>>
}

// ---- accounts -----------------------------------------------------------------------------------------------------

const parseUrl = (value: ConfigValue): string => {
  const hint = "Set it to the base URL of the API, which ends in /v1, such as https://api.example.com/v1"
  if (!value.isSet) value.fault(notSet, hint)
  const text = value.text()
  if (text === undefined) return ""
  const parsed = URL.parse(text)
  if (parsed === null || (parsed.protocol !== "http:" && parsed.protocol !== "https:")) {
    value.fault("is not an http or https URL", hint)
  } else if (parsed.username !== "" || parsed.password !== "" || parsed.search !== "" || parsed.hash !== "") {
    value.fault("contains a user name, a password, `?` or `#`", hint)
  } else if (!/\/v1\/?$/.test(parsed.pathname)) {
    value.fault("does not end in /v1", hint)
  }
  return text.replace(/\/$/, "")
}

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

export const parseAccounts = (
  { file, secretAt, variable }: SectionReader<"accounts">
): Readonly<Record<string, Account>> => {
  const account = (url: ConfigValue, key: ConfigValue, cursor: ConfigValue): Account => {
    const baseUrl = parseUrl(url)
    if (!key.isSet) key.fault(notSet, "Set it to the API key of the account that the URL belongs to")
    return {
      url: baseUrl,
      key: secretAt(key)?.current ?? Effect.succeed(Redacted.make("")),
      cursorParameter: parseCursorParameter(cursor)
    }
  }
  const url = variable("ROLLCALL_API_URL")
  const key = variable("ROLLCALL_API_KEY")
  const cursor = variable("ROLLCALL_CURSOR_PARAMETER")
  const declared = file.accounts.entries().map(([name, entry]) => {
    const own = entry.fields("url", "key", "cursorParameter")
    const parsed = name === "default"
      ? account(url.or(own.url), key.or(own.key), cursor.or(own.cursorParameter))
      : account(own.url, own.key, own.cursorParameter)
    return [name, parsed] as const
  })
  const fromEnvironment = declared.length === 0 || (url.isSet && declared.every(([name]) => name !== "default"))
  return Object.fromEntries(fromEnvironment ? [["default", account(url, key, cursor)], ...declared] : declared)
}

// ---- integrations -------------------------------------------------------------------------------------------------

const known = withDerived(streamModels)

/** Reports a fault and returns undefined if the model does not exist. */
const parseModel = (value: ConfigValue, name: string): Model | undefined => {
  const model = known.find((model) => model === name)
  if (model === undefined) {
    value.fault(
      `"${name}" is not a model`,
      `Did you mean "${closestName(name, known)}"? The models are ${known.join(", ")}`
    )
  }
  return model
}

const parseModelNames = (list: ConfigValue): Integration["models"] | undefined => {
  const isAuto = list.value === "auto" || (Array.isArray(list.value) && list.value.join() === "auto")
  if (!list.isSet || isAuto) return isAuto ? "auto" : undefined
  const names = new Set(list.items().map((item) => parseModel(item, item.text() ?? "")))
  if (names.size === 0) list.fault("names no model", "To read every model, leave it out or write auto")
  for (const model of names) {
    if (model === undefined || !isDerived(model)) continue
    const { from } = derivedRegistry[model]
    if (!names.has(from)) {
      list.fault(`names "${model}", which is derived from "${from}", but not "${from}"`, `Add ${from}`)
    }
  }
  return known.filter((model) => names.has(model))
}

/** The configured account. If none is configured: the only account there is, or `default`. */
const parseAccountName = (id: ConfigValue, value: ConfigValue | undefined, accounts: ReadonlyArray<string>): string => {
  const [only = "default", ...others] = accounts
  const name = value?.text() ?? (others.length === 0 ? only : "default")
  if (accounts.includes(name)) return name
  if (value?.isSet === true) value.fault(`"${name}" is not an account`, `The accounts are ${accounts.join(", ")}`)
  else id.fault("has no account", `Set its \`account\` to one of ${accounts.join(", ")}`)
  return name
}

const integrationFields = (entry: ConfigValue) =>
  entry.fields("id", "account", "models", "interval", "sweepInterval", "backfill")

/** The settings in the environment, which apply to all integrations. */
const parseEnvironmentDefaults = ({ list, variable }: ConfigReader) => ({
  models: parseModelNames(list("ROLLCALL_MODELS")),
  interval: variable("ROLLCALL_INTERVAL").duration(),
  sweepInterval: variable("ROLLCALL_SWEEP_INTERVAL").duration()
})

/** Decides between the setting of the environment and the integration's own setting if both are present. */
type Precedence = <A>(environment: A | undefined, own: () => A | undefined) => A | undefined

/** The id is sent in a header, so it is visible ASCII, and it is part of URL paths, so it has no slash and a length limit. */
const integrationId = /^(?=[!-~]{3,255}$)[^:/]+:[^/]+$/
const idHint = "An id is <tool>:<identifier> in plain ASCII, such as greenhouse:acme"

const parseIntegration = (
  id: ConfigValue,
  own: ReturnType<typeof integrationFields> | undefined,
  accounts: ReadonlyArray<string>,
  environment: ReturnType<typeof parseEnvironmentDefaults>,
  choose: Precedence
): Integration => {
  const text = id.text() ?? ""
  if (!id.isSet) id.fault(notSet, idHint)
  else if (!integrationId.test(text)) {
    id.fault(`"${text}" is not an integration id`, idHint)
  }
  return {
    id: text,
    account: parseAccountName(id, own?.account, accounts),
    models: choose(environment.models, () => own && parseModelNames(own.models)) ?? "auto",
    interval: choose(environment.interval, () => own?.interval.duration()) ?? Duration.minutes(1),
    sweepInterval: choose(environment.sweepInterval, () => own?.sweepInterval.duration()) ?? Duration.hours(6),
    backfill: own?.backfill.oneOf("publish", "fill") ?? "publish"
  }
}

/** `accounts`: the names of the configured accounts. */
export const parseIntegrations = (
  reader: SectionReader<"integrations">,
  accounts: ReadonlyArray<string>
): ReadonlyArray<Integration> => {
  const environment = parseEnvironmentDefaults(reader)
  const declared = reader.file.integrations.items().map(integrationFields)
  const chosen = reader.list("ROLLCALL_INTEGRATIONS")
  const ids = chosen.isSet ? chosen.items() : declared.map(({ id }) => id)
  const seenIds = new Set<string>()
  return ids.map((id) => {
    const own = declared.find((entry) => entry.id.value === id.value)
    const integration = parseIntegration(id, own, accounts, environment, (environment, own) => environment ?? own())
    if (integration.id !== "" && seenIds.has(integration.id)) {
      id.fault(`"${integration.id}" is listed more than once`, "Keep only one of them")
    }
    seenIds.add(integration.id)
    return integration
  })
}

/** Parses one integration whose own settings take precedence over the environment. */
export const parseIntegrationBody = (reader: ConfigReader, accounts: ReadonlyArray<string>): Integration => {
  const own = integrationFields(reader.root)
  const environment = parseEnvironmentDefaults(reader)
  return parseIntegration(own.id, own, accounts, environment, (environment, own) => own() ?? environment)
}

// ---- records ------------------------------------------------------------------------------------------------------

export const parseModelSettings = ({ file, secretAt, variable }: SectionReader<"models" | "redactKey">) => {
  const key = variable("ROLLCALL_REDACT_KEY").or(file.redactKey)
  const redactKey = secretAt(key)?.initial ?? null
  const models: { [model in Model]?: ModelSettings } = {}
  for (const [name, entry] of file.models.entries()) {
    const model = parseModel(entry, name)
    const own = entry.fields("remoteData", "redact")
    const redact: Record<string, Redaction> = {}
    for (const [pointer, how] of own.redact.entries()) {
      if (!pointer.startsWith("/")) how.fault("is not a JSON Pointer", "Write a path such as /candidate/first_name")
      if (pointer === "/id") how.fault("must not be redacted, because it is the id of the record", "Leave it out")
      const redaction = how.oneOf("drop", "hash")
      if (redaction === "hash" && !key.isSet) {
        how.fault("needs a key", "Set ROLLCALL_REDACT_KEY to a long random string, and never change it")
      }
      if (redaction !== undefined) redact[pointer] = redaction
    }
    const remoteData = own.remoteData.oneOf("drop", "carry", "track") ?? "drop"
    if (model !== undefined) models[model] = { remoteData, redact }
  }
  return { models, redactKey }
}
