/**
 * Checks the answers to an employee form against the form, and returns every violation with its path.
 *
 * Invariants
 * 1. A violation never repeats a value: answers are personal data   (I11)
 * 2. The check takes time linear in the size of the answers, whatever patterns the form contains
 *
 * Gotchas
 * - An optional answer may be absent or null; its nested fields are then not required.
 * - If the form leaves something open (no options, an unknown type), only the API checks it.
 */
import * as JsonPointer from "effect/JsonPointer"
import { isDay } from "./Fields.ts"
import {
  type ArrayField,
  type EmployeeForm,
  type FormField,
  isKnownField,
  type MultiSelectField,
  type ObjectField,
  type SingleSelectField,
  type TextField
} from "./Forms.ts"
import { compilePattern, type Matcher } from "./Patterns.ts"

/** `pattern_unsupported` is a problem of the form; all other rules are violated by the answers. */
export type FormRule =
  | "required"
  | "unknown"
  | "type"
  | "length"
  | "pattern"
  | "pattern_unsupported"
  | "bounds"
  | "items"
  | "option"

export interface FormViolation {
  /** JSON Pointer into `properties`: `/address/lines/0`. */
  readonly path: string
  readonly rule: FormRule
  /** Describes the requirement, without the value. */
  readonly message: string
}

type Answers = Readonly<Record<string, unknown>>
type Report = (path: string, rule: FormRule, message: string) => void

const pointer = (path: string, key: string | number): string => `${path}/${JsonPointer.escapeToken(String(key))}`

const isRecord = (value: unknown): value is Answers =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** "between 2 and 5", "at least 2" or "at most 5"; null if the number is within the bounds. */
const boundsViolation = (
  value: number,
  min: number | null | undefined,
  max: number | null | undefined
): string | null => {
  if ((min == null || value >= min) && (max == null || value <= max)) return null
  if (min != null && max != null) return `between ${min} and ${max}`
  return min != null ? `at least ${min}` : `at most ${max}`
}

class FormChecker {
  readonly violations: Array<FormViolation> = []
  readonly #patterns = new Map<string, Matcher | null>()

  readonly #report: Report = (path, rule, message) => {
    this.violations.push({ path, rule, message })
  }

  checkFields(fields: Readonly<Record<string, FormField>>, answers: Answers, path: string): void {
    for (const [key, field] of Object.entries(fields)) {
      this.#answer(field, Object.hasOwn(answers, key) ? answers[key] : undefined, pointer(path, key))
    }
    for (const key of Object.keys(answers)) {
      if (!Object.hasOwn(fields, key)) this.#report(pointer(path, key), "unknown", "is not a field of this form")
    }
  }

  #answer(field: FormField, value: unknown, path: string): void {
    if (value === undefined || value === null) {
      if (field.required === true) this.#report(path, "required", "is required")
      return
    }
    if (!isKnownField(field)) return
    switch (field.type) {
      case "text":
        return this.#text(field, value, path)
      case "date":
        if (typeof value !== "string" || !isDay(value)) {
          this.#report(path, "type", "must be a day that exists, as YYYY-MM-DD")
        }
        return
      case "number": {
        if (typeof value !== "number" || !Number.isFinite(value)) return this.#report(path, "type", "must be a number")
        const expected = boundsViolation(value, field.min, field.max)
        if (expected !== null) this.#report(path, "bounds", `must be ${expected}`)
        return
      }
      case "object":
        return this.#object(field, value, path)
      case "array":
        return this.#array(field, value, path)
      case "single_select":
        return this.#option(field, value, path)
      case "multi_select":
        return this.#options(field, value, path)
      case "checkbox":
        if (typeof value !== "boolean") this.#report(path, "type", "must be true or false")
        return
    }
  }

  #text(field: TextField, value: unknown, path: string): void {
    if (typeof value !== "string") return this.#report(path, "type", "must be a string")
    const length = [...value].length
    const expected = boundsViolation(length, field.min_length, field.max_length)
    if (expected !== null) this.#report(path, "length", `must have ${expected} characters, has ${length}`)
    if (field.reg_exp == null) return
    const matches = this.#matcher(field.reg_exp)
    if (matches === null) {
      this.#report(path, "pattern_unsupported", `the form's pattern cannot be matched in linear time: ${field.reg_exp}`)
    } else if (!matches(value)) this.#report(path, "pattern", `must match ${field.reg_exp}`)
  }

  #object({ properties }: ObjectField, value: unknown, path: string): void {
    if (!isRecord(value)) return this.#report(path, "type", "must be an object")
    if (properties != null) this.checkFields(properties, value, path)
  }

  #array({ item_type, max_items, min_items }: ArrayField, value: unknown, path: string): void {
    if (!Array.isArray(value)) return this.#report(path, "type", "must be an array")
    const expected = boundsViolation(value.length, min_items, max_items)
    if (expected !== null) this.#report(path, "items", `must have ${expected} items, has ${value.length}`)
    if (item_type == null) return
    value.forEach((item: unknown, index) => this.#answer(item_type, item, pointer(path, index)))
  }

  #options(field: MultiSelectField, value: unknown, path: string): void {
    if (!Array.isArray(value)) return this.#report(path, "type", "must be an array of ids of options")
    const expected = boundsViolation(value.length, field.min_items, field.max_items)
    if (expected !== null) this.#report(path, "items", `must have ${expected} items, has ${value.length}`)
    value.forEach((item: unknown, index) => this.#option(field, item, pointer(path, index)))
  }

  #option({ options }: Pick<SingleSelectField, "options">, value: unknown, path: string): void {
    if (typeof value !== "string") return this.#report(path, "type", "must be the id of an option")
    const entries = options?.entries
    if (entries == null || entries.some(({ id }) => id === value)) return
    this.#report(path, "option", `must be the id of one of the ${entries.length} options`)
  }

  #matcher(pattern: string): Matcher | null {
    const known = this.#patterns.get(pattern)
    if (known !== undefined) return known
    const compiled = compilePattern(pattern)
    this.#patterns.set(pattern, compiled)
    return compiled
  }
}

/** Every violation of the form by `properties` (of a `CreateEmployee` body); empty if there is none. */
export const checkForm = (form: EmployeeForm, properties: Answers): ReadonlyArray<FormViolation> => {
  const check = new FormChecker()
  check.checkFields(form.properties, properties, "")
  return check.violations
}
