/**
 * Checksums of event log rows: they detect a row that the disk or another program has changed since it was written.
 *
 * Gotchas
 * - CRC-32 detects every single changed byte, and other damage except for one case in four billion. It does not protect
 *   against deliberate changes of the log.
 * - There are two sums because a row's content is also read without the row: as `before` of the next row, and as the record's
 *   current content.
 * - A row without a sum was emptied, or an earlier version wrote it. It is not checked.
 */
import * as Effect from "effect/Effect"
import { crc32 } from "node:zlib"
import { Damaged, StoreError } from "../Store.ts"

type Integer = number | bigint

/** Columns of a row except its content: the published fields, and the row that it follows. */
export interface Summed {
  readonly position: Integer
  readonly previous: Integer | null
  readonly id: string
  readonly event_id: string
  readonly remote_id: string | null
  readonly generation: Integer
  readonly version: Integer
  readonly kind: string
  readonly origin: string
  readonly reason: string | null
  readonly restored: Integer
  readonly changed_at: string | null
  readonly detected_at: Integer
  readonly cause: string | null
  readonly transitions: string
  readonly changes: string
}

export const contentSum = (content: string | null): number => content === null ? 0 : crc32(content)

export const rowSum = (row: Summed): number =>
  crc32(
    [
      row.position,
      row.previous,
      row.id,
      row.event_id,
      row.remote_id,
      row.generation,
      row.version,
      row.kind,
      row.origin,
      row.reason,
      row.restored,
      row.changed_at,
      row.detected_at,
      row.cause,
      row.transitions,
      row.changes
    ].map((value) => value === null ? "" : `=${value}`).join("\n")
  )

const damaged = (position: number): StoreError =>
  new StoreError({
    reason: new Damaged({
      message:
        `row ${position} of the event log in the store is not what was written there: the disk, the file system or ` +
        "another program has changed the row"
    })
  })

const differs = (sum: Integer | null, found: () => number): boolean => sum !== null && Number(sum) !== found()

/** Content of the row at `position`, with its sum. */
export interface Content {
  readonly position: Integer | null
  readonly content: string | null
  readonly content_sum: Integer | null
}

/** Fails with `Damaged` at the first content that does not match its sum. */
export const checked = <R extends Content>(rows: ReadonlyArray<R>): Effect.Effect<ReadonlyArray<R>, StoreError> => {
  const bad = rows.find(({ content, content_sum }) => differs(content_sum, () => contentSum(content)))
  return bad === undefined ? Effect.succeed(rows) : Effect.fail(damaged(Number(bad.position)))
}

/** Like `checked`, for whole rows and for the content of the rows that they follow. */
export const checkedRows = <
  R extends Summed & Content & {
    readonly row_sum: Integer | null
    readonly before: string | null
    readonly before_sum: Integer | null
  }
>(rows: ReadonlyArray<R>): Effect.Effect<ReadonlyArray<R>, StoreError> => {
  for (const row of rows) {
    if (differs(row.content_sum, () => contentSum(row.content)) || differs(row.row_sum, () => rowSum(row))) {
      return Effect.fail(damaged(Number(row.position)))
    }
    if (differs(row.before_sum, () => contentSum(row.before))) return Effect.fail(damaged(Number(row.previous)))
  }
  return Effect.succeed(rows)
}
