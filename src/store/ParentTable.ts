/**
 * Which records of a stream show which record of a derived model.
 *
 * Gotchas
 * - A row may outlive what it says, where nothing was derived for a while: who reads the content knows.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { step } from "./Attempt.ts"
import { type Integer, rowsPerStatement } from "./Rows.ts"
import type { StreamTx } from "./Store.ts"

export const make = (
  sql: SqlClient,
  stream: number
): Pick<StreamTx, "children" | "parents" | "deletedParents" | "setChildren"> => ({
  children: (ids) =>
    Effect.forEach(Arr.chunksOf(ids, rowsPerStatement), (some) =>
      sql<{ id: string; child: string }>`
        SELECT id, child FROM parents WHERE stream = ${stream} AND id IN ${sql.in(some)}`).pipe(
        Effect.map((rows) => new Map(rows.flat().map(({ child, id }) => [id, child]))),
        step("children")
      ),
  parents: (children, most) =>
    Effect.forEach(
      Arr.chunksOf(children, rowsPerStatement),
      (some) =>
        sql<{ id: string; child: string; position: Integer }>`
        SELECT child, id, position FROM (
          SELECT p.child, p.id, h.position, row_number() OVER (PARTITION BY p.child ORDER BY p.id) AS place
          FROM parents p JOIN heads h ON h.stream = p.stream AND h.id = p.id
          WHERE p.stream = ${stream} AND p.child IN ${sql.in(some)} AND h.live = 1 AND h.position IS NOT NULL
        ) ranked WHERE place <= ${most} ORDER BY child, id`
    ).pipe(
      Effect.map((rows) =>
        Map.groupBy(
          rows.flat().map(({ child, id, position }) => ({ child, id, position: Number(position) })),
          ({ child }) => child
        )
      ),
      step("parents")
    ),
  deletedParents: (children) =>
    Effect.forEach(Arr.chunksOf(children, rowsPerStatement), (some) =>
      sql<{ id: string; child: string }>`
        SELECT p.child, p.id FROM parents p JOIN heads h ON h.stream = p.stream AND h.id = p.id
        WHERE p.stream = ${stream} AND p.child IN ${sql.in(some)} AND h.live = 0 ORDER BY p.child, p.id`).pipe(
        Effect.map((rows) =>
          new Map(
            [...Map.groupBy(rows.flat(), ({ child }) => child)].map(([child, own]) => [child, own.map(({ id }) => id)])
          )
        ),
        step("deletedParents")
      ),
  setChildren: Effect.fnUntraced(function*(children) {
    const gone = [...children].flatMap(([id, child]) => child === null ? [id] : [])
    const rows = [...children].flatMap(([id, child]) => child === null ? [] : [{ stream, id, child }])
    for (const some of Arr.chunksOf(gone, rowsPerStatement)) {
      yield* sql`DELETE FROM parents WHERE stream = ${stream} AND id IN ${sql.in(some)}`
    }
    for (const some of Arr.chunksOf(rows, rowsPerStatement)) {
      yield* sql`
        INSERT INTO parents ${sql.insert(some)} ON CONFLICT (stream, id) DO UPDATE SET child = excluded.child`
    }
  }, step("setChildren"))
})
