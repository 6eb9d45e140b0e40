/**
 * The values of many rows in one statement. Effect's SQL compiler handles every value on its own, which costs more than the database
 * needs for the rows.
 *
 * Invariants
 * 1. On SQLite, the text of a statement does not depend on the number of its rows
 *
 * Details
 * - On PostgreSQL, the values of a column are one array.
 * - On SQLite, `insertion` has the text of one row, and the driver runs the statement once for each row (`ManyRows`). A list of values, and
 *   rows that are read as a table, are one JSON text.
 *
 * Gotchas
 * - PostgreSQL plans a statement with an array each time, because a plan that does not know the array's length reads whole tables. So up to
 *   `maxPreparedValues` are bound on their own, and such a statement is kept prepared.
 * - A column has texts or integers, or nulls. The first row names the columns of all rows.
 * - The values of `insertion` are the only ones of its statement.
 */
import type * as Arr from "effect/Array"
import type { SqlClient } from "effect/sql/SqlClient"
import * as Statement from "effect/sql/Statement"

/** PostgreSQL keeps a statement prepared if it has at most this many values, none of which is an array. */
export const maxPreparedValues = 64

/** The only parameter of a statement that SQLite runs once for each row. */
export class ManyRows {
  /** The values of all rows, one row after the other. */
  readonly values: ReadonlyArray<unknown>
  /** How many values each row has. */
  readonly columns: number
  constructor(values: ReadonlyArray<unknown>, columns: number) {
    this.values = values
    this.columns = columns
  }
}

type Rows = Arr.NonEmptyReadonlyArray<Readonly<Record<string, unknown>>>

const isPostgres = (sql: SqlClient): boolean => sql.onDialectOrElse({ pg: () => true, orElse: () => false })

/** A list of values, each with a placeholder of PostgreSQL. */
const separate = (values: ReadonlyArray<unknown>, columns: number): ReadonlyArray<Statement.Segment> =>
  values.flatMap((value, index) => [
    Statement.literal(index === 0 ? "(" : index % columns === 0 ? "),(" : ","),
    Statement.parameter(value)
  ]).concat(Statement.literal(")"))

const typeOf = (values: ReadonlyArray<unknown>): "bigint" | "text" | null => {
  const first = values.find((value) => value !== null)
  return first === undefined ? null : typeof first === "number" ? "bigint" : "text"
}

const namesOf = (rows: Rows): Arr.NonEmptyReadonlyArray<string> => Object.keys(rows[0]) as [string, ...Array<string>]

const valuesOf = (rows: Rows, names: ReadonlyArray<string>): ReadonlyArray<unknown> =>
  rows.flatMap((row) => names.map((name) => row[name]))

/** The rows as a query of PostgreSQL: `VALUES …` or `SELECT … FROM unnest(…)`. */
const postgresRows = (rows: Rows, names: ReadonlyArray<string>): Statement.Fragment => {
  if (names.length * rows.length <= maxPreparedValues) {
    return Statement.fragment([Statement.literal("VALUES "), ...separate(valuesOf(rows, names), names.length)])
  }
  const selected: Array<string> = []
  const arrays: Array<Statement.Segment> = []
  for (const [index, name] of names.entries()) {
    const values = rows.map((row) => row[name])
    const type = typeOf(values)
    selected.push(type === null ? "NULL" : `c${index}`)
    if (type === null) continue
    if (arrays.length > 0) arrays.push(Statement.literal(", "))
    arrays.push(Statement.parameter(values), Statement.literal(`::${type}[]`))
  }
  const columns = selected.filter((name) => name !== "NULL")
  return Statement.fragment([
    Statement.literal(`SELECT ${selected.join(", ")} FROM unnest(`),
    ...arrays,
    Statement.literal(`) AS u (${columns.join(", ")})`)
  ])
}

/** The rows as a query. A column that has only nulls may have no type. */
export const rowsOf = (sql: SqlClient, rows: Rows): Statement.Fragment => {
  const names = namesOf(rows)
  if (isPostgres(sql)) return postgresRows(rows, names)
  const columns = names.map((_, index) => `value ->> ${index}`).join(", ")
  const text = JSON.stringify(rows.map((row) => names.map((name) => row[name])))
  return Statement.fragment([Statement.literal(`SELECT ${columns} FROM json_each(?)`, [text])])
}

/** For `INSERT INTO …`: the names of the columns, and the rows. The statement has no other values. */
export const insertion = (sql: SqlClient, rows: Rows): Statement.Fragment => {
  const names = namesOf(rows)
  const columns = `(${names.map((name) => `"${name}"`).join(",")}) `
  return Statement.fragment(
    isPostgres(sql)
      ? [Statement.literal(columns), ...postgresRows(rows, names).segments]
      : [
        Statement.literal(`${columns}VALUES (${Array.from(names, () => "?").join(",")})`, [
          new ManyRows(valuesOf(rows, names), names.length)
        ])
      ]
  )
}

/** The condition that a column has one of the values: `IN (…)` or `= ANY(…)`. */
export const among = (sql: SqlClient, values: ReadonlyArray<string> | ReadonlyArray<number>): Statement.Fragment => {
  if (!isPostgres(sql)) {
    return Statement.fragment([
      Statement.literal("IN (SELECT value FROM json_each(?))", [JSON.stringify(values)])
    ])
  }
  return Statement.fragment(
    values.length > 0 && values.length <= maxPreparedValues
      ? [Statement.literal("IN "), ...separate(values, values.length)]
      : [
        Statement.literal("= ANY("),
        Statement.parameter(values),
        Statement.literal(`::${typeOf(values) ?? "text"}[])`)
      ]
  )
}
