/**
 * What is wrong with a plugin as it is written: its definition, triggers, options, handlers and settings. Pure. Types say the
 * same while one writes; a plugin in plain JavaScript has only this.
 *
 * Invariants
 * 1. Every fault is found, not only the first; each says what is wrong, where, and what to do
 */
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import { readNames } from "../api/Reads.ts"
import { Candidate, recordSchemas } from "../api/Records.ts"
import { writeNames } from "../api/Writes.ts"
import { closestName } from "../domain/ClosestName.ts"
import { entryOf, type Model, modelNames } from "../domain/Model.ts"

/** One thing that is wrong with a plugin. */
export interface PluginIssue {
  /** What is wrong, and where: `plugin "x", handler "y": timeout …`. */
  readonly message: string
  /** What to do about it. */
  readonly hint: string
}

/** What is wrong with one value; null: nothing. */
type Check = (value: unknown) => { readonly message: string; readonly hint: string } | null
/** The properties that there may be. */
type Checks = Readonly<Record<string, Check>>

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const describe = (value: unknown): string =>
  typeof value === "string"
    ? `"${value}"`
    : typeof value === "number"
    ? String(value)
    : `a value of type ${typeof value}`

const suggest = (value: unknown, known: ReadonlyArray<string>): string =>
  typeof value === "string" ? `Did you mean "${closestName(value, known)}"? ` : ""

// ---- values -------------------------------------------------------------------------------------------------------

const oneOf = (known: ReadonlyArray<string>): Check => (value) =>
  known.includes(value as string)
    ? null
    : { message: `${describe(value)} is not known`, hint: `${suggest(value, known)}Use one of ${known.join(", ")}` }

const length: Check = (value) => {
  const found = Duration.fromInput(value as Duration.Input)
  return Option.isSome(found) && Duration.isFinite(found.value) && Duration.toMillis(found.value) > 0
    ? null
    : {
      message: `${describe(value)} is no length of time`,
      hint: `Write a number and a unit, such as "30 seconds" or "5 minutes"`
    }
}

const count: Check = (value) =>
  Number.isSafeInteger(value) && Number(value) >= 1
    ? null
    : { message: `${describe(value)} is no whole number of 1 or more`, hint: "Write such a number" }

const flag: Check = (value) =>
  typeof value === "boolean"
    ? null
    : { message: `${describe(value)} is neither true nor false`, hint: "Write true or false" }

const object: Check = (value) => isObject(value) ? null : { message: "is no object", hint: "Write an object, { … }" }

const name: Check = (value) =>
  typeof value === "string" && value !== "" ? null : { message: "is no name", hint: "Write a text that is not empty" }

const list = (of: Check): Check => (value) => {
  if (!Array.isArray(value)) return { message: "is no list", hint: "Write a list, [ … ]" }
  for (const one of value) {
    const fault = of(one)
    if (fault !== null) return fault
  }
  return null
}

const configuration: Check = (value) =>
  Config.isConfig(value)
    ? null
    : {
      message: "is no Config of Effect",
      hint: `Write config: Config.all({ url: Config.String("URL") }), or leave it out`
    }

const integrations: Check = (value) => {
  if (!isObject(value)) return object(value)
  const wrong = Object.entries(value).find(([, use]) =>
    typeof use !== "boolean" && !(isObject(use) && isObject(use["values"]))
  )
  return wrong === undefined
    ? null
    : { message: `of "${wrong[0]}" is neither true, false nor values`, hint: "Write true, false or { values: { … } }" }
}

// ---- objects ------------------------------------------------------------------------------------------------------

/** `whole`: how the object is called; `path`: how its properties are, empty or with a dot behind it. */
const issuesIn = (
  where: string,
  whole: string,
  value: unknown,
  checks: Checks,
  path = ""
): ReadonlyArray<PluginIssue> => {
  if (!isObject(value)) return [{ message: `${where}: ${whole} is no object`, hint: "Write an object, { … }" }]
  const known = Object.keys(checks)
  return Object.entries(value).flatMap(([name, found]): ReadonlyArray<PluginIssue> => {
    if (found === undefined) return []
    const at = `${path}${name}`
    const check = Object.hasOwn(checks, name) ? checks[name] : undefined
    if (check === undefined) {
      return [{
        message: `${where}: ${at} is not known`,
        hint: `${suggest(name, known)}There are ${known.join(", ")}`
      }]
    }
    const fault = check(found)
    return fault === null ? [] : [{ message: `${where}: ${at} ${fault.message}`, hint: fault.hint }]
  })
}

/** Of an object inside another one: its own faults. */
const nested = (where: string, value: unknown, name: string, checks: Checks): ReadonlyArray<PluginIssue> =>
  isObject(value) && value[name] !== undefined ? issuesIn(where, name, value[name], checks, `${name}.`) : []

const anything: Check = () => null

// ---- triggers -----------------------------------------------------------------------------------------------------

const triggerNamesOf = (model: Model): ReadonlyArray<string> => [
  "created",
  "updated",
  "deleted",
  ...entryOf(model).transitions.map(({ name }) => name)
]
const triggers = modelNames.flatMap((model) => triggerNamesOf(model).map((step) => `${model}.${step}`))

const triggerIssues = (where: string, trigger: unknown): ReadonlyArray<PluginIssue> => {
  if (triggers.includes(trigger as string)) return []
  const model = modelNames.find((model) => typeof trigger === "string" && trigger.startsWith(`${model}.`))
  const there = model === undefined
    ? `The models are ${modelNames.join(", ")}`
    : `Of ${model} there are ${triggerNamesOf(model).join(", ")}`
  return [{
    message: `${where}: the trigger ${describe(trigger)} does not exist`,
    hint: `${suggest(trigger, triggers)}${there}`
  }]
}

/** The properties of the records that these triggers are about; null: of one of them any may be. */
const propertiesOf = (some: ReadonlyArray<unknown>): ReadonlyArray<string> | null => {
  const schemas: Readonly<Record<string, { readonly fields: object }>> = {
    ...recordSchemas,
    "ats.candidate": Candidate
  }
  const found = some.map((trigger) => schemas[String(trigger).slice(0, String(trigger).lastIndexOf("."))])
  return found.some((schema) => schema === undefined)
    ? null
    : [...new Set(found.flatMap((schema) => Object.keys(schema?.fields ?? {})))]
}

// ---- handlers -----------------------------------------------------------------------------------------------------

const retry: Checks = { first: length, longest: length }
const commonChecks: Checks = {
  as: name,
  timeout: length,
  concurrency: count,
  attempts: count,
  retry: anything,
  onDeadLetter: oneOf(["park", "skip"])
}
const eventChecks: Checks = {
  ...commonChecks,
  origins: list(oneOf(["backfill", "poll", "sweep", "refresh"])),
  echo: oneOf(["ignore-own", "deliver"])
}

/** How a handler is added. */
export interface HandlerDefinition {
  readonly by: "on" | "onAny" | "batch" | "every"
  readonly name: string
  /** Of `every`: none. */
  readonly triggers: ReadonlyArray<unknown>
  /** Of `every`. */
  readonly interval: unknown
  readonly options: unknown
  readonly handle: unknown
}

const checksOf = ({ by, triggers }: HandlerDefinition): Checks => {
  if (by === "every") return commonChecks
  if (by === "batch") return { ...eventChecks, size: count, within: length }
  if (by === "on" && !String(triggers[0]).endsWith(".updated")) return eventChecks
  const known = propertiesOf(triggers)
  return { ...eventChecks, changed: list(known === null ? name : oneOf(known)) }
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
        message: `${where}: there is no handler`,
        hint: "Give a function as the last argument, such as async (event, { api }) => { … }"
      }
  ]
}

const missing = (where: string, options: unknown, names: ReadonlyArray<string>): ReadonlyArray<PluginIssue> =>
  names.flatMap((name) =>
    isObject(options) && options[name] === undefined
      ? [{ message: `${where}: ${name} is missing`, hint: `Write it among the options` }]
      : []
  )

const required: Readonly<Record<HandlerDefinition["by"], ReadonlyArray<string>>> = {
  on: [],
  onAny: ["as"],
  batch: ["size", "within"],
  every: ["as"]
}

export const validateHandler = (plugin: string, added: HandlerDefinition): ReadonlyArray<PluginIssue> => {
  const where = `plugin "${plugin}", handler "${added.name}"`
  const { by, interval, options, triggers } = added
  const every = by === "every" ? length(interval) : null
  return [
    ...(by === "onAny" && triggers.length === 0
      ? [{ message: `${where} has no triggers`, hint: "Name one at least" }]
      : []),
    ...triggers.flatMap((trigger) => triggerIssues(where, trigger)),
    ...(every === null ? [] : [{ message: `${where}: its interval ${every.message}`, hint: every.hint }]),
    // a handler that stands where the options should is told below
    ...(typeof options === "function" ? [] : [
      ...issuesIn(where, "what stands for the options", options, checksOf(added)),
      ...nested(where, options, "retry", retry),
      ...missing(where, options, required[by])
    ]),
    ...handleIssues(where, added)
  ]
}

// ---- plugins ------------------------------------------------------------------------------------------------------

const named = /^[a-z][a-z0-9-]{0,62}$/

export const validateDefinition = (plugin: unknown, definition: unknown): ReadonlyArray<PluginIssue> => {
  const where = `plugin "${String(plugin)}"`
  return [
    ...(typeof plugin === "string" && named.test(plugin) ? [] : [{
      message: `${describe(plugin)} is no name of a plugin`,
      hint: "Use lower-case letters, digits and hyphens, a letter first, 63 at most"
    }]),
    ...issuesIn(where, "its definition", definition, { config: configuration, needs: anything, writesPerHour: count }),
    ...nested(where, definition, "needs", { writes: list(oneOf(writeNames)), reads: list(oneOf(readNames)) })
  ]
}

export const validateSettings = (plugin: string, settings: unknown): ReadonlyArray<PluginIssue> =>
  issuesIn(`plugin "${plugin}"`, "what `with` is given", settings, {
    values: object,
    integrations,
    others: flag,
    from: oneOf(["now", "oldest"])
  })
