/**
 * The history of the runs of each stream: a ring with the newest of them.
 *
 * Invariants
 * 1. A stream never has more than `keptRuns` rows   (I9)
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import { type EndedRun, keptRuns } from "../../Run.ts"

/** A step of an open transaction. */
export const record = (sql: SqlClient, stream: number) => (run: EndedRun) =>
  sql`
    INSERT INTO runs ${sql.insert({ stream, id: run.number % keptRuns, run: JSON.stringify(run) })}
    ON CONFLICT (stream, id) DO UPDATE SET run = excluded.run`

/** Newest first. `condition` selects the stream. */
export const list = (sql: SqlClient, condition: Fragment) =>
  Effect.map(
    sql<{ run: string }>`SELECT r.run FROM streams s JOIN runs r ON r.stream = s.key WHERE ${condition}`,
    (rows): ReadonlyArray<EndedRun> =>
      rows.map(({ run }): EndedRun => JSON.parse(run)).toSorted((one, other) => other.number - one.number)
  )
