/** The records of an export as text: JSON Lines, or CSV with a column for each field of the schema. */
import { isObject, type JsonValue } from "../../domain/Canonical.ts"
import type { Model, RecordEntry } from "../../domain/Model.ts"
import { recordColumnsOf, rowOf, unknownFields } from "../../publish/RecordColumns.ts"
import type { ContentRow } from "./RecordTables.ts"

/** The form in which `GET /v1/records` lists a record. */
const jsonLine = (model: Model, { content, generation, id, integration, version }: ContentRow): string =>
  `${JSON.stringify({ integration, model, id, generation, version }).slice(0, -1)},"after":${content}}`

/** As RFC 4180 writes it. Null is empty, and an empty text is in quotes. */
const cell = (value: JsonValue | undefined): string => {
  if (value === undefined) return ""
  const text = typeof value === "object" ? JSON.stringify(value) : String(value)
  return text === "" || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

const csvOf = (entry: RecordEntry) => {
  const known = recordColumnsOf(entry, true)
  const jsonColumns = new Set(known.columns.flatMap(({ name, type }) => type === "json" ? [name] : []))
  const names = known.columns.map(({ name }) => name)
  const header = ["integration", ...names, unknownFields, "record_generation", "record_version"].map(cell).join(",")
  const line = ({ content, generation, integration, version }: ContentRow): string => {
    const record: JsonValue = JSON.parse(content)
    const { unknown, values } = rowOf(known, isObject(record) ? record : {})
    const own = names.map((name) => {
      const value = values.get(name)
      // a text in a column of JSON is in quotes, like in every other JSON
      return cell(jsonColumns.has(name) && value !== undefined ? JSON.stringify(value) : value)
    })
    return [cell(integration), ...own, cell(unknown ?? undefined), generation, version].join(",")
  }
  return { header, line }
}

export type TextFormat = "jsonl" | "csv"

/** The first line, if the format has one, and the lines of records. */
export const linesOf = (format: TextFormat, entry: RecordEntry) =>
  format === "csv" ? csvOf(entry) : { header: null, line: (row: ContentRow) => jsonLine(entry.model, row) }
