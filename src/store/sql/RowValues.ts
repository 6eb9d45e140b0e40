/**
 * The values of many rows in one statement. Effect's SQL compiler handles every value on its own, which costs more than the database
 * needs for the rows.
 *
 * Details
 * On SQLite, each value is bound on its own to a text that is repeated for each row. On PostgreSQL, the values of a column are one array.
 *
 * Gotchas
 * - PostgreSQL plans a statement with an array each time, because a plan that does not know the array's length reads whole tables. So up to
 *   `maxPreparedValues` are bound on their own, and such a statement is kept prepared.
 * - A column has texts or integers, or nulls. The first row names the columns of all rows.
 */
import type * as Arr from "effect/Array"
import type { SqlClient } from "effect/sql/SqlClient"
import * as Statement from "effect/sql/Statement"

/** PostgreSQL keeps a statement prepared if it has at most this many values, none of which is an array. */
export const maxPreparedValues = 64

type Rows = Arr.NonEmptyReadonlyArray<Readonly<Record<string, unknown>>>

const isPostgres = (sql: SqlClient): boolean => sql.onDialectOrElse({ pg: () => true, orElse: () => false })

const repeated = (text: string, count: number): string => Array.from({ length: count }, () => text).join(",")

/** A list of values, bound on their own. */
const separate = (
  sql: SqlClient,
  values: ReadonlyArray<unknown>,
  columns: number
): ReadonlyArray<Statement.Segment> => {
  if (!isPostgres(sql)) {
    const row = repeated("?", columns)
    return [Statement.literal(repeated(`(${row})`, values.length / columns), values)]
  }
  return values.flatMap((value, index) => [
    Statement.literal(index === 0 ? "(" : index % columns === 0 ? "),(" : ","),
    Statement.parameter(value)
  ]).concat(Statement.literal(")"))
}

const typeOf = (values: ReadonlyArray<unknown>): "bigint" | "text" | null => {
  const first = values.find((value) => value !== null)
  return first === undefined ? null : typeof first === "number" ? "bigint" : "text"
}

const namesOf = (rows: Rows): Arr.NonEmptyReadonlyArray<string> => Object.keys(rows[0]) as [string, ...Array<string>]

/** The rows as a query: `VALUES …` or `SELECT … FROM unnest(…)`. A column of a large query that has only nulls has no type. */
export const rowsOf = (sql: SqlClient, rows: Rows): Statement.Fragment => {
  const names = namesOf(rows)
  if (!isPostgres(sql) || names.length * rows.length <= maxPreparedValues) {
    const values = rows.flatMap((row) => names.map((name) => row[name]))
    return Statement.fragment([Statement.literal("VALUES "), ...separate(sql, values, names.length)])
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

/** For `INSERT INTO …`: the names of the columns, and the rows. */
export const insertion = (sql: SqlClient, rows: Rows): Statement.Fragment =>
  Statement.fragment([
    Statement.literal(`(${namesOf(rows).map((name) => `"${name}"`).join(",")}) `),
    ...rowsOf(sql, rows).segments
  ])

/** The condition that a column has one of the values: `IN (…)` or `= ANY(…)`. */
export const among = (sql: SqlClient, values: ReadonlyArray<string> | ReadonlyArray<number>): Statement.Fragment => {
  if (!isPostgres(sql)) {
    return Statement.fragment([Statement.literal(`IN (${repeated("?", values.length)})`, values)])
  }
  return Statement.fragment(
    values.length > 0 && values.length <= maxPreparedValues
      ? [Statement.literal("IN "), ...separate(sql, values, values.length)]
      : [
        Statement.literal("= ANY("),
        Statement.parameter(values),
        Statement.literal(`::${typeOf(values) ?? "text"}[])`)
      ]
  )
}
