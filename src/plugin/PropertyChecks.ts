/**
 * Checks the properties of an object that the author of a plugin writes, such as the options of a handler. Pure.
 *
 * Invariants
 * 1. All mistakes are found, not only the first. Each issue names the mistake, its place and the fix
 */
import * as Option from "effect/Option"
import { closestName } from "../domain/ClosestName.ts"
import { parsePositiveDuration } from "../domain/DurationText.ts"

/** One mistake in a plugin. */
export interface PluginIssue {
  /** The mistake and its place: `plugin "x", handler "y": timeout …`. */
  readonly message: string
  /** How to fix it. */
  readonly hint: string
}

/** Checks one value; null if it is valid. */
export type Check = (value: unknown) => { readonly message: string; readonly hint: string } | null
/** The allowed properties, each with its check. */
export type Checks = Readonly<Record<string, Check>>

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const describe = (value: unknown): string =>
  typeof value === "string"
    ? `"${value}"`
    : typeof value === "number"
    ? String(value)
    : `a value of type ${typeof value}`

export const suggest = (value: unknown, known: ReadonlyArray<string>): string =>
  typeof value === "string" ? `Did you mean "${closestName(value, known)}"? ` : ""

// ---- values -------------------------------------------------------------------------------------------------------

export const oneOf = (known: ReadonlyArray<string>): Check => (value) =>
  known.includes(value as string)
    ? null
    : { message: `${describe(value)} is not known`, hint: `${suggest(value, known)}Use one of ${known.join(", ")}` }

export const duration: Check = (value) =>
  Option.isSome(parsePositiveDuration(value))
    ? null
    : {
      message: `${describe(value)} is not a duration`,
      hint: `Write a number and a unit, such as "30 seconds" or "5 minutes"`
    }

export const count: Check = (value) =>
  Number.isSafeInteger(value) && Number(value) >= 1
    ? null
    : { message: `${describe(value)} is not a whole number of 1 or more`, hint: "Write a number such as 1 or 10" }

export const flag: Check = (value) =>
  typeof value === "boolean"
    ? null
    : { message: `${describe(value)} is neither true nor false`, hint: "Write true or false" }

export const object: Check = (value) =>
  isObject(value) ? null : { message: "is not an object", hint: "Write an object, { … }" }

export const name: Check = (value) =>
  typeof value === "string" && value !== ""
    ? null
    : { message: "is not a name", hint: "Write a string that is not empty" }

export const list = (of: Check): Check => (value) => {
  if (!Array.isArray(value)) return { message: "is not a list", hint: "Write a list, [ … ]" }
  for (const one of value) {
    const fault = of(one)
    if (fault !== null) return fault
  }
  return null
}

export const anything: Check = () => null

// ---- objects ------------------------------------------------------------------------------------------------------

/** `whole`: name of the object in messages; `path`: prefix of its property names in messages, empty or ending with a dot. */
export const issuesIn = (
  where: string,
  whole: string,
  value: unknown,
  checks: Checks,
  path = ""
): ReadonlyArray<PluginIssue> => {
  if (!isObject(value)) return [{ message: `${where}: ${whole} must be an object`, hint: "Write an object, { … }" }]
  const known = Object.keys(checks)
  return Object.entries(value).flatMap(([name, found]): ReadonlyArray<PluginIssue> => {
    if (found === undefined) return []
    const at = `${path}${name}`
    const check = Object.hasOwn(checks, name) ? checks[name] : undefined
    if (check === undefined) {
      return [{
        message: `${where}: ${at} is not known`,
        hint: `${suggest(name, known)}Use one of ${known.join(", ")}`
      }]
    }
    const fault = check(found)
    return fault === null ? [] : [{ message: `${where}: ${at} ${fault.message}`, hint: fault.hint }]
  })
}

/** The issues in an object that is the property `name` of `value`. */
export const nested = (where: string, value: unknown, name: string, checks: Checks): ReadonlyArray<PluginIssue> =>
  isObject(value) && value[name] !== undefined ? issuesIn(where, name, value[name], checks, `${name}.`) : []
