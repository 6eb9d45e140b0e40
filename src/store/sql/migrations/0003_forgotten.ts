/**
 * Records that an operator has forgotten: no run stores them again.
 *
 * Gotchas
 * - The ids are kept as they are, because a run must recognize them, and an operator must be able to allow one again.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"

export const forgotten = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  /** Sorted by its bytes in every database. */
  const text = sql.onDialectOrElse({ pg: () => sql.literal(`text COLLATE "C"`), orElse: () => sql.literal("text") })
  // state 'erasing': not complete, continued after a restart; 'forgotten': nothing is left
  yield* sql`CREATE TABLE forgotten (
    integration ${text} NOT NULL,
    model ${text} NOT NULL,
    id ${text} NOT NULL,
    state text NOT NULL,
    requested_at bigint NOT NULL,
    done_at bigint,
    PRIMARY KEY (integration, model, id)
  )`
})
