/**
 * The chain of the event log: what proves, at a position, every event up to there (see `chainOf`). And what processes note
 * of their commits in PostgreSQL, where another copy of the database may answer (see `Witness`).
 *
 * Gotchas
 * - A log that is there already gets its chain from its oldest kept row on; what was pruned before counts as nothing.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import { chainOf, genesis } from "../../domain/ChangeEvent.ts"

const rowsAtOnce = 250

export const chain = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE events ADD COLUMN chain text NOT NULL DEFAULT ''`
  // at the newest position, and at the newest past retention: its row may be gone
  yield* sql`ALTER TABLE log_counter ADD COLUMN chain text NOT NULL DEFAULT ''`
  yield* sql`ALTER TABLE log_counter ADD COLUMN pruned_chain text NOT NULL DEFAULT ''`
  yield* sql`CREATE TABLE links (position bigint PRIMARY KEY, chain text NOT NULL)`
  const [counter] = yield* sql<{ pruned: number | bigint }>`SELECT pruned FROM log_counter`
  let last = { position: Number(counter?.pruned ?? 0), chain: genesis }
  while (true) {
    const rows = yield* sql<{ position: number | bigint; event_id: string }>`
      SELECT position, event_id FROM events WHERE position > ${last.position} ORDER BY position LIMIT ${rowsAtOnce}`
    if (!Arr.isReadonlyArrayNonEmpty(rows)) break
    const links = Arr.map(rows, ({ event_id, position }) => {
      last = { position: Number(position), chain: chainOf(last.chain, event_id) }
      return { ...last }
    })
    yield* sql`INSERT INTO links ${sql.insert(links)}`
  }
  yield* sql`
    UPDATE events SET chain = (SELECT links.chain FROM links WHERE links.position = events.position)
    WHERE position IN (SELECT position FROM links)`
  yield* sql`DROP TABLE links`
  yield* sql`UPDATE log_counter SET chain = ${last.chain}`
  // number of the last commit of each slot of a process: see `Witness`
  yield* sql.onDialectOrElse({
    pg: () =>
      Effect.asVoid(sql`CREATE TABLE witness (
        process text NOT NULL,
        slot integer NOT NULL,
        serial bigint NOT NULL,
        noted date NOT NULL,
        PRIMARY KEY (process, slot)
      )`),
    orElse: () => Effect.void
  })
})
