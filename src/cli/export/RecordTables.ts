/**
 * The current records in a SQLite database, with a table for each model: the file of `rollcall export --sqlite`, or a temporary database.
 *
 * Invariants
 * 1. A row never becomes older: a change applies only if its (generation, version) is not less than that of the row
 * 2. All changes of one export are one transaction, so other programs see the records of one position   (I2)
 *
 * Gotchas
 * - `secure_delete` overwrites what is deleted, so the file of a later export has no content of a forgotten record.
 */
import { DatabaseSync, type SQLInputValue } from "node:sqlite"
import { isObject, type JsonObject } from "../../domain/Canonical.ts"
import {
  isModel,
  type Model,
  type Models,
  type RecordEntry,
  recordEntryOf,
  type StreamKey,
  streamName
} from "../../domain/Model.ts"
import { cellsOf, recordColumnsOf, unknownFields } from "../../publish/RecordColumns.ts"

/** A record as the API lists it, or as its newest event describes it. */
export interface ReadRecord {
  readonly integration: string
  readonly id: string
  readonly generation: number
  readonly version: number
  /** Null if the record is deleted. */
  readonly after: unknown
}

/** A record with its content as JSON text. */
export interface ContentRow extends Omit<ReadRecord, "after"> {
  readonly content: string
}

/** A stream whose records the tables have. `generation`: that of its integration. */
export interface HeldStream {
  readonly integration: string
  readonly model: Model
  readonly generation: number
}

/** The columns of a table beside the record's key and version, and the values of a record in them. */
interface TableLayout {
  readonly columns: ReadonlyArray<readonly [name: string, type: string]>
  readonly valuesOf: (record: JsonObject) => ReadonlyArray<SQLInputValue>
}

const sqlTypes = { string: "TEXT", time: "TEXT", json: "TEXT", int64: "INTEGER", boolean: "INTEGER", double: "REAL" }

/** A column for each field of the schema, and one for all other fields. */
export const columnLayout = (entry: RecordEntry): TableLayout => {
  const known = recordColumnsOf(entry)
  const own = known.columns.filter(({ name }) => name !== "id")
  const columns = [...own.map(({ name, type }) => [name, sqlTypes[type]] as const), [unknownFields, "TEXT"] as const]
  return {
    columns,
    valuesOf: (record) => {
      const cells = cellsOf(known, record)
      return columns.map(([name]) => {
        const cell = cells.get(name) ?? null
        return typeof cell === "boolean" ? Number(cell) : cell
      })
    }
  }
}

/** The whole record as JSON text in one column. */
export const contentLayout: TableLayout = {
  columns: [["content", "TEXT"]],
  valuesOf: (record) => [JSON.stringify(record)]
}

/** The table of a model: `ats_application`. */
const tableNameOf = (model: string): string => model.replaceAll(".", "_")
const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`

const exportTable = "rollcall_export"
const version = ["record_generation", "record_version"]

/** Opens the table of a model, or makes it. A table with other columns is replaced. */
const openTable = (database: DatabaseSync, model: Model, { columns, valuesOf }: TableLayout) => {
  const table = quote(tableNameOf(model))
  const own = columns.map(([name]) => quote(name))
  const names = [...["integration", "id"].map(quote), ...own, ...version.map(quote)]
  const found = database.prepare(`PRAGMA table_info(${table})`).all().map(({ name }) => quote(String(name)))
  const isNew = found.join() !== names.join()
  if (isNew) {
    const typed = columns.map(([name, type]) => `${quote(name)} ${type}, `).join("")
    database.exec(
      `DROP TABLE IF EXISTS ${table};
       CREATE TABLE ${table} (integration TEXT NOT NULL, id TEXT NOT NULL, ${typed}record_generation INTEGER NOT NULL,
       record_version INTEGER NOT NULL, PRIMARY KEY (integration, id))`
    )
  }
  const changed = [...own, ...version].map((name) => `${name} = excluded.${name}`).join(", ")
  const statements = {
    upsert: database.prepare(
      `INSERT INTO ${table} VALUES (${
        names.map(() => "?").join(", ")
      }) ON CONFLICT (integration, id) DO UPDATE SET ${changed}
       WHERE (excluded.record_generation, excluded.record_version) >= (record_generation, record_version)`
    ),
    remove: database.prepare(
      `DELETE FROM ${table} WHERE integration = ? AND id = ? AND (record_generation, record_version) <= (?, ?)`
    ),
    clear: database.prepare(`DELETE FROM ${table} WHERE integration = ?`),
    count: database.prepare(`SELECT count(*) AS records FROM ${table}`),
    all: database.prepare(`SELECT * FROM ${table} ORDER BY integration, id`)
  }
  return { isNew, table: { ...statements, valuesOf } }
}
type RecordTable = ReturnType<typeof openTable>["table"]

/** Why a file cannot take the tables. */
export class ForeignFile extends Error {}

export class RecordTables {
  readonly #database: DatabaseSync
  readonly #layoutOf: (entry: RecordEntry) => TableLayout
  readonly #models: Models
  readonly #streams = new Map<string, HeldStream>()
  readonly #tables = new Map<Model, RecordTable>()
  /** The log position of the records; null if the tables are new. */
  position: string | null = null

  /** Opens a file, or a temporary database for an empty name, and begins the transaction. */
  constructor(file: string, models: Models, layoutOf: (entry: RecordEntry) => TableLayout) {
    this.#database = new DatabaseSync(file, { timeout: 5000 })
    this.#layoutOf = layoutOf
    this.#models = models
    try {
      this.#begin()
    } catch (error) {
      this.#database.close()
      throw error
    }
  }

  #begin(): void {
    const database = this.#database
    database.exec("PRAGMA secure_delete = ON; BEGIN IMMEDIATE")
    const tables = new Set(database.prepare("SELECT name FROM sqlite_schema").all().map(({ name }) => String(name)))
    if (tables.size > 0 && !tables.has(exportTable)) throw new ForeignFile("it is a database with other tables")
    database.exec(
      `CREATE TABLE IF NOT EXISTS ${exportTable} (integration TEXT NOT NULL, model TEXT NOT NULL, generation INTEGER NOT NULL,
       position TEXT NOT NULL, exported_at TEXT NOT NULL, PRIMARY KEY (integration, model))`
    )
    for (const row of database.prepare(`SELECT integration, model, generation, position FROM ${exportTable}`).all()) {
      const model = String(row["model"])
      // the process has no records of the model: it was removed from the configuration, and its integrations were erased
      if (!isModel(this.#models, model)) {
        if (tables.has(tableNameOf(model))) database.exec(`DELETE FROM ${quote(tableNameOf(model))}`)
        continue
      }
      const stream = { integration: String(row["integration"]), model, generation: Number(row["generation"]) }
      this.position = String(row["position"])
      this.#streams.set(streamName(stream), stream)
    }
  }

  get streams(): ReadonlyMap<string, HeldStream> {
    return this.#streams
  }

  /** The statements of the table of a model, which is made if it is missing. */
  tableOf(model: Model): RecordTable {
    const known = this.#tables.get(model)
    if (known !== undefined) return known
    const { isNew, table } = openTable(this.#database, model, this.#layoutOf(recordEntryOf(this.#models, model)))
    // a held stream without records must be read again
    if (isNew) { for (const [name, stream] of this.#streams) if (stream.model === model) this.#streams.delete(name) }
    this.#tables.set(model, table)
    return table
  }

  write(model: Model, { after, generation, id, integration, version }: ReadRecord): void {
    const { remove, upsert, valuesOf } = this.tableOf(model)
    if (after === null) remove.run(integration, id, generation, version)
    else upsert.run(integration, id, ...valuesOf(isObject(after) ? after : {}), generation, version)
  }

  hold(stream: HeldStream): void {
    this.#streams.set(streamName(stream), stream)
  }

  /** Deletes the records of a stream. */
  clear(stream: StreamKey): void {
    this.#streams.delete(streamName(stream))
    this.tableOf(stream.model).clear.run(stream.integration)
  }

  count(model: Model): number {
    return Number(this.tableOf(model).count.get()?.["records"])
  }

  /** The rows of a table with the layout of whole contents, ordered by integration and id. */
  *contents(model: Model): Generator<ContentRow> {
    for (const row of this.tableOf(model).all.iterate()) {
      yield {
        integration: String(row["integration"]),
        id: String(row["id"]),
        content: String(row["content"]),
        generation: Number(row["record_generation"]),
        version: Number(row["record_version"])
      }
    }
  }

  /** Ends the transaction; from then on other programs see the records of this position. */
  commit(position: string, at: number): void {
    this.#database.exec(`DELETE FROM ${exportTable}`)
    const insert = this.#database.prepare(`INSERT INTO ${exportTable} VALUES (?, ?, ?, ?, ?)`)
    for (const { generation, integration, model } of this.#streams.values()) {
      insert.run(integration, model, generation, position, new Date(at).toISOString())
    }
    this.#database.exec("COMMIT")
    this.position = position
  }

  /** Without a commit before, nothing is changed. */
  close(): void {
    this.#database.close()
  }
}
