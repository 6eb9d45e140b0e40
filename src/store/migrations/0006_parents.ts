/**
 * Which record shows which of a derived model: an application its candidate.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const parents = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const { text, narrow } = sql.onDialectOrElse({
    pg: () => ({ text: sql.literal(`text COLLATE "C"`), narrow: sql.literal("") }),
    orElse: () => ({ text: sql.literal("text"), narrow: sql.literal("WITHOUT ROWID") })
  })
  yield* sql`CREATE TABLE parents (
    stream integer NOT NULL,
    id ${text} NOT NULL,
    child ${text} NOT NULL,
    PRIMARY KEY (stream, id)
  ) ${narrow}`
  yield* sql`CREATE INDEX parents_child ON parents (stream, child, id)`
})
