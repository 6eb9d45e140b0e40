/**
 * Rewrites a SQLite file once if it may contain data deleted by a version of Rollcall that did not yet overwrite deleted data with zeros
 * (`secure_delete`).
 *
 * Gotchas
 * - `user_version` 1 marks a file without such data. A new file has the mark from the start.
 * - SQLite writes the new content to a temporary file, then to the `-wal` file, and from there to the file: so there must be free
 *   space for two more copies of the file. If there is too little space, the file is used as it is, and the next start tries again.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { realpathSync, statfsSync, statSync } from "node:fs"
import { dirname } from "node:path"
import * as Health from "../sql/Health.ts"
import { AllowLongStatement } from "../sql/SqlRetry.ts"

const hasSpaceFor = (file: string) =>
  Effect.sync(() => {
    const { bavail, bsize } = statfsSync(dirname(realpathSync(file)))
    return bavail * bsize > 2 * statSync(file).size
  })

const postponed = (file: string, hint: string) =>
  Effect.annotateLogs(Effect.logWarning("the store may still contain data that earlier versions of Rollcall deleted"), {
    store: file,
    hint
  })

const rewrite = (sql: SqlClient, file: string) =>
  Effect.logInfo("rewriting the store once, without the data that earlier versions deleted").pipe(
    Effect.annotateLogs({ store: file }),
    Effect.andThen(sql`VACUUM`),
    Effect.andThen(sql`PRAGMA user_version = 1`),
    Effect.andThen(sql`PRAGMA wal_checkpoint(TRUNCATE)`),
    Effect.andThen(Effect.logInfo("store rewritten")),
    Effect.provideService(AllowLongStatement, true),
    Effect.provideService(Health.Observed, false),
    Effect.catch(() =>
      postponed(file, "the store could not be rewritten without that data; the next start of Rollcall tries again")
    )
  )

/** Does nothing if the file has the mark. Never fails, because the store can be used without the rewrite. */
export const rewriteOnce = Effect.fnUntraced(function*(sql: SqlClient, file: string) {
  const [row] = yield* sql<{ user_version: number }>`PRAGMA user_version`
  if (row?.user_version !== 0 || file === ":memory:") return
  if (yield* hasSpaceFor(file)) return yield* rewrite(sql, file)
  yield* postponed(file, "free disk space for two more copies of the file, and start Rollcall again")
}, (result) => Effect.ignore(result))
