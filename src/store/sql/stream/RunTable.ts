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
import type { StreamState } from "../../State.ts"

/** A step of an open transaction. */
export const record = (sql: SqlClient, stream: number) => (run: EndedRun) =>
  sql`
    INSERT INTO runs ${sql.insert({ stream, id: run.number % keptRuns, run: JSON.stringify(run) })}
    ON CONFLICT (stream, id) DO UPDATE SET run = excluded.run`

/** Newest first. `condition` selects the stream. */
export const list = (sql: SqlClient, condition: Fragment) =>
  Effect.map(
    sql<{ run: string; state: string }>`
      SELECT r.run, s.state FROM streams s JOIN runs r ON r.stream = s.key WHERE ${condition}`,
    (rows): ReadonlyArray<EndedRun> => {
      const { recordedRuns: newest = 0 }: Pick<StreamState, "recordedRuns"> = JSON.parse(rows[0]?.state ?? "{}")
      // SQLite may give a new stream the key of a stream that was erased while a process of an earlier version ran
      return rows.map(({ run }): EndedRun => JSON.parse(run))
        .filter(({ number }) => number <= newest && number > newest - keptRuns)
        .toSorted((one, other) => other.number - one.number)
    }
  )
