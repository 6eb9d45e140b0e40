/**
 * Remembers the batch in which an event was last delivered to a handler, after its delivery is gone.
 *
 * Invariants
 * 1. The events of a batch are all members of the batches that its name contains: `17.1.r90` is a part of `17.1`, which is
 *    a part of `17`. So what the journal has of a batch was done for every event of its parts   (L4, L7)
 *
 * Gotchas
 * - A name is never used again for other members. An event that is delivered anew gets a batch of its own inside the last
 *   one, even if all the other members are delivered anew as well: some of them may have to wait for their lane.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Deliveries } from "../../Deliveries.ts"
import { type Integer, rowsPerStatement } from "../Rows.ts"
import { withRetry } from "../SqlRetry.ts"

/** Of a new batch: inside `last`, the batch in which its events were delivered before, if they were; `first`: id of its first delivery. */
export const nameOf = (last: string | null, first: number): string =>
  last === null ? String(first) : `${last}.r${first}`

export const make = (sql: SqlClient) => {
  /** Inside a transaction: the batch of these deliveries is the last one of their events. */
  const remember = Effect.fnUntraced(function*(deliveries: ReadonlyArray<number>) {
    for (const some of Arr.chunksOf(deliveries, rowsPerStatement)) {
      yield* sql`
        INSERT INTO batch_members (handler, position, batch)
        SELECT handler, position, batch FROM deliveries WHERE id IN ${sql.in(some)} AND batch IS NOT NULL
        ON CONFLICT (handler, position) DO UPDATE SET batch = excluded.batch`
    }
  })

  const batches: Deliveries["Service"]["batches"] = Effect.fnUntraced(
    function*(handler, positions) {
      const found = new Map<number, string>()
      for (const some of Arr.chunksOf(positions, rowsPerStatement)) {
        const rows = yield* sql<{ position: Integer; batch: string }>`
          SELECT position, batch FROM batch_members WHERE handler = ${handler} AND position IN ${sql.in(some)}`
        for (const { batch, position } of rows) found.set(Number(position), batch)
      }
      return found
    },
    withRetry("batches")
  )

  /** Of events that are not in the log any more and of which no delivery is left: nothing can deliver them anew. */
  const prune = sql`
    DELETE FROM batch_members WHERE position <= (SELECT pruned FROM log_counter) AND NOT EXISTS (
      SELECT 1 FROM deliveries d WHERE d.handler = batch_members.handler AND d.position = batch_members.position
    )`

  return { remember, batches, prune }
}
