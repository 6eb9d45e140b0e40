/**
 * Reads what a stream has stored of the records of a page. Most pages show records as they are stored, so the database compares the hashes,
 * and returns only the other records.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Fragment } from "effect/sql/Statement"
import type { Hold, PageQuery, PageRead } from "../../Records.ts"
import type { StoreError } from "../../StoreError.ts"
import { type Checksum, type Content, toStored } from "../Checksum.ts"
import { heads, type Row } from "../Rows.ts"
import { rowsOf } from "../RowValues.ts"

/** `id` is null if the record has no head. `at`: position of the row that has the content. */
interface FoundRow extends Row, Omit<Content, "position"> {
  readonly record: string
  readonly id: string | null
  readonly at: number | null
  readonly redaction: string | null
  readonly pending: string | null
}

/** The records of the page that the stream has, except for the unchanged ones. `stream` is the key of the stream, or a query for it. */
export const find = (sql: SqlClient, stream: number | Fragment, { hashes, runId }: PageQuery) => {
  const page = Array.from(hashes, ([id, hash]) => ({ id, hash }))
  const differs = sql.literal("p.hash IS NOT NULL AND (h.text_hash <> p.hash OR d.id IS NOT NULL)")
  return Arr.isArrayNonEmpty(page)
    ? sql<FoundRow>`
      WITH page (id, hash) AS (${rowsOf(sql, page)})
      SELECT p.id AS record, ${
      heads.columns("h")
    }, e.position AS at, e.content, e.content_sum, e.redaction, d.id AS pending
      FROM page p
      LEFT JOIN heads h ON h.stream = ${stream} AND h.id = p.id
      LEFT JOIN pending d ON d.stream = ${stream} AND d.id = p.id
      LEFT JOIN events n ON n.position = CASE WHEN h.live = 0 AND ${differs} THEN h.position END
      LEFT JOIN events e ON e.position = CASE WHEN h.live = 1 THEN h.position ELSE n.previous END AND ${differs}
      WHERE h.id IS NULL OR d.id IS NOT NULL OR h.last_run_id = ${runId} OR h.text_hash IS DISTINCT FROM p.hash`
    : Effect.succeed<ReadonlyArray<FoundRow>>([])
}

/** A page whose rows were read when the transaction started; null if the statement failed. */
export interface ReadAhead {
  readonly query: PageQuery
  readonly rows: () => ReadonlyArray<FoundRow> | null
}

/** `pendingOf` reads the pending rows of records; `holds` the stream's holds that are neither approved nor canceled. */
export const make = (
  sql: SqlClient,
  stream: number,
  ahead: ReadAhead | null,
  { checked }: Pick<Checksum, "checked">,
  pendingOf: (ids: ReadonlyArray<string>) => Effect.Effect<PageRead["pending"], SqlError | StoreError>,
  holds: Effect.Effect<ReadonlyArray<Hold>, SqlError>
) =>
  /** Reads what is stored of these records. */
  Effect.fnUntraced(function*(query: PageQuery): Effect.fn.Return<PageRead, SqlError | StoreError> {
    const found = query === ahead?.query ? ahead.rows() : null
    const rows = found ?? (yield* find(sql, stream, query))
    const changed = new Set(rows.map(({ record }) => record))
    const known = rows.filter(({ id }) => id !== null)
    const contents = yield* checked(known.map((row) => ({ ...row, position: row.at })))
    return {
      isUnchanged: (id) => !changed.has(id),
      heads: new Map(known.map((row) => [row.record, heads.fromRow(row)])),
      contents: new Map(contents.map((row) => [row.record, toStored(row)])),
      pending: yield* pendingOf(rows.flatMap(({ pending }) => pending ?? [])),
      holds: rows.length > 0 ? yield* holds : []
    }
  })
