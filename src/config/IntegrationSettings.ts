/**
 * What is read: accounts, integrations, and what is done to the records of each model. Hides how an integration's
 * settings come together from the file, the environment and what is usual.
 *
 * Gotchas
 * - `ROLLCALL_API_KEY` alone does not add an account `default` to those of the file: the file may have given it to one.
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
export interface ModelSettings {
  readonly remoteData: RemoteData
  /** JSON Pointer → what is done there. */
  readonly redact: Readonly<Record<string, Redaction>>
}

// ---- accounts -----------------------------------------------------------------------------------------------------

const parseUrl = (place: ConfigValue): string => {
  const hint = "Set it to the API's base address, which ends in /v1, such as https://api.example.com/v1"
  if (!place.isSet) place.fault(notSet, hint)
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

const parseCursorParameter = (place: ConfigValue): string => {
  const name = place.text() ?? cursorParameter
  if (!isCursorParameter(name)) {
    place.fault(
      `"${name}" cannot be the name of the cursor`,
      "Use letters and digits, and no other parameter of the lists"
    )
  }
  return name
}

export const parseAccounts = (
  { file, secretAt, variable }: SectionReader<"accounts">
): Readonly<Record<string, Account>> => {
  const account = (url: ConfigValue, key: ConfigValue, cursor: ConfigValue): Account => {
    const address = parseUrl(url)
    if (!key.isSet) key.fault(notSet, "Set it to the API key of the account that the address belongs to")
    return {
      url: address,
      key: secretAt(key)?.current ?? Effect.succeed(Redacted.make("")),
      cursorParameter: parseCursorParameter(cursor)
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

// ---- integrations -------------------------------------------------------------------------------------------------

const known = withDerived(streamModels)

/** undefined, and a fault, if there is no such model. */
const parseModel = (place: ConfigValue, name: string): Model | undefined => {
  const model = known.find((model) => model === name)
  if (model === undefined) {
    place.fault(
      `"${name}" is no model`,
      `Did you mean "${closestName(name, known)}"? The models are ${known.join(", ")}`
    )
  }
  return model
}

const parseModelNames = (place: ConfigValue): Integration["models"] | undefined => {
  const isAuto = place.value === "auto" || (Array.isArray(place.value) && place.value.join() === "auto")
  if (!place.isSet || isAuto) return isAuto ? "auto" : undefined
  const names = new Set(place.items().map((item) => parseModel(item, item.text() ?? "")))
  if (names.size === 0) place.fault("names no model", "Leave it out, or write auto, to read all there are")
  for (const model of names) {
    if (model === undefined || !isDerived(model)) continue
    const { from } = derivedRegistry[model]
    if (!names.has(from)) place.fault(`"${model}" is found in "${from}", which is not named`, `Add ${from}`)
  }
  return known.filter((model) => names.has(model))
}

/** The only account, or `default`, unless told otherwise. */
const parseAccountName = (id: ConfigValue, place: ConfigValue | undefined, accounts: ReadonlyArray<string>): string => {
  const [only = "default", ...others] = accounts
  const name = place?.text() ?? (others.length === 0 ? only : "default")
  if (accounts.includes(name)) return name
  if (place?.isSet === true) place.fault(`"${name}" is no account`, `The accounts are ${accounts.join(", ")}`)
  else id.fault("belongs to no account", `Its \`account\` is to be one of ${accounts.join(", ")}`)
  return name
}

const integrationFields = (place: ConfigValue) =>
  place.fields("id", "account", "models", "interval", "sweepInterval", "backfill")

/** What the environment says of all integrations. */
const parseEnvironmentDefaults = ({ list, variable }: ConfigReader) => ({
  models: parseModelNames(list("ROLLCALL_MODELS")),
  interval: variable("ROLLCALL_INTERVAL").duration(),
  sweepInterval: variable("ROLLCALL_SWEEP_INTERVAL").duration()
})

/** Which counts where both are there: what is usual, or what an integration says itself. */
type Precedence = <A>(usual: A | undefined, own: () => A | undefined) => A | undefined

/** It travels in a header, so it is visible ASCII; and in a path, so it has no slash and an end. */
const integrationId = /^(?=[!-~]{3,255}$)[^:/]+:[^/]+$/
const idHint = "An id is <tool>:<identifier> in plain ASCII, such as greenhouse:acme"

const parseIntegration = (
  id: ConfigValue,
  own: ReturnType<typeof integrationFields> | undefined,
  accounts: ReadonlyArray<string>,
  usual: ReturnType<typeof parseEnvironmentDefaults>,
  choose: Precedence
): Integration => {
  const text = id.text() ?? ""
  if (!id.isSet) id.fault(notSet, idHint)
  else if (!integrationId.test(text)) {
    id.fault(`"${text}" is no integration id`, idHint)
  }
  return {
    id: text,
    account: parseAccountName(id, own?.account, accounts),
    models: choose(usual.models, () => own && parseModelNames(own.models)) ?? "auto",
    interval: choose(usual.interval, () => own?.interval.duration()) ?? Duration.minutes(1),
    sweepInterval: choose(usual.sweepInterval, () => own?.sweepInterval.duration()) ?? Duration.hours(6),
    backfill: own?.backfill.oneOf("publish", "fill") ?? "publish"
  }
}

/** `accounts`: the names of those there are. */
export const parseIntegrations = (
  found: SectionReader<"integrations">,
  accounts: ReadonlyArray<string>
): ReadonlyArray<Integration> => {
  const usual = parseEnvironmentDefaults(found)
  const declared = found.file.integrations.items().map(integrationFields)
  const chosen = found.list("ROLLCALL_INTEGRATIONS")
  const ids = chosen.isSet ? chosen.items() : declared.map(({ id }) => id)
  const seenIds = new Set<string>()
  return ids.map((place) => {
    const own = declared.find((entry) => entry.id.value === place.value)
    const integration = parseIntegration(place, own, accounts, usual, (usual, own) => usual ?? own())
    if (integration.id !== "" && seenIds.has(integration.id)) {
      place.fault(`"${integration.id}" stands there more than once`, "Leave one of them")
    }
    seenIds.add(integration.id)
    return integration
  })
}

/** One that is written like those of the file: what it says itself counts before the environment. */
export const parseIntegrationBody = (places: ConfigReader, accounts: ReadonlyArray<string>): Integration => {
  const own = integrationFields(places.root)
  return parseIntegration(own.id, own, accounts, parseEnvironmentDefaults(places), (usual, own) => own() ?? usual)
}

// ---- records ------------------------------------------------------------------------------------------------------

export const parseModelSettings = ({ file, secretAt, variable }: SectionReader<"models" | "redactKey">) => {
  const key = variable("ROLLCALL_REDACT_KEY").or(file.redactKey)
  const redactKey = secretAt(key)?.initial ?? null
  const models: { [model in Model]?: ModelSettings } = {}
  for (const [name, place] of file.models.entries()) {
    const model = parseModel(place, name)
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
