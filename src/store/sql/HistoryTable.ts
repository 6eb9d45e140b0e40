/**
 * Two histories, each a ring that the newest entries overwrite: samples of the installation, and the runs of each stream.
 *
 * Invariants
 * 1. The history of the installation never has more than `historySlots` rows, and that of a stream never more than `keptRuns`   (I9)
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import { historyInterval, type HistorySample, historySlots } from "../Operators.ts"
import { type EndedRun, keptRuns } from "../Run.ts"

const minuteOf = (at: number): number => Math.floor(at / historyInterval)

interface Row {
  readonly at: number
  readonly sample: string
}

const toSample = ({ at, sample }: Row): HistorySample => ({ ...JSON.parse(sample), at: Number(at) })

export const make = (sql: SqlClient) => ({
  /**
   * Adds a sample, unless the history already has a sample of the same minute. The sample replaces the one of the previous day. Any
   * process may call this.
   */
  recordSample: ({ at, ...sample }: HistorySample) => {
    const minute = minuteOf(at)
    return sql`
      INSERT INTO history ${sql.insert({ slot: minute % historySlots, at, sample: JSON.stringify(sample) })}
      ON CONFLICT (slot) DO UPDATE SET at = excluded.at, sample = excluded.sample
      WHERE history.at < ${minute * historyInterval} OR history.at >= ${(minute + 1) * historyInterval}`
  },
  /** The samples at or after `since` (our clock, in ms), oldest first. */
  history: (since: number) =>
    Effect.map(sql<Row>`SELECT at, sample FROM history WHERE at >= ${since} ORDER BY at`, Arr.map(toSample))
})

/** A step of an open transaction. */
export const recordRun = (sql: SqlClient, stream: number) => (run: EndedRun) =>
  sql`
    INSERT INTO runs ${sql.insert({ stream, id: run.number % keptRuns, run: JSON.stringify(run) })}
    ON CONFLICT (stream, id) DO UPDATE SET run = excluded.run`

/** The runs of the stream that `condition` selects, newest first. */
export const listRuns = (sql: SqlClient, condition: Fragment) =>
  Effect.map(
    sql<{ run: string }>`SELECT r.run FROM streams s JOIN runs r ON r.stream = s.key WHERE ${condition}`,
    (rows): ReadonlyArray<EndedRun> =>
      rows.map(({ run }): EndedRun => JSON.parse(run)).toSorted((one, other) => other.number - one.number)
  )
