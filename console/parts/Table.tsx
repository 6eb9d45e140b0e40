/** The tables of all pages: their columns, their order, and the links to their other pages. */
import type { ComponentChildren } from "preact"
import { address, parameter, queryOf, setParameters } from "../Router.ts"
import { meaningOf, Scroll } from "./Basics.tsx"

export interface Column<A> {
  readonly title: string
  readonly cell: (row: A) => ComponentChildren
  /** `name`: the cell names its row. `number`: aligned to the right. `wide`: a sentence. */
  readonly kind?: "name" | "number" | "wide"
  /** The order in which the server sorts by this column; "" is its default order. */
  readonly order?: string
  readonly direction?: "ascending" | "descending"
}

interface TableProps<A> {
  readonly label: string
  readonly columns: ReadonlyArray<Column<A>>
  readonly rows: ReadonlyArray<A>
  readonly keyOf: (row: A) => string | number
  /** Each row is one line on a wide screen. */
  readonly isDense?: boolean
}

/** The heading of a column; a button if the rows can be sorted by it. */
function Heading<A>({ column: { direction = "descending", kind, order, title } }: { readonly column: Column<A> }) {
  const isSorted = order !== undefined && parameter("order") === order
  return (
    <th
      role="columnheader"
      scope="col"
      class={kind === "number" ? "n" : ""}
      aria-sort={isSorted ? direction : undefined}
      title={meaningOf(title)}
    >
      {order === undefined ?
        title :
        (
          <button type="button" class="sort" onClick={() => setParameters({ order, after: "" })}>
            {title}
            {isSorted ? <span aria-hidden="true">{direction === "ascending" ? "↑" : "↓"}</span> : null}
          </button>
        )}
    </th>
  )
}

function Cell<A>({ column: { cell, kind, title }, row }: { readonly column: Column<A>; readonly row: A }) {
  return kind === "name"
    ? <th role="rowheader" scope="row">{cell(row)}</th>
    : (
      <td role="cell" class={kind === "number" ? "n" : kind === "wide" ? "state" : ""} data-title={title}>
        <div>{cell(row)}</div>
      </td>
    )
}

/** On a phone each row is a list of its cells with their titles; the roles keep it a table for a screen reader. */
export function Table<A>({ columns, isDense = false, keyOf, label, rows }: TableProps<A>) {
  return (
    <Scroll label={label}>
      <table role="table" class={isDense ? "stacks dense" : "stacks"}>
        <thead role="rowgroup">
          <tr role="row">{columns.map((column) => <Heading key={column.title} column={column} />)}</tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr key={keyOf(row)} role="row">
              {columns.map((column) => <Cell key={column.title} column={column} row={row} />)}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

const pageAt = (after: string): string => {
  const { pathname, searchParams } = address.value
  return `${pathname}${queryOf({ ...Object.fromEntries(searchParams), after })}`
}

/** Links to the other pages of a list. They are links, so that the back button returns to the page before. */
export const Pager = ({ label, next, previous }: {
  readonly label: string
  readonly next: string | null
  /** Where the page before begins; by default the link leads to the first page. */
  readonly previous?: string
}) =>
  next === null && parameter("after") === "" ? null : (
    <nav class="pages" aria-label={`Pages of ${label}`}>
      {parameter("after") === ""
        ? null
        : <a class="button small" href={pageAt(previous ?? "")}>{previous === undefined ? "First page" : "Previous"}
        </a>}
      {next === null ? null : <a class="button small" href={pageAt(next)}>Next</a>}
    </nav>
  )
