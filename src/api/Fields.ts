/**
 * Building blocks of the contract's schemas, which decode fields leniently.
 *
 * Invariants
 * 1. A field may be null or absent; on a request both mean "not given"
 * 2. Enumerations are open: an unknown value is kept and never fails a record   (S1)
 */
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"

/** A field that may be absent, null, or a value of the schema. */
export const nullish = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** One of the known values, or any other string, because the API may add values. */
export const openEnum = <const L extends ReadonlyArray<string>>(...literals: L) =>
  Schema.Union([Schema.Literals(literals), Schema.String])

export const text = nullish(Schema.String)
export const number = nullish(Schema.Finite)
export const boolean = nullish(Schema.Boolean)
export const json = nullish(Schema.Json)
/** ISO 8601 UTC with milliseconds. */
export const timestamp = nullish(Schema.String.annotate({ format: "date-time" }))
/** `YYYY-MM-DD`; some integrations send a timestamp. */
export const date = nullish(Schema.String)
export const oneOf = <const L extends ReadonlyArray<string>>(...literals: L) => nullish(openEnum(...literals))
export const object = <const F extends Schema.Struct.Fields>(fields: F) => nullish(Schema.Struct(fields))
export const list = <S extends Schema.Top>(item: S) => nullish(Schema.Array(item))
export const listOf = <const F extends Schema.Struct.Fields>(fields: F) => list(Schema.Struct(fields))

/** Whether this `YYYY-MM-DD` is a day that exists. `Date.parse` turns 30 February into 2 March. */
export const isCalendarDay = (day: string): boolean => {
  const time = Date.parse(`${day}T00:00:00Z`)
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(day)
}

/** A day that exists, as `YYYY-MM-DD`; used only for requests. */
export const Day = Schema.String.check(
  Schema.isPattern(/^\d{4}-\d{2}-\d{2}$/u).abort(),
  Schema.makeFilter(isCalendarDay, { expected: "a day that exists" })
).annotate({ format: "date" })
export const isDay = Schema.is(Day)

/** A day that exists, or a time on such a day, because clients with a date type send a time; used only for requests. */
export const DayOrTime = Schema.String.check(
  Schema.isPattern(/^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2}))?$/u).abort(),
  Schema.makeFilter((text: string) => isCalendarDay(text.slice(0, 10)) && !Number.isNaN(Date.parse(text)), {
    expected: "a day that exists, or a time on one"
  })
)
export const isDayOrTime = Schema.is(DayOrTime)

// ---- common fields ------------------------------------------------------------------------------------------------

export const reference = { id: text, remote_id: text }
export const namedReference = { ...reference, name: text }
/** `id` is the only required field of a record. */
export const recordIds = { id: Schema.String, remote_id: text }
export const changeMetadata = { changed_at: timestamp, remote_deleted_at: timestamp, remote_data: json }
export const remoteTimes = { remote_created_at: timestamp, remote_updated_at: timestamp }
export const customFields = { custom_fields: json, integration_fields: list(Schema.Json) }

/** The fields of an object, or of the members of an array, by name; null for a value of free form or without fields. */
export const fieldsOf = (ast: SchemaAST.AST | undefined): ReadonlyMap<string, SchemaAST.AST> | null => {
  if (ast === undefined) return null
  if (SchemaAST.isArrays(ast)) return fieldsOf(ast.rest[0])
  if (SchemaAST.isUnion(ast)) return ast.types.map(fieldsOf).find((fields) => fields !== null) ?? null
  if (!SchemaAST.isObjects(ast)) return null
  return new Map(ast.propertySignatures.map(({ name, type }) => [String(name), type]))
}
