/**
 * Redaction: drops or hashes the values at JSON Pointers, in records of the API and in stored content that was redacted by other
 * rules before.
 *
 * Invariants
 * 1. No value at or below a pointer passes, whatever its shape: a branch without the structure that the pointer names is dropped   (I11)
 * 2. Stored content is redacted according to the rules that are stored with it, and not according to the look of its values: a value of
 *    a record that looks like a hash is hashed like any other
 *
 * Gotchas
 * - An array on the way means each of its members. A pointer cannot name an array directly in an array.
 * - Null stays null, so that a change to or from null remains visible.
 * - A pointer below another one has no effect.
 */
import { createHmac, hash } from "node:crypto"
import { canonical, isArray, isObject, type JsonObject, type JsonValue } from "./Canonical.ts"
import { segments } from "./Diff.ts"

/** `drop`: the property is left out. `hash`: replaced by a keyed hash, so that equal values stay equal. */
export type Redaction = "drop" | "hash"
/** By JSON Pointer. */
export type RedactionRules = Readonly<Record<string, Redaction>>

/** Rules that were applied to content before it was stored. A stored row has the id; the state of its stream has the rules. */
export interface AppliedRules {
  readonly id: string
  readonly dropsRemoteData: boolean
  readonly redact: RedactionRules
}

const isBelow = (pointer: string, other: string): boolean => pointer.startsWith(`${other}/`)

/** In the order of their pointers, without those that another pointer includes. */
const normalize = (rules: RedactionRules): RedactionRules => {
  const pointers = Object.keys(rules).sort()
  const outermost = pointers.filter((pointer) => !pointers.some((other) => isBelow(pointer, other)))
  return Object.fromEntries(outermost.map((pointer) => [pointer, rules[pointer]!]))
}

export const appliedRules = (dropsRemoteData: boolean, rules: RedactionRules): AppliedRules => {
  const redact = normalize(rules)
  const id = hash("sha256", JSON.stringify([dropsRemoteData, redact]), "base64url").slice(0, 8)
  return { id, dropsRemoteData, redact }
}

/** Id of the rules of rows that an earlier version stored, which are not known. */
export const unknownRules = ""

/** The rules that hold for the property `name` of a record, as rules for the value of that property. */
export const rulesBelow = (rules: RedactionRules, name: string): RedactionRules =>
  Object.fromEntries(
    Object.entries(rules).flatMap(([pointer, how]) =>
      isBelow(pointer, `/${name}`) ? [[pointer.slice(name.length + 1), how]] : []
    )
  )

/** The rules of content of `first` to which `next` was applied. */
export const combine = (first: AppliedRules, next: AppliedRules): AppliedRules =>
  appliedRules(first.dropsRemoteData || next.dropsRemoteData, { ...first.redact, ...next.redact })

/** The rules of `next` that content of `first` does not satisfy yet. */
export const missingRules = (first: AppliedRules, next: AppliedRules): RedactionRules =>
  Object.fromEntries(
    Object.entries(next.redact).filter(([pointer, how]) =>
      !Object.entries(first.redact).some(([done, before]) =>
        isBelow(pointer, done) || (pointer === done && (before === "drop" || how === "hash"))
      )
    )
  )

/** True if `next` changes nothing in content of `first`. */
export const satisfies = (first: AppliedRules, next: AppliedRules): boolean =>
  (first.dropsRemoteData || !next.dropsRemoteData) && Object.keys(missingRules(first, next)).length === 0

/** True if a value at `path` (property names) may be changed by one of the rules. */
export const concerns = (rules: RedactionRules, path: ReadonlyArray<string>): boolean =>
  Object.keys(rules).some((pointer) => segments(pointer).every((name, index) => (path[index] ?? name) === name))

// ---- values -------------------------------------------------------------------------------------------------------

type Replace = (value: JsonValue) => JsonValue | undefined

const hashed = "redacted:"
const hashLook = /^redacted:[\w-]{43}$/

const keyedHash = (key: string): Replace => (value) =>
  value === null ? null : hashed + createHmac("sha256", key).update(canonical(value, undefined)).digest("base64url")

/** For content of unknown rules: a value that looks hashed is taken for hashed, because a second hash would be another value. */
const unlessHashed = (replace: Replace): Replace => (value) =>
  typeof value === "string" && hashLook.test(value) ? value : replace(value)

/** undefined: the value is left out, because the path does not fit its structure. */
const redactAt = (value: JsonValue, path: ReadonlyArray<string>, replace: Replace): JsonValue | undefined => {
  if (value === null) return null
  if (isArray(value)) {
    return value.flatMap((member) =>
      isArray(member) ? [] : redactAt(member, path, replace) ?? (member === null ? [null] : [])
    )
  }
  return isObject(value) ? redactIn(value, path, replace) : undefined
}

const redactIn = (record: JsonObject, [name, ...rest]: ReadonlyArray<string>, replace: Replace): JsonObject => {
  if (name === undefined || !Object.hasOwn(record, name)) return record
  const { [name]: at = null, ...others } = record
  const redacted = rest.length > 0 ? redactAt(at, rest, replace) : replace(at)
  return redacted === undefined ? others : { ...record, [name]: redacted }
}

/** Applies the rules to a record. `isUnknown`: which rules were applied to it before is not known. */
export const redact = (record: JsonObject, rules: RedactionRules, key: string, isUnknown = false): JsonObject =>
  Object.entries(rules).reduce((content, [pointer, how]) => {
    const replace: Replace = how === "drop"
      ? () => undefined
      : isUnknown
      ? unlessHashed(keyedHash(key))
      : keyedHash(key)
    return redactIn(content, segments(pointer), replace)
  }, record)
