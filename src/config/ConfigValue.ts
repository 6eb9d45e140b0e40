/**
 * One configuration value together with its location, which error messages name.
 *
 * Invariants
 * 1. A method that reports a fault still returns, so that one run finds all faults.
 * 2. No fault quotes a value that is not plain text or that may be a secret: `fault` and `domain/Quote.ts` ensure this   (I11)
 */
import type * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import { closestName } from "../domain/ClosestName.ts"
import { parsePositiveDuration } from "../domain/DurationText.ts"
import { display, withoutValue } from "../domain/Quote.ts"
import { isSecret } from "./ConfigFile.ts"
import type { Fault, RawConfig, SecretValue } from "./RawConfig.ts"
import type { Variable } from "./Variables.ts"

/** The message for a required value that is missing. */
export const notSet = "is not set"

/** Maximum number of faults for unknown properties of one object. Further ones are only counted. */
const maxUnknown = 10

/** Where the values of one configuration come from, and where their faults go. */
interface Origin {
  readonly raw: RawConfig
  readonly report: (fault: Fault) => void
}

/** Builds the location of a property or list item from the location of the value that contains it. */
type PathFormat = (where: string, key: string | number) => string

const inFile: PathFormat = (where, key) => {
  if (typeof key === "number") return `${where}[${key}]`
  const name = /^[A-Za-z_$][\w$]*$/.test(key) ? key : `["${key}"]`
  return where.endsWith(",") ? `${where} ${name}` : `${where}${name === key ? "." : ""}${name}`
}
const inVariable: PathFormat = (where) => where

/** Null for an object that a literal makes. The properties of another one, such as a promise or a map, are not its settings. */
const classOf = (value: object): string | null =>
  [Object.prototype, null].includes(Object.getPrototypeOf(value))
    ? null
    : Object.prototype.toString.call(value).slice(8, -1)

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && classOf(value) === null

const kindOf = (value: unknown): string =>
  value === null
    ? "null"
    : Array.isArray(value)
    ? "a list"
    : typeof value === "object"
    ? isRecord(value) ? "an object" : `not a plain object (${classOf(value)})`
    : `a ${typeof value}`

/** The texts that a message about a value could quote, up to a depth: a request may nest lists deeper than any valid value does. */
const textsIn = (value: unknown, depth = 4): ReadonlyArray<string> =>
  Array.isArray(value)
    ? depth === 0 ? [] : value.flatMap((item) => textsIn(item, depth - 1))
    : isSecret(value)
    ? [value.secret]
    : typeof value === "string"
    ? [value, value.trim()]
    : typeof value === "number"
    ? [String(value)]
    : []

/**
 * The variables that take precedence over a property of the file. If there are several, the first that is set is used. Null if there are
 * none.
 */
type VariablesOf = Variable | ReadonlyArray<Variable> | null

export class ConfigValue {
  readonly where: string
  readonly value: unknown
  readonly #origin: Origin
  readonly #naming: PathFormat
  /** Whether the object or list that contains this value is set. */
  readonly #parentIsSet: boolean
  /** The name of this property; empty for other values. */
  readonly #name: string

  private constructor(
    where: string,
    value: unknown,
    origin: Origin,
    naming: PathFormat,
    parentIsSet = false,
    name = ""
  ) {
    this.where = where
    this.value = value
    this.#origin = origin
    this.#naming = naming
    this.#parentIsSet = parentIsSet
    this.#name = name
  }

  /** The default export of the configuration file. */
  static root(raw: RawConfig, report: (fault: Fault) => void): ConfigValue {
    return new ConfigValue(`${raw.file?.name ?? ""},`, raw.file?.value, { raw, report }, inFile)
  }

  /** An environment variable; its value has the form that a property of the file has. */
  variable(name: Variable): ConfigValue {
    return new ConfigValue(name, this.#origin.raw.variables[name], this.#origin, inVariable)
  }

  /** The same value, whose faults go elsewhere. */
  reportingTo(report: (fault: Fault) => void): ConfigValue {
    const origin = { ...this.#origin, report }
    return new ConfigValue(this.where, this.value, origin, this.#naming, this.#parentIsSet, this.#name)
  }

  get isVariable(): boolean {
    return this.#naming === inVariable
  }

  get isSet(): boolean {
    return this.value !== undefined
  }

  /**
   * This value if it is set, otherwise `other`. If neither is set, and the parent of `other` is set, the result is `other`, so that a
   * fault names the location that the user must change.
   */
  #or(other: ConfigValue): ConfigValue {
    return this.isSet || !(other.isSet || other.#parentIsSet) ? this : other
  }

  /** The message may quote the value, or the name of the property: each is replaced by its length if it may be a secret. */
  fault(message: string, hint: string): void {
    const hide = (text: string): string => [...textsIn(this.value), this.#name].reduce(withoutValue, text)
    this.#origin.report({ where: this.where.replace(/,$/, ""), message: hide(message), hint: hide(hint) })
  }

  #inside(key: string | number, value: unknown): ConfigValue {
    const shown = typeof key === "number" ? key : display(key)
    return new ConfigValue(this.#naming(this.where, shown), value, this.#origin, this.#naming, this.isSet, String(key))
  }

  /** A property with a known name. Faults show the name unchanged. */
  #known(name: string, value: unknown): ConfigValue {
    return new ConfigValue(this.#naming(this.where, name), value, this.#origin, this.#naming, this.isSet)
  }

  /** One value for each of these properties, from the variables if one of them is set. Any other property is a fault. */
  fields<const Fields extends Readonly<Record<string, VariablesOf>>>(
    fields: Fields
  ): { readonly [name in keyof Fields]: ConfigValue } {
    const entries = new Map(this.entries())
    const names = Object.keys(fields)
    const unknown = [...entries].filter(([name]) => !names.includes(name))
    for (const [name, value] of unknown.slice(0, maxUnknown)) {
      value.fault("is unknown", `Did you mean ${closestName(name, names)}? Known properties: ${names.join(", ")}`)
    }
    if (unknown.length > maxUnknown) {
      this.fault(`has ${unknown.length - maxUnknown} more unknown properties`, `Known properties: ${names.join(", ")}`)
    }
    const valueOf = (name: string, variables: VariablesOf): ConfigValue =>
      [variables ?? []].flat().map((variable) => this.variable(variable))
        .concat(this.#known(name, entries.get(name)?.value))
        .reduce((preferred, other) => preferred.#or(other))
    return Object.fromEntries(
      Object.entries(fields).map(([name, variables]) => [name, valueOf(name, variables)])
    ) as { readonly [name in keyof Fields]: ConfigValue }
  }

  /** The property of this name, as if it were not set. */
  unset(name: string): ConfigValue {
    return this.#known(name, undefined)
  }

  /** The properties that are set. */
  entries(): ReadonlyArray<readonly [name: string, value: ConfigValue]> {
    if (!this.isSet) return []
    if (!isRecord(this.value)) {
      this.fault(`is ${kindOf(this.value)}`, "Write an object, { … }")
      return []
    }
    return Object.entries(this.value)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => [name, this.#inside(name, value)])
  }

  items(): ReadonlyArray<ConfigValue> {
    if (!this.isSet) return []
    if (Array.isArray(this.value)) return this.value.map((value, index) => this.#inside(index, value))
    this.fault(`is ${kindOf(this.value)}`, "Write a list, [ … ]")
    return []
  }

  /** Undefined if the value is not set or is not a string. */
  text(): string | undefined {
    if (typeof this.value === "string") return this.value.trim()
    if (this.isSet) this.fault(`is ${kindOf(this.value)}`, "Write a string")
    return undefined
  }

  oneOf<const A extends string>(...values: ReadonlyArray<A>): A | undefined {
    const text = this.text()?.toLowerCase()
    const value = values.find((value) => value === text)
    if (text !== undefined && value === undefined) {
      this.fault(`"${text}" is not allowed`, `Use one of: ${values.join(", ")}`)
    }
    return value
  }

  /** A boolean. In a variable, it is one of the words `yes` and `no` (by default `true` and `false`). */
  flag(yes = "true", no = "false"): boolean | undefined {
    if (typeof this.value === "boolean") return this.value
    if (this.isSet && typeof this.value !== "string") {
      this.fault(`is ${kindOf(this.value)}`, "Write true or false")
      return undefined
    }
    const word = this.oneOf(yes, no)
    return word === undefined ? undefined : word === yes
  }

  duration(): Duration.Duration | undefined {
    const text = this.text()
    const duration = text === undefined ? Option.none() : parsePositiveDuration(text)
    if (text !== undefined && Option.isNone(duration)) {
      this.fault(
        `"${text}" is not a duration`,
        "Write a number and a unit, such as 30 seconds, 5 minutes or 6 hours"
      )
    }
    return Option.getOrUndefined(duration)
  }

  /** Undefined if the value is not set or is not a number in this range. */
  number(least: number, most: number): number | undefined {
    if (!this.isSet) return undefined
    const value = this.isVariable && /^\d+$/.test(String(this.value)) ? Number(this.value) : this.value
    if (typeof value === "number" && value >= least && value <= most) return value
    const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`
    this.fault(
      typeof value === "number" ? `${value} is out of range` : `is ${this.isVariable ? "not a number" : kindOf(value)}`,
      `Write a number ${range}`
    )
    return undefined
  }

  /** A whole number in this range; undefined if the value is not set. */
  count(least: number, most: number): number | undefined {
    const count = this.number(least, most)
    if (count === undefined || Number.isInteger(count)) return count
    this.fault(`${count} is not a whole number`, `Write a whole number from ${least} to ${most}`)
    return undefined
  }

  /** The secret that the value names. Reports a fault if the secret is not set. */
  secret(): SecretValue | undefined {
    if (!this.isSet) return undefined
    if (!isSecret(this.value)) {
      this.fault("must not contain the secret itself", `Write secret("NAME"), and set the variable NAME or NAME_FILE`)
      return undefined
    }
    const name = this.value.secret
    const found = this.#origin.raw.secrets.get(name) ?? `neither ${name} nor ${name}_FILE is set`
    if (typeof found !== "string") return found
    this.fault(found, `Set ${name} to the secret, or ${name}_FILE to the path of a file that contains it`)
    return undefined
  }
}

/** Reports the missing one if only one of two values that belong together is set. */
export const requireBoth = (one: ConfigValue, other: ConfigValue, hint: string): void => {
  if (one.isSet !== other.isSet) (one.isSet ? other : one).fault(notSet, hint)
}

// ---- text ---------------------------------------------------------------------------------------------------------

/** Also accepts the short form of the command line: `20s`. */
export const parseShortDuration = (text: string): Option.Option<Duration.Duration> => {
  const units: Readonly<Record<string, string>> = {
    ms: "millis",
    s: "seconds",
    m: "minutes",
    min: "minutes",
    h: "hours"
  }
  const match = /^(\d+(?:\.\d+)?)([a-z]+)$/.exec(text)
  const unit = units[match?.[2] ?? ""]
  return parsePositiveDuration(match === null || unit === undefined ? text : `${match[1]} ${unit}`)
}
