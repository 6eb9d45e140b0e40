/**
 * The table of forgotten records, and the search for every row that contains the id of one.
 *
 * Invariants
 * 1. A record is added under the lock of its integration's streams: a transaction that would store the record has either ended or sees
 *    the row
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { Fragment } from "effect/sql/Statement"
import type { ForgettableRecord, Forgotten } from "../../domain/Forgotten.ts"
import type { StreamKey } from "../../domain/Model.ts"
import type { ForgettingProgress, ForgottenRecord, FoundRow, OperatorAction, StoredRow } from "../Operators.ts"
import type { Owner } from "../State.ts"
import * as AuditTable from "./AuditTable.ts"
import { placeOf } from "./Checksum.ts"
import { type ContentCipher, pendingPlace, prefix, quarantinePlace } from "./ContentCipher.ts"
import type { Fencing } from "./Fencing.ts"
import * as Locks from "./Locks.ts"
import { codec, json, type Row, type StreamRow } from "./Rows.ts"
import { AllowLongStatement } from "./SqlRetry.ts"

const records = codec<ForgottenRecord>({
  integration: "integration",
  model: "model",
  id: "id",
  state: "state",
  requestedAt: "requested_at",
  doneAt: "done_at",
  progress: json("progress")
})

/** Positions per statement of the search, so that other statements wait only briefly. */
const searchSpan = 2_000

const contains = ({ changes, content }: Pick<ContentRow, "changes" | "content">, text: string): boolean =>
  content?.includes(text) === true || changes.includes(text)

/** False for a row that is damaged. */
const isJson = ({ changes, content }: Pick<ContentRow, "changes" | "content">): boolean => {
  try {
    return void JSON.parse(content ?? "null"), Array.isArray(JSON.parse(changes))
  } catch {
    return false
  }
}

/** Whether a column may contain the text: encrypted values are searched by the caller once they are decrypted. */
export const textSearch = (sql: SqlClient, cipher: ContentCipher) => (column: string, text: string): Fragment => {
  const name = sql.literal(column)
  const contains = sql.onDialectOrElse({
    pg: () => sql`strpos(${name}, ${text}) > 0`,
    orElse: () => sql`instr(${name}, ${text}) > 0`
  })
  return cipher.isUsed ? sql`(${contains} OR substr(${name}, 1, ${prefix.length}) = ${prefix})` : contains
}

type ForgottenRow = Pick<ForgottenRecord, "model" | "id">

/** The forgotten records of one integration. */
export const forgottenRows = (sql: SqlClient, integration: string) =>
  sql<ForgottenRow>`SELECT model, id FROM forgotten WHERE integration = ${integration}`

export const toForgotten = (rows: ReadonlyArray<ForgottenRow>): Forgotten =>
  new Map(
    [...Map.groupBy(rows, ({ model }) => model)].map(([model, own]) => [model, new Set(own.map(({ id }) => id))])
  )

interface ContentRow {
  readonly stream: number
  readonly id: string
  readonly position: number | null
  readonly content: string | null
  readonly changes: string
}

type PendingPlace = Pick<ContentRow, "stream" | "id">

interface QuarantinedPlace {
  readonly stream: number
  readonly hash: string
}

export const make = (
  sql: SqlClient,
  cipher: ContentCipher,
  { fence }: Fencing
) => {
  const locks = Locks.make(sql)
  const mayContain = textSearch(sql, cipher)
  /** Null for each damaged row. */
  const decrypted = (rows: ReadonlyArray<ContentRow>) =>
    cipher.openEach(rows, (row, open): ContentRow => ({
      ...row,
      content: open(
        row.position === null ? pendingPlace(Number(row.stream), row.id) : placeOf(Number(row.position), "content"),
        row.content
      ),
      changes: open(placeOf(Number(row.position), "changes"), row.changes)
    }))
  const keysOf = (streams: ReadonlyArray<StreamKey>) =>
    sql<StreamRow>`SELECT key, integration, model, state FROM streams WHERE ${
      sql.or(streams.map(({ integration, model }) => sql`(integration = ${integration} AND model = ${model})`))
    }`
  const isRecord = ({ id, integration, model }: Pick<ForgottenRecord, "integration" | "model" | "id">) =>
    sql`integration = ${integration} AND model = ${model} AND id = ${id}`

  return {
    /** The forgotten records, in the order of the requests. */
    forgotten: sql<Row>`SELECT * FROM forgotten ORDER BY requested_at, integration, model, id`.pipe(
      Effect.map(Arr.map(records.fromRow))
    ),
    /** Commits the request, together with the operator's action: from now on no transaction stores the record. */
    requestForgetting: Effect.fnUntraced(function*(owner: Owner, record: ForgottenRecord, action: OperatorAction) {
      yield* fence(owner)
      yield* locks.streams(record.integration)
      yield* sql`INSERT INTO forgotten ${sql.insert(records.toRow(record))}
        ON CONFLICT (integration, model, id) DO NOTHING`
      yield* AuditTable.make(sql).recordAction(action)
    }, sql.withTransaction),
    /** Saves how far the removal of the record is. */
    noteForgetting: (owner: Owner, record: ForgettableRecord, progress: ForgettingProgress) =>
      fence(owner).pipe(
        Effect.andThen(sql`UPDATE forgotten SET progress = ${JSON.stringify(progress)} WHERE ${isRecord(record)}`),
        sql.withTransaction
      ),
    /** Marks the record as forgotten: all of its data is deleted. `at`: our clock, in ms. */
    endForgetting: (owner: Owner, record: ForgettableRecord, at: number) =>
      fence(owner).pipe(
        Effect.andThen(
          sql`UPDATE forgotten SET state = 'forgotten', done_at = ${at}, progress = NULL WHERE ${isRecord(record)}`
        ),
        sql.withTransaction
      ),
    /** Allows transactions to store the record again, together with the operator's action. */
    allowForgotten: Effect.fnUntraced(function*(owner: Owner, record: ForgettableRecord, action: OperatorAction) {
      yield* fence(owner)
      yield* locks.streams(record.integration)
      yield* sql`DELETE FROM forgotten WHERE ${isRecord(record)}`
      yield* AuditTable.make(sql).recordAction(action)
    }, sql.withTransaction),
    /**
     * The pending rows and log rows of these streams that contain the text and for which `isWanted` is true. Reads the whole log. Damaged
     * rows that contain the text, and rows that cannot be decrypted, are always returned.
     */
    findRows: Effect.fnUntraced(
      function*(streams: ReadonlyArray<StreamKey>, text: string, isWanted: (row: StoredRow) => boolean) {
        const found: Array<FoundRow> = []
        const rows = streams.length === 0 ? [] : yield* keysOf(streams)
        if (rows.length === 0) return found
        const keys = new Map(rows.map((row) => [row.key, row]))
        const add = Effect.fnUntraced(function*(some: ReadonlyArray<ContentRow>) {
          for (const [index, row] of (yield* decrypted(some)).entries()) {
            const { id, position, stream } = some[index]!
            const { integration, model } = keys.get(Number(stream))!
            const place = { integration, model, id, position: position === null ? null : Number(position) }
            if (row === null) found.push({ ...place, unreadable: true })
            else if (contains(row, text) && (!isJson(row) || isWanted({ ...place, ...row }))) found.push(place)
          }
        })
        const inStreams = sql`stream IN ${sql.in([...keys.keys()])}`
        for (let after: PendingPlace | undefined = { stream: 0, id: "" }; after !== undefined;) {
          const some: ReadonlyArray<ContentRow> = yield* sql<ContentRow>`
          SELECT stream, id, NULL AS position, content, '[]' AS changes FROM pending
          WHERE ${inStreams} AND (stream > ${after.stream} OR (stream = ${after.stream} AND id > ${after.id}))
            AND ${mayContain("content", text)} ORDER BY stream, id LIMIT ${searchSpan}`
          yield* add(some)
          after = some.length < searchSpan ? undefined : some.at(-1)
        }
        const [range] = yield* sql<{ first: number | null; last: number | null }>`
        SELECT min(position) AS first, max(position) AS last FROM events`
        const last = Number(range?.last ?? 0)
        for (let from = Number(range?.first ?? 1); from <= last; from += searchSpan) {
          const some = yield* sql<ContentRow>`
          SELECT stream, id, position, content, changes FROM events
          WHERE position >= ${from} AND position < ${from + searchSpan} AND ${inStreams}
            AND (${mayContain("content", text)} OR ${mayContain("changes", text)}) ORDER BY position`
          yield* add(some)
        }
        return found
      },
      Effect.provideService(AllowLongStatement, true)
    ),
    /** Deletes the quarantined rows of an integration that contain the text, or cannot be decrypted; returns how many. */
    dropQuarantinedCopies: Effect.fnUntraced(function*(owner: Owner, integration: string, text: string) {
      yield* fence(owner)
      let dropped = 0
      for (let after: QuarantinedPlace | undefined = { stream: 0, hash: "" }; after !== undefined;) {
        const rows: ReadonlyArray<QuarantinedPlace & { readonly content: string }> = yield* sql<
          QuarantinedPlace & { content: string }
        >`
          SELECT stream, hash, content FROM quarantine
          WHERE stream IN (SELECT key FROM streams WHERE integration = ${integration})
            AND (stream > ${after.stream} OR (stream = ${after.stream} AND hash > ${after.hash}))
            AND ${mayContain("content", text)} ORDER BY stream, hash LIMIT ${searchSpan}`
        const contents = yield* cipher.openEach(
          rows,
          ({ content, hash, stream }, open) => open(quarantinePlace(Number(stream), hash), content)
        )
        for (const [index, { hash, stream }] of rows.entries()) {
          if (contents[index]?.includes(text) === false) continue
          yield* sql`DELETE FROM quarantine WHERE stream = ${stream} AND hash = ${hash}`
          dropped++
        }
        after = rows.length < searchSpan ? undefined : rows.at(-1)
      }
      return dropped
    }, sql.withTransaction)
  }
}
