/**
 * Redaction: removes or hashes the values at JSON Pointers, in records of the API and in stored content that older rules have
 * redacted already.
 *
 * Invariants
 * 1. No value at or below a pointer remains readable, whatever its type: a value whose structure does not match the pointer is
 *    removed   (I11)
 * 2. The rules that are stored with content decide which values must still be redacted. A value that looks like a hash is not taken for
 *    one, unless the rules of the content are unknown
 *
 * Gotchas
 * - A pointer that leads through an array applies to each member. Arrays that are directly in such an array are removed.
 * - Null stays null, so that a change to or from null remains visible.
 * - A pointer below another rule's pointer has no effect.
 */
import { createHmac, hash } from "node:crypto"
import { canonical, isArray, isObject, type JsonObject, type JsonValue } from "./Canonical.ts"
import { segments } from "./Diff.ts"

/** `drop`: the property is removed. `hash`: its value is replaced by a keyed hash, so that equal values stay equal. */
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

/** Sorts the rules by pointer, and leaves out those below the pointer of another rule. */
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

/** The rules below the property `name`, with pointers that start at the value of that property. */
export const rulesBelow = (rules: RedactionRules, name: string): RedactionRules =>
  Object.fromEntries(
    Object.entries(rules).flatMap(([pointer, how]) =>
      isBelow(pointer, `/${name}`) ? [[pointer.slice(name.length + 1), how]] : []
    )
  )

/** The rules of content that was redacted by `first` and then by `next`. */
export const combine = (first: AppliedRules, next: AppliedRules): AppliedRules =>
  appliedRules(first.dropsRemoteData || next.dropsRemoteData, { ...first.redact, ...next.redact })

/** The rules of `next` that must still be applied to content that was redacted by `first`. */
export const missingRules = (first: AppliedRules, next: AppliedRules): RedactionRules =>
  Object.fromEntries(
    Object.entries(next.redact).filter(([pointer, how]) =>
      !Object.entries(first.redact).some(([done, before]) =>
        isBelow(pointer, done) || (pointer === done && (before === "drop" || how === "hash"))
      )
    )
  )

/** True if `next` would change nothing in content that was redacted by `first`. */
export const satisfies = (first: AppliedRules, next: AppliedRules): boolean =>
  (first.dropsRemoteData || !next.dropsRemoteData) && Object.keys(missingRules(first, next)).length === 0

/** True if a value at `path` (property names) may be changed by one of the rules. */
export const concerns = (rules: RedactionRules, path: ReadonlyArray<string>): boolean =>
  Object.keys(rules).some((pointer) => segments(pointer).every((name, index) => (path[index] ?? name) === name))

// ---- values -------------------------------------------------------------------------------------------------------

type Replace = (value: JsonValue) => JsonValue | undefined

const hashed = "redacted:"

const keyedHash = (key: string): Replace => (value) =>
  value === null ? null : hashed + createHmac("sha256", key).update(canonical(value, undefined)).digest("base64url")

/** Undefined if the value must be removed, because its structure does not match the path. */
const redactValue = (value: JsonValue, path: ReadonlyArray<string>, replace: Replace): JsonValue | undefined => {
  if (value === null) return null
  if (isArray(value)) {
    return value.flatMap((member) =>
      isArray(member) ? [] : redactValue(member, path, replace) ?? (member === null ? [null] : [])
    )
  }
  return isObject(value) ? redactProperty(value, path, replace) : undefined
}

const redactProperty = (record: JsonObject, [name, ...rest]: ReadonlyArray<string>, replace: Replace): JsonObject => {
  if (name === undefined || !Object.hasOwn(record, name)) return record
  const { [name]: at = null, ...others } = record
  const redacted = rest.length > 0 ? redactValue(at, rest, replace) : replace(at)
  return redacted === undefined ? others : { ...record, [name]: redacted }
}

/** Applies the rules to a record. */
export const redact = (record: JsonObject, rules: RedactionRules, key: string): JsonObject =>
  Object.entries(rules).reduce((content, [pointer, how]) => {
    const replace: Replace = how === "drop" ? () => undefined : keyedHash(key)
    return redactProperty(content, segments(pointer), replace)
  }, record)
