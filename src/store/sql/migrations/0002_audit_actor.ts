/** The caller that caused an action of the audit log; null in entries that are older than this schema. */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const auditActor = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE audit ADD COLUMN actor text`
  yield* sql`ALTER TABLE audit ADD COLUMN address text`
})
