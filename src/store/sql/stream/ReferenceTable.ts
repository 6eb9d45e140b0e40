/**
 * The reverse index: who repeats whose content, and who is therefore owed a re-read when that content is seen changed.
 *
 * Invariants
 * 1. A record is owed one re-read however many changes it missed, until an answer to a later request settles it   (N4)
 * 2. Content that a record not owed anything shows already is no change: records that always differ owe nobody   (N7)
 *
 * Gotchas
 * - A subject that more than `most` records show otherwise owes whole streams a sweep: a transaction stays short.
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { RecordWrite, StaleRecords } from "../../Store.ts"
import { type Integer, rowsPerStatement } from "../Rows.ts"
import { toStoreError } from "../SqlRetry.ts"

/** Records that one change may owe a re-read one by one. */
const maxStaleRecords = 10_000
const wholeStream = ""

type ReferenceRow = ReturnType<typeof rowOf>
const rowOf = (subject: number, content: number, stream: number, id: string) => ({
  referenced_record: subject,
  content_hash: content,
  stream,
  id
})

/** A content newly shown of one subject, and which records of the page show it. */
interface ChangedContent {
  readonly subject: number
  readonly content: number
  readonly ids: Array<string>
}

export const make = (sql: SqlClient, stream: number) => {
  /** Brings the index up to what the records mention now, and owes a re-read to whoever shows it otherwise. */
  const record = Effect.fnUntraced(function*(writes: ReadonlyArray<RecordWrite>) {
    const { gone, put, shown } = compare(stream, writes)
    for (const batch of Arr.chunksOf(gone, rowsPerStatement)) {
      yield* sql`DELETE FROM record_references WHERE (referenced_record, content_hash, stream, id) IN (VALUES ${
        sql.csv(batch.map((row) => sql`(${row.referenced_record}, ${row.content_hash}, ${row.stream}, ${row.id})`))
      })`
    }
    for (const batch of Arr.chunksOf(put, rowsPerStatement)) {
      yield* sql`INSERT INTO record_references ${sql.insert(batch)} ON CONFLICT DO NOTHING`
    }
    for (const batch of Arr.chunksOf(shown, rowsPerStatement)) {
      for (const change of yield* withOtherContent(batch)) {
        if (!(yield* isKnown(change))) yield* markStale(change)
      }
    }
  }, toStoreError("mention"))

  /** Those of which another content is shown somewhere: a seek or two each, however many show it. */
  const withOtherContent = (batch: ReadonlyArray<ChangedContent>) =>
    sql<{ place: Integer }>`
      WITH shown (place, referenced_record, content_hash) AS (VALUES ${
      sql.csv(
        batch.map(({ content, subject }, place) =>
          sql`(CAST(${place} AS integer), CAST(${subject} AS bigint), CAST(${content} AS bigint))`
        )
      )
    })
      SELECT place FROM shown s
      WHERE EXISTS (SELECT 1 FROM record_references m
          WHERE m.referenced_record = s.referenced_record AND m.content_hash < s.content_hash)
        OR EXISTS (SELECT 1 FROM record_references m
          WHERE m.referenced_record = s.referenced_record AND m.content_hash > s.content_hash)`.pipe(
      Effect.map(Arr.map(({ place }) => batch[Number(place)]!))
    )

  const isKnown = ({ content, ids, subject }: ChangedContent) =>
    sql`
      SELECT 1 FROM record_references m
      WHERE m.referenced_record = ${subject} AND m.content_hash = ${content}
        AND NOT (m.stream = ${stream} AND m.id IN ${sql.in(ids)})
        AND NOT EXISTS (SELECT 1 FROM stale_records o WHERE o.stream = m.stream AND o.id = m.id)
      LIMIT 1`.pipe(Effect.map((rows) => rows.length > 0))

  const markStale = Effect.fnUntraced(function*({ content, subject }: ChangedContent) {
    const others = sql`FROM record_references WHERE referenced_record = ${subject} AND content_hash <> ${content}`
    const beyond = yield* sql`SELECT 1 ${others} LIMIT 1 OFFSET ${maxStaleRecords}`
    yield* sql`
      INSERT INTO stale_records (stream, id, requested)
      SELECT DISTINCT stream, ${beyond.length > 0 ? sql`${wholeStream}` : sql.literal("id")}, 0 ${others}
      ON CONFLICT (stream, id) DO UPDATE SET requested = 0`
  })

  // ---- who is owed

  const take = Effect.fnUntraced(function*(limit: number) {
    const rows = yield* sql<
      { id: string }
    >`SELECT id FROM stale_records WHERE stream = ${stream} ORDER BY id LIMIT ${limit}`
    const ids = rows.map((row) => row.id)
    const owed: StaleRecords = ids[0] === wholeStream ? "everything" : ids
    if (owed !== "everything" && ids.length > 0) {
      yield* sql`UPDATE stale_records SET requested = 1 WHERE stream = ${stream} AND id IN ${sql.in(ids)}`
    }
    return owed
  }, toStoreError("takeOwed"))

  const settle = (ids: ReadonlyArray<string>) =>
    Effect.forEach(
      Arr.chunksOf(ids, rowsPerStatement),
      (batch) => sql`DELETE FROM stale_records WHERE stream = ${stream} AND requested = 1 AND id IN ${sql.in(batch)}`,
      { discard: true }
    ).pipe(toStoreError("settleOwed"))

  const oweSome = (ids: ReadonlyArray<string>) =>
    Effect.forEach(
      Arr.chunksOf(ids, rowsPerStatement),
      (batch) =>
        sql`INSERT INTO stale_records ${sql.insert(Arr.map(batch, (id) => ({ stream, id, requested: 0 })))}
          ON CONFLICT (stream, id) DO UPDATE SET requested = 0`,
      { discard: true }
    ).pipe(toStoreError("owe"))

  const forgive = sql`DELETE FROM stale_records WHERE stream = ${stream} RETURNING id`.pipe(
    Effect.map((rows) => rows.length),
    toStoreError("forgiveOwed")
  )

  return { record, take, settle, markStale: oweSome, forgive }
}

/** Neighbours in the tree are written together, and two transactions never wait for each other in a circle. */
const byReferencedRecord = (a: ReferenceRow, b: ReferenceRow): number =>
  a.referenced_record - b.referenced_record || a.content_hash - b.content_hash

const compare = (stream: number, writes: ReadonlyArray<RecordWrite>) => {
  const gone: Array<ReferenceRow> = []
  const put: Array<ReferenceRow> = []
  const shown = new Map<string, ChangedContent>()
  for (const { head: { id }, references } of writes) {
    if (references === undefined) continue
    for (const [subject, { content, unannounced }] of references.before ?? []) {
      if (unannounced && references.after.get(subject)?.content !== content) {
        gone.push(rowOf(subject, content, stream, id))
      }
    }
    for (const [subject, { content, unannounced }] of references.after) {
      if (references.before?.get(subject)?.content === content) continue
      if (unannounced) put.push(rowOf(subject, content, stream, id))
      if (references.before === null) continue
      const key = `${subject} ${content}`
      const known = shown.get(key)
      if (known === undefined) shown.set(key, { subject, content, ids: [id] })
      else known.ids.push(id)
    }
  }
  return { gone: gone.sort(byReferencedRecord), put: put.sort(byReferencedRecord), shown: [...shown.values()] }
}
