/** The records of an export as text: JSON Lines, or CSV with a column for each field of the schema. */
import { isObject, type JsonValue } from "../../domain/Canonical.ts"
import type { RecordEntry } from "../../domain/Model.ts"
import { cellsOf, recordColumnsOf } from "../../publish/RecordColumns.ts"
import type { ContentRow } from "./RecordTables.ts"

/** As RFC 4180 writes it. Null is empty, and an empty text is in quotes. */
const cell = (value: string | number | boolean | undefined): string => {
  if (value === undefined) return ""
  const text = String(value)
  return text === "" || /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

function* csvOf(entry: RecordEntry, rows: Iterable<ContentRow>) {
  const known = recordColumnsOf(entry, true)
  const names = known.columns.map(({ name }) => name)
  yield ["integration", ...names, "record_generation", "record_version"].map(cell).join(",")
  for (const { content, generation, integration, version } of rows) {
    const record: JsonValue = JSON.parse(content)
    const cells = cellsOf(known, isObject(record) ? record : {})
    yield [integration, ...names.map((name) => cells.get(name)), generation, version].map(cell).join(",")
  }
}

/** Each line is a record in the form in which `GET /v1/records` lists it. */
function* jsonLinesOf({ model }: RecordEntry, rows: Iterable<ContentRow>) {
  for (const { content, generation, id, integration, version } of rows) {
    yield `${JSON.stringify({ integration, model, id, generation, version }).slice(0, -1)},"after":${content}}`
  }
}

/** The lines of a text with the records of a model, by format. */
export const linesOf = { csv: csvOf, jsonl: jsonLinesOf }

export type TextFormat = keyof typeof linesOf
