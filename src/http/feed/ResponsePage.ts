/**
 * One page of rows in a response, limited in rows and in bytes.
 *
 * Invariants
 * 1. If there is a row, the page has at least one, whatever its size
 * 2. A page ends after its last row, so a row that does not fit is read again for the next page   (I1, I9)
 */
import * as Effect from "effect/Effect"
import { maxPageBytes } from "../limits/Limits.ts"

/** Rows of the first query of a page, and of any query. */
const queryRows = { first: 25, most: 100 }

/** Rows of the next query: about as many as fit, because rows that do not fit are read again for the next page. */
const rowsFitting = (rows: number, bytes: number, maxBytes: number): number =>
  rows === 0
    ? queryRows.first
    : Math.min(queryRows.most, Math.max(1, Math.ceil((maxBytes - bytes) / Math.max(1, bytes / rows))))

export interface ResponsePage<Row> {
  readonly rows: ReadonlyArray<Row>
  /** The text of each row, in UTF-8. */
  readonly texts: ReadonlyArray<Buffer>
  /** Whether the page ended at a limit, so that more rows may follow. */
  readonly full: boolean
}

/** Reads rows after the last one (undefined for the first query) until the page has `limit` rows or `maxBytes` of text. */
export const fill = Effect.fnUntraced(function*<Row, E, R>(
  limit: number,
  read: (last: Row | undefined, count: number) => Effect.Effect<ReadonlyArray<Row>, E, R>,
  textOf: (row: Row) => string,
  maxBytes = maxPageBytes
): Effect.fn.Return<ResponsePage<Row>, E, R> {
  const rows: Array<Row> = []
  const texts: Array<Buffer> = []
  let bytes = 0
  while (rows.length < limit) {
    const count = Math.min(rowsFitting(rows.length, bytes, maxBytes), limit - rows.length)
    const some = yield* read(rows.at(-1), count)
    for (const row of some) {
      const text = Buffer.from(textOf(row))
      bytes += text.length
      if (bytes > maxBytes && rows.length > 0) return { rows, texts, full: true }
      rows.push(row)
      texts.push(text)
    }
    if (some.length < count) return { rows, texts, full: false }
  }
  return { rows, texts, full: true }
})
