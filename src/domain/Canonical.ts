/**
 * Canonical form of a record: two copies with the same canonical text have the same content. The text does not depend on
 * the order of keys, the order inside set-like arrays or the spelling of times, and leaves out volatile properties.
 *
 * Invariants
 * 1. Two contents have equal canonical texts exactly when their diff is empty   (S4, N2, W9)
 *
 * Gotchas
 * - "Sort the keys, then JSON.stringify" is wrong, because engines put integer-like keys first. Objects are therefore written as lists.
 * - The text is stored as a hash. If the text changed, every stored record would look changed, so a test compares it with the text of a
 *   slower implementation.
 * - Masking applies to the record itself and to records embedded in it, and to no other object: a custom field may have the
 *   same name as a masked property.
 */
import { hash } from "node:crypto"
import { isCalendarDay } from "../api/Fields.ts"

export type JsonValue = null | boolean | number | string | ReadonlyArray<JsonValue> | JsonObject
export interface JsonObject {
  readonly [key: string]: JsonValue
}

/** The part of a model's structure that a comparison needs: where records are embedded, and which arrays are unordered. */
export interface Shape {
  /** Properties that the comparison leaves out at this level. If only such properties of a record differ, the record is unchanged. */
  readonly masked: ReadonlySet<string>
  readonly unordered: ReadonlySet<string>
  readonly children: Readonly<Record<string, Shape>>
}

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)
export const isArray = (value: unknown): value is ReadonlyArray<JsonValue> => Array.isArray(value)

/** A record that is nested deeper than this many levels is quarantined, because a recursive walk could overflow the stack. */
export const maxDepth = 100

/** True if a value has more than `levels` levels of nesting. A value with a cycle has infinitely many. */
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

/** A time with a zone and at most milliseconds. Times with finer precision or without a zone are not normalized. */
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,3})?(?:Z|[+-]\d\d:\d\d)$/
/**
 * A text in the normal form stays as it is, even if no such time exists. Hour 24 is excluded, because its normal form is hour 0 of the
 * next day.
 */
const normalForm = /^\d{4}-\d\d-\d\dT(?!24)\d\d:\d\d:\d\d\.\d{3}Z$/
const shortest = "2026-01-01T00:00:00Z".length
const longest = "2026-01-01T00:00:00.000+00:00".length

/** Returns the same text for every spelling of one instant (W9). */
const normalizeTime = (text: string): string => {
  if (text.length < shortest || text.length > longest || text[10] !== "T") return text
  if (normalForm.test(text) || !instant.test(text)) return text
  const time = Date.parse(text)
  return Number.isNaN(time) || !isCalendarDay(text.slice(0, 10)) ? text : new Date(time).toISOString()
}

/** Objects and arrays are written as lists that start with a tag, so that the text does not depend on an engine's key order. */
const openObject = "[0"
const openArray = "[1"

/** What `JSON.stringify` escapes, or may escape. */
// oxlint-disable-next-line no-control-regex
const escaped = /["\\\u0000-\u001f\ud800-\udfff]/

const quoted = (text: string): string => escaped.test(text) ? JSON.stringify(text) : `"${text}"`

/** How an object with these keys is written as text. */
interface Layout {
  readonly keys: ReadonlyArray<string>
  /** The members that are compared, in the order in which they are written. */
  readonly members: ReadonlyArray<Member>
}

interface Member {
  readonly key: string
  /** The key, between two commas. */
  readonly text: string
  readonly shape: Shape | undefined
}

/** The last layout for each shape and number of keys. Objects at the same place of a model mostly have the same keys. */
const layouts = new WeakMap<object, Array<Layout | undefined>>()
const noShape = {}
const maxKeys = 100

const toLayout = (keys: ReadonlyArray<string>, shape: Shape | undefined): Layout => ({
  keys,
  members: keys.filter((key) => shape?.masked.has(key) !== true).sort(compare)
    .map((key) => ({ key, text: `,${quoted(key)},`, shape: childOf(shape, key) }))
})

const layoutOf = (value: JsonObject, shape: Shape | undefined): Layout => {
  const keys = Object.keys(value)
  let known = layouts.get(shape ?? noShape)
  if (known === undefined) layouts.set(shape ?? noShape, known = [])
  const last = known[keys.length]
  if (last !== undefined && keys.every((key, index) => key === last.keys[index])) return last
  const layout = toLayout(keys, shape)
  if (keys.length <= maxKeys) known[keys.length] = layout
  return layout
}

const textOf = (value: JsonValue | undefined, shape: Shape | undefined, name: string): string => {
  if (typeof value === "string") return quoted(normalizeTime(value))
  if (isArray(value)) return arrayText(value, shape, name)
  if (!isObject(value)) return typeof value === "boolean" || Number.isFinite(value) ? String(value) : "null"
  let text = openObject
  for (const { key, shape: child, text: keyText } of layoutOf(value, shape).members) {
    const member = value[key]
    if (member !== undefined) text += keyText + textOf(member, child, key)
  }
  return `${text}]`
}

const arrayText = (array: ReadonlyArray<JsonValue>, shape: Shape | undefined, name: string): string => {
  let text = openArray
  for (const member of inOrder(array, array.map((member) => textOf(member, shape, "")), shape, name)) {
    text += `,${member}`
  }
  return `${text}]`
}

/** The texts of an array's members: sorted, if the order of the array is not significant. */
const inOrder = (
  array: ReadonlyArray<JsonValue>,
  texts: ReadonlyArray<string>,
  shape: Shape | undefined,
  name: string
): ReadonlyArray<string> => {
  if (texts.length < 2) return texts
  const keys = memberKeys(name, array)
  if (keys === undefined) return shape?.unordered.has(name) === true ? texts.toSorted(compare) : texts
  return texts.map((text, index) => ({ text, key: keys[index]! }))
    .sort((a, b) => compare(a.key, b.key) || compare(a.text, b.text))
    .map(({ text }) => text)
}

/** Canonical text of the value of property `name`, whose structure is `shape`. */
export const canonical = (value: JsonValue | undefined, shape: Shape | undefined, name = ""): string =>
  value === undefined ? "undefined" : textOf(value, shape, name)

const nothing: ReadonlySet<string> = new Set()
const plain = new WeakMap<Shape, Shape>()
/**
 * Shape of property `key`: the one in the model's registry. An unordered array that is not in the registry has a shape that only passes on
 * the names of unordered arrays. Undefined for any other property.
 */
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
