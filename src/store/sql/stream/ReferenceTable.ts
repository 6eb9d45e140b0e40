/**
 * The reverse index of references: which records repeat which content of other records. When that content changes, the records
 * that repeat the old content become stale.
 *
 * Invariants
 * 1. A stale record is queued once, however many changes it missed, until a later request refreshes it   (N4)
 * 2. Content that an up-to-date record already shows makes no record stale, so records that always differ cause no refreshes   (N7)
 *
 * Gotchas
 * - If more than `maxStaleRecords` records show different content of one referenced record, their whole streams become stale, so that
 *   the transaction stays short.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { RecordWrite, StaleRecords } from "../../Records.ts"
import { issue } from "../Connection.ts"
import { inBatches } from "../Rows.ts"
import { among, insertion, rowsOf } from "../RowValues.ts"
import { toStoreError } from "../SqlRetry.ts"

/** Maximum number of records that one change marks as stale individually. */
const maxStaleRecords = 10_000
const wholeStream = ""

type ReferenceRow = ReturnType<typeof rowOf>
const rowOf = (referencedRecord: number, content: number, stream: number, id: string) => ({
  referenced_record: referencedRecord,
  content_hash: content,
  stream,
  id
})

/** New content of a referenced record, and the records of the page that show it. */
interface ChangedContent {
  readonly referencedRecord: number
  readonly content: number
  readonly ids: Array<string>
}

export const make = (sql: SqlClient, stream: number) => {
  /**
   * Updates the index to the records' current references. Returns an effect that marks records that show different content as stale: the
   * look-ups that it needs are sent with the next statement that returns rows.
   */
  const record = Effect.fnUntraced(function*(writes: ReadonlyArray<RecordWrite>) {
    const { removed, added, changed } = compare(stream, writes)
    yield* inBatches(
      removed,
      (batch) =>
        sql`
          DELETE FROM record_references
          WHERE (referenced_record, content_hash, stream, id) IN (${rowsOf(sql, batch)})`
    )
    yield* inBatches(
      added,
      (batch) => sql`INSERT INTO record_references ${insertion(sql, batch)} ON CONFLICT DO NOTHING`
    )
    if (!Arr.isArrayNonEmpty(changed)) return Effect.void
    const lookUp = withOtherContent(changed)
    const found = yield* issue(lookUp)
    return toStoreError("references")(Effect.gen(function*() {
      for (const { item } of found() ?? (yield* lookUp)) {
        const change = changed[item]!
        if (!(yield* isKnown(change))) yield* markOthersStale(change)
      }
    }))
  }, toStoreError("references"))

  /** The changes whose referenced record is shown with other content elsewhere: one or two index seeks per change. */
  const withOtherContent = (changes: Arr.NonEmptyReadonlyArray<ChangedContent>) => {
    const rows = Arr.map(changes, ({ content, referencedRecord }, item) => ({ item, referencedRecord, content }))
    return sql<{ item: number }>`
      WITH changed (item, referenced_record, content_hash) AS (${rowsOf(sql, rows)})
      SELECT item FROM changed s
      WHERE EXISTS (SELECT 1 FROM record_references m
          WHERE m.referenced_record = s.referenced_record AND m.content_hash < s.content_hash)
        OR EXISTS (SELECT 1 FROM record_references m
          WHERE m.referenced_record = s.referenced_record AND m.content_hash > s.content_hash)`
  }

  const isKnown = ({ content, ids, referencedRecord }: ChangedContent) =>
    sql`
      SELECT 1 FROM record_references m
      WHERE m.referenced_record = ${referencedRecord} AND m.content_hash = ${content}
        AND NOT (m.stream = ${stream} AND m.id ${among(sql, ids)})
        AND NOT EXISTS (SELECT 1 FROM stale_records o WHERE o.stream = m.stream AND o.id = m.id)
      LIMIT 1`.pipe(Effect.map((rows) => rows.length > 0))

  const markOthersStale = Effect.fnUntraced(function*({ content, referencedRecord }: ChangedContent) {
    const others =
      sql`FROM record_references WHERE referenced_record = ${referencedRecord} AND content_hash <> ${content}`
    const beyond = yield* sql`SELECT 1 ${others} LIMIT 1 OFFSET ${maxStaleRecords}`
    yield* sql`
      INSERT INTO stale_records (stream, id, requested)
      SELECT DISTINCT stream, ${beyond.length > 0 ? sql`${wholeStream}` : sql.literal("id")}, 0 ${others}
      ON CONFLICT (stream, id) DO UPDATE SET requested = 0`
  })

  // ---- stale records

  /** The next stale records to read again, in id order, at most `limit`. */
  const takeStale = Effect.fnUntraced(function*(limit: number): Effect.fn.Return<StaleRecords, SqlError> {
    const rows = yield* sql<{ id: string }>`
      SELECT id FROM stale_records WHERE stream = ${stream} ORDER BY id LIMIT ${limit}`
    const ids = rows.map((row) => row.id)
    if (ids[0] === wholeStream) return "everything"
    if (ids.length > 0) {
      yield* sql`UPDATE stale_records SET requested = 1 WHERE stream = ${stream} AND id ${among(sql, ids)}`
    }
    return ids
  })

  /**
   * Marks records that `takeStale` returned as refreshed, after they were read again. A record that became stale again in the meantime
   * stays stale.
   */
  const markRefreshed = (ids: ReadonlyArray<string>) =>
    inBatches(
      ids,
      (some) => sql`DELETE FROM stale_records WHERE stream = ${stream} AND requested = 1 AND id ${among(sql, some)}`
    )

  /** Queues these records to be read again. */
  const markStale = (ids: ReadonlyArray<string>) =>
    inBatches(
      ids,
      (some) =>
        sql`INSERT INTO stale_records ${insertion(sql, Arr.map(some, (id) => ({ stream, id, requested: 0 })))}
        ON CONFLICT (stream, id) DO UPDATE SET requested = 0`
    )

  /** Clears the stream's refresh queue; returns how many records were queued. */
  const clearStale = sql`DELETE FROM stale_records WHERE stream = ${stream} RETURNING id`.pipe(
    Effect.map((rows) => rows.length)
  )

  return { record, takeStale, markRefreshed, markStale, clearStale }
}

/** Writes neighboring rows of the index together; with one order for all transactions, they cannot deadlock. */
const byReferencedRecord = (a: ReferenceRow, b: ReferenceRow): number =>
  a.referenced_record - b.referenced_record || a.content_hash - b.content_hash

const compare = (stream: number, writes: ReadonlyArray<RecordWrite>) => {
  const removed: Array<ReferenceRow> = []
  const added: Array<ReferenceRow> = []
  const changed = new Map<string, ChangedContent>()
  for (const { head: { id }, references } of writes) {
    if (references === undefined) continue
    for (const [referencedRecord, { content, unannounced }] of references.before ?? []) {
      if (unannounced && references.after.get(referencedRecord)?.content !== content) {
        removed.push(rowOf(referencedRecord, content, stream, id))
      }
    }
    for (const [referencedRecord, { content, unannounced }] of references.after) {
      const isUnchanged = references.before?.get(referencedRecord)?.content === content
      if (isUnchanged && references.isReindexed !== true) continue
      if (unannounced) added.push(rowOf(referencedRecord, content, stream, id))
      if (isUnchanged || references.before === null) continue
      const key = `${referencedRecord} ${content}`
      const known = changed.get(key)
      if (known === undefined) changed.set(key, { referencedRecord, content, ids: [id] })
      else known.ids.push(id)
    }
  }
  return {
    removed: removed.sort(byReferencedRecord),
    added: added.sort(byReferencedRecord),
    changed: [...changed.values()]
  }
}
