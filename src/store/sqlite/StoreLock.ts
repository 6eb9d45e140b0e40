/**
 * The lock of a SQLite store: one service at a time works on the file.
 *
 * Details
 * It is the lock of an open transaction on an empty database file beside the store, `<store>.lock`. The operating system releases it when
 * the process ends, however it ends. It is independent of the locks of the store itself, so other commands and backups read the store as
 * before.
 *
 * Gotchas
 * - A process loses its lock when it closes any descriptor of the file that SQLite did not open. So nothing else reads this file.
 * - The file stays when the process ends. If it were deleted, a process could lock a deleted file, which no other process finds.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { existsSync, realpathSync } from "node:fs"
import { basename, dirname, join, resolve } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { toStoreError } from "../sql/SqlRetry.ts"
import { type StoreError, StoreInUse } from "../StoreError.ts"
import { createIfMissing, isDanglingLink } from "./FilePermissions.ts"
import { codes, toOpenError } from "./SqliteFault.ts"

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
export const layer = (store: string, takeOver: boolean): Layer.Layer<never, StoreError | StoreInUse> =>
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
