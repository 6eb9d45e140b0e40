/**
 * Maps records of a stream to the record of a derived model that they show.
 *
 * Gotchas
 * - A row may be outdated if no records were derived for a while: only the record's content is reliable.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { StreamTx } from "../../Store.ts"
import { type Integer, rowsPerStatement } from "../Rows.ts"
import { toStoreError } from "../SqlRetry.ts"

export const make = (
  sql: SqlClient,
  stream: number
): Pick<StreamTx, "derivedIds" | "liveSources" | "deletedSources" | "setDerivedIds"> => ({
  derivedIds: (ids) =>
    Effect.forEach(Arr.chunksOf(ids, rowsPerStatement), (some) =>
      sql<{ id: string; derived_id: string }>`
        SELECT id, derived_id FROM derivations WHERE stream = ${stream} AND id IN ${sql.in(some)}`).pipe(
        Effect.map((rows) => new Map(rows.flat().map(({ derived_id, id }) => [id, derived_id]))),
        toStoreError("derivedIds")
      ),
  liveSources: (derivedIds, most) =>
    Effect.forEach(
      Arr.chunksOf(derivedIds, rowsPerStatement),
      (some) =>
        sql<{ id: string; derived_id: string; position: Integer }>`
        SELECT derived_id, id, position FROM (
          SELECT p.derived_id, p.id, h.position, row_number() OVER (PARTITION BY p.derived_id ORDER BY p.id) AS nth
          FROM derivations p JOIN heads h ON h.stream = p.stream AND h.id = p.id
          WHERE p.stream = ${stream} AND p.derived_id IN ${sql.in(some)} AND h.live = 1 AND h.position IS NOT NULL
        ) ranked WHERE nth <= ${most} ORDER BY derived_id, id`
    ).pipe(
      Effect.map((rows) =>
        Map.groupBy(
          rows.flat().map(({ derived_id, id, position }) => ({ derived_id, id, position: Number(position) })),
          ({ derived_id }) => derived_id
        )
      ),
      toStoreError("liveSources")
    ),
  deletedSources: (derivedIds) =>
    Effect.forEach(Arr.chunksOf(derivedIds, rowsPerStatement), (some) =>
      sql<{ id: string; derived_id: string }>`
        SELECT p.derived_id, p.id FROM derivations p JOIN heads h ON h.stream = p.stream AND h.id = p.id
        WHERE p.stream = ${stream} AND p.derived_id IN ${sql.in(some)} AND h.live = 0
        ORDER BY p.derived_id, p.id`).pipe(
        Effect.map((rows) =>
          new Map(
            [...Map.groupBy(rows.flat(), (row) => row.derived_id)]
              .map(([derivedId, own]) => [derivedId, own.map(({ id }) => id)])
          )
        ),
        toStoreError("deletedSources")
      ),
  setDerivedIds: Effect.fnUntraced(function*(derivedIds) {
    const removed = [...derivedIds].flatMap(([id, derived]) => derived === null ? [id] : [])
    const rows = [...derivedIds].flatMap(([id, derived]) =>
      derived === null ? [] : [{ stream, id, derived_id: derived }]
    )
    for (const some of Arr.chunksOf(removed, rowsPerStatement)) {
      yield* sql`DELETE FROM derivations WHERE stream = ${stream} AND id IN ${sql.in(some)}`
    }
    for (const some of Arr.chunksOf(rows, rowsPerStatement)) {
      yield* sql`
        INSERT INTO derivations ${sql.insert(some)}
        ON CONFLICT (stream, id) DO UPDATE SET derived_id = excluded.derived_id`
    }
  }, toStoreError("setDerivedIds"))
})
