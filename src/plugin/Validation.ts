/**
 * Checks how a plugin is written: its definition, triggers, options, handlers and settings. Pure. In TypeScript the compiler
 * finds the same mistakes; for a plugin in plain JavaScript this is the only check.
 */
import * as Config from "effect/Config"
import { fieldsOf } from "../api/Fields.ts"
import { readNames } from "../api/Reads.ts"
import { writeNames } from "../api/Writes.ts"
import { type AnyList, withLists } from "../domain/DefinedList.ts"
import { type Models, perModels, type RecordEntry } from "../domain/Model.ts"
import {
  anything,
  type Check,
  type Checks,
  count,
  describe,
  duration,
  flag,
  isObject,
  issuesIn,
  list,
  name,
  nested,
  object,
  oneOf,
  type PluginIssue,
  suggest
} from "./PropertyChecks.ts"

// ---- triggers -----------------------------------------------------------------------------------------------------

const triggerNamesOf = ({ transitions }: RecordEntry): ReadonlyArray<string> => [
  "created",
  "updated",
  "deleted",
  ...transitions.map(({ name }) => name)
]
const triggersOf = perModels(({ entries }) =>
  entries.flatMap((entry) => triggerNamesOf(entry).map((step) => `${entry.model}.${step}`))
)

export const triggerIssues = (models: Models, where: string, trigger: unknown): ReadonlyArray<PluginIssue> => {
  const triggers = triggersOf(models)
  if (triggers.includes(trigger as string)) return []
  const entry = models.entries.find(({ model }) => typeof trigger === "string" && trigger.startsWith(`${model}.`))
  const known = entry === undefined
    ? `The models are ${models.names.join(", ")}`
    : `The triggers of ${entry.model} are ${triggerNamesOf(entry).join(", ")}`
  return [{
    message: `${where}: ${describe(trigger)} is not a trigger`,
    hint: `${suggest(trigger, triggers)}${known}`
  }]
}

/** See `Unchanging` in `Event.ts`. */
const unchanging: ReadonlySet<string> = new Set(["id", "changed_at", "remote_updated_at"])

/** The properties whose changes these triggers can be about; null (no check) if the model of a trigger is unknown. */
const propertiesOf = (models: Models, some: ReadonlyArray<unknown>): ReadonlyArray<string> | null => {
  const found = some.map((trigger) => models.entryOf(String(trigger).slice(0, String(trigger).lastIndexOf("."))))
  const known = found.filter((entry) => entry !== undefined)
  // a list without a schema may have any property
  if (known.length < found.length || known.some(({ schema }) => (fieldsOf(schema.ast)?.size ?? 0) <= 1)) return null
  const names = new Set(known.flatMap(({ schema }) => [...fieldsOf(schema.ast)?.keys() ?? []]))
  return [...names].filter((name) => !unchanging.has(name))
}

const changeable = (known: ReadonlyArray<string> | null): Check => (value) =>
  unchanging.has(value as string)
    ? { message: `${describe(value)} never counts as a change`, hint: "Leave it out" }
    : (known === null ? name : oneOf(known))(value)

// ---- handlers -----------------------------------------------------------------------------------------------------

/** A list of what a handler receives: with an empty one it would receive nothing. */
const selection = (of: Check): Check => (value) =>
  Array.isArray(value) && value.length === 0
    ? { message: "is empty, so the handler would never run", hint: "Leave it out, or list at least one value" }
    : list(of)(value)

const retry: Checks = { first: duration, longest: duration }
const commonChecks: Checks = {
  as: name,
  timeout: duration,
  concurrency: count,
  attempts: count,
  retry: anything,
  onDeadLetter: oneOf(["park", "skip"])
}
const eventChecks: Checks = {
  ...commonChecks,
  origins: selection(oneOf(["backfill", "poll", "sweep", "refresh"])),
  echo: oneOf(["ignore-own", "deliver"])
}

/** A handler as it is passed to the plugin, not yet checked. */
export interface HandlerDefinition {
  readonly by: "on" | "onAny" | "batch" | "every"
  readonly name: string
  /** Empty for `every`. */
  readonly triggers: ReadonlyArray<unknown>
  /** Only for `every`. */
  readonly interval: unknown
  readonly options: unknown
  readonly handle: unknown
}

const isUpdate = (trigger: unknown): boolean => String(trigger).endsWith(".updated")

const checksOf = (models: Models, { by, triggers }: HandlerDefinition): Checks => {
  if (by === "every") return commonChecks
  if (by === "batch") return { ...eventChecks, size: count, within: duration }
  const updates = triggers.filter(isUpdate)
  if (updates.length === 0) return eventChecks
  const known = propertiesOf(models, updates)
  return { ...eventChecks, changed: selection(changeable(known)) }
}

const handleIssues = (where: string, { by, handle, options }: HandlerDefinition): ReadonlyArray<PluginIssue> => {
  const kind = Object.prototype.toString.call(handle)
  if (kind === "[object GeneratorFunction]" || kind === "[object AsyncGeneratorFunction]") {
    return [{
      message: `${where}: the handler is a generator function`,
      hint: "Write Effect.fnUntraced(function*(…) { … })"
    }]
  }
  if (typeof handle === "function") return []
  return [
    typeof options === "function"
      ? { message: `${where}: the options are missing before the handler`, hint: `Write .${by}(…, {}, handler)` }
      : {
        message: `${where}: the handler is missing`,
        hint: "Pass a function as the last argument, such as async (event, { api }) => { … }"
      }
  ]
}

const kinds: ReadonlySet<string | undefined> = new Set(["created", "updated", "deleted"])

/** Transitions are not derived from what a backfill finds, because nothing new happened to these records. */
const transitionIssues = (where: string, { options, triggers }: HandlerDefinition): ReadonlyArray<PluginIssue> => {
  const origins = isObject(options) && Array.isArray(options["origins"]) ? options["origins"] : []
  const onlyBackfill = origins.length > 0 && origins.every((origin) => origin === "backfill")
  const onlyTransitions = triggers.length > 0 &&
    triggers.every((trigger) => !kinds.has(String(trigger).split(".").at(-1)))
  return onlyBackfill && onlyTransitions
    ? [{
      message: `${where}: origins contains only "backfill", which has no transitions, so the handler would never run`,
      hint: `Use the trigger <model>.created for records that a backfill finds, and look at the record itself`
    }]
    : []
}

const missing = (where: string, options: unknown, names: ReadonlyArray<string>): ReadonlyArray<PluginIssue> =>
  names.flatMap((name) =>
    isObject(options) && options[name] === undefined
      ? [{ message: `${where}: ${name} is missing`, hint: `Add it to the options` }]
      : []
  )

const required: Readonly<Record<HandlerDefinition["by"], ReadonlyArray<string>>> = {
  on: [],
  onAny: ["as"],
  batch: ["size", "within"],
  every: ["as"]
}

/** `lists`: the defined lists that the plugin's handlers name. */
export const validateHandler = (
  plugin: string,
  added: HandlerDefinition,
  lists: ReadonlyArray<AnyList> = []
): ReadonlyArray<PluginIssue> => {
  const models = withLists(lists)
  const where = `plugin "${plugin}", handler "${added.name}"`
  const { by, interval, options, triggers } = added
  const every = by === "every" ? duration(interval) : null
  return [
    ...(by === "onAny" && triggers.length === 0
      ? [{ message: `${where} has no triggers`, hint: "Name at least one trigger" }]
      : []),
    ...triggers.flatMap((trigger) => triggerIssues(models, where, trigger)),
    ...(every === null ? [] : [{ message: `${where}: the interval ${every.message}`, hint: every.hint }]),
    // a handler in place of the options is reported by `handleIssues`
    ...(typeof options === "function" ? [] : [
      ...issuesIn(where, "the options", options, checksOf(models, added)),
      ...nested(where, options, "retry", retry),
      ...missing(where, options, required[by]),
      ...transitionIssues(where, added)
    ]),
    ...handleIssues(where, added)
  ]
}

// ---- plugins ------------------------------------------------------------------------------------------------------

const configuration: Check = (value) =>
  Config.isConfig(value)
    ? null
    : {
      message: "is not an Effect Config",
      hint: `Write config: Config.all({ url: Config.String("URL") }), or leave it out`
    }

const integrations: Check = (value) => {
  if (!isObject(value)) return object(value)
  const wrong = Object.entries(value).find(([, use]) =>
    typeof use !== "boolean" && !(isObject(use) && isObject(use["values"]))
  )
  return wrong === undefined
    ? null
    : { message: `has an invalid value for "${wrong[0]}"`, hint: "Write true, false or { values: { … } }" }
}

const pluginName = /^[a-z][a-z0-9-]{0,62}$/

export const validateDefinition = (plugin: unknown, definition: unknown): ReadonlyArray<PluginIssue> => {
  const where = `plugin "${String(plugin)}"`
  return [
    ...(typeof plugin === "string" && pluginName.test(plugin) ? [] : [{
      message: `${describe(plugin)} is not a plugin name`,
      hint: "Use lower-case letters, digits and hyphens, at most 63 characters, and start with a letter"
    }]),
    ...issuesIn(where, "the definition", definition, { config: configuration, needs: anything, writesPerHour: count }),
    ...nested(where, definition, "needs", { writes: list(oneOf(writeNames)), reads: list(oneOf(readNames)) })
  ]
}

export const validateSettings = (plugin: string, settings: unknown): ReadonlyArray<PluginIssue> =>
  issuesIn(`plugin "${plugin}"`, "the argument of `with`", settings, {
    values: object,
    integrations,
    others: flag,
    from: oneOf(["now", "oldest"])
  })
