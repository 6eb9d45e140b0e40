/**
 * Converts between rows and values of the port. A table is described once: the column of each property, and its encoding.
 *
 * Gotchas
 * - Booleans are stored as 0 and 1 in both databases.
 * - All integers in rows are JavaScript numbers: positions, times and hashes are safe integers.
 */
import { identity } from "effect/Function"
import * as Statement from "effect/sql/Statement"

type Primitive = string | number | null

export type Row = Readonly<Record<string, unknown>>

interface Column<V> {
  readonly name: string
  readonly encode: (value: V) => Primitive
  readonly decode: (stored: Primitive) => V
}

/** A property that is stored as it is needs only the name of its column. */
export type Columns<A> = { readonly [P in keyof A]-?: [A[P]] extends [Primitive] ? string : Column<A[P]> }

export const flag = (name: string): Column<boolean> => ({
  name,
  encode: Number,
  decode: (stored) => stored === 1
})

/** This program wrote the JSON, so it is parsed unchecked; null stays null. */
export const json = <V>(name: string): Column<V> => ({
  name,
  encode: (value) => value === null ? null : JSON.stringify(value),
  decode: (stored) => stored === null ? null : JSON.parse(String(stored))
})

export const codec = <A extends object>(columns: Columns<A>) => {
  const all = Object.entries(columns as Readonly<Record<string, string | Column<unknown>>>).map(([property, column]) =>
    typeof column === "string"
      ? { property, name: column, encode: identity as Column<unknown>["encode"], decode: identity }
      : { property, ...column }
  )
  const list = (items: ReadonlyArray<string>) => Statement.fragment([Statement.literal(items.join(", "))])
  return {
    fromRow: (row: Row): A => {
      const value: Record<string, unknown> = {}
      for (const { decode, name, property } of all) value[property] = decode(row[name] as Primitive)
      return value as A
    },
    toRow: (value: A): Record<string, Primitive> => {
      const row: Record<string, Primitive> = {}
      for (const { encode, name, property } of all) row[name] = encode(value[property as keyof A] as Primitive)
      return row
    },
    /** For `SELECT`: `h.id, h.version, …`, or without the table if no other table has such columns. */
    columns: (table?: string) => list(all.map(({ name }) => table === undefined ? name : `${table}.${name}`)),
    /** For `ON CONFLICT DO UPDATE SET`: takes all columns except these from the new row. */
    replace: (...except: ReadonlyArray<string>) =>
      list(all.flatMap(({ name }) => except.includes(name) ? [] : [`${name} = excluded.${name}`]))
  }
}
