/**
 * Inspects a SQLite file as a store without changing it.
 *
 * Invariants
 * 1. An inspection writes nothing and takes no ownership
 *
 * Gotchas
 * - SQLite creates files next to the one that it opens, and removes them when the last connection closes. A file that no process has
 *   open is therefore read as immutable. If other processes have it open, the reader stays open while the write lock is tested.
 */
import * as Effect from "effect/Effect"
import { accessSync, constants, existsSync, realpathSync } from "node:fs"
import { dirname } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { pathToFileURL } from "node:url"
import type { HandlerName } from "../Delivery.ts"
import {
  chainQuery,
  type Inspection,
  keysQuery,
  logQuery,
  openCircuitsQuery,
  type StoredLog
} from "../sql/Inspection.ts"
import { checkRequired, newestKnown, requiredSchemaQuery, table } from "../sql/Migrations.ts"
import { withRetry } from "../sql/SqlRetry.ts"
import type { StoreError } from "../StoreError.ts"
import { isDanglingLink } from "./FilePermissions.ts"
import { applicationId } from "./Sqlite.ts"
import { valueOf } from "./SqliteDriver.ts"
import { codes, foreign, toOpenError, unwritable } from "./SqliteFault.ts"

const timeoutMillis = 1000

const immutable = (file: string): URL => {
  const url = pathToFileURL(file)
  url.search = "immutable=1"
  return url
}

const isBusy = (cause: unknown): boolean =>
  cause instanceof Error && "errcode" in cause && (Number(cause.errcode) & 0xff) === codes.busy

const isLocked = (file: string): boolean => {
  const writer = new DatabaseSync(file, { timeout: timeoutMillis })
  try {
    writer.exec("BEGIN IMMEDIATE")
    writer.exec("ROLLBACK")
    return false
  } catch (cause) {
    if (isBusy(cause)) return true
    throw cause
  } finally {
    writer.close()
  }
}

const requireWritable = (file: string, paths: ReadonlyArray<string>): void => {
  try {
    for (const path of paths) accessSync(path, constants.W_OK)
  } catch {
    throw unwritable(file)
  }
}

/** The file behind a symbolic link: SQLite keeps its other files beside it. */
const targetOf = (path: string): string => existsSync(path) ? realpathSync(path) : path

const withReader = <A>(file: string, use: (reader: DatabaseSync, inUse: boolean) => A): A => {
  const inUse = existsSync(`${file}-wal`)
  const reader = new DatabaseSync(inUse ? file : immutable(file), { readOnly: true, timeout: timeoutMillis })
  try {
    return use(reader, inUse)
  } finally {
    reader.close()
  }
}

/** Reads an `Inspection`. `required`: the schema that a program must know to open the store; 0 if this program knows the newest one. */
const readStore = (path: string) => {
  const file = targetOf(path)
  const directory = dirname(file)
  if (!existsSync(file)) {
    if (isDanglingLink(file)) throw Object.assign(new Error("a link to nothing"), { errcode: codes.cannotOpen })
    if (existsSync(directory)) requireWritable(file, [directory])
    else throw Object.assign(new Error("no directory"), { errcode: codes.cannotOpen })
    return { exists: false, required: 0, log: null, locked: false, openCircuits: [], keys: [] }
  }
  requireWritable(file, [file, directory])
  return withReader(file, (reader, inUse) => {
    const isEmpty = valueOf(reader, "SELECT count(*) FROM sqlite_master") === 0
    if (valueOf(reader, "PRAGMA application_id") !== applicationId && !isEmpty) throw foreign(file)
    const newest = isEmpty ? 0 : Number(valueOf(reader, `SELECT max(migration_id) FROM ${table}`))
    const found = isEmpty ? [] : reader.prepare(openCircuitsQuery).all()
    return {
      exists: !isEmpty,
      required: newest > newestKnown ? Number(valueOf(reader, requiredSchemaQuery)) : 0,
      log: isEmpty ? null : { ...reader.prepare(logQuery).get() } as unknown as StoredLog,
      locked: inUse && isLocked(file),
      openCircuits: found.map((row): HandlerName => ({
        plugin: String(row["plugin"]),
        handler: String(row["handler"])
      })),
      keys: isEmpty ? [] : reader.prepare(keysQuery).all().map((row) => String(row["id"]))
    }
  })
}

/**
 * Inspects the file. Fails if it cannot be opened as a store, with the error that opening it would fail with. If another program has the
 * store open, it does not fail: see `locked`.
 */
export const inspect = (file: string): Effect.Effect<Inspection, StoreError> =>
  Effect.gen(function*() {
    const { required, ...found } = yield* Effect.try({
      try: () => readStore(file),
      catch: toOpenError(file)
    })
    yield* checkRequired(required)
    return { ...found, fleet: null }
  }).pipe(withRetry("inspect"))

/** The chain of the log at a position, as in `Store.chains`. Fails for a store that is not migrated yet. */
export const chainAt = (file: string, position: number): Effect.Effect<string | null, StoreError> =>
  Effect.try({
    try: () =>
      withReader(targetOf(file), (reader) => {
        const chain = valueOf(reader, chainQuery(position))
        return typeof chain === "string" ? chain : null
      }),
    catch: toOpenError(file)
  }).pipe(withRetry("inspect"))
