/**
 * Checksums of event log rows: they detect a row that the disk or another program has changed since it was written.
 *
 * Gotchas
 * - CRC-32 detects every single changed byte, and other damage except for one case in four billion. It does not protect
 *   against deliberate changes of the log.
 * - There are two sums because a row's content is also read without the row: as `before` of the next row, and as the record's
 *   current content.
 * - A row without a sum was emptied. It is not checked.
 */
import * as Effect from "effect/Effect"
import { crc32 } from "node:zlib"
import type { StoredContent } from "../Records.ts"
import { Damaged, StoreError } from "../StoreError.ts"
import { type ContentCipher, isSealed } from "./ContentCipher.ts"
import type { Row } from "./Rows.ts"

/** The columns that `row_sum` covers, in this order: the row that it follows, and the published fields except the content. */
export const summedColumns = [
  "position",
  "previous",
  "id",
  "event_id",
  "remote_id",
  "generation",
  "version",
  "kind",
  "origin",
  "reason",
  "restored",
  "changed_at",
  "detected_at",
  "cause",
  "transitions",
  "changes"
]

export const contentSum = (content: string | null): number => content === null ? 0 : crc32(content)

/** The sum of a row with these values of its columns. */
export const sumOf = (valueOf: (column: string) => unknown): number => {
  let text = ""
  for (const name of summedColumns) {
    const value = valueOf(name)
    text += value === null ? "\n" : `=${String(value)}\n`
  }
  return crc32(text.slice(0, -1))
}

export const rowSum = (row: Row): number => sumOf((name) => row[name])

const damaged = (position: number): StoreError =>
  new StoreError({
    reason: new Damaged({
      message:
        `row ${position} of the event log in the store is not what was written there: the disk, the file system or ` +
        "another program has changed the row"
    })
  })

const differs = (sum: number | null, found: () => number): boolean => sum !== null && sum !== found()

/** Content of the row at `position`, with its sum. */
export interface Content {
  readonly position: number | null
  readonly content: string | null
  readonly content_sum: number | null
}

/** Null if the content was erased, or the row is a delete. */
export const toStored = (
  { content, redaction }: Pick<Content, "content"> & { readonly redaction: string | null }
): StoredContent | null => content === null ? null : { content, redaction }

/** Fails with `Damaged` at the first content that does not match its sum. */
const check = <R extends Content>(rows: ReadonlyArray<R>): Effect.Effect<ReadonlyArray<R>, StoreError> => {
  const bad = rows.find(({ content, content_sum }) => differs(content_sum, () => contentSum(content)))
  return bad === undefined ? Effect.succeed(rows) : Effect.fail(damaged(Number(bad.position)))
}

/** A whole row of the log, with the content of the row that it follows. */
export interface EventRow extends Content, Row {
  readonly previous: number | null
  readonly row_sum: number | null
  readonly before: string | null
  readonly before_sum: number | null
}

/** Like `check`, for whole rows and for the content of the rows that they follow. */
const checkRows = (rows: ReadonlyArray<EventRow>): Effect.Effect<ReadonlyArray<EventRow>, StoreError> => {
  for (const row of rows) {
    if (differs(row.content_sum, () => contentSum(row.content)) || differs(row.row_sum, () => rowSum(row))) {
      return Effect.fail(damaged(Number(row.position)))
    }
    if (differs(row.before_sum, () => contentSum(row.before))) return Effect.fail(damaged(Number(row.previous)))
  }
  return Effect.succeed(rows)
}

/** The columns of a log row that are encrypted. Readers of the log choose rows by their transitions, so these are not. */
type SealedColumn = "content" | "changes"
export const placeOf = (position: number | null, column: SealedColumn): string => `events/${position}/${column}`
const subject = ({ position }: { readonly position: unknown }) => `row ${position} of the event log`

/** The content of log rows, encrypted and checked. The sums are those of the stored form, so a check needs no key. */
export const make = (cipher: ContentCipher) => ({
  /** The text of a column as it is stored. */
  sealed: <T extends string | null>(position: number, column: SealedColumn, text: T): T | string =>
    cipher.seal(placeOf(position, column), text),
  /** Decrypts content. Fails with `Damaged` at the first one that does not match its sum. */
  checked: <R extends Content>(rows: ReadonlyArray<R>): Effect.Effect<ReadonlyArray<R>, StoreError> =>
    Effect.flatMap(
      check(rows),
      (rows) =>
        cipher.openRows(rows, subject, (row, open): R =>
          isSealed(row.content) ? { ...row, content: open(placeOf(row.position, "content"), row.content) } : row)
    ),
  /** Like `checked`, for whole rows and for the content of the rows that they follow. */
  checkedRows: (rows: ReadonlyArray<EventRow>): Effect.Effect<ReadonlyArray<EventRow>, StoreError> =>
    Effect.flatMap(
      checkRows(rows),
      (rows) =>
        cipher.openRows(rows, subject, (row, open): EventRow =>
          [row.content, row["changes"], row.before].some(isSealed)
            ? {
              ...row,
              content: open(placeOf(row.position, "content"), row.content),
              changes: open(placeOf(row.position, "changes"), String(row["changes"])),
              before: open(placeOf(row.previous, "content"), row.before)
            }
            : row)
    )
})

export type Checksum = ReturnType<typeof make>
