/**
 * The rules that were applied to stored content: the id of the rules, whose text is in the stream's state. Null = not known, because an
 * earlier version stored the row.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const redactions = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  for (const table of ["events", "pending", "quarantine"]) {
    yield* sql`ALTER TABLE ${sql(table)} ADD COLUMN redaction text`
  }
  // retention deletes the rows of all streams that were last read before a time
  yield* sql`CREATE INDEX quarantine_last_at ON quarantine (last_at)`
})
