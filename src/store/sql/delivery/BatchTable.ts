/**
 * Batches: their names in SQL, and the batch in which an event was last delivered to a handler, even after the delivery is settled and
 * deleted.
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
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import { inBatches } from "../Rows.ts"
import { among } from "../RowValues.ts"

/** Expressions over the keys under which steps run once, and over the names of batches. */
export const baseOf = (sql: SqlClient) => {
  /** The text up to its first `mark`. */
  const cut = (mark: string, text: Fragment) =>
    sql.onDialectOrElse({
      pg: () => sql`split_part(${text}, ${mark}, 1)`,
      orElse: () => sql`substr(${text}, 1, instr(${text} || ${mark}, ${mark}) - 1)`
    })
  const key = cut("~", cut(".", sql.literal("dedup_key")))
  return {
    /** The column `dedup_key` without the parts that a replay or a half of a batch adds: `e<position>` or `b<first delivery>`. */
    key,
    /** The position of the event in the column `dedup_key`; null for the key of a batch, a tick or a record. */
    position: sql`CASE WHEN dedup_key LIKE 'e%' THEN CAST(substr(${key}, 2) AS bigint) END`,
    /** The name of the whole batch, in this column. */
    batch: (column: string) => cut(".", sql.literal(column))
  }
}

export const make = (sql: SqlClient) => ({
  /** Inside a transaction: saves the batch of these deliveries as the last batch of their events. */
  remember: (deliveries: ReadonlyArray<number>) =>
    inBatches(deliveries, (some) =>
      sql`
        INSERT INTO batch_members (handler, position, batch)
        SELECT handler, position, batch FROM deliveries WHERE id ${among(sql, some)} AND batch IS NOT NULL
        ON CONFLICT (handler, position) DO UPDATE SET batch = excluded.batch`),
  /** The batch in which each event was last delivered to the handler, by position. Events without a batch are missing. */
  batches: (handler: number, positions: ReadonlyArray<number>) =>
    inBatches(positions, (some) =>
      sql<{ position: number; batch: string }>`
        SELECT position, batch FROM batch_members WHERE handler = ${handler} AND position ${among(sql, some)}`).pipe(
        Effect.map((rows): ReadonlyMap<number, string> => new Map(rows.map(({ batch, position }) => [position, batch])))
      ),
  /** Deletes rows of events that are pruned from the log and have no delivery left: they cannot be delivered again. */
  prune: sql`
    DELETE FROM batch_members WHERE position <= (SELECT pruned FROM log_counter) AND NOT EXISTS (
      SELECT 1 FROM deliveries d WHERE d.handler = batch_members.handler AND d.position = batch_members.position
    )`
})

export type BatchTable = ReturnType<typeof make>
