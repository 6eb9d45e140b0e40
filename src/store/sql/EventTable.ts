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
import type { LogContent, RecordWrite, RewrittenContent } from "../Records.ts"
import * as Checksum from "./Checksum.ts"
import { contentSum, type EventRow, rowSum, summedColumns, sumOf } from "./Checksum.ts"
import type { ContentCipher } from "./ContentCipher.ts"
import { logCounter } from "./EventQueries.ts"
import * as EventQueries from "./EventQueries.ts"
import { type AtPosition, positionsOf } from "./EventRetention.ts"
import * as EventRetention from "./EventRetention.ts"
import * as Locks from "./Locks.ts"
import { inBatches, newEvents, type Row } from "./Rows.ts"
import { among, insertColumns } from "./RowValues.ts"
import { makeNotifier } from "./Signals.ts"
import { toStoreError } from "./SqlRetry.ts"

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
  const { counter, lockedCounter } = logCounter(sql)
  const summed = (table: string) => sql.literal(summedColumns.map((name) => `${table}.${name}`).join(", "))

  /** Inside a transaction: appends the events; returns the position of each record's newest row. `streams`: the stream of each record. */
  const append = Effect.fnUntraced(function*(streams: ReadonlyArray<number>, records: ReadonlyArray<RecordWrite>) {
    const events = records.flatMap((record) => record.events)
    if (events.length === 0) return records.map(({ head }) => head.position)
    const now = yield* Clock.currentTimeMillis
    const traceparent = yield* Tracing.traceparent
    let { chain, newest: position } = yield* lockedCounter
    const positions: Array<number> = []
    const previous: Array<number | null> = []
    const chains: Array<string> = []
    const silent: Array<number> = []
    const redactions: Array<string | null> = []
    const newest = records.map((record) => {
      let before = record.head.position
      for (const { eventId } of record.events) {
        position += 1
        chain = chainOf(chain, eventId)
        positions.push(position)
        previous.push(before)
        chains.push(chain)
        silent.push(Number(record.silent ?? false))
        redactions.push(record.redaction ?? null)
        before = position
      }
      return before
    })
    const values = newEvents.toColumns(events)
    const content = events.map(({ after }, row) => sealed(positions[row]!, "content", after))
    const summed: Readonly<Record<string, ReadonlyArray<unknown>>> = {
      ...values,
      position: positions,
      previous,
      changes: events.map(({ changes }, row) => sealed(positions[row]!, "changes", changes))
    }
    yield* sql`INSERT INTO events ${
      insertColumns(sql, {
        ...summed,
        content,
        stream: records.flatMap(({ events }, index) => events.map(() => streams[index])),
        appended_at: now,
        traceparent,
        chain: chains,
        silent,
        redaction: redactions,
        content_sum: content.map(contentSum),
        row_sum: positions.map((_, row) => sumOf((column) => summed[column]![row]))
      })
    }`
    yield* sql`UPDATE log_counter SET position = ${position}, chain = ${chain}`
    yield* sql.afterCommit(appended.give)
    return newest
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
      const content = sealed(position, "content", after)
      const next = { remote_id: remoteId, content, changes: sealed(position, "changes", changes), transitions }
      const sums = row["row_sum"] === null
        ? {}
        : { content_sum: contentSum(content), row_sum: rowSum({ ...row, ...next }) }
      const values: Record<string, unknown> = { ...next, ...sums, redaction }
      yield* sql`UPDATE events SET ${sql.update(values, ["position"])} WHERE position = ${position}`
    }
  }, toStoreError("rewriteLog"))

  return {
    append,
    /** The newest position; inside a transaction that has appended events, that of its last event. */
    newest: Effect.map(counter, ({ newest }) => newest),
    contentsBefore,
    rewrite,
    ...EventQueries.make(sql, cipher, appended),
    ...EventRetention.make(sql)
  }
}

export type EventTable = ReturnType<typeof make>
