/**
 * The history of the installation: a ring with a row for each minute of a day.
 *
 * Invariants
 * 1. The table never has more than `historySlots` rows   (I9)
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { historyInterval, type HistorySample, historySlots } from "../History.ts"

const minuteOf = (at: number): number => Math.floor(at / historyInterval)

interface Row {
  readonly at: number
  readonly sample: string
}

const toSample = ({ at, sample }: Row): HistorySample => ({ ...JSON.parse(sample), at: Number(at) })

export const make = (sql: SqlClient) => ({
  record: ({ at, ...sample }: HistorySample) => {
    const minute = minuteOf(at)
    return sql`
      INSERT INTO history ${sql.insert({ slot: minute % historySlots, at, sample: JSON.stringify(sample) })}
      ON CONFLICT (slot) DO UPDATE SET at = excluded.at, sample = excluded.sample
      WHERE history.at < ${minute * historyInterval} OR history.at >= ${(minute + 1) * historyInterval}`
  },
  since: (since: number) =>
    Effect.map(sql<Row>`SELECT at, sample FROM history WHERE at >= ${since} ORDER BY at`, Arr.map(toSample))
})
