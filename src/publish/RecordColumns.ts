/**
 * The columns of a model's records, for tables: derived from the contract's schema of the model.
 *
 * Invariants
 * 1. Every value of a record that is not null is in its row. A value without a column, or of another type than its column, is in the column
 *    `unknown_fields`, under its own names
 * 2. The columns depend only on the schema, so a new field of the API does not change a table
 *
 * Gotchas
 * - A hash in place of a redacted number, and a number that a double cannot hold, are texts.
 * - Names of columns often ignore case, so of two fields that differ only in case, the first one has a column.
 */
import { isObject, type JsonObject, type JsonValue } from "../domain/Canonical.ts"
import type { RecordEntry } from "../domain/Model.ts"
import { choicesOf, contractSchemaOf, type JsonSchema } from "./RecordSchema.ts"

/** `time`: a text with an ISO 8601 time. `json`: a value of any form. */
export type ColumnType = "string" | "int64" | "double" | "boolean" | "time" | "json"

export interface Column {
  /** The field's name. For a field of a nested object: the names that lead to it, with dots between them. */
  readonly name: string
  readonly type: ColumnType
}

/** Names that tables use for themselves. */
const unknownFields = "unknown_fields"
const reserved: ReadonlyArray<string> = ["integration", "record_generation", "record_version", unknownFields]

type Fields = Map<string, Column | Fields>

export interface RecordColumns {
  /** `id` is the first one, and `unknown_fields` the last one. */
  readonly columns: ReadonlyArray<Column>
  readonly fields: ReadonlyMap<string, Column | Fields>
}

/** The type of the column of a property. */
export const columnTypeOf = (property: JsonSchema): ColumnType => {
  const { isUnion, schema: { format, type } } = schemaOf(property)
  if (type === "string") return format === "date-time" && !isUnion ? "time" : "string"
  if (type === "integer") return "int64"
  if (type === "number") return "double"
  return type === "boolean" ? "boolean" : "json"
}

/** The one schema of a property beside null; a union of texts is a text, and any other union is of any form. */
const schemaOf = (property: JsonSchema): { readonly schema: JsonSchema; readonly isUnion: boolean } => {
  const choices = choicesOf(property)
  const [schema = {}] = choices
  return choices.every(({ type }) => type === schema.type)
    ? { schema, isUnion: choices.length > 1 }
    : { schema: {}, isUnion: true }
}

/** `flat`: nested objects have a column for each of their fields; otherwise they have one column. */
export const recordColumnsOf = (entry: RecordEntry, flat = false): RecordColumns => {
  const taken = new Set(reserved)
  const columns: Array<Column> = []
  const fieldsOf = (properties: NonNullable<JsonSchema["properties"]>, path: string): Fields => {
    const fields: Fields = new Map()
    for (const [field, property] of Object.entries(properties)) {
      const name = path + field
      const { schema } = schemaOf(property)
      if (flat && schema.type === "object" && schema.properties !== undefined) {
        fields.set(field, fieldsOf(schema.properties, `${name}.`))
      } else if (!taken.has(name.toLowerCase())) {
        const column = { name, type: columnTypeOf(property) }
        taken.add(name.toLowerCase())
        fields.set(field, column)
        columns.push(column)
      }
    }
    return fields
  }
  const fields = fieldsOf({ id: { type: "string" }, ...contractSchemaOf(entry).properties }, "")
  columns.push({ name: unknownFields, type: "json" })
  return { columns, fields }
}

/** Whether a value that is not null has the type of its column. */
export const fits = (type: ColumnType, value: JsonValue): boolean => {
  if (type === "json") return true
  if (type === "int64") return Number.isSafeInteger(value)
  if (type === "double") return typeof value === "number"
  return typeof value === (type === "boolean" ? "boolean" : "string")
}

/** `values`: by the name of the column; a column without a value has none. `unknown`: the content of the column `unknown_fields`. */
export const rowOf = ({ fields }: RecordColumns, record: JsonObject, valueFits = fits) => {
  const values = new Map<string, JsonValue>()
  const takeFrom = (object: JsonObject, known: RecordColumns["fields"]): JsonObject | null => {
    const others: Array<readonly [string, JsonValue]> = []
    for (const [name, value] of Object.entries(object)) {
      if (value === null) continue
      const field = known.get(name)
      if (field instanceof Map && isObject(value)) {
        const left = takeFrom(value, field)
        if (left !== null) others.push([name, left])
      } else if (field === undefined || field instanceof Map || !valueFits(field.type, value)) {
        others.push([name, value])
      } else {
        values.set(field.name, value)
      }
    }
    // unlike an assignment, this keeps a field with the name __proto__
    return others.length === 0 ? null : Object.fromEntries(others)
  }
  const unknown = takeFrom(record, fields)
  return { values, unknown }
}

/** The values of a row by column, with `unknown_fields`: each value of any form is a JSON text. */
export const cellsOf = (known: RecordColumns, record: JsonObject, valueFits = fits) => {
  const { unknown, values } = rowOf(known, record, valueFits)
  const cells = new Map<string, string | number | boolean>()
  for (const { name, type } of known.columns) {
    const value = values.get(name)
    if (value !== undefined) {
      cells.set(name, type === "json" || typeof value === "object" ? JSON.stringify(value) : value)
    }
  }
  return unknown === null ? cells : cells.set(unknownFields, JSON.stringify(unknown))
}
