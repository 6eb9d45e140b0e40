/**
 * The batch in which each event was last delivered to each handler, so that a replay finds the journal of that batch; and
 * whether a handler's ticks are due in an integration. And checksums of the log's rows (see `Checksum`).
 *
 * Gotchas
 * - Batches that ended before this migration are unknown: a replay of their events repeats their effects. Rows of the log
 *   that were written before have no checksum.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const batchesAndTicks = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const dialect = sql.onDialectOrElse({
    pg: () => ({ text: `text COLLATE "C"`, narrow: "" }),
    orElse: () => ({ text: "text", narrow: "WITHOUT ROWID" })
  })
  yield* sql`CREATE TABLE batch_members (
    handler integer NOT NULL,
    position bigint NOT NULL,
    batch ${sql.literal(dialect.text)} NOT NULL,
    PRIMARY KEY (handler, position)
  ) ${sql.literal(dialect.narrow)}`
  // batches that are under way
  yield* sql`
    INSERT INTO batch_members (handler, position, batch)
    SELECT handler, position, max(batch) FROM deliveries
    WHERE batch IS NOT NULL AND position IS NOT NULL GROUP BY handler, position`
  // `on`; `absent`: the integration is not active, its span goes on when it is back; `off`: by configuration
  yield* sql`ALTER TABLE ticks ADD COLUMN state text NOT NULL DEFAULT 'on'`
  yield* sql`ALTER TABLE events ADD COLUMN content_sum bigint`
  yield* sql`ALTER TABLE events ADD COLUMN row_sum bigint`
})
