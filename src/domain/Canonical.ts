/**
 * What two copies of a record must share to count as the same content: a canonical text, whatever the order of keys and
 * of set-like arrays, without the paths that never make a change alone.
 *
 * Invariants
 * 1. Equal canonical texts and an empty diff mean the same thing (S4, N2)
 *
 * Gotchas
 * - "Sort the keys, then JSON.stringify" is wrong: engines put integer-like keys first. The text is built here.
 * - `changed_at` and `remote_updated_at` are masked on the record and on records embedded in it, nowhere else: a custom
 *   field may have such a name.
 */
import { hash } from "node:crypto"
import type { IncrementalModel } from "../api/Lists.ts"
import { type ModelEntry, registry } from "./Model.ts"

export type JsonValue = null | boolean | number | string | ReadonlyArray<JsonValue> | JsonObject
export interface JsonObject {
  readonly [key: string]: JsonValue
}

/** A model's shape as far as comparing needs it: where records are embedded, which arrays are unordered. */
export interface Shape {
  readonly record: boolean
  readonly unordered: ReadonlySet<string>
  readonly children: Readonly<Record<string, Shape>>
}

const volatile: ReadonlySet<string> = new Set(["changed_at", "remote_updated_at"])

const shapeOf = (entry: ModelEntry): Shape => {
  const unordered = new Set(entry.unordered)
  const build = (paths: ReadonlyArray<ReadonlyArray<string>>, record: boolean): Shape => {
    const names = new Set(paths.flatMap((path) => path.slice(0, 1)))
    return {
      record,
      unordered,
      children: Object.fromEntries([...names].map((name) => {
        const below = paths.filter((path) => path[0] === name).map((path) => path.slice(1))
        return [name, build(below.filter((path) => path.length > 0), below.some((path) => path.length === 0))]
      }))
    }
  }
  return build(entry.nested.map((reference) => reference.path), true)
}

export const shapes: Readonly<Record<IncrementalModel, Shape>> = Object.fromEntries(
  Object.values(registry).map((entry) => [entry.model, shapeOf(entry)])
) as Record<IncrementalModel, Shape>

/** Changes when the meaning of hashes or stored content does: stored content is then compared anew, not republished (S3, V1). */
export const fingerprints: Readonly<Record<IncrementalModel, string>> = Object.fromEntries(
  Object.values(registry).map((entry) => [
    entry.model,
    hash("sha256", JSON.stringify({ normaliser: 1, remoteData: "drop", ...entry }), "base64url").slice(0, 12)
  ])
) as Record<IncrementalModel, string>

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)
export const isArray = (value: unknown): value is ReadonlyArray<JsonValue> => Array.isArray(value)

/** Masked where `shape` says a record stands. */
export const isVolatile = (shape: Shape | undefined, key: string): boolean =>
  shape !== undefined && shape.record && volatile.has(key)

const memberKey = (member: JsonValue): string | undefined => {
  if (!isObject(member)) return undefined
  if (typeof member["id"] === "string") return member["id"]
  return typeof member["skill_id"] === "string" ? member["skill_id"] : undefined
}

/** Ids of the members of a set-like array; undefined if its order means something. */
export const memberKeys = (name: string, array: ReadonlyArray<JsonValue>): ReadonlyArray<string> | undefined => {
  if (name === "ordered_options") return undefined
  const keys: Array<string> = []
  for (const member of array) {
    const key = memberKey(member)
    if (key === undefined) return undefined
    keys.push(key)
  }
  return keys
}

const compare = (a: string, b: string): number => a < b ? -1 : a > b ? 1 : 0

/** Canonical text of a value standing under `name` at `shape`. */
export const canonical = (value: JsonValue | undefined, shape: Shape | undefined, name = ""): string => {
  if (value === undefined) return "undefined"
  if (isArray(value)) {
    const keys = memberKeys(name, value)
    const texts = value.map((member) => canonical(member, shape, ""))
    if (keys !== undefined) {
      const order = keys.map((_, index) => index)
      order.sort((a, b) => compare(keys[a]!, keys[b]!) || compare(texts[a]!, texts[b]!))
      return `[${order.map((index) => texts[index]).join(",")}]`
    }
    if (shape?.unordered.has(name) === true) texts.sort(compare)
    return `[${texts.join(",")}]`
  }
  if (isObject(value)) {
    let text = ""
    for (const key of Object.keys(value).sort(compare)) {
      if (isVolatile(shape, key)) continue
      text += `${text === "" ? "" : ","}${JSON.stringify(key)}:${canonical(value[key], childOf(shape, key), key)}`
    }
    return `{${text}}`
  }
  return JSON.stringify(value)
}

const plain = new WeakMap<Shape, Shape>()
/** Shape below `key`: what the registry knows of it, else one that only carries the unordered names on. */
export const childOf = (shape: Shape | undefined, key: string): Shape | undefined => {
  if (shape === undefined) return undefined
  const child = Object.hasOwn(shape.children, key) ? shape.children[key] : undefined
  if (child !== undefined) return child
  if (!shape.unordered.has(key)) return undefined
  let carried = plain.get(shape)
  if (carried === undefined) plain.set(shape, carried = { record: false, unordered: shape.unordered, children: {} })
  return carried
}

/** Hash of the canonical form of a processed record. */
export const canonicalHash = (model: IncrementalModel, value: JsonObject): string =>
  hash("sha256", canonical(value, shapes[model]), "base64url")

/** Hash of a record's own serialization, keyed with the processing fingerprint: equal → nothing changed, no need to look further. */
export const textHash = (model: IncrementalModel, text: string): string =>
  hash("sha256", fingerprints[model] + text, "base64url")

/** The record as it is stored and published: `remote_data` is null on it and on records embedded in it, the key stays. */
export const process = (model: IncrementalModel, value: JsonObject): JsonObject => drop(value, shapes[model])

const drop = (value: JsonObject, shape: Shape): JsonObject => {
  const result: Record<string, JsonValue> = { ...value }
  if (shape.record && result["remote_data"] !== undefined) result["remote_data"] = null
  for (const [key, child] of Object.entries(shape.children)) {
    const nested = result[key]
    if (isArray(nested)) result[key] = nested.map((member) => isObject(member) ? drop(member, child) : member)
    else if (isObject(nested)) result[key] = drop(nested, child)
  }
  return result
}
