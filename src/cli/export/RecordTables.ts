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
import type { DatabaseSync, SQLInputValue } from "node:sqlite"
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
import type { EventData } from "../../publish/EventSchema.ts"
import { cellsOf, recordColumnsOf } from "../../publish/RecordColumns.ts"

type RecordVersion = Pick<EventData, "integration" | "id" | "generation" | "version">

/** A record as the API lists it, or as its newest event describes it. `after`: null if the record is deleted. */
export type ReadRecord = RecordVersion & { readonly after: unknown }

/** A record with its content as JSON text. */
export type ContentRow = RecordVersion & { readonly content: string }

/** A stream whose records the tables have. `generation`: that of its integration. */
export interface HeldStream extends StreamKey {
  readonly generation: number
}

/** The columns of a table beside the record's key and version, and the values of a record in them. */
interface TableLayout {
  readonly columns: ReadonlyArray<readonly [name: string, type: string]>
  readonly valuesOf: (record: JsonObject) => ReadonlyArray<SQLInputValue>
}

/** The comments distinguish the types of columns that have one SQL type. */
const sqlTypes = {
  string: "TEXT",
  time: "TEXT /* time */",
  json: "TEXT /* JSON */",
  int64: "INTEGER",
  boolean: "INTEGER /* boolean */",
  double: "REAL"
}

/** A column for each field of the schema, and one for all other fields. */
export const columnLayout = (entry: RecordEntry): TableLayout => {
  const known = recordColumnsOf(entry)
  const own = known.columns.filter(({ name }) => name !== "id")
  const columns = own.map(({ name, type }) => [name, sqlTypes[type]] as const)
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
const keyColumns = [["integration", "TEXT NOT NULL"], ["id", "TEXT NOT NULL"]] as const
const versionColumns = [["record_generation", "INTEGER NOT NULL"], ["record_version", "INTEGER NOT NULL"]] as const

/** Opens the table of a model, or makes it. A table whose columns have other names or types is replaced: its rows have other values. */
const openTable = (database: DatabaseSync, model: Model, { columns, valuesOf }: TableLayout) => {
  const table = quote(tableNameOf(model))
  const all = [...keyColumns, ...columns, ...versionColumns]
  const names = all.map(([name]) => quote(name))
  const typed = all.map(([name, type]) => `${quote(name)} ${type}`).join(", ")
  const definition = `CREATE TABLE ${table} (${typed}, PRIMARY KEY (integration, id))`
  const found = database.prepare("SELECT sql FROM sqlite_schema WHERE name = ?").get(tableNameOf(model))
  const isNew = found?.["sql"] !== definition
  if (isNew) database.exec(`DROP TABLE IF EXISTS ${table}; ${definition}`)
  const changed = names.slice(keyColumns.length).map((name) => `${name} = excluded.${name}`).join(", ")
  return {
    isNew,
    valuesOf,
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
    count: database.prepare(`SELECT count(*) AS records FROM ${table}`)
  }
}

/** Begins the transaction in which the tables change. Without a commit, nothing is changed. */
export const openTables = (database: DatabaseSync, models: Models, layoutOf: (entry: RecordEntry) => TableLayout) => {
  database.exec("PRAGMA secure_delete = ON; BEGIN IMMEDIATE")
  const found = new Set(database.prepare("SELECT name FROM sqlite_schema").all().map(({ name }) => String(name)))
  if (found.size > 0 && !found.has(exportTable)) throw new Error("it is a database with other tables")
  database.exec(
    `CREATE TABLE IF NOT EXISTS ${exportTable} (integration TEXT NOT NULL, model TEXT NOT NULL, generation INTEGER NOT NULL,
     position TEXT NOT NULL, exported_at TEXT NOT NULL, PRIMARY KEY (integration, model))`
  )
  const streams = new Map<string, HeldStream>()
  const hold = (stream: HeldStream) => streams.set(streamName(stream), stream)
  let position: string | null = null
  for (const row of database.prepare(`SELECT integration, model, generation, position FROM ${exportTable}`).all()) {
    const model = String(row["model"])
    // the process has no records of the model: it was removed from the configuration, and its integrations were erased
    if (!isModel(models, model)) {
      if (found.has(tableNameOf(model))) database.exec(`DELETE FROM ${quote(tableNameOf(model))}`)
      continue
    }
    position = String(row["position"])
    hold({ integration: String(row["integration"]), model, generation: Number(row["generation"]) })
  }

  const tables = new Map<Model, ReturnType<typeof openTable>>()
  /** The statements of the table of a model, which is made if it is missing. */
  const tableOf = (model: Model) => {
    const known = tables.get(model)
    if (known !== undefined) return known
    const table = openTable(database, model, layoutOf(recordEntryOf(models, model)))
    // a held stream without records must be read again
    if (table.isNew) { for (const [name, stream] of streams) if (stream.model === model) streams.delete(name) }
    tables.set(model, table)
    return table
  }

  return {
    /** The log position of the records when the tables were opened; null if the tables are new. */
    position,
    streams,
    tableOf,
    hold,
    write: (model: Model, { after, generation, id, integration, version }: ReadRecord) => {
      const { remove, upsert, valuesOf } = tableOf(model)
      if (after === null) remove.run(integration, id, generation, version)
      else upsert.run(integration, id, ...valuesOf(isObject(after) ? after : {}), generation, version)
    },
    /** Deletes the records of a stream. */
    clear: (stream: StreamKey) => {
      streams.delete(streamName(stream))
      tableOf(stream.model).clear.run(stream.integration)
    },
    count: (model: Model) => Number(tableOf(model).count.get()?.["records"]),
    /** The rows of a table with the layout of whole contents, ordered by integration and id. */
    contents: (model: Model) =>
      database.prepare(
        `SELECT integration, id, content, record_generation AS generation, record_version AS version
         FROM ${quote(tableNameOf(model))} ORDER BY integration, id`
      ).iterate() as Iterable<ContentRow>,
    /** Ends the transaction; from then on other programs see the records of this position. */
    commit: (position: string, at: number) => {
      database.exec(`DELETE FROM ${exportTable}`)
      const insert = database.prepare(`INSERT INTO ${exportTable} VALUES (?, ?, ?, ?, ?)`)
      for (const { generation, integration, model } of streams.values()) {
        insert.run(integration, model, generation, position, new Date(at).toISOString())
      }
      database.exec("COMMIT")
    }
  }
}

export type RecordTables = ReturnType<typeof openTables>
