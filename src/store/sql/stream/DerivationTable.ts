/**
 * Which derived record each record of a stream shows. A row may be outdated if no records were derived for a while: only the record's
 * content is reliable.
 *
 * Gotchas
 * - SQLite joins the tables of a `CROSS JOIN` in their order. In another order it would read all records of the stream for each page.
 */
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Model, StreamKey } from "../../../domain/Model.ts"
import type { DerivedSource, Head, Sources, SourcesQuery, StoredContent } from "../../Records.ts"
import { type Checksum, type Content, toStored } from "../Checksum.ts"
import { issue } from "../Connection.ts"
import { heads, inBatches, type Row } from "../Rows.ts"
import { among, insertion, rowsOf } from "../RowValues.ts"

interface StoredRow extends Content {
  readonly redaction: string | null
}

interface SourceRow extends StoredRow {
  readonly derived_id: string
  readonly id: string
  readonly live: number
}

export const make = (
  sql: SqlClient,
  stream: number,
  { integration }: Pick<StreamKey, "integration">,
  { checked }: Pick<Checksum, "checked">
) => ({
  /** Call it before the changed source records are written. */
  sources: Effect.fnUntraced(function*(model: Model, { changed, copies, limit }: SourcesQuery) {
    const derived = sql`(SELECT key FROM streams WHERE integration = ${integration} AND model = ${model})`
    const shown = copies.map(({ id, parent, textHash }) => ({ parent, id, hash: textHash }))
    // no record has an empty id: a query without rows has no columns
    const copied = rowsOf(sql, [{ parent: "", id: "", hash: "" }, ...shown])
    /** The candidates that changed records no longer show, without a hash, and those that they show now. */
    const touched = sql`
      copies (parent, id, hash) AS (${copied}),
      touched (id, hash) AS (
        SELECT id, hash FROM copies
        UNION ALL SELECT derived_id, NULL FROM derivations
        WHERE stream = ${stream} AND id ${among(sql, changed)}
          AND (id, derived_id) NOT IN (SELECT parent, id FROM copies))`
    const differs = sql.literal("(t.hash IS NULL OR h.text_hash IS DISTINCT FROM t.hash OR h.live = 0)")
    const before = yield* issue(sql<{ id: string; derived_id: string }>`
      SELECT id, derived_id FROM derivations WHERE stream = ${stream} AND id ${among(sql, changed)}`)
    const published = yield* issue(sql<Row & StoredRow>`
      WITH ${touched}
      SELECT ${heads.columns("h")}, e.content, e.content_sum, e.redaction
      FROM touched t CROSS JOIN heads h LEFT JOIN events e ON e.position = h.position AND ${differs}
      WHERE h.stream = ${derived} AND h.id = t.id`)
    const others = yield* checked(
      yield* sql<SourceRow>`
        WITH ${touched}, ranked AS (
          SELECT d.derived_id, d.id, s.live, s.position,
            row_number() OVER (PARTITION BY d.derived_id, s.live ORDER BY d.id) AS nth
          FROM (
            SELECT DISTINCT t.id FROM touched t LEFT JOIN heads h ON h.stream = ${derived} AND h.id = t.id
            WHERE ${differs}) AS o
          CROSS JOIN derivations d CROSS JOIN heads s
          WHERE d.stream = ${stream} AND d.derived_id = o.id AND s.stream = ${stream} AND s.id = d.id
            AND NOT (d.id ${among(sql, changed)}) AND (s.live = 0 OR s.position IS NOT NULL))
        SELECT r.derived_id, r.id, r.live, r.position, e.content, e.content_sum, e.redaction
        FROM ranked r LEFT JOIN events e ON e.position = r.position AND r.live = 1
        WHERE r.nth <= ${limit} ORDER BY r.derived_id, r.id`
    )
    const found = new Map<string, { readonly head: Head; readonly content: StoredContent | null }>()
    for (const row of yield* checked(published() ?? [])) {
      const head = heads.fromRow(row)
      found.set(head.id, { head, content: toStored(row) ?? found.get(head.id)?.content ?? null })
    }
    const live = others.filter(({ live }) => live === 1).map((row): DerivedSource & { readonly of: string } => ({
      of: row.derived_id,
      id: row.id,
      content: toStored(row)
    }))
    return {
      before: new Map((before() ?? []).map(({ derived_id, id }) => [id, derived_id])),
      derived: found,
      live: Map.groupBy(live, ({ of }) => of),
      withDeleted: new Set(others.flatMap(({ derived_id, live }) => live === 0 ? [derived_id] : []))
    } satisfies Sources
  }),
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
