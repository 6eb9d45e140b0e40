/**
 * Tells a row of the event log that is as it was written from one that a disk or a stray write has changed since.
 *
 * Gotchas
 * - CRC-32: any single flipped byte is found for certain, other damage but for one case in four billion. It is no proof
 *   against somebody who means to change the log.
 * - Two sums, because a row's content is read without the row: as `before` of the next one, and as what a record shows now.
 * - No sum: the row was emptied, or written by an earlier version. It is taken as it is.
 */
import * as Effect from "effect/Effect"
import { crc32 } from "node:zlib"
import { Damaged, StoreError } from "../Store.ts"

type Integer = number | bigint

/** Columns of a row but for its content: what is published of it, and which row it follows. */
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
        "another program has changed it"
    })
  })

const differs = (sum: Integer | null, found: () => number): boolean => sum !== null && Number(sum) !== found()

/** Content of a row at `position`, beside its sum. */
export interface Content {
  readonly position: Integer | null
  readonly content: string | null
  readonly content_sum: Integer | null
}

/** Fails with `Damaged` for the first content that is not what was written. */
export const checked = <R extends Content>(rows: ReadonlyArray<R>): Effect.Effect<ReadonlyArray<R>, StoreError> => {
  const bad = rows.find(({ content, content_sum }) => differs(content_sum, () => contentSum(content)))
  return bad === undefined ? Effect.succeed(rows) : Effect.fail(damaged(Number(bad.position)))
}

/** As `checked`, of whole rows, and of the content of the rows that they follow. */
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
