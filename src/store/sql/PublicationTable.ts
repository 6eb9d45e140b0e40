/**
 * Where published events are in the sink: one row for each batch that was published.
 *
 * Details
 * A row has a few bytes for each event, because positions are stored as differences: about 0.2 % of the size of the events.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { EventPlace, EventPlaces, Publication } from "../EventLog.ts"

/** Topic, partition, offset of the first message, and the positions: the first one, then the difference to the one before. */
type Encoded = readonly [topic: string, partition: number, offset: number, ...differences: ReadonlyArray<number>]

const encode = ({ offset, partition, positions, topic }: EventPlaces): Encoded => [
  topic,
  partition,
  offset,
  ...positions.map((position, index) => position - (positions[index - 1] ?? 0))
]

const find = (places: ReadonlyArray<Encoded>, wanted: number): Omit<EventPlace, "at"> | null => {
  for (const [topic, partition, offset, ...differences] of places) {
    let position = 0
    for (const [index, difference] of differences.entries()) {
      position += difference
      if (position === wanted) return { topic, partition, offset: offset + index }
    }
  }
  return null
}

/** Rows that one statement of `prune` looks at. */
const span = 1_000

export const make = (sql: SqlClient) => ({
  /** A step of an open transaction. The batch of a commit whose response was lost is recorded twice. */
  record: (position: number, { at, places }: Publication) =>
    sql`
      INSERT INTO publications ${sql.insert({ position, at, places: JSON.stringify(places.map(encode)) })}
      ON CONFLICT (position) DO NOTHING`,
  placeOf: (position: number): Effect.Effect<EventPlace | null, SqlError> =>
    Effect.map(
      sql<{ at: number; places: string }>`
        SELECT at, places FROM publications WHERE position >= ${position} ORDER BY position LIMIT 1`,
      ([row]) => {
        const found = row === undefined ? null : find(JSON.parse(row.places), position)
        return row === undefined || found === null ? null : { ...found, at: Number(row.at) }
      }
    ),
  /** From the oldest batch on, a few at a time. */
  prune: (before: number) =>
    Effect.repeat(
      Effect.map(
        sql<{ position: number }>`
          DELETE FROM publications
          WHERE at < ${before} AND position IN (SELECT position FROM publications ORDER BY position LIMIT ${span})
          RETURNING position`,
        (rows) => rows.length
      ),
      { while: (deleted) => deleted === span }
    )
})
