/**
 * Notices that the file at a store's path is no longer the one that is open: it was deleted, or another one was put in its
 * place. SQLite goes on with the open one, and whatever it writes there is lost with the process.
 *
 * Gotchas
 * - The check is made before each transaction, and otherwise once a second: it costs one `stat`.
 * - On a file system that gives a file a new number while it is open, nothing can be told apart. None of the usual ones does.
 */
import * as Effect from "effect/Effect"
import { SqlError, UnknownError } from "effect/sql/SqlError"
import { statSync } from "node:fs"
import { Misconfigured, StoreError } from "../Store.ts"
import { StoreFault } from "../StoreFault.ts"

const lookEvery = 1_000

/** null: there is none. Throws where that cannot be found out. */
const identityOf = (file: string): string | null => {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false })
  return found === undefined ? null : `${found.dev}/${found.ino}`
}

const inaccessible = (file: string) => (cause: unknown): SqlError =>
  new SqlError({
    reason: new UnknownError({
      operation: "execute",
      message: "the database file cannot be looked at",
      cause: new StoreFault(
        "unopenable",
        file,
        cause instanceof Error && "code" in cause ? String(cause.code) : undefined,
        cause
      )
    })
  })

const fileChanged = (file: string, isReplaced: boolean): SqlError =>
  new SqlError({
    reason: new UnknownError({
      operation: "execute",
      message: "the database file is not the one that was opened",
      cause: new StoreError({
        reason: new Misconfigured({
          message: isReplaced
            ? `the database file ${file} was replaced while it was open, so nothing more is written to the one that was ` +
              `there. Find out what replaced it: if the new file is a copy from a backup, start again and run ` +
              "`rollcall store adopt`; otherwise put the former file back and start again"
            : `the database file ${file} was deleted while it was open, so nothing more is written to it. Find out what ` +
              "deleted it; put it back, or restore a backup and run `rollcall store adopt`, and start again"
        })
      })
    })
  })

/** Of a database that was opened just now: fails once its file is gone. `always`: however recently that was checked. */
export const guard = (file: string): (always: boolean) => Effect.Effect<void, SqlError> => {
  if (file === ":memory:") return () => Effect.void
  const opened = identityOf(file)
  let lookedAt = performance.now()
  let problem: SqlError | null = null
  return (always) =>
    Effect.gen(function*() {
      const now = performance.now()
      if (problem === null && (always || now - lookedAt >= lookEvery)) {
        const found = yield* Effect.try({ try: () => identityOf(file), catch: inaccessible(file) })
        lookedAt = now
        // it is not used again, even if the file is put back: others may have written to it meanwhile
        if (found !== opened) problem = fileChanged(file, found !== null)
      }
      if (problem !== null) return yield* Effect.fail(problem)
    })
}
