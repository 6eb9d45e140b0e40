/**
 * The records of one integration: hides how they are kept, linked, ordered and touched.
 *
 * Invariants
 * 1. A linked thing stands here once and is embedded when read, so a rename shows in every record that embeds it.
 * 2. `changedAt` moves with a record's own changes only; what happens to linked records never moves it.
 * 3. A record's own changes are never dated before earlier ones.
 *
 * Gotchas
 * - With drifting order a changed record moves to the end of its list: readers that page by offset skip and repeat
 *   rows, as the real service lets them (failure cases P1, P2).
 */
import { type IncrementalModel, lists } from "../api/Lists.ts"
import { hash, idOf } from "./Chance.ts"

export type Json = null | boolean | number | string | ReadonlyArray<Json> | { readonly [key: string]: Json }
export type Fields = Record<string, Json>

/** What the lists show plus what only stands inside them. */
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
  /** What never changes of the record is drawn from this when it is read, and takes no memory. */
  readonly salt: number
  readonly createdAt: number
  /** Last own change: `changed_at`. */
  changedAt: number
  /** Last time an entry was added or removed on a path where that counts. */
  entriesAt: number
  /** `remote_updated_at`. */
  updatedAt: number
  /** `remote_deleted_at`. */
  deletedAt: number | null
  /** When it left every list without being flagged. */
  vanishedAt: number | null
  /** Own properties as the API shows them, links apart. */
  readonly fields: Fields
  readonly one: Record<string, Row | null>
  readonly many: Record<string, Array<Row>>
}

export interface Birth {
  /** Only where whoever writes the record names it; default: the service does. */
  readonly id?: string
  readonly fields?: Fields | undefined
  readonly one?: Record<string, Row | null> | undefined
  readonly many?: Record<string, Array<Row>>
  /** When it was created in the third-party system; default: when it appears. */
  readonly createdAt?: number
}

const nothing = Object.freeze({})

export const isLive = (row: Row): boolean => row.deletedAt === null && row.vanishedAt === null

export type Order = "drifting" | "stable"

interface Table {
  readonly byId: Map<string, Row>
  /** Everything not vanished, in the order the list shows it. */
  readonly rows: Array<Row>
  serial: number
}

export class Records {
  readonly integration: string
  readonly order: Order
  /** Deleted and vanished records. */
  readonly gone = new Set<Row>()
  readonly #seed: number
  readonly #tables = new Map<WorldModel, Table>()

  constructor(seed: number, integration: string, order: Order) {
    this.#seed = seed
    this.integration = integration
    this.order = order
    for (const model of models) this.#tables.set(model, { byId: new Map(), rows: [], serial: 0 })
  }

  /** Everything not vanished, deleted ones included, in list order. */
  rows(model: WorldModel): ReadonlyArray<Row> {
    return this.#table(model).rows
  }

  /** Vanished ones too. */
  find(model: WorldModel, id: string): Row | undefined {
    return this.#table(model).byId.get(id)
  }

  /** The service's id of the nth thing of a kind. */
  id(kind: string, serial: number): string {
    return idOf(this.#seed, this.integration, kind, serial)
  }

  insert(model: WorldModel, at: number, birth: Birth): Row {
    const table = this.#table(model)
    const serial = ++table.serial
    const salt = hash(`${this.#seed}/${this.integration}/${model}#${serial}`)
    const row: Row = {
      model,
      id: birth.id ?? this.id(model, serial),
      remoteId: remoteIdOf(model, serial, salt),
      serial,
      salt,
      createdAt: birth.createdAt ?? at,
      changedAt: at,
      entriesAt: 0,
      updatedAt: at,
      deletedAt: null,
      vanishedAt: null,
      fields: birth.fields ?? {},
      one: birth.one ?? nothing,
      many: birth.many ?? nothing
    }
    table.byId.set(row.id, row)
    table.rows.push(row)
    return row
  }

  /** An own change. */
  change(row: Row, at: number, fields: Fields = {}, one: Record<string, Row | null> = {}): Row {
    Object.assign(row.fields, fields)
    for (const path in one) row.one[path] = one[path] ?? null
    return this.#touch(row, at)
  }

  /** Only `remote_updated_at` moves. */
  stir(row: Row, at: number): Row {
    row.updatedAt = Math.max(at, row.updatedAt)
    return row
  }

  /** Adds an entry to one of the record's arrays. */
  attach(row: Row, path: string, entry: Row, at: number): Row {
    this.#entries(row, path).push(entry)
    return this.#entriesChanged(row, path, at)
  }

  /** Takes an entry out of one of the record's arrays; false if it was not in it. */
  detach(row: Row, path: string, entry: Row, at: number): boolean {
    const entries = this.#entries(row, path)
    const index = entries.indexOf(entry)
    if (index < 0) return false
    entries.splice(index, 1)
    this.#entriesChanged(row, path, at)
    return true
  }

  /** Deleted and shown as such (`remote_deleted_at`). */
  flag(row: Row, at: number): Row {
    row.deletedAt = at
    this.gone.add(row)
    return this.#touch(row, at)
  }

  /** Gone from every list, never flagged (failure case D2). */
  vanish(row: Row, at: number): Row {
    row.vanishedAt = at
    this.gone.add(row)
    const { rows } = this.#table(row.model)
    rows.splice(rows.lastIndexOf(row), 1)
    return row
  }

  /** Taken out for good, as if it had never been: nothing restores it. */
  drop(row: Row): void {
    const { byId, rows } = this.#table(row.model)
    byId.delete(row.id)
    this.gone.delete(row)
    const index = rows.lastIndexOf(row)
    if (index >= 0) rows.splice(index, 1)
  }

  restore(row: Row, at: number): Row {
    row.deletedAt = null
    this.gone.delete(row)
    if (row.vanishedAt !== null) {
      row.vanishedAt = null
      const { rows } = this.#table(row.model)
      rows.splice(this.order === "stable" ? indexAfter(rows, row.serial) : rows.length, 0, row)
    }
    return this.#touch(row, at)
  }

  #table(model: WorldModel): Table {
    return this.#tables.get(model) as Table
  }

  #entries(row: Row, path: string): Array<Row> {
    const entries = row.many[path]
    if (entries === undefined) throw new Error(`${row.model} has no array "${path}"`)
    return entries
  }

  #entriesChanged(row: Row, path: string, at: number): Row {
    if (!isListed(row.model)) return row
    const propagation = propagationOf(row.model)[path]
    if (propagation?.entries === true) row.entriesAt = Math.max(at, row.entriesAt)
    return row
  }

  #touch(row: Row, at: number): Row {
    row.changedAt = Math.max(at, row.changedAt)
    row.updatedAt = Math.max(at, row.updatedAt)
    if (this.order === "drifting" && isListed(row.model) && row.vanishedAt === null) {
      const { rows } = this.#table(row.model)
      rows.splice(rows.lastIndexOf(row), 1)
      rows.push(row)
    }
    return row
  }
}

const propagationOf = (model: IncrementalModel): Readonly<Record<string, { readonly entries: boolean | null }>> =>
  lists[model].propagation

const indexAfter = (rows: ReadonlyArray<Row>, serial: number): number => {
  let from = 0
  let to = rows.length
  while (from < to) {
    const middle = (from + to) >> 1
    if ((rows[middle] as Row).serial > serial) to = middle
    else from = middle + 1
  }
  return from
}

const remoteIdOf = (model: WorldModel, serial: number, salt: number): string =>
  model.startsWith("ats.")
    ? String(4_000_000 + serial * 7 + (salt % 7))
    : `${salt.toString(16).padStart(8, "0")}-${serial}`
