/**
 * Looks at a SQLite file as a store without touching it. Hides how that is done beside a process that uses it.
 *
 * Invariants
 * 1. Nothing is written, and nobody's ownership is taken
 *
 * Gotchas
 * - SQLite makes files of its own beside one that it opens, and tidies up when the last one leaves: a file that nobody
 *   has open is read as if it were immutable, and while writing is tried beside others, a reader stays to the end.
 */
import * as Effect from "effect/Effect"
import { accessSync, constants, existsSync } from "node:fs"
import { dirname } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { pathToFileURL } from "node:url"
import { chainQuery, type Inspection, type StoredLog } from "../Inspection.ts"
import { notNewer, table } from "../sql/Migrations.ts"
import { withRetry } from "../sql/SqlRetry.ts"
import { publishingStart, StoreError } from "../Store.ts"
import { applicationId, codes, foreign, toOpenError, unwritable } from "./Sqlite.ts"
import { valueOf } from "./SqliteDriver.ts"

const patienceMillis = 1000

const immutable = (file: string): URL => {
  const url = pathToFileURL(file)
  url.search = "immutable=1"
  return url
}

const busy = (cause: unknown): boolean =>
  cause instanceof Error && "errcode" in cause && (Number(cause.errcode) & 0xff) === codes.busy

const isLocked = (file: string): boolean => {
  const writer = new DatabaseSync(file, { timeout: patienceMillis })
  try {
    writer.exec("BEGIN IMMEDIATE")
    writer.exec("ROLLBACK")
    return false
  } catch (cause) {
    if (busy(cause)) return true
    throw cause
  } finally {
    writer.close()
  }
}

const demandWritable = (file: string, paths: ReadonlyArray<string>): void => {
  try {
    for (const path of paths) accessSync(path, constants.W_OK)
  } catch {
    throw unwritable(file)
  }
}

const reading = <A>(file: string, use: (reader: DatabaseSync, inUse: boolean) => A): A => {
  const inUse = existsSync(`${file}-wal`)
  const reader = new DatabaseSync(inUse ? file : immutable(file), { readOnly: true, timeout: patienceMillis })
  try {
    return use(reader, inUse)
  } finally {
    reader.close()
  }
}

const logIn = (reader: DatabaseSync): StoredLog => ({
  store: String(valueOf(reader, "SELECT store FROM meta")),
  generation: Number(valueOf(reader, "SELECT generation FROM meta")),
  saved: Number(valueOf(reader, "SELECT position FROM readers WHERE name = 'relay'") ?? 0),
  start: Number(valueOf(reader, `SELECT position FROM readers WHERE name = '${publishingStart}'`) ?? 0),
  oldest: Number(valueOf(reader, "SELECT pruned + 1 FROM log_counter")),
  newest: Number(valueOf(reader, "SELECT position FROM log_counter"))
})

/** Schema and log of the store in the file, null if there is none yet. */
const look = (file: string) => {
  const directory = dirname(file)
  if (!existsSync(file)) {
    if (existsSync(directory)) demandWritable(file, [directory])
    else throw Object.assign(new Error("no directory"), { errcode: codes.cannotOpen })
    return { schema: null, log: null, locked: false }
  }
  demandWritable(file, [file, directory])
  return reading(file, (reader, inUse) => {
    const isEmpty = valueOf(reader, "SELECT count(*) FROM sqlite_master") === 0
    if (valueOf(reader, "PRAGMA application_id") !== applicationId && !isEmpty) throw foreign(file)
    return {
      schema: isEmpty ? null : Number(valueOf(reader, `SELECT max(migration_id) FROM ${table}`)),
      log: isEmpty ? null : logIn(reader),
      locked: inUse && isLocked(file)
    }
  })
}

/** Fails as opening the store would. */
export const inspect = (file: string): Effect.Effect<Inspection, StoreError> =>
  Effect.gen(function*() {
    const { locked, log, schema } = yield* Effect.try({ try: () => look(file), catch: toOpenError(file) })
    if (schema !== null) yield* notNewer(schema)
    return { exists: schema !== null, locked, log }
  }).pipe(withRetry("inspect"))

/** The chain of the log at a position, as `Store.chains` has it. Fails for a store that is yet to be migrated. */
export const chainAt = (file: string, position: number): Effect.Effect<string | null, StoreError> =>
  Effect.try({
    try: () =>
      reading(file, (reader) => {
        const chain = valueOf(reader, chainQuery(position))
        return typeof chain === "string" ? chain : null
      }),
    catch: toOpenError(file)
  }).pipe(withRetry("inspect"))
