/**
 * The values of many rows in one statement. Effect's SQL compiler handles every value on its own, which costs more than the database
 * needs for the rows.
 *
 * Invariants
 * 1. On SQLite, the text of a statement does not depend on the number of its rows
 *
 * Details
 * - On PostgreSQL, the values of a column are one array, or one value if all rows have the same.
 * - On SQLite, an insertion has the text of one row, and the driver runs the statement once for each row (`ManyRows`). A list of values, and
 *   rows that are read as a table, are one JSON text.
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

/** A list has a value for each row; another value is that of all rows. */
export type ColumnValues = ReadonlyArray<unknown> | string | number | null

/** The only parameter of a statement that SQLite runs once for each row. */
export class ManyRows {
  /** In the order of the placeholders. */
  readonly columns: ReadonlyArray<ColumnValues>
  readonly rows: number
  constructor(columns: ReadonlyArray<ColumnValues>, rows: number) {
    this.columns = columns
    this.rows = rows
  }
}

type Rows = Arr.NonEmptyReadonlyArray<Readonly<Record<string, unknown>>>

/** The values of at least one row, by the name of their column. At least one column is a list, and all lists have the same length. */
export type Columns = Readonly<Record<string, ColumnValues>>

const isPostgres = (sql: SqlClient): boolean => sql.onDialectOrElse({ pg: () => true, orElse: () => false })

/** A list of values, each with a placeholder of PostgreSQL. */
const separate = (values: ReadonlyArray<unknown>, columns: number): ReadonlyArray<Statement.Segment> =>
  values.flatMap((value, index) => [
    Statement.literal(index === 0 ? "(" : index % columns === 0 ? "),(" : ","),
    Statement.parameter(value)
  ]).concat(Statement.literal(")"))

const listed = (items: ReadonlyArray<ReadonlyArray<Statement.Segment>>): ReadonlyArray<Statement.Segment> =>
  items.flatMap((item, index) => index === 0 ? item : [Statement.literal(", "), ...item])

const typeOf = (values: ReadonlyArray<unknown>): "bigint" | "text" | null => {
  const first = values.find((value) => value !== null)
  return first === undefined ? null : typeof first === "number" ? "bigint" : "text"
}

const columnsOf = (rows: Rows): Columns =>
  Object.fromEntries(Object.keys(rows[0]).map((name) => [name, rows.map((row) => row[name])]))

const isList = (values: ColumnValues): values is ReadonlyArray<unknown> => Array.isArray(values)

const countRows = (columns: Columns): number => Object.values(columns).find(isList)?.length ?? 0

/** A list in which one value is repeated becomes that value. */
const withoutRepetition = (columns: Columns): ReadonlyArray<ColumnValues> =>
  Object.values(columns).map((values) =>
    isList(values) && values.every((value) => value === values[0]) ? values[0] as ColumnValues : values
  )

/** The rows as a query of PostgreSQL: `VALUES …` or `SELECT … FROM unnest(…)`. */
const postgresRows = (columns: Columns): Statement.Fragment => {
  const all = Object.values(columns)
  const rows = countRows(columns)
  if (all.length * rows <= maxPreparedValues) {
    const values = Array.from({ length: rows }, (_, row) => all.map((values) => isList(values) ? values[row] : values))
    return Statement.fragment([Statement.literal("VALUES "), ...separate(values.flat(), all.length)])
  }
  const selected: Array<ReadonlyArray<Statement.Segment>> = []
  const arrays: Array<ReadonlyArray<Statement.Segment>> = []
  for (const values of withoutRepetition(columns)) {
    const type = typeOf(isList(values) ? values : [values])
    if (type === null) selected.push([Statement.literal("NULL")])
    else if (!isList(values)) selected.push([Statement.parameter(values), Statement.literal(`::${type}`)])
    else {
      selected.push([Statement.literal(`c${arrays.length}`)])
      arrays.push([Statement.parameter(values), Statement.literal(`::${type}[]`)])
    }
  }
  const names = arrays.map((_, index) => `c${index}`)
  return Statement.fragment([
    Statement.literal("SELECT "),
    ...listed(selected),
    Statement.literal(" FROM "),
    ...arrays.length === 0
      ? [Statement.literal(`generate_series(1, ${rows})`)]
      : [Statement.literal("unnest("), ...listed(arrays), Statement.literal(`) AS u (${names.join(", ")})`)]
  ])
}

/** The rows as a query. A column that has only nulls may have no type. */
export const rowsOf = (sql: SqlClient, rows: Rows): Statement.Fragment => {
  if (isPostgres(sql)) return postgresRows(columnsOf(rows))
  const names = Object.keys(rows[0])
  const columns = names.map((_, index) => `value ->> ${index}`).join(", ")
  const text = JSON.stringify(rows.map((row) => names.map((name) => row[name])))
  return Statement.fragment([Statement.literal(`SELECT ${columns} FROM json_each(?)`, [text])])
}

/** For `INSERT INTO …`: the names of the columns, and their values. The statement has no other values. */
export const insertColumns = (sql: SqlClient, columns: Columns): Statement.Fragment => {
  const names = Object.keys(columns)
  const list = `(${names.map((name) => `"${name}"`).join(",")}) `
  return Statement.fragment(
    isPostgres(sql)
      ? [Statement.literal(list), ...postgresRows(columns).segments]
      : [
        Statement.literal(`${list}VALUES (${Array.from(names, () => "?").join(",")})`, [
          new ManyRows(withoutRepetition(columns), countRows(columns))
        ])
      ]
  )
}

/** Like `insertColumns`, for rows. */
export const insertion = (sql: SqlClient, rows: Rows): Statement.Fragment => insertColumns(sql, columnsOf(rows))

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
