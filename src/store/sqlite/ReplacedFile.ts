/**
 * Notices that the file at a store's path is no longer the open file, because that was deleted or replaced. SQLite would keep writing
 * to the open file, and that data would be lost when the process ends.
 *
 * Gotchas
 * - The check runs before each transaction, and before other statements at most once a second: it costs one `stat`.
 * - The check relies on the file's inode number staying the same while the file is open. All common file systems guarantee that.
 */
import * as Effect from "effect/Effect"
import type { SqlError } from "effect/sql/SqlError"
import { statSync } from "node:fs"
import { misconfigured } from "../StoreError.ts"
import { sqlErrorOf, StoreFault } from "../StoreFault.ts"

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
