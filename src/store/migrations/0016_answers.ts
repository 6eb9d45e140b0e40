/**
 * What operators need to answer for a step of unknown outcome: where the write went, what happens to it when it is met
 * again, whether a record has shown it, and whether the result is an operator's answer.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const answers = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  // null in rows that an earlier version wrote; `params`: the ids in the write's path
  yield* sql`ALTER TABLE journal ADD COLUMN integration text`
  yield* sql`ALTER TABLE journal ADD COLUMN params text`
  yield* sql`ALTER TABLE journal ADD COLUMN on_unknown text`
  // the record that showed it while its outcome was unknown: model, id, at
  yield* sql`ALTER TABLE journal ADD COLUMN seen text`
  // 1: the result is an operator's answer that no handler was given yet, 2: one was
  yield* sql`ALTER TABLE journal ADD COLUMN answered smallint NOT NULL DEFAULT 0`
})
