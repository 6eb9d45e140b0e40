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
import { attempt } from "./Attempt.ts"
import { notNewer, table } from "./Migrations.ts"
import { applicationId, codes, foreign, toOpenError, unwritable, valueOf } from "./Sqlite.ts"
import { StoreError } from "./Store.ts"

export interface Examination {
  /** Whether there is a store; if not, one can be made there. */
  readonly exists: boolean
  /** Whether another program keeps everybody from writing. */
  readonly locked: boolean
}

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

/** The schema of the store in the file, null if there is none yet. */
const look = (file: string) => {
  const directory = dirname(file)
  if (!existsSync(file)) {
    if (existsSync(directory)) demandWritable(file, [directory])
    else throw Object.assign(new Error("no directory"), { errcode: codes.cannotOpen })
    return { schema: null, locked: false }
  }
  demandWritable(file, [file, directory])
  const inUse = existsSync(`${file}-wal`)
  const reader = new DatabaseSync(inUse ? file : immutable(file), { readOnly: true, timeout: patienceMillis })
  try {
    const isEmpty = valueOf(reader, "SELECT count(*) FROM sqlite_master") === 0
    if (valueOf(reader, "PRAGMA application_id") !== applicationId && !isEmpty) throw foreign(file)
    return {
      schema: isEmpty ? null : Number(valueOf(reader, `SELECT max(migration_id) FROM ${table}`)),
      locked: inUse && isLocked(file)
    }
  } finally {
    reader.close()
  }
}

/** Fails as opening the store would. */
export const examine = (file: string): Effect.Effect<Examination, StoreError> =>
  Effect.gen(function*() {
    const { locked, schema } = yield* Effect.try({ try: () => look(file), catch: toOpenError(file) })
    if (schema !== null) yield* notNewer(schema)
    return { exists: schema !== null, locked }
  }).pipe(attempt("examine"))
