/**
 * The differences between two contents of one record, as JSON Pointers. Members of set-like arrays are addressed by id, other
 * members by index.
 *
 * Invariants
 * 1. The diff is empty exactly when the canonical forms are equal
 *
 * Gotchas
 * - An absent property is represented as null, so a change from absent to null has null on both sides.
 */
import * as JsonPointer from "effect/JsonPointer"
import {
  canonical,
  childOf,
  isArray,
  isObject,
  type JsonObject,
  type JsonValue,
  memberKeys,
  type Shape
} from "./Canonical.ts"

/** One changed path. `before` and `after` are null if the value is null or absent. */
export interface PathChange {
  readonly path: string
  readonly before: JsonValue
  readonly after: JsonValue
}

/** The names in a JSON Pointer. */
export const segments = (pointer: string): ReadonlyArray<string> =>
  pointer.slice(1).split("/").map(JsonPointer.unescapeToken)

/** Changes from `before` to `after`, ordered by sorted keys, without masked (volatile) properties. */
export const diff = (shape: Shape, before: JsonObject, after: JsonObject): ReadonlyArray<PathChange> => {
  const changes: Array<PathChange> = []
  walk(before, after, shape, "", "", changes)
  return changes
}

/**
 * True if any path changes to or from null. Such changes are staged, because a field that was switched off in the third-party system
 * looks the same.
 */
export const touchesNull = (changes: ReadonlyArray<PathChange>): boolean =>
  changes.some((change) => change.before === null || change.after === null)

const own = (record: JsonObject, key: string) => Object.hasOwn(record, key) ? record[key] : undefined

const walk = (
  before: JsonValue | undefined,
  after: JsonValue | undefined,
  shape: Shape | undefined,
  name: string,
  path: string,
  out: Array<PathChange>
): void => {
  if (before === after) return
  if (isObject(before) && isObject(after)) {
    const changed = Object.keys(before).filter((key) => before[key] !== own(after, key))
    const added = Object.keys(after).filter((key) => !Object.hasOwn(before, key))
    for (const key of [...changed, ...added].sort()) {
      if (shape?.masked.has(key) === true) continue
      const child = `${path}/${JsonPointer.escapeToken(key)}`
      walk(own(before, key), own(after, key), childOf(shape, key), key, child, out)
    }
    return
  }
  if (isArray(before) && isArray(after)) {
    const beforeById = byId(name, before)
    const afterById = byId(name, after)
    if (beforeById !== undefined && afterById !== undefined) {
      for (const id of [...new Set([...beforeById.keys(), ...afterById.keys()])].sort()) {
        walk(beforeById.get(id), afterById.get(id), shape, "", `${path}/${JsonPointer.escapeToken(id)}`, out)
      }
      return
    }
    const ordered = beforeById === undefined && afterById === undefined && shape?.unordered.has(name) !== true
    if (ordered && before.length === after.length && !isSet(name, before) && !isSet(name, after)) {
      before.forEach((member, index) => walk(member, after[index], shape, "", `${path}/${index}`, out))
      return
    }
  }
  if (canonical(before, shape, name) === canonical(after, shape, name)) return
  out.push({ path, before: before ?? null, after: after ?? null })
}

const isSet = (name: string, array: ReadonlyArray<JsonValue>): boolean => memberKeys(name, array) !== undefined

/** Members by id; undefined unless every member has an id and the ids are unique. */
export const byId = (name: string, array: ReadonlyArray<JsonValue>): ReadonlyMap<string, JsonValue> | undefined => {
  const keys = memberKeys(name, array)
  if (keys === undefined) return undefined
  const map = new Map(keys.map((key, index) => [key, array[index]!]))
  return map.size === array.length ? map : undefined
}
