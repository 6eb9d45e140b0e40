/**
 * The file of a SQLite store: one service at a time works on it, and no process goes on writing to a file that was deleted or replaced.
 *
 * Details
 * The lock is that of an open transaction on an empty database file beside the store, `<store>.lock`. The operating system releases it when
 * the process ends, however it ends. It is independent of the locks of the store itself, so other commands and backups read the store as
 * before.
 *
 * Gotchas
 * - A process loses its lock when it closes any descriptor of the lock file that SQLite did not open. So nothing else reads this file.
 * - The lock file stays when the process ends. If it were deleted, a process could lock a deleted file, which no other process finds.
 * - SQLite would keep writing to a deleted or replaced file, and that data would be lost when the process ends.
 * - The check for a replaced file runs before each transaction, and before other statements at most once a second: it costs one `stat`.
 *   It relies on the file's inode number staying the same while the file is open. All common file systems guarantee that.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type { SqlError } from "effect/sql/SqlError"
import { existsSync, realpathSync, statSync } from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { toStoreError } from "../sql/SqlRetry.ts"
import { misconfigured, type StoreError, StoreInUse } from "../StoreError.ts"
import { sqlErrorOf, StoreFault } from "../StoreFault.ts"
import { createIfMissing, isDanglingLink } from "./FilePermissions.ts"
import { codes, toOpenError } from "./SqliteFault.ts"

// ---- the lock -----------------------------------------------------------------------------------------------------

/** The same file for every path to the store; null if there is nothing to lock, or if the store cannot be opened anyway. */
const lockFileOf = (store: string): string | null => {
  const folder = dirname(resolve(store))
  if (store === ":memory:" || isDanglingLink(store) || !existsSync(folder)) return null
  return `${existsSync(store) ? realpathSync(store) : join(realpathSync(folder), basename(store))}.lock`
}

/** Two processes that start at the same moment hinder each other for microseconds; one of them must get the lock. */
const shortWait = 100

/** The connection that has the lock; null if another process still has it after `timeout` (ms), which blocks this thread. */
const lock = (file: string, timeout: number): DatabaseSync | null => {
  createIfMissing(file)
  const database = new DatabaseSync(file, { timeout })
  try {
    database.exec("BEGIN EXCLUSIVE")
    return database
  } catch (cause) {
    database.close()
    if (cause instanceof Error && "errcode" in cause && (Number(cause.errcode) & 0xff) === codes.busy) return null
    throw cause
  }
}

/**
 * Holds the lock of `store` as long as the layer lives. Fails with `StoreInUse` if another process has the lock. With `takeOver` it goes on
 * without the lock, and takes the lock as soon as that process has ended.
 */
export const lockLayer = (store: string, takeOver: boolean): Layer.Layer<never, StoreError | StoreInUse> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const file = lockFileOf(store)
    if (file === null) return
    let held: DatabaseSync | null = null
    yield* Effect.addFinalizer(() => Effect.sync(() => held?.close()))
    const take = (timeout: number) =>
      Effect.try({ try: () => (held = lock(file, timeout)) !== null, catch: toOpenError(file) }).pipe(
        toStoreError("open")
      )
    if (yield* take(shortWait)) return
    if (!takeOver) return yield* new StoreInUse({ file: store })
    yield* Effect.annotateLogs(
      Effect.logWarning("taking the store over from another process, which ends at its next commit"),
      { store }
    )
    yield* Effect.forkScoped(
      Effect.repeat(take(0), { until: (isHeld) => isHeld, schedule: Schedule.spaced("250 millis") })
    )
  }))

// ---- a replaced file ----------------------------------------------------------------------------------------------

const checkIntervalMillis = 1_000

/** Null if there is no file. Throws if the file cannot be checked. */
const identityOf = (file: string): string | null => {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false })
  return found === undefined ? null : `${found.dev}/${found.ino}`
}

const inaccessible = (file: string) => (cause: unknown): SqlError => {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : undefined
  return sqlErrorOf(new StoreFault("unopenable", file, code, cause), "the database file cannot be checked")
}

const fileChanged = (file: string, isReplaced: boolean): SqlError =>
  sqlErrorOf(
    misconfigured(
      isReplaced
        ? `the database file ${file} was replaced while it was open, so Rollcall stopped writing to the former file. ` +
          `Find out what replaced it. If the new file is a copy from a backup, run ` +
          "`rollcall store adopt`; otherwise put the former file back. Then start Rollcall again"
        : `the database file ${file} was deleted while it was open, so Rollcall stopped writing to it. Find out what ` +
          "deleted it. Put it back, or restore a backup and run `rollcall store adopt`; then start Rollcall again"
    ),
    "the database file is not the one that was opened"
  )

/**
 * Call right after opening the database. The returned check fails once the file is deleted or replaced. `always`: check even if the
 * last check was recent.
 */
export const checkOf = (file: string): (always: boolean) => Effect.Effect<void, SqlError> => {
  if (file === ":memory:") return () => Effect.void
  const opened = identityOf(file)
  let checkedAt = performance.now()
  let problem: SqlError | null = null
  return (always) =>
    Effect.gen(function*() {
      const now = performance.now()
      if (problem === null && (always || now - checkedAt >= checkIntervalMillis)) {
        const found = yield* Effect.try({ try: () => identityOf(file), catch: inaccessible(file) })
        checkedAt = now
        // the error stays even if the file is put back, because another process may have written to it in the meantime
        if (found !== opened) problem = fileChanged(file, found !== null)
      }
      if (problem !== null) return yield* Effect.fail(problem)
    })
}
