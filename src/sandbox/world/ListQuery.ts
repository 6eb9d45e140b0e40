/**
 * Selects the rows of a list request by its filters and cuts them into pages.
 *
 * Invariants
 * 1. Distinct filters combine with AND, the values of one with OR; an empty filter selects everything.
 * 2. The cost of a page depends on the rows that are read, not on the length of the list: one run over all pages passes over the list once.
 *
 * Gotchas
 * - In drifting order the cursor is an offset in a list whose rows move, so rows may be returned twice or skipped (failure cases P1, P2,
 *   P3). In stable order, every row that is not removed is returned exactly once.
 */
import { lastMatchingChangeAt } from "./Propagation.ts"
import { firstIndexFrom, type Json, type Records, type Row, type WorldModel } from "./Records.ts"
import { render } from "./Rendering.ts"

export interface ListQuery {
  /** Server time, in ms. */
  readonly updatedAfter: number | null
  readonly includeDeleted: boolean
  readonly ids: ReadonlyArray<string>
  readonly remoteIds: ReadonlyArray<string>
  /** Values by query name, for the filters of `api/Lists.ts`. Times are server time in ms. */
  readonly filters: Readonly<Record<string, ReadonlyArray<string>>>
}

/** All records, deleted ones included. */
export const allRecords: ListQuery = { updatedAfter: null, includeDeleted: true, ids: [], remoteIds: [], filters: {} }

export interface ListPage {
  readonly results: ReadonlyArray<Json>
  readonly next: string | null
}

/** Whether a row has the value that the filter names. */
type FilterMatcher = (row: Row, value: string) => boolean
const ownFieldEquals = (field: string): FilterMatcher => (row, value) => row.fields[field] === value
const linkedIdEquals = (...path: ReadonlyArray<string>): FilterMatcher => (row, value) => {
  let at: Row | null | undefined = row
  for (const step of path) at = at?.one[step]
  return at?.id === value
}

const filterMatchers: Readonly<Record<string, FilterMatcher>> = {
  outcome: ownFieldEquals("outcome"),
  outcomes: ownFieldEquals("outcome"),
  job_ids: linkedIdEquals("job"),
  job_remote_ids: (row, value) => row.one["job"]?.remoteId === value,
  current_stage_ids: linkedIdEquals("current_stage"),
  remote_created_after: (row, value) => row.createdAt >= Number(value),
  candidate_ids: linkedIdEquals("candidate"),
  application_ids: linkedIdEquals("application"),
  employee_ids: linkedIdEquals("employee"),
  payrun_ids: linkedIdEquals("pay_run"),
  legal_entity_ids: linkedIdEquals("pay_run", "legal_entity"),
  types: ownFieldEquals("type"),
  review_cycle_ids: linkedIdEquals("review_cycle"),
  reviewee_ids: linkedIdEquals("reviewee"),
  model_types: ownFieldEquals("model_type"),
  statuses: ownFieldEquals("status"),
  name_contains: (row, value) => String(row.fields["name"]).toLowerCase().includes(value.toLowerCase())
}

/** Whether a query selects this row. */
export const matchesQuery = (query: ListQuery): (row: Row) => boolean => {
  const { updatedAfter, includeDeleted } = query
  const ids = query.ids.length > 0 ? new Set(query.ids) : null
  const remoteIds = query.remoteIds.length > 0 ? new Set(query.remoteIds) : null
  const filters = Object.entries(query.filters).filter(([, values]) => values.length > 0)
  return (row) =>
    (includeDeleted || row.deletedAt === null) &&
    (ids === null || ids.has(row.id)) &&
    (remoteIds === null || remoteIds.has(row.remoteId)) &&
    filters.every(([name, values]) => values.some((value) => filterMatchers[name]?.(row, value) === true)) &&
    (updatedAfter === null || lastMatchingChangeAt(row) >= updatedAfter)
}

const encodeCursor = (place: number): string => Buffer.from(`at:${place}`).toString("base64url")
const decodeCursor = (cursor: string): number | null => {
  const match = /^at:(\d{1,15})$/.exec(Buffer.from(cursor, "base64url").toString("latin1"))
  return match === null ? null : Number(match[1])
}

/** One page of the rows that a query selects; `"bad cursor"` if this list did not issue the cursor. */
export const pageOf = (
  records: Records,
  model: WorldModel,
  query: ListQuery,
  size: number,
  cursor: string | null
): ListPage | "bad cursor" => {
  const start = cursor === null ? 0 : decodeCursor(cursor)
  if (start === null) return "bad cursor"
  const stable = records.order === "stable"
  const rows = query.ids.length > 0 ? rowsByIds(records, model, query.ids) : records.rows(model)
  const selected = matchesQuery(query)
  const results: Array<Json> = []
  for (let i = stable ? firstIndexFrom(rows, start) : start; i < rows.length; i++) {
    const row = rows[i] as Row
    if (!selected(row)) continue
    if (results.length === size) return { results, next: encodeCursor(stable ? row.serial : i) }
    results.push(render(row))
  }
  return { results, next: null }
}

/** The rows with these ids, each once, oldest first. */
const rowsByIds = (records: Records, model: WorldModel, ids: ReadonlyArray<string>): ReadonlyArray<Row> =>
  [...new Set(ids)]
    .map((id) => records.find(model, id))
    .filter((row): row is Row => row !== undefined && row.hardDeletedAt === null)
    .sort((a, b) => a.serial - b.serial)
