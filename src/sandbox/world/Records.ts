/**
 * The records of one integration: how they are stored, linked, ordered and changed.
 *
 * Invariants
 * 1. A linked record is stored once and embedded when it is read, so a rename shows in every record that embeds it.
 * 2. `changedAt` moves only when the record itself changes; changes of linked records never move it.
 * 3. `changedAt` of a record never moves back.
 *
 * Gotchas
 * - In drifting order a changed record moves to the end of its list: clients that page by offset skip and repeat
 *   rows, as with the real service (failure cases P1, P2).
 */
import { type IncrementalModel, lists } from "../../api/Lists.ts"
import { hash, idOf, type SeededRandom } from "./SeededRandom.ts"

export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }
export type Fields = Record<string, Json>

/** The models of the lists, plus the models that are only shown inside other records. */
export const models = [
  ...(Object.keys(lists) as ReadonlyArray<IncrementalModel>),
  "ats.candidate",
  "ats.job",
  "ats.stage",
  "ats.user",
  "ats.interview",
  "hris.employee",
  "hris.pay_run",
  "hris.line_item",
  "hris.salary_type",
  "hris.location",
  "hris.group",
  "hris.expectation",
  "hris.proficiency_scale",
  "hris.document_category",
  "lms.course",
  "ats.attachment",
  "ats.result_link",
  "hris.document",
  "hris.rating",
  "assessment.package"
] as const satisfies ReadonlyArray<string>
export type WorldModel = IncrementalModel | (typeof models)[number]
export const isWorldModel = (name: string): name is WorldModel => (models as ReadonlyArray<string>).includes(name)
export const isListed = (model: WorldModel): model is IncrementalModel => model in lists

/** One record; times are server time in ms. */
export interface Row {
  readonly model: WorldModel
  readonly id: string
  readonly remoteId: string
  readonly serial: number
  /** The seed of properties that never change. They are computed when the record is read, so they take no memory. */
  readonly salt: number
  readonly createdAt: number
  /** Last change of the record itself: `changed_at`. */
  changedAt: number
  /** When an entry was last added or removed at a path where this makes `updated_after` match. */
  entriesChangedAt: number
  /** `remote_updated_at`. */
  remoteUpdatedAt: number
  /** `remote_deleted_at`. */
  deletedAt: number | null
  /** When the record left every list without being flagged as deleted. */
  hardDeletedAt: number | null
  /** Properties of the record itself as the API shows them, without links. */
  readonly fields: Fields
  readonly one: Record<string, Row | null>
  readonly many: Record<string, Array<Row>>
}

export interface NewRecord {
  /** Set only if the client chooses the id; by default the API does. */
  readonly id?: string
  readonly fields?: Fields | undefined
  readonly one?: Record<string, Row | null> | undefined
  readonly many?: Record<string, Array<Row>>
  /** When the record was created in the third-party system; default: when it appears in the list. */
  readonly createdAt?: number
}

const noLinks = Object.freeze({})

/** A time, in ms, as the API shows it. */
export const iso = (at: number): string => new Date(at).toISOString()
/** A day, `YYYY-MM-DD`. */
export const dateOf = (at: number): string => iso(at).slice(0, 10)

export const isLive = (row: Row): boolean => row.deletedAt === null && row.hardDeletedAt === null

export type ListOrder = "drifting" | "stable"

interface Table {
  readonly byId: Map<string, Row>
  /** All records that are not hard-deleted, in list order. */
  readonly rows: Array<Row>
  serial: number
}

export class Records {
  readonly integration: string
  readonly order: ListOrder
  /** Soft-deleted and hard-deleted records. */
  readonly deletedRows = new Set<Row>()
  readonly #seed: number
  readonly #tables = new Map<WorldModel, Table>()

  constructor(seed: number, integration: string, order: ListOrder) {
    this.#seed = seed
    this.integration = integration
    this.order = order
    for (const model of models) this.#tables.set(model, { byId: new Map(), rows: [], serial: 0 })
  }

  /** All records that are not hard-deleted, including soft-deleted ones, in list order. */
  rows(model: WorldModel): ReadonlyArray<Row> {
    return this.#tableOf(model).rows
  }

  /** Finds hard-deleted records too. */
  find(model: WorldModel, id: string): Row | undefined {
    return this.#tableOf(model).byId.get(id)
  }

  /** A random live record that fits; null if there is none. */
  pick(model: WorldModel, random: SeededRandom, fits: (row: Row) => boolean = () => true): Row | null {
    return random.pickWhere(this.rows(model), (row) => isLive(row) && fits(row)) ?? null
  }

  /** The API's id of the nth record or option of a kind. */
  id(kind: string, serial: number): string {
    return idOf(this.#seed, this.integration, kind, serial)
  }

  insert(model: WorldModel, at: number, values: NewRecord): Row {
    const table = this.#tableOf(model)
    const serial = ++table.serial
    const salt = hash(`${this.#seed}/${this.integration}/${model}#${serial}`)
    const row: Row = {
      model,
      id: values.id ?? this.id(model, serial),
      remoteId: remoteIdOf(model, serial, salt),
      serial,
      salt,
      createdAt: values.createdAt ?? at,
      changedAt: at,
      entriesChangedAt: 0,
      remoteUpdatedAt: at,
      deletedAt: null,
      hardDeletedAt: null,
      fields: values.fields ?? {},
      one: values.one ?? noLinks,
      many: values.many ?? noLinks
    }
    table.byId.set(row.id, row)
    table.rows.push(row)
    return row
  }

  /** Changes own properties or links. */
  change(row: Row, at: number, fields: Fields = {}, one: Record<string, Row | null> = {}): Row {
    Object.assign(row.fields, fields)
    for (const path in one) row.one[path] = one[path] ?? null
    return this.#touch(row, at)
  }

  /** Moves only `remote_updated_at`. */
  touchRemote(row: Row, at: number): Row {
    row.remoteUpdatedAt = Math.max(at, row.remoteUpdatedAt)
    return row
  }

  /** Adds an entry to one of the record's arrays. */
  attach(row: Row, path: string, entry: Row, at: number): Row {
    this.#entriesOf(row, path).push(entry)
    return this.#entriesChanged(row, path, at)
  }

  /** Removes an entry from one of the record's arrays; false if the array does not contain it. */
  detach(row: Row, path: string, entry: Row, at: number): boolean {
    const entries = this.#entriesOf(row, path)
    const index = entries.indexOf(entry)
    if (index < 0) return false
    entries.splice(index, 1)
    this.#entriesChanged(row, path, at)
    return true
  }

  /** Deletes the record and shows it as deleted (`remote_deleted_at`). */
  softDelete(row: Row, at: number): Row {
    row.deletedAt = at
    this.deletedRows.add(row)
    return this.#touch(row, at)
  }

  /** Removes the record from every list, without a flag (failure case D2). */
  hardDelete(row: Row, at: number): Row {
    row.hardDeletedAt = at
    this.deletedRows.add(row)
    const { rows } = this.#tableOf(row.model)
    rows.splice(rows.lastIndexOf(row), 1)
    return row
  }

  /** Removes the record for good, as if it never existed; it cannot be restored. */
  purge(row: Row): void {
    const { byId, rows } = this.#tableOf(row.model)
    byId.delete(row.id)
    this.deletedRows.delete(row)
    const index = rows.lastIndexOf(row)
    if (index >= 0) rows.splice(index, 1)
  }

  restore(row: Row, at: number): Row {
    row.deletedAt = null
    this.deletedRows.delete(row)
    if (row.hardDeletedAt !== null) {
      row.hardDeletedAt = null
      const { rows } = this.#tableOf(row.model)
      rows.splice(this.order === "stable" ? firstIndexFrom(rows, row.serial) : rows.length, 0, row)
    }
    return this.#touch(row, at)
  }

  #tableOf(model: WorldModel): Table {
    return this.#tables.get(model) as Table
  }

  #entriesOf(row: Row, path: string): Array<Row> {
    const entries = row.many[path]
    if (entries === undefined) throw new Error(`${row.model} has no array "${path}"`)
    return entries
  }

  #entriesChanged(row: Row, path: string, at: number): Row {
    if (!isListed(row.model)) return row
    const propagation = propagationOf(row.model)[path]
    if (propagation?.entries === true) row.entriesChangedAt = Math.max(at, row.entriesChangedAt)
    return row
  }

  #touch(row: Row, at: number): Row {
    row.changedAt = Math.max(at, row.changedAt)
    row.remoteUpdatedAt = Math.max(at, row.remoteUpdatedAt)
    if (this.order === "drifting" && isListed(row.model) && row.hardDeletedAt === null) {
      const { rows } = this.#tableOf(row.model)
      rows.splice(rows.lastIndexOf(row), 1)
      rows.push(row)
    }
    return row
  }
}

const propagationOf = (model: IncrementalModel): Readonly<Record<string, { readonly entries: boolean | null }>> =>
  lists[model].propagation

/** Index of the first row with this serial or a later one, in rows of stable order. */
export const firstIndexFrom = (rows: ReadonlyArray<Row>, serial: number): number => {
  let from = 0
  let to = rows.length
  while (from < to) {
    const middle = (from + to) >> 1
    if ((rows[middle] as Row).serial >= serial) to = middle
    else from = middle + 1
  }
  return from
}

const remoteIdOf = (model: WorldModel, serial: number, salt: number): string =>
  model.startsWith("ats.")
    ? String(4_000_000 + serial * 7 + (salt % 7))
    : `${salt.toString(16).padStart(8, "0")}-${serial}`
