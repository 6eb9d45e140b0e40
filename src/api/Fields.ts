/**
 * The vocabulary of the contract's schemas: hides how leniently a field is read.
 *
 * Invariants
 * 1. A field may be null or absent; on a request both mean "not given"
 * 2. Enumerations are open: an unknown value is kept and never fails a record   (S1)
 */
import * as Schema from "effect/Schema"

/** Absent, null or what the schema says. */
export const nullish = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** One of the known values, or one that is not known yet. */
export const openEnum = <const L extends ReadonlyArray<string>>(...literals: L) =>
  Schema.Union([Schema.Literals(literals), Schema.String])

export const text = nullish(Schema.String)
export const number = nullish(Schema.Number)
export const boolean = nullish(Schema.Boolean)
export const json = nullish(Schema.Json)
/** ISO 8601 UTC with milliseconds. */
export const timestamp = nullish(Schema.String.annotate({ format: "date-time" }))
/** `YYYY-MM-DD`, by some integrations a timestamp. */
export const date = nullish(Schema.String)
export const oneOf = <const L extends ReadonlyArray<string>>(...literals: L) => nullish(openEnum(...literals))
export const object = <const F extends Schema.Struct.Fields>(fields: F) => nullish(Schema.Struct(fields))
export const list = <S extends Schema.Top>(item: S) => nullish(Schema.Array(item))
export const listOf = <const F extends Schema.Struct.Fields>(fields: F) => list(Schema.Struct(fields))

const isCalendarDay = (day: string): boolean => {
  const time = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(day)
}

/** A day that exists, `YYYY-MM-DD`; only for what is sent. */
export const Day = Schema.String.check(
  Schema.isPattern(/^\d{4}-\d{2}-\d{2}$/u).abort(),
  Schema.makeFilter(isCalendarDay, { expected: "a day that exists" })
).annotate({ format: "date" })
export const isDay = Schema.is(Day)

// ---- what many records have ---------------------------------------------------------------------------------------

export const reference = { id: text, remote_id: text }
export const namedReference = { ...reference, name: text }
/** The one field without which a record is none. */
export const recordIds = { id: Schema.String, remote_id: text }
export const changeMetadata = { changed_at: timestamp, remote_deleted_at: timestamp, remote_data: json }
export const remoteTimes = { remote_created_at: timestamp, remote_updated_at: timestamp }
export const customFields = { custom_fields: json, integration_fields: list(Schema.Json) }
