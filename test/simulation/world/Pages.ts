/**
 * The pages of a list, before and after the faults of their content.
 *
 * Gotchas
 * - A cursor is an offset in a list whose rows move; only a stable list pages by serial number.
 */
import type { PageRequest } from "../../../src/source/Source.ts"
import type { Fault, FaultKind, WorldSettings } from "../plan/Plan.ts"
import { isSweptOnly } from "./DefinedModels.ts"
import type { JsonObject, Row, Table } from "./Table.ts"

/** A row of a response, with the index of the record's state. */
export interface ServedRow {
  readonly row: Row
  readonly state: number
  /** False: the id was removed, so that the row cannot be assigned to its record. */
  readonly hasId: boolean
}

/** A response that faults may change. */
interface Draft {
  copies: Array<ServedRow>
  next: string | null
  hidden: ReadonlyArray<Row>
}

/** A fault, and how many more requests have it. */
export interface Active extends Fault {
  left: number
}

/** The response to the `number`th request, for at most so many rows; null if the cursor is rejected. */
export const answer = (
  table: Table,
  request: PageRequest,
  activeFaults: ReadonlyArray<Active>,
  most: number,
  setting: WorldSettings,
  number: number
): Draft | null => {
  const fault = (kind: FaultKind) => activeFaults.find((active) => active.fault === kind)
  const place = parseCursor(request.cursor)
  if (place === null || (request.cursor !== null && fault("expired") !== undefined)) return null
  const ids = fault("idsIgnored") === undefined ? request.ids : null
  const wantedIds = ids === null
    ? null
    : new Set(fault("idsEmpty") === undefined ? fault("idsFew") === undefined ? ids : ids.slice(0, 3) : [])
  // A response for ids fits on one page of 250.
  // A page that is shorter than requested would hide rows from a client of cursors that count pages.
  const counts = setting.slow !== null
  const size = request.ids !== null ? most : counts || fault("short") === undefined
    ? Math.min(most, setting.pageSize)
    : Math.max(1, Math.floor(setting.pageSize / 2))
  const order = place.order === 0 ? number : place.order
  const all = ordered(table, order, setting).filter((row) => wantedIds === null || wantedIds.has(row.id))
  const matching = all.filter((row) =>
    request.updatedAfter === null ||
    (isAfter(row, request.updatedAfter, setting) && !(isSweptOnly(setting, table.model) && row.serial % 2 === 1))
  )
  const rows = fault("filterEmpty") !== undefined ? [] : fault("filterIgnored") !== undefined ? all : matching
  const stable = setting.order === "stable"
  const from = stable ? rows.findIndex((row) => row.serial > place.at) : counts ? place.at * size : place.at
  const selected = from < 0 ? [] : rows.slice(from, from + size)
  const end = stable ? selected.at(-1)?.serial ?? 0 : counts ? place.at + 1 : from + size
  const more = from >= 0 && from + size < rows.length
  const next = (at: number) => `${at}.${place.page + 1}.${order}`
  const draft: Draft = {
    copies: selected.map((row) => ({ row, state: row.history.length - 1, hasId: true })),
    next: more ? next(end) : null,
    hidden: []
  }
  for (const active of activeFaults) spoil(table, draft, active, () => next(place.at), request.cursor)
  // The client requests an empty page again, unless the list ends with it.
  if (request.ids !== null || (fault("emptyPage") !== undefined && draft.next !== null)) return draft
  const shown = new Set(
    draft.copies.flatMap(({ hasId, row, state }) => hasId && state === row.history.length - 1 ? [row] : [])
  )
  // An offset in the requested list is not an offset in another list.
  const isOther = fault("filterEmpty") !== undefined || fault("filterIgnored") !== undefined
  const due = isOther ? matching : draft.next === null ? (from < 0 ? [] : rows.slice(from)) : selected
  return { ...draft, hidden: due.filter((row) => !shown.has(row)) }
}

const spoil = (table: Table, draft: Draft, fault: Active, again: () => string, cursor: string | null): void => {
  const some = <A>(list: ReadonlyArray<A>): number => Math.floor(fault.value * list.length)
  const { copies } = draft
  const nameless = 1 + Math.floor(fault.value * table.serial)
  switch (fault.fault) {
    case "emptyPage":
      draft.copies = []
      draft.next = again()
      break
    case "dropped":
      draft.copies = copies.filter((_, index) => (index + Math.floor(fault.value * 2)) % 2 === 0)
      break
    case "endsEarly":
      draft.next = null
      break
    case "repeated":
      draft.copies = [...copies, ...copies.slice(some(copies))]
      break
    case "stale": {
      const copy = copies[some(copies)]
      if (copy === undefined || copy.state === 0) break
      const older = { ...copy, state: Math.floor(((fault.value * 97) % 1) * copy.state) }
      const at = copies.indexOf(copy)
      if (fault.value < 0.33) copies.splice(at, 1, older)
      else if (fault.value < 0.66) copies.splice(at, 0, older)
      else copies.push(older)
      break
    }
    case "nothing":
      draft.copies = []
      draft.next = null
      break
    case "cycle":
      draft.next = cursor ?? again()
      break
    case "nameless":
      // The same record lacks its id in every response (D14).
      draft.copies = copies.map((copy) => copy.row.serial === nameless ? { ...copy, hasId: false } : copy)
      break
  }
}

const ordered = (table: Table, order: number, { order: by }: WorldSettings): ReadonlyArray<Row> => {
  if (by === "toEnd" || by === "toFront") return table.rows
  if (by !== "shuffled") {
    const sorted = [...table.rows].sort((a, b) =>
      by === "byId" || by === "byIdDescending" ? (a.id < b.id ? -1 : 1) : a.serial - b.serial
    )
    return by === "byIdDescending" || by === "byCreationDescending" ? sorted.reverse() : sorted
  }
  const rank = (row: Row) => Math.imul(row.serial + order * 7919, 0x9e3779b1) >>> 0
  return [...table.rows].sort((a, b) => rank(a) - rank(b))
}

const isAfter = (row: Row, updatedAfter: number, { inclusive, resolution }: WorldSettings): boolean => {
  const [matched, bound] = [Math.floor(row.matchedAt / resolution), Math.floor(updatedAfter / resolution)]
  return inclusive ? matched >= bound : matched > bound
}

/** The row as the response contains it. */
export const serialized = ({ hasId, row, state }: ServedRow): JsonObject => {
  const { record } = row.history[state]!
  if (hasId) return record
  const { id: _, ...rest } = record
  return rest
}

/** `<offset>.<page>.<order>`; null if the cursor cannot be parsed. */
export const parseCursor = (cursor: string | null): { at: number; page: number; order: number } | null => {
  if (cursor === null) return { at: 0, page: 0, order: 0 }
  const [at, page, order] = cursor.split(".").map(Number)
  return at === undefined || page === undefined || order === undefined ? null : { at, page, order }
}
