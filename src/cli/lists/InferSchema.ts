/**
 * Infers the schema of a list from some of its records.
 *
 * Invariants
 * 1. The text of the schema contains no value of a record   (I11)
 * 2. The schema decodes each of the records
 *
 * Gotchas
 * - The name of a property may be data, such as the name of a person. So an object becomes a struct only if its properties have names that
 *   fields have, and recur in the objects at the same path. Any other object is a value of free form.
 */
import { isArray, isObject, type JsonObject, type JsonValue } from "../../domain/Canonical.ts"

/** The form of the values at one path. `scalar` and `json` have the text of their schema. */
export type Shape =
  | { readonly kind: "scalar" | "json"; readonly text: string }
  | { readonly kind: "array"; readonly member: Field }
  | { readonly kind: "struct"; readonly fields: Fields; readonly objects: ReadonlyArray<JsonObject> }

export interface Field {
  readonly shape: Shape
  readonly isNullable: boolean
  /** Some object at the path lacks the field. */
  readonly isOptional: boolean
}

export type Fields = ReadonlyMap<string, Field>

/** Structs inside each other, without the record itself. */
const maxLevels = 3
const freeForm: ReadonlySet<string> = new Set(["custom_fields", "integration_fields", "remote_data"])
const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/
/** Long numbers are in ids and dates. A schema would read a name such as `constructor` from the prototype. */
const isFieldName = (name: string): boolean => !(name in Object.prototype) && /^(?!.*\d{4})[A-Za-z]\w{0,63}$/.test(name)

const scalar = (text: string): Shape => ({ kind: "scalar", text })
const json: Shape = { kind: "json", text: "Schema.Json" }
/** Its schema is declared in front of the definition. */
const time = scalar("time")

/** `values`: without null. */
const shapeOf = (values: ReadonlyArray<JsonValue>, level: number): Shape => {
  if (values.length === 0) return json
  if (values.every((value) => typeof value === "string")) {
    return values.every((value) => instant.test(value)) ? time : scalar("Schema.String")
  }
  if (values.every((value) => typeof value === "number")) return scalar("Schema.Finite")
  if (values.every((value) => typeof value === "boolean")) return scalar("Schema.Boolean")
  if (values.every(isArray)) {
    const members = values.flat()
    return { kind: "array", member: fieldOf(members.some(isArray) ? [] : members, 0, level) }
  }
  const fields = values.every(isObject) && level < maxLevels ? fieldsOf(values, level + 1) : null
  return fields === null ? json : { kind: "struct", fields, objects: values.filter(isObject) }
}

/** `count`: the number of objects at the path above. */
const fieldOf = (values: ReadonlyArray<JsonValue>, count: number, level: number): Field => {
  const known = values.filter((value) => value !== null)
  const shape = shapeOf(known, level)
  return { shape, isNullable: known.length < values.length, isOptional: values.length < count }
}

/** Null if the properties may be data. One object alone does not show which properties recur, unless it has an id. */
const fieldsOf = (objects: ReadonlyArray<JsonObject>, level: number): Fields | null => {
  const isRecord = level === 0
  const properties = Map.groupBy(objects.flatMap((object) => Object.entries(object)), ([name]) => name)
  const isField = (name: string, count: number) => isFieldName(name) && (isRecord || 2 * count >= objects.length)
  const fields = [...properties].filter(([name, { length }]) => isField(name, length))
  const isKnown = isRecord || objects.length > 1 || properties.has("id")
  if (!isKnown || fields.length === 0 || (!isRecord && fields.length < properties.size)) return null
  return new Map(fields.map(([name, entries]) => {
    const field = fieldOf(entries.map(([, value]) => value), objects.length, level)
    // the time of a deletion is null in most records
    const isTime = name.endsWith("_at") && entries.every(([, value]) => value === null)
    return [name, { ...field, shape: freeForm.has(name) ? json : isTime ? time : field.shape }]
  }))
}

/** The fields of records, without properties whose names may be data. */
export const inferFields = (records: ReadonlyArray<JsonObject>): Fields => fieldsOf(records, 0) ?? new Map()

const textOf = (shape: Shape, isNullable: boolean, indent: string): string => {
  const text = shape.kind === "array"
    ? `Schema.Array(${textOf(shape.member.shape, shape.member.isNullable, indent)})`
    : shape.kind === "struct"
    ? schemaText(shape.fields, indent)
    : shape.text
  return isNullable && shape.kind !== "json" ? `Schema.NullOr(${text})` : text
}

/** `Schema.Struct({ … })`. Every field of a record may be absent and null, whatever its schema says, so at the top none is optional. */
export const schemaText = (fields: Fields, indent: string, isRecord = false): string => {
  const inner = `${indent}  `
  const lines = [...fields].map(([name, { isNullable, isOptional, shape }]) => {
    const text = textOf(shape, isNullable || isOptional, inner)
    return `${inner}${name}: ${isOptional && !isRecord ? `Schema.optionalKey(${text})` : text}`
  })
  return `Schema.Struct({\n${lines.join(",\n")}\n${indent}})`
}
