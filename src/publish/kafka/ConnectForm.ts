/**
 * Keys and values as Debezium's connectors publish them with Kafka Connect's JSON converter with schemas, so that a stock sink makes tables.
 *
 * Invariants
 * 1. A struct has only the fields of the model's schema, and `unknown_fields`: no content of the API makes a sink fail
 * 2. `before` of an update or a delete is never null. If its content is not known, it has only the id
 * 3. A stub is a record like any other: its row has the id, and `unknown_fields` has the address of the whole event   (K1)
 *
 * Gotchas
 * - PostgreSQL stores neither the character 0 nor halves of surrogate pairs, so U+FFFD replaces them.
 * - A field that a struct leaves out is null.
 */
import { memoize } from "effect/Function"
import { isCalendarDay } from "../../api/Fields.ts"
import type { JsonObject } from "../../domain/Canonical.ts"
import type { Json, LogEntry, LogIdentity } from "../../domain/ChangeEvent.ts"
import { type Model, type Models, type RecordEntry, recordEntryOf } from "../../domain/Model.ts"
import { cellsOf, type ColumnType, columnTypeOf, fits, recordColumnsOf } from "../RecordColumns.ts"
import type { JsonSchema } from "../RecordSchema.ts"
import { operationOf, sourceOf, sourceProperties, stubProperties } from "./Debezium.ts"

/** A schema as Kafka Connect's JSON converter writes it. */
export interface ConnectSchema {
  readonly type: "struct" | "string" | "int64" | "double" | "boolean"
  readonly optional: boolean
  readonly field?: string
  readonly name?: string
  readonly version?: number
  readonly fields?: ReadonlyArray<ConnectSchema>
}

const types: Readonly<Record<ColumnType, Pick<ConnectSchema, "type" | "name" | "version">>> = {
  string: { type: "string" },
  int64: { type: "int64" },
  double: { type: "double" },
  boolean: { type: "boolean" },
  time: { type: "string", name: "io.debezium.time.ZonedTimestamp", version: 1 },
  json: { type: "string", name: "io.debezium.data.Json", version: 1 }
}

const fieldOf = (field: string, type: ColumnType, optional = true): ConnectSchema => ({
  ...types[type],
  optional,
  field
})
const struct = (name: string, fields: ReadonlyArray<ConnectSchema>): ConnectSchema => ({
  type: "struct",
  name,
  optional: false,
  fields
})

const sourceFields = Object.entries<JsonSchema>({ ...sourceProperties, ...stubProperties }).map(([name, property]) =>
  fieldOf(name, columnTypeOf(property), property.anyOf !== undefined || name in stubProperties)
)

/** The schemas of the keys and of the values of a model's events. */
export const connectSchemasOf = (entry: RecordEntry) => {
  const name = `rollcall.${entry.model}`
  const { columns } = recordColumnsOf(entry)
  const record = struct(`${name}.Value`, columns.map(({ name, type }) => fieldOf(name, type, name !== "id")))
  return {
    key: struct(`${name}.Key`, [fieldOf("integration", "string", false), fieldOf("id", "string", false)]),
    value: struct(`${name}.Envelope`, [
      { ...record, optional: true, field: "before" },
      { ...record, optional: true, field: "after" },
      { ...struct("rollcall.Source", sourceFields), field: "source" },
      fieldOf("op", "string", false),
      fieldOf("ts_ms", "int64")
    ])
  }
}

/** A time that a sink can read: a day that exists, hours, minutes, seconds and a zone. */
const isTime = (text: string): boolean =>
  /^\d{4}-\d\d-\d\dT([01]\d|2[0-3])(:[0-5]\d){2}(\.\d{1,9})?(Z|[+-](0\d|1[0-7]):[0-5]\d)$/.test(text) &&
  isCalendarDay(text.slice(0, 10))

const fitsConnect: typeof fits = (type, value) => fits(type, value) && (type !== "time" || isTime(String(value)))

/** Every escape of a JSON text; a pair of surrogates is one match. `unit`: the code of an escape that is not such a pair. */
const escapes = /\\(?:u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u([\da-fA-F]{4})|.)/g

const parse = (text: Json): JsonObject =>
  JSON.parse(
    text.includes("\\u")
      ? text.replace(escapes, (escape, unit?: string) => /^(0000|d[89a-f]..)$/i.test(unit ?? "") ? "\\ufffd" : escape)
      : text
  )

/** A schema is made once for each model of the configuration, because it is much larger than the payload. */
const framesOf = memoize((entry: RecordEntry) => {
  const { key, value } = connectSchemasOf(entry)
  const columns = recordColumnsOf(entry)
  const structOf = (record: JsonObject): object => Object.fromEntries(cellsOf(columns, record, fitsConnect))
  const before = (schema: ConnectSchema) => `{"schema":${JSON.stringify(schema)},"payload":`
  return { key: before(key), value: before(value), structOf }
})

const storable = (id: string): string => id.replaceAll("\0", "\ufffd").toWellFormed()

export const connectForm = (models: Models) => {
  const frameOf = (model: Model) => framesOf(recordEntryOf(models, model))
  return {
    keyOf: ({ id, integration, model }: LogEntry): Json =>
      `${frameOf(model).key}${JSON.stringify({ integration, id: storable(id) })}}`,
    /** `log`: as for `envelopeTextOf`. */
    valueOf: (identity: LogIdentity, entry: LogEntry, log: string | null): Json => {
      const { structOf, value } = frameOf(entry.model)
      const { after, before, kind } = entry
      const id = storable(entry.id)
      const stub = { id, stub: true, log }
      const payload = {
        before: kind === "created" ? null : structOf(log === null && before !== null ? parse(before) : { id }),
        after: after === null ? null : structOf(log === null ? parse(after) : stub),
        source: sourceOf(identity, entry, log),
        op: operationOf(entry),
        ts_ms: entry.detectedAt
      }
      return `${value}${JSON.stringify(payload)}}`
    }
  }
}
