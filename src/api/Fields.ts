/**
 * The vocabulary of the contract's schemas: hides how leniently a field is read.
 *
 * Invariants
 * 1. A field may be null or absent; on a request both mean "not given"
 * 2. Enumerations are open: an unknown value is kept and never fails a record   (S1)
 */
import * as Schema from "effect/Schema"

/** Absent, null or what the schema says. */
export const field = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** One of the known values, or one that is not known yet. */
export const known = <const L extends ReadonlyArray<string>>(...literals: L) =>
  Schema.Union([Schema.Literals(literals), Schema.String])

export const text = field(Schema.String)
export const number = field(Schema.Number)
export const boolean = field(Schema.Boolean)
export const anything = field(Schema.Json)
/** ISO 8601 UTC with milliseconds. */
export const timestamp = field(Schema.String.annotate({ format: "date-time" }))
/** `YYYY-MM-DD`, by some integrations a timestamp. */
export const date = field(Schema.String)
export const oneOf = <const L extends ReadonlyArray<string>>(...literals: L) => field(known(...literals))
export const object = <const F extends Schema.Struct.Fields>(fields: F) => field(Schema.Struct(fields))
export const list = <S extends Schema.Top>(item: S) => field(Schema.Array(item))
export const listOf = <const F extends Schema.Struct.Fields>(fields: F) => list(Schema.Struct(fields))

const isReal = (day: string): boolean => {
  const time = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(day)
}

/** A day that exists, `YYYY-MM-DD`; only for what is sent. */
export const Day = Schema.String.check(
  Schema.isPattern(/^\d{4}-\d{2}-\d{2}$/u).abort(),
  Schema.makeFilter(isReal, { expected: "a day that exists" })
).annotate({ format: "date" })
export const isDay = Schema.is(Day)

// ---- what many records have ---------------------------------------------------------------------------------------

export const reference = { id: text, remote_id: text }
export const named = { ...reference, name: text }
/** The one field without which a record is none. */
export const identity = { id: Schema.String, remote_id: text }
export const marks = { changed_at: timestamp, remote_deleted_at: timestamp, remote_data: anything }
export const remoteTimes = { remote_created_at: timestamp, remote_updated_at: timestamp }
export const customised = { custom_fields: anything, integration_fields: list(Schema.Json) }
