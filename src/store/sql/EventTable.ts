/**
 * The table of events: appends events and assigns their positions, wakes waiting readers, replaces content. `EventQueries.ts` reads the
 * table, `EventRetention.ts` deletes from it.
 *
 * Invariants
 * 1. Positions are 1, 2, 3 … and become visible in order: the counter's row stays locked until the commit   (I5, X13)
 *
 * Gotchas
 * - `rewrite` replaces content with more redacted content. Chains do not depend on content, so they stay; sums are computed again.
 * - The program computes chains under the counter's lock. If the statement that takes the lock read the last chain in a
 *   subquery, it would get the chain from before its wait (PostgreSQL, READ COMMITTED).
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { chainOf } from "../../domain/ChangeEvent.ts"
import * as Tracing from "../../telemetry/Tracing.ts"
import type { Head, LogContent, RecordWrite, RewrittenContent } from "../Records.ts"
import * as Checksum from "./Checksum.ts"
import { contentSum, type EventRow, rowSum, summedColumns } from "./Checksum.ts"
import type { ContentCipher } from "./ContentCipher.ts"
import { logCounter } from "./EventQueries.ts"
import * as EventQueries from "./EventQueries.ts"
import { type AtPosition, positionsOf } from "./EventRetention.ts"
import * as EventRetention from "./EventRetention.ts"
import * as Locks from "./Locks.ts"
import { inBatches, newEvents, type Row } from "./Rows.ts"
import { among, insertion } from "./RowValues.ts"
import { makeNotifier } from "./Signals.ts"
import { toStoreError } from "./SqlRetry.ts"

/** Sums of a row as it is stored. */
const sumsOf = (row: Row) => ({
  content_sum: contentSum(typeof row["content"] === "string" ? row["content"] : null),
  row_sum: rowSum(row)
})

/** Ids of the rules that were applied to a row's content, and to the content of the record's previous row. */
interface RedactionRow {
  readonly redaction: string | null
  readonly before_redaction: string | null
}

const toLogContent = (row: EventRow): LogContent => {
  const { before, before_redaction, content, redaction } = row as EventRow & RedactionRow
  const { changes, id, kind, remoteId, transitions } = newEvents.fromRow(row)
  return {
    id,
    position: Number(row.position),
    kind,
    remoteId,
    changes,
    transitions,
    redaction,
    after: content === null ? null : { content, redaction },
    before: before === null ? null : { content: before, redaction: before_redaction }
  }
}

export const make = (sql: SqlClient, cipher: ContentCipher) => {
  const { checkedRows, sealed } = Checksum.make(cipher)
  const appended = makeNotifier()
  const locks = Locks.make(sql)
  const { lockedCounter } = logCounter(sql)
  const summed = (table: string) => sql.literal(summedColumns.map((name) => `${table}.${name}`).join(", "))

  /** Inside a transaction: appends the events, returns the heads with the position of their last event. */
  const append = Effect.fnUntraced(function*(stream: number, records: ReadonlyArray<RecordWrite>) {
    const count = records.reduce((sum, record) => sum + record.events.length, 0)
    if (count === 0) return records.map((record) => record.head)
    const now = yield* Clock.currentTimeMillis
    const traceparent = yield* Tracing.traceparent
    const traced = traceparent === null ? {} : { traceparent }
    let { chain, newest: position } = yield* lockedCounter
    const rows: Array<Record<string, unknown>> = []
    const heads = records.map(({ events, head, redaction = null, silent = false }): Head => {
      let previous = head.position
      for (const event of events) {
        position += 1
        chain = chainOf(chain, event.eventId)
        const row = sealed({ ...newEvents.toRow(event), stream, position, previous, chain, appended_at: now })
        rows.push({ ...row, ...sumsOf(row), ...traced, silent: Number(silent), redaction })
        previous = position
      }
      return { ...head, position: previous }
    })
    yield* inBatches(rows, (batch) => sql`INSERT INTO events ${insertion(sql, batch)}`)
    yield* sql`UPDATE log_counter SET position = ${position}, chain = ${chain}`
    yield* sql.afterCommit(appended.give)
    return heads
  }, toStoreError("append"))

  /** Inside a transaction: rows of a stream before a position, the newest first, with the content before each. */
  const contentsBefore = Effect.fnUntraced(function*(stream: number, before: number, limit: number) {
    // one range of the index per value of `silent`, so that neither sorts the positions of the whole stream
    const some = (silent: 0 | 1) =>
      sql`SELECT position FROM (
        SELECT position FROM events WHERE stream = ${stream} AND silent = ${silent} AND position < ${before}
        ORDER BY position DESC LIMIT ${limit}) AS some_${sql.literal(String(silent))}`
    const positions = yield* sql<AtPosition>`${some(0)} UNION ALL ${some(1)} ORDER BY position DESC LIMIT ${limit}`
    const rows = yield* inBatches(positions, (some) =>
      sql<EventRow & RedactionRow>`
        SELECT ${summed("e")}, e.content, e.content_sum, e.row_sum, e.redaction,
          p.content AS before, p.content_sum AS before_sum, p.redaction AS before_redaction
        FROM events e LEFT JOIN events p ON p.position = e.previous
        WHERE e.position ${among(sql, positionsOf(some))} ORDER BY e.position DESC ${locks.exclusiveOf("e")}`)
    return Arr.map(yield* checkedRows(rows), toLogContent)
  }, toStoreError("logContents"))

  /** Inside a transaction: replaces content, except in rows that have been emptied since. */
  const rewrite = Effect.fnUntraced(function*(rewritten: ReadonlyArray<RewrittenContent>) {
    for (const { after, changes, position, redaction, remoteId, transitions } of rewritten) {
      const [row] = yield* sql<Row>`SELECT ${summed("e")}, e.row_sum FROM events e
        WHERE e.position = ${position} AND (e.content IS NOT NULL OR e.row_sum IS NOT NULL)`
      if (row === undefined) continue
      const next = { remote_id: remoteId, ...sealed({ position, content: after, changes, transitions }) }
      const sums = row["row_sum"] === null ? {} : sumsOf({ ...row, ...next })
      const values: Record<string, unknown> = { ...next, ...sums, redaction }
      yield* sql`UPDATE events SET ${sql.update(values, ["position"])} WHERE position = ${position}`
    }
  }, toStoreError("rewriteLog"))

  return {
    append,
    contentsBefore,
    rewrite,
    ...EventQueries.make(sql, cipher, appended),
    ...EventRetention.make(sql)
  }
}

export type EventTable = ReturnType<typeof make>
