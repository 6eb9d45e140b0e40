/** The JSON that the script keeps of each record, in a SQLite file or in PostgreSQL. */
import { DatabaseSync } from "node:sqlite"
import pg from "pg"
import type { Application } from "./Pages.ts"

export interface Observed {
  readonly record: Application
  readonly json: string
}

export interface Snapshots {
  /** Starts the transaction of a page, stores the records that differ, and returns them with the JSON of the last time. */
  readonly begin: (
    page: ReadonlyArray<Observed>
  ) => Promise<ReadonlyArray<Observed & { readonly before: string | undefined }>>
  readonly commit: () => Promise<void>
  readonly close: () => Promise<void>
}

const table = "CREATE TABLE IF NOT EXISTS snapshots (id TEXT PRIMARY KEY, json TEXT NOT NULL, changed_at TEXT NOT NULL)"
/** For reads of changes alone, which are not measured. */
const index = "CREATE INDEX IF NOT EXISTS by_change ON snapshots (changed_at)"

const openSqlite = (file: string): Snapshots => {
  const database = new DatabaseSync(file)
  database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; ${table}; ${index}`)
  const read = database.prepare("SELECT json FROM snapshots WHERE id = ?")
  const write = database.prepare(
    "INSERT INTO snapshots VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET json = excluded.json, changed_at = excluded.changed_at"
  )
  return {
    begin: async (page) => {
      database.exec("BEGIN")
      const changed: Array<Observed & { readonly before: string | undefined }> = []
      for (const { json, record } of page) {
        const before = read.get(record.id)?.["json"] as string | undefined
        if (before === json) continue
        write.run(record.id, json, record.changed_at)
        changed.push({ record, json, before })
      }
      return changed
    },
    commit: async () => database.exec("COMMIT"),
    close: async () => database.close()
  }
}

/** Two statements for each page: the waiting time of one statement per record would dominate. */
const openPostgres = async (url: string): Promise<Snapshots> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query(table)
  await client.query(index)
  return {
    begin: async (page) => {
      await client.query("BEGIN")
      const { rows } = await client.query<{ id: string; json: string }>({
        name: "read",
        text: "SELECT id, json FROM snapshots WHERE id = ANY ($1::text[])",
        values: [page.map(({ record }) => record.id)]
      })
      const stored = new Map(rows.map(({ id, json }) => [id, json]))
      const changed = page.map((observed) => ({ ...observed, before: stored.get(observed.record.id) })).filter((
        { before, json }
      ) => before !== json)
      if (changed.length > 0) {
        await client.query({
          name: "write",
          text: `INSERT INTO snapshots SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
            ON CONFLICT (id) DO UPDATE SET json = excluded.json, changed_at = excluded.changed_at`,
          values: [
            changed.map(({ record }) => record.id),
            changed.map(({ json }) => json),
            changed.map(({ record }) => record.changed_at)
          ]
        })
      }
      return changed
    },
    commit: async () => void await client.query("COMMIT"),
    close: () => client.end()
  }
}

/** `place`: a file, or the URL of a database. */
export const open = async (place: string): Promise<Snapshots> =>
  place.startsWith("postgres") ? await openPostgres(place) : openSqlite(place)
