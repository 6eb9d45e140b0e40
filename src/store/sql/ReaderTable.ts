/**
 * The readers of the log and their positions; and where published events are in the sink, one row for each batch that was published.
 *
 * Details
 * A row of a batch has a few bytes for each event, because positions are stored as differences: about 0.2 % of the size of the events.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { EventPlace, EventPlaces, Publication } from "../EventLog.ts"
import type { Owner } from "../State.ts"
import * as DatabaseTime from "./DatabaseTime.ts"
import type { Fencing } from "./Fencing.ts"

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

/** Rows that one statement of `prunePlaces` looks at. */
const span = 1_000

export const make = (sql: SqlClient, { fence }: Fencing) => {
  const time = DatabaseTime.make(sql)
  /** A step of an open transaction. The batch of a commit whose response was lost is recorded twice. */
  const record = (position: number, { at, places }: Publication) =>
    sql`
      INSERT INTO publications ${sql.insert({ position, at, places: JSON.stringify(places.map(encode)) })}
      ON CONFLICT (position) DO NOTHING`

  return {
    readerPosition: (reader: string) =>
      sql<{ position: number }>`SELECT position FROM readers WHERE name = ${reader}`.pipe(
        Effect.map(([row]) => row?.position ?? 0)
      ),
    /** Notes that this process needs the log until these readers have read it. */
    noteReaders: (readers: ReadonlyArray<string>) =>
      Effect.flatMap(time, (now) =>
        Effect.forEach(readers, (name) =>
          sql`
            INSERT INTO readers (name, position, needed_at) VALUES (${name}, 0, ${now})
            ON CONFLICT (name) DO UPDATE SET needed_at = excluded.needed_at`, { discard: true })),
    /** The positions of the readers that a process has noted less than `within` ms ago, so that a process without them keeps the log too. */
    neededPositions: (within: number) =>
      // a time in the future was noted before the clock was set back   (W4)
      Effect.flatMap(time, (now) =>
        Effect.map(
          sql<{ position: number }>`
            SELECT position FROM readers WHERE abs(needed_at - ${now}) < ${within}`,
          Arr.map(({ position }) => position)
        )),
    /** `published`: where the events of the batch that ends at `position` are in the sink; null or absent if that is not known. */
    saveReaderPosition: (owner: Owner, reader: string, position: number, published: Publication | null = null) =>
      fence(owner).pipe(
        Effect.andThen(sql`
          INSERT INTO readers (name, position) VALUES (${reader}, ${position})
          ON CONFLICT (name) DO UPDATE SET position = excluded.position`),
        Effect.andThen(published === null ? Effect.void : Effect.asVoid(record(position, published))),
        sql.withTransaction
      ),
    /** Where the event at this position is in the sink; null if it was not recorded, or no longer is. */
    placeOf: (position: number) =>
      Effect.map(
        sql<{ at: number; places: string }>`
          SELECT at, places FROM publications WHERE position >= ${position} ORDER BY position LIMIT 1`,
        ([row]): EventPlace | null => {
          const found = row === undefined ? null : find(JSON.parse(row.places), position)
          return row === undefined || found === null ? null : { ...found, at: Number(row.at) }
        }
      ),
    /** Deletes where events are that were published before `before` (our clock, ms): from the oldest batch on, a few at a time. */
    prunePlaces: (before: number) =>
      Effect.map(
        sql<{ position: number }>`
          DELETE FROM publications
          WHERE at < ${before} AND position IN (SELECT position FROM publications ORDER BY position LIMIT ${span})
          RETURNING position`,
        (rows) => rows.length
      ).pipe(Effect.repeat({ while: (deleted) => deleted === span }), Effect.asVoid)
  }
}
