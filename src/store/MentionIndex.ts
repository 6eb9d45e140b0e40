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
import { step } from "./Attempt.ts"
import { type Integer, rowsPerStatement } from "./Rows.ts"
import type { Owed, RecordWrite } from "./Store.ts"

/** Records that one change may owe a re-read one by one. */
const most = 10_000
const wholeStream = ""

type Place = ReturnType<typeof placeOf>
const placeOf = (subject: number, content: number, stream: number, id: string) => ({ subject, content, stream, id })

/** A content newly shown of one subject, and which records of the page show it. */
interface Shown {
  readonly subject: number
  readonly content: number
  readonly ids: Array<string>
}

export const make = (sql: SqlClient, stream: number) => {
  /** Brings the index up to what the records mention now, and owes a re-read to whoever shows it otherwise. */
  const record = Effect.fnUntraced(function*(writes: ReadonlyArray<RecordWrite>) {
    const { gone, put, shown } = compare(stream, writes)
    for (const batch of Arr.chunksOf(gone, rowsPerStatement)) {
      yield* sql`DELETE FROM mentions WHERE (subject, content, stream, id) IN (VALUES ${
        sql.csv(batch.map((row) => sql`(${row.subject}, ${row.content}, ${row.stream}, ${row.id})`))
      })`
    }
    for (const batch of Arr.chunksOf(put, rowsPerStatement)) {
      yield* sql`INSERT INTO mentions ${sql.insert(batch)} ON CONFLICT DO NOTHING`
    }
    for (const batch of Arr.chunksOf(shown, rowsPerStatement)) {
      for (const change of yield* contested(batch)) {
        if (!(yield* isKnown(change))) yield* owe(change)
      }
    }
  }, step("mention"))

  /** Those of which another content is shown somewhere: a seek or two each, however many show it. */
  const contested = (batch: ReadonlyArray<Shown>) =>
    sql<{ place: Integer }>`
      WITH shown (place, subject, content) AS (VALUES ${
      sql.csv(
        batch.map(({ content, subject }, place) =>
          sql`(CAST(${place} AS integer), CAST(${subject} AS bigint), CAST(${content} AS bigint))`
        )
      )
    })
      SELECT place FROM shown s
      WHERE EXISTS (SELECT 1 FROM mentions m WHERE m.subject = s.subject AND m.content < s.content)
        OR EXISTS (SELECT 1 FROM mentions m WHERE m.subject = s.subject AND m.content > s.content)`.pipe(
      Effect.map(Arr.map(({ place }) => batch[Number(place)]!))
    )

  const isKnown = ({ content, ids, subject }: Shown) =>
    sql`
      SELECT 1 FROM mentions m
      WHERE m.subject = ${subject} AND m.content = ${content} AND NOT (m.stream = ${stream} AND m.id IN ${sql.in(ids)})
        AND NOT EXISTS (SELECT 1 FROM owed o WHERE o.stream = m.stream AND o.id = m.id)
      LIMIT 1`.pipe(Effect.map((rows) => rows.length > 0))

  const owe = Effect.fnUntraced(function*({ content, subject }: Shown) {
    const others = sql`FROM mentions WHERE subject = ${subject} AND content <> ${content}`
    const beyond = yield* sql`SELECT 1 ${others} LIMIT 1 OFFSET ${most}`
    yield* sql`
      INSERT INTO owed (stream, id, taken)
      SELECT DISTINCT stream, ${beyond.length > 0 ? sql`${wholeStream}` : sql.literal("id")}, 0 ${others}
      ON CONFLICT (stream, id) DO UPDATE SET taken = 0`
  })

  // ---- who is owed

  const take = Effect.fnUntraced(function*(limit: number) {
    const rows = yield* sql<{ id: string }>`SELECT id FROM owed WHERE stream = ${stream} ORDER BY id LIMIT ${limit}`
    const ids = rows.map((row) => row.id)
    const owed: Owed = ids[0] === wholeStream ? "everything" : ids
    if (owed !== "everything" && ids.length > 0) {
      yield* sql`UPDATE owed SET taken = 1 WHERE stream = ${stream} AND id IN ${sql.in(ids)}`
    }
    return owed
  }, step("takeOwed"))

  const settle = (ids: ReadonlyArray<string>) =>
    Effect.forEach(
      Arr.chunksOf(ids, rowsPerStatement),
      (batch) => sql`DELETE FROM owed WHERE stream = ${stream} AND taken = 1 AND id IN ${sql.in(batch)}`,
      { discard: true }
    ).pipe(step("settleOwed"))

  const oweSome = (ids: ReadonlyArray<string>) =>
    Effect.forEach(
      Arr.chunksOf(ids, rowsPerStatement),
      (batch) =>
        sql`INSERT INTO owed ${sql.insert(Arr.map(batch, (id) => ({ stream, id, taken: 0 })))}
          ON CONFLICT (stream, id) DO UPDATE SET taken = 0`,
      { discard: true }
    ).pipe(step("owe"))

  const forgive = sql`DELETE FROM owed WHERE stream = ${stream} RETURNING id`.pipe(
    Effect.map((rows) => rows.length),
    step("forgiveOwed")
  )

  return { record, take, settle, owe: oweSome, forgive }
}

/** Neighbours in the tree are written together, and two transactions never wait for each other in a circle. */
const bySubject = (a: Place, b: Place): number => a.subject - b.subject || a.content - b.content

const compare = (stream: number, writes: ReadonlyArray<RecordWrite>) => {
  const gone: Array<Place> = []
  const put: Array<Place> = []
  const shown = new Map<string, Shown>()
  for (const { head: { id }, mentions } of writes) {
    if (mentions === undefined) continue
    for (const [subject, { content, silent }] of mentions.before ?? []) {
      if (silent && mentions.after.get(subject)?.content !== content) gone.push(placeOf(subject, content, stream, id))
    }
    for (const [subject, { content, silent }] of mentions.after) {
      if (mentions.before?.get(subject)?.content === content) continue
      if (silent) put.push(placeOf(subject, content, stream, id))
      if (mentions.before === null) continue
      const key = `${subject} ${content}`
      const known = shown.get(key)
      if (known === undefined) shown.set(key, { subject, content, ids: [id] })
      else known.ids.push(id)
    }
  }
  return { gone: gone.sort(bySubject), put: put.sort(bySubject), shown: [...shown.values()] }
}
