/**
 * Canonical form of a record: two copies with the same canonical text count as the same content. The text does not depend on
 * the order of keys, the order inside set-like arrays or the spelling of times, and leaves out volatile properties.
 *
 * Invariants
 * 1. Two contents have equal canonical texts exactly when their diff is empty   (S4, N2, W9)
 *
 * Gotchas
 * - "Sort the keys, then JSON.stringify" is wrong, because engines put integer-like keys first. Objects are therefore turned
 *   into lists before they are serialized.
 * - Masking applies to the record itself and to records embedded in it, and to no other object: a custom field may have the
 *   same name as a masked property.
 */
import { hash } from "node:crypto"

export type JsonValue = null | boolean | number | string | ReadonlyArray<JsonValue> | JsonObject
export interface JsonObject {
  readonly [key: string]: JsonValue
}

/** The part of a model's structure that comparison needs: where records are embedded, which arrays are unordered. */
export interface Shape {
  /** Properties left out of the comparison at this level. On a record: those that never count as a change alone. */
  readonly masked: ReadonlySet<string>
  readonly unordered: ReadonlySet<string>
  readonly children: Readonly<Record<string, Shape>>
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)
export const isArray = (value: unknown): value is ReadonlyArray<JsonValue> => Array.isArray(value)

/** Levels of nesting. A recursive walk through a deeper value could overflow the stack. */
export const maxDepth = 100

/** True if a value has more than `levels` levels of nesting. A value with a cycle always has. */
export const isDeeper = (value: unknown, levels: number): boolean => {
  if (typeof value !== "object" || value === null) return false
  if (levels === 0) return true
  return Object.values(value).some((inner) => isDeeper(inner, levels - 1))
}

const memberKey = (member: JsonValue): string | undefined => {
  if (!isObject(member)) return undefined
  if (typeof member["id"] === "string") return member["id"]
  return typeof member["skill_id"] === "string" ? member["skill_id"] : undefined
}

/** Ids of the members of a set-like array; undefined if the order of the array is significant. */
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

/** The serialized form: tagged lists, so that the result does not depend on an engine's key order. */
type Form = null | boolean | number | string | ReadonlyArray<Form>
const objectTag = 0
const arrayTag = 1

/** A time with a zone and at most milliseconds. Times with finer precision or without a zone are not normalized. */
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?(?:Z|[+-]\d\d:\d\d)$/
const shortest = "2026-01-01T00:00:00Z".length
const longest = "2026-01-01T00:00:00.000+00:00".length

/** Returns the same text for every spelling of one instant (W9). */
const normalizeTime = (text: string): string => {
  if (text.length < shortest || text.length > longest || !instant.test(text)) return text
  const day = text.slice(0, 10)
  const [time, midnight] = [Date.parse(text), Date.parse(day)]
  // `Date.parse` turns 30 February into 2 March; such a text stays as it is
  const isDay = !Number.isNaN(time) && !Number.isNaN(midnight) && new Date(midnight).toISOString().startsWith(day)
  return isDay ? new Date(time).toISOString() : text
}

const formOf = (value: JsonValue, shape: Shape | undefined, name: string): Form => {
  if (typeof value === "string") return normalizeTime(value)
  if (isArray(value)) return [arrayTag, ...membersOf(value, shape, name)]
  if (!isObject(value)) return value
  const form: Array<Form> = [objectTag]
  for (const key of Object.keys(value).sort(compare)) {
    const member = value[key]
    if (member === undefined || shape?.masked.has(key) === true) continue
    form.push(key, formOf(member, childOf(shape, key), key))
  }
  return form
}

const membersOf = (array: ReadonlyArray<JsonValue>, shape: Shape | undefined, name: string): ReadonlyArray<Form> => {
  const forms = array.map((member) => formOf(member, shape, ""))
  if (forms.length < 2) return forms
  const keys = memberKeys(name, array)
  if (keys === undefined && shape?.unordered.has(name) !== true) return forms
  const unique = keys !== undefined && new Set(keys).size === keys.length
  const sortable = forms.map((form, index) => ({
    form,
    key: keys?.[index] ?? "",
    text: unique ? "" : JSON.stringify(form)
  }))
  return sortable.sort((a, b) => compare(a.key, b.key) || compare(a.text, b.text)).map(({ form }) => form)
}

/** Canonical text of the value of property `name`, whose structure is `shape`. */
export const canonical = (value: JsonValue | undefined, shape: Shape | undefined, name = ""): string =>
  value === undefined ? "undefined" : JSON.stringify(formOf(value, shape, name))

const nothing: ReadonlySet<string> = new Set()
const plain = new WeakMap<Shape, Shape>()
/** Shape of property `key`: the one from the registry, else a shape that only passes on the names of unordered arrays. */
export const childOf = (shape: Shape | undefined, key: string): Shape | undefined => {
  if (shape === undefined) return undefined
  const child = Object.hasOwn(shape.children, key) ? shape.children[key] : undefined
  if (child !== undefined) return child
  if (!shape.unordered.has(key)) return undefined
  let carried = plain.get(shape)
  if (carried === undefined) plain.set(shape, carried = { masked: nothing, unordered: shape.unordered, children: {} })
  return carried
}

/** Hash of the canonical form. */
export const canonicalHash = (shape: Shape, value: JsonObject): string =>
  hash("sha256", canonical(value, shape), "base64url")
