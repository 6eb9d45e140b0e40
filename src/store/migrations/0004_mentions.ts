/**
 * Which records show which content of others, and which of them are owed a re-read.
 *
 * Gotchas
 * - `mentions` is its own only index, ordered for "who shows this subject otherwise": one narrow tree, written where a
 *   record's mentions change and nowhere else.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const mentions = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const { text, narrow } = sql.onDialectOrElse({
    pg: () => ({ text: sql.literal(`text COLLATE "C"`), narrow: sql.literal("") }),
    orElse: () => ({ text: sql.literal("text"), narrow: sql.literal("WITHOUT ROWID") })
  })
  yield* sql`CREATE TABLE mentions (
    subject bigint NOT NULL,
    content bigint NOT NULL,
    stream integer NOT NULL,
    id ${text} NOT NULL,
    PRIMARY KEY (subject, content, stream, id)
  ) ${narrow}`
  // id '' stands for the whole stream; taken = asked for, and not owed anew since
  yield* sql`CREATE TABLE owed (
    stream integer NOT NULL,
    id ${text} NOT NULL,
    taken smallint NOT NULL,
    PRIMARY KEY (stream, id)
  ) ${narrow}`
})
