/**
 * One value of the configuration and the place where it stands. Hides that a variable, a list in a variable and a
 * property in a file are read alike, and how faults are collected.
 *
 * Invariants
 * 1. A reader that reports a fault still gives a value, so that all faults are found at once.
 * 2. No fault quotes a value that is not plain text, or may be a secret   (I11)
 */
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import { closestName } from "../domain/ClosestName.ts"
import { isSecret, secret } from "./ConfigFile.ts"
import {
  type Fault,
  isVariable,
  type RawConfig,
  type SecretValue,
  type SecretVariable,
  type Variable
} from "./RawConfig.ts"

/** What is wrong with a value that must be there. */
export const notSet = "is not set"

export type Report = (fault: Fault) => void

/** How a property's or member's place is called, from that of what holds it. */
type PathFormat = (where: string, key: string | number) => string

const inFile: PathFormat = (where, key) => {
  if (typeof key === "number") return `${where}[${key}]`
  const name = /^[A-Za-z_$][\w$]*$/.test(key) ? key : `["${key}"]`
  return where.endsWith(",") ? `${where} ${name}` : `${where}${name === key ? "." : ""}${name}`
}
const inVariable: PathFormat = (where) => where

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const kindOf = (value: unknown): string =>
  value === null
    ? "null"
    : Array.isArray(value)
    ? "a list"
    : typeof value === "object"
    ? "an object"
    : `a ${typeof value}`

export class ConfigValue {
  readonly where: string
  readonly value: unknown
  readonly #report: Report
  readonly #naming: PathFormat
  /** Whether it belongs to something that is set. */
  readonly #held: boolean

  private constructor(where: string, value: unknown, report: Report, naming: PathFormat, held = false) {
    this.where = where
    this.value = value
    this.#report = report
    this.#naming = naming
    this.#held = held
  }

  /** A variable, undefined if it is not set; an array for the members of a list with commas. */
  static variable(name: string, value: unknown, report: Report): ConfigValue {
    return new ConfigValue(name, value, report, inVariable)
  }

  /** What a file exports. */
  static file(name: string, value: unknown, report: Report): ConfigValue {
    return new ConfigValue(`${name},`, value, report, inFile)
  }

  get isSet(): boolean {
    return this.value !== undefined
  }

  /** This if it is set, the other otherwise; where neither is, the other if what would hold it is there. */
  or(other: ConfigValue): ConfigValue {
    return this.isSet || !(other.isSet || other.#held) ? this : other
  }

  fault(message: string, hint: string): void {
    this.#report({ where: this.where.replace(/,$/, ""), message, hint })
  }

  #inside(key: string | number, value: unknown): ConfigValue {
    return new ConfigValue(this.#naming(this.where, key), value, this.#report, this.#naming, this.isSet)
  }

  /** A place for each of these properties; any other one is a fault. */
  fields<const Name extends string>(...names: ReadonlyArray<Name>): { readonly [name in Name]: ConfigValue } {
    const entries = new Map(this.entries())
    for (const [name, place] of entries) {
      if (!names.some((known) => known === name)) {
        place.fault("is not known", `Did you mean ${closestName(name, names)}? There are ${names.join(", ")}`)
      }
    }
    return Object.fromEntries(
      names.map((name) => [name, entries.get(name) ?? this.#inside(name, undefined)])
    ) as { readonly [name in Name]: ConfigValue }
  }

  /** The properties that are set. */
  entries(): ReadonlyArray<readonly [name: string, place: ConfigValue]> {
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

  /** undefined if it is not set, or no text. */
  text(): string | undefined {
    if (typeof this.value === "string") return this.value.trim()
    if (this.isSet) this.fault(`is ${kindOf(this.value)}`, "Write a text")
    return undefined
  }

  oneOf<const A extends string>(...values: ReadonlyArray<A>): A | undefined {
    const text = this.text()?.toLowerCase()
    const value = values.find((value) => value === text)
    if (text !== undefined && value === undefined) {
      this.fault(`"${text}" is not known`, `Use one of ${values.join(", ")}`)
    }
    return value
  }

  /** `true` and `false`, which a variable spells so or by the words given. */
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
    const length = text === undefined ? Option.none() : parseDuration(text)
    if (text !== undefined && Option.isNone(length)) {
      this.fault(
        `"${text}" is no length of time`,
        "Write a number and a unit, such as 30 seconds, 5 minutes or 6 hours"
      )
    }
    return Option.getOrUndefined(length)
  }

  /** undefined if it is not set, or no number of this range. */
  number(least: number, most: number): number | undefined {
    if (!this.isSet) return undefined
    if (typeof this.value === "number" && this.value >= least && this.value <= most) return this.value
    const range = most === Number.MAX_SAFE_INTEGER ? `from ${least} on` : `from ${least} to ${most}`
    this.fault(
      typeof this.value === "number" ? `${this.value} is out of range` : `is ${kindOf(this.value)}`,
      `Write a number ${range}`
    )
    return undefined
  }
}

// ---- all places ---------------------------------------------------------------------------------------------------

export interface ConfigReader {
  readonly variable: (name: Variable | SecretVariable) => ConfigValue
  /** A variable that holds several values, with commas between. */
  readonly list: (name: Variable) => ConfigValue
  /** What the file exports. */
  readonly root: ConfigValue
  /** The secret that is named there; a fault if there is none. */
  readonly secretAt: (place: ConfigValue) => SecretValue | undefined
}

/** All places, and of what the file exports these properties. */
export type SectionReader<Name extends string> = ConfigReader & {
  readonly file: { readonly [name in Name]: ConfigValue }
}

const split = (text: string | undefined): ReadonlyArray<string> | undefined => {
  const items = text?.split(",").map((item) => item.trim()).filter((item) => item !== "")
  return items?.length === 0 ? undefined : items
}

/** A variable that holds a secret reads like a property that names it. */
export const makeReader = ({ file, secrets, variables }: RawConfig, report: Report): ConfigReader => ({
  variable: (name) =>
    ConfigValue.variable(
      name,
      isVariable(name) ? variables[name] : secrets.has(name) ? secret(name) : undefined,
      report
    ),
  list: (name) => ConfigValue.variable(name, split(variables[name]), report),
  root: ConfigValue.file(file?.name ?? "", file?.value, report),
  secretAt: (place) => {
    if (!place.isSet) return undefined
    if (!isSecret(place.value)) {
      place.fault("is written out", `Write secret("NAME"), and set the variable NAME or NAME_FILE`)
      return undefined
    }
    const name = place.value.secret
    const found = secrets.get(name) ?? `neither ${name} nor ${name}_FILE is set`
    if (typeof found !== "string") return found
    place.fault(found, `Set ${name} to the secret, or ${name}_FILE to the file that holds it`)
    return undefined
  }
})

// ---- text ---------------------------------------------------------------------------------------------------------

/** A length of time as Effect spells it: `30 seconds`. */
export const parseDuration = (text: string): Option.Option<Duration.Duration> =>
  Option.filter(
    Duration.fromInput(text as Duration.Input),
    (value) => Duration.isFinite(value) && Duration.toMillis(value) > 0
  )

/** The same, and its short spelling for the command line: `20s`. */
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
  return parseDuration(match === null || unit === undefined ? text : `${match[1]} ${unit}`)
}
