/**
 * One page of rows as they are sent: bounded in rows and in bytes. Hides that rows are read in small portions, so that
 * a page of large ones is never held whole in memory only to be cut.
 *
 * Invariants
 * 1. A page is never empty where there is a row: one always fits
 * 2. What does not fit is read again by the next page: a page ends after the last row that it holds   (I1, I9)
 */
import * as Effect from "effect/Effect"

/** A page of a thousand ordinary rows is far below it. */
const maxBytes = 8 * 1024 * 1024
/** Rows of one query: what is read and may not fit. */
const queryRows = 25

export interface ResponsePage<Row> {
  readonly rows: ReadonlyArray<Row>
  readonly texts: ReadonlyArray<string>
  /** Whether it ends for its size: more rows may be there. */
  readonly full: boolean
}

/** Reads rows behind a last one, undefined at first, until `limit` of them or `mostBytes` of their texts are there. */
export const fill = Effect.fnUntraced(function*<Row, E, R>(
  limit: number,
  read: (last: Row | undefined, count: number) => Effect.Effect<ReadonlyArray<Row>, E, R>,
  textOf: (row: Row) => string
): Effect.fn.Return<ResponsePage<Row>, E, R> {
  const rows: Array<Row> = []
  const texts: Array<string> = []
  let bytes = 0
  while (rows.length < limit) {
    const count = Math.min(queryRows, limit - rows.length)
    const some = yield* read(rows.at(-1), count)
    for (const row of some) {
      const text = textOf(row)
      bytes += Buffer.byteLength(text)
      if (bytes > maxBytes && rows.length > 0) return { rows, texts, full: true }
      rows.push(row)
      texts.push(text)
    }
    if (some.length < count) return { rows, texts, full: false }
  }
  return { rows, texts, full: true }
})
