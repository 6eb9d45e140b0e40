/**
 * The number of live records of each stream.
 *
 * Gotchas
 * - With 30,000,000 records the count takes seconds, so it comes first: `ALTER TABLE` locks the streams, even against readers, until the
 *   commit.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const liveRecords = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE live_counts AS SELECT stream, count(*) AS live FROM heads WHERE live = 1 GROUP BY stream`
  yield* sql`ALTER TABLE streams ADD COLUMN live_records bigint NOT NULL DEFAULT 0`
  yield* sql`UPDATE streams SET live_records = live_counts.live FROM live_counts WHERE live_counts.stream = streams.key`
  yield* sql`DROP TABLE live_counts`
})
