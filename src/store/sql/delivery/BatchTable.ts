/**
 * Remembers the batch in which an event was last delivered to a handler, even after the delivery is settled and deleted.
 *
 * Invariants
 * 1. A batch's name contains the names of the batches that contain it: all events of `17.1.r90` are also in `17.1` and in `17`.
 *    So the journal of a batch applies to every event of the batches inside it   (L4, L7)
 *
 * Gotchas
 * - A name is never reused for a batch with different members. An event that is delivered again gets a new batch inside its last batch,
 *   even if all other members are delivered again too, because some members may have to wait for an earlier delivery with their ordering
 *   key.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Deliveries } from "../../Deliveries.ts"
import { type Integer, rowsPerStatement } from "../Rows.ts"
import { among } from "../RowValues.ts"
import { withRetry } from "../SqlRetry.ts"

export const make = (sql: SqlClient) => {
  /** Inside a transaction: saves the batch of these deliveries as the last batch of their events. */
  const remember = Effect.fnUntraced(function*(deliveries: ReadonlyArray<number>) {
    for (const some of Arr.chunksOf(deliveries, rowsPerStatement)) {
      yield* sql`
        INSERT INTO batch_members (handler, position, batch)
        SELECT handler, position, batch FROM deliveries WHERE id ${among(sql, some)} AND batch IS NOT NULL
        ON CONFLICT (handler, position) DO UPDATE SET batch = excluded.batch`
    }
  })

  const batches: Deliveries["Service"]["batches"] = Effect.fnUntraced(
    function*(handler, positions) {
      const found = new Map<number, string>()
      for (const some of Arr.chunksOf(positions, rowsPerStatement)) {
        const rows = yield* sql<{ position: Integer; batch: string }>`
          SELECT position, batch FROM batch_members WHERE handler = ${handler} AND position ${among(sql, some)}`
        for (const { batch, position } of rows) found.set(Number(position), batch)
      }
      return found
    },
    withRetry("batches")
  )

  /** Deletes rows of events that are pruned from the log and have no delivery left: they cannot be delivered again. */
  const prune = sql`
    DELETE FROM batch_members WHERE position <= (SELECT pruned FROM log_counter) AND NOT EXISTS (
      SELECT 1 FROM deliveries d WHERE d.handler = batch_members.handler AND d.position = batch_members.position
    )`

  return { remember, batches, prune }
}

export type BatchTable = ReturnType<typeof make>
