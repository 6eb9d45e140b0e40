/**
 * Maps each record of a stream to the derived record that it shows.
 *
 * Gotchas
 * - A row may be outdated if no records were derived for a while: only the record's content is reliable.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { inBatches } from "../Rows.ts"
import { among, insertion } from "../RowValues.ts"

interface DerivationRow {
  readonly id: string
  readonly derived_id: string
}

export const make = (sql: SqlClient, stream: number) => ({
  /** The derived record that `setDerivedIds` last assigned to each source record, by id of the source record. */
  derivedIds: (ids: ReadonlyArray<string>) =>
    inBatches(ids, (some) =>
      sql<DerivationRow>`
        SELECT id, derived_id FROM derivations WHERE stream = ${stream} AND id ${among(sql, some)}`).pipe(
        Effect.map((rows) => new Map(rows.map(({ derived_id, id }) => [id, derived_id])))
      ),
  /**
   * The live source records of each derived record, with the log row of their content, by derived id; in id order, at most `limit` per
   * derived id.
   */
  liveSources: (derivedIds: ReadonlyArray<string>, limit: number) =>
    inBatches(derivedIds, (some) =>
      sql<DerivationRow & { position: number }>`
        SELECT derived_id, id, position FROM (
          SELECT p.derived_id, p.id, h.position, row_number() OVER (PARTITION BY p.derived_id ORDER BY p.id) AS nth
          FROM derivations p JOIN heads h ON h.stream = p.stream AND h.id = p.id
          WHERE p.stream = ${stream} AND p.derived_id ${among(sql, some)} AND h.live = 1 AND h.position IS NOT NULL
        ) ranked WHERE nth <= ${limit} ORDER BY derived_id, id`).pipe(
        Effect.map((rows) => Map.groupBy(rows, ({ derived_id }) => derived_id))
      ),
  /** The deleted source records of each derived record, by derived id. */
  deletedSources: (derivedIds: ReadonlyArray<string>) =>
    inBatches(derivedIds, (some) =>
      sql<DerivationRow>`
        SELECT p.derived_id, p.id FROM derivations p JOIN heads h ON h.stream = p.stream AND h.id = p.id
        WHERE p.stream = ${stream} AND p.derived_id ${among(sql, some)} AND h.live = 0
        ORDER BY p.derived_id, p.id`).pipe(
        Effect.map((rows) =>
          new Map(
            [...Map.groupBy(rows, ({ derived_id }) => derived_id)]
              .map(([derivedId, own]) => [derivedId, own.map(({ id }) => id)])
          )
        )
      ),
  /** Assigns derived records, by id of the source record; null if the source record contains no derived record. */
  setDerivedIds: Effect.fnUntraced(function*(derivedIds: ReadonlyMap<string, string | null>) {
    const removed = [...derivedIds].flatMap(([id, derived]) => derived === null ? [id] : [])
    const rows = [...derivedIds].flatMap(([id, derived]) =>
      derived === null ? [] : [{ stream, id, derived_id: derived }]
    )
    yield* inBatches(
      removed,
      (some) => sql`DELETE FROM derivations WHERE stream = ${stream} AND id ${among(sql, some)}`
    )
    yield* inBatches(rows, (some) =>
      sql`
        INSERT INTO derivations ${insertion(sql, some)}
        ON CONFLICT (stream, id) DO UPDATE SET derived_id = excluded.derived_id`)
  })
})
