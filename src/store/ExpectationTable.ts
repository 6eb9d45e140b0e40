/**
 * The table of what plugins wrote and what is still to be seen of it.
 *
 * Invariants
 * 1. `expect`, `answered` and `withdraw` are steps of whatever transaction they are called in: an expectation is committed
 *    with the intent of its write, before the write leaves   (E2)
 *
 * Gotchas
 * - A stream that nobody reads shows nothing: nothing is expected of it.
 * - What was never seen stays listed for a week.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { writes } from "../api/Writes.ts"
import { anyRecord, candidateIn, type Expectation, named, type Open, type OwnWrite } from "../domain/Expectation.ts"
import { derivedRegistry, isDerived, type Model, type StreamKey } from "../domain/Model.ts"
import { attempt, step } from "./Attempt.ts"
import { type Integer, rowsPerStatement, type StreamRow, toState } from "./Rows.ts"
import type { Store, StreamTx } from "./Store.ts"

interface ExpectationRow extends Omit<Open, "id" | "depth" | "sign" | "everywhere" | "certain" | "met" | "model"> {
  readonly id: Integer
  readonly depth: Integer
  readonly sign: string
  readonly everywhere: Integer
  readonly certain: Integer
  readonly met: string
  readonly reported_at: Integer | null
}

const toOpen = (model: Model) => (row: ExpectationRow): Open => ({
  id: Number(row.id),
  model,
  key: row.key,
  place: row.place,
  write: row.write,
  name: row.name,
  plugin: row.plugin,
  delivery: row.delivery,
  depth: Number(row.depth),
  sign: JSON.parse(row.sign),
  everywhere: Number(row.everywhere) === 1,
  certain: Number(row.certain) === 1,
  met: JSON.parse(row.met)
})

const fromExpectation = ({ certain, everywhere, key, place, sign }: Expectation) => ({
  key,
  place,
  sign: JSON.stringify(sign),
  everywhere: everywhere ? 1 : 0,
  certain: certain ? 1 : 0,
  met: "[]",
  sweeps: 0,
  reported_at: null
})

/** Whose sweeps count for a model. */
const readAs = (model: Model): Model => isDerived(model) ? derivedRegistry[model].from : model

/** Sweeps that have to pass a write by before it counts as unconfirmed. */
const patience = 2
const listedFor = 7 * 86_400_000

/** What the one who writes does; each is a step of an open transaction. */
export const make = (sql: SqlClient) => {
  /** Before a write leaves; the same write again is expected anew. */
  const expect = Effect.fnUntraced(function*(own: OwnWrite, expectations: ReadonlyArray<Expectation>) {
    const { integration, ...write } = own
    yield* sql`DELETE FROM expectations WHERE write = ${own.write}`
    if (expectations.length === 0) return
    const models = new Set(expectations.flatMap(({ model }) => [model, readAs(model)]))
    const rows = yield* sql<StreamRow>`
      SELECT key, integration, model, state FROM streams
      WHERE integration = ${integration} AND model IN ${sql.in([...models])}`
    const streams = yield* Effect.forEach(
      rows,
      (row) => Effect.map(toState(row), (state) => ({ key: row.key, ...state }))
    )
    for (const { key, model, retired } of streams) {
      const here = retired === true ? [] : expectations.filter((one) => one.model === model)
      const reading = streams.find((stream) => stream.model === readAs(model))?.reading ?? 0
      for (const place of new Set(here.map(({ place }) => place))) {
        yield* sql`UPDATE expectations SET certain = 0
          WHERE stream = ${key} AND place = ${place} AND reported_at IS NULL`
      }
      // the reading that may be under way has passed some records already
      const inserted = here.map((one) => ({ ...write, ...fromExpectation(one), stream: key, since: reading + 1 }))
      for (const some of Arr.chunksOf(inserted, rowsPerStatement)) {
        yield* sql`INSERT INTO expectations ${sql.insert(some)}`
      }
    }
  }, step("expect"))

  /**
   * It took effect; `created`: ids of what came into being. Nothing may tell of a tag that a candidate has now: who shows
   * the candidate is owed a re-read   (N1).
   */
  const answered = Effect.fnUntraced(function*(write: string, created: Readonly<Partial<Record<Model, string>>>) {
    const rows = yield* sql<{ id: Integer; stream: Integer; model: Model; key: string }>`
      SELECT e.id, e.stream, s.model, e.key FROM expectations e JOIN streams s ON s.key = e.stream
      WHERE e.write = ${write} ORDER BY e.id`
    for (const { id, key, model, stream } of rows) {
      const record = created[model]
      const candidate = candidateIn(key)
      if (record !== undefined) {
        const known = named(record)
        yield* sql`UPDATE expectations SET key = ${known.key}, sign = ${JSON.stringify(known.sign)} WHERE id = ${id}`
      }
      if (candidate !== null) {
        yield* sql`
          INSERT INTO owed (stream, id, taken) SELECT stream, id, 0 FROM parents
          WHERE stream = ${stream} AND child = ${candidate}
          ON CONFLICT (stream, id) DO UPDATE SET taken = 0`
      }
    }
  }, step("answered"))

  /** It was refused: nothing will be seen of it. */
  const withdraw = (write: string) =>
    sql`DELETE FROM expectations WHERE write = ${write}`.pipe(Effect.asVoid, step("withdraw"))

  const unconfirmed: Store["Service"]["unconfirmed"] = (limit) =>
    sql<ExpectationRow & StreamKey>`
      SELECT e.*, s.integration, s.model FROM expectations e JOIN streams s ON s.key = e.stream
      WHERE e.reported_at IS NOT NULL ORDER BY e.reported_at DESC, e.id DESC LIMIT ${limit}`.pipe(
      Effect.map(Arr.map(({ integration, ...row }) => {
        const { delivery, depth, key, model, name, plugin } = toOpen(row.model)(row)
        return { integration, model, key, name, plugin, delivery, depth, reportedAt: Number(row.reported_at) }
      })),
      attempt("unconfirmed")
    )

  return { expect, answered, withdraw, unconfirmed }
}

export type ExpectationTable = ReturnType<typeof make>

type Reading = Pick<StreamTx, "isExpecting" | "expectations" | "meet" | "passBy" | "overdue" | "close">

/** What the stream's owner does, who sees. */
export const ofStream = (sql: SqlClient, stream: number, model: Model): Reading => {
  const open = sql`stream = ${stream} AND reported_at IS NULL`
  return {
    isExpecting: sql`SELECT id FROM expectations WHERE ${open} LIMIT 1`.pipe(
      Effect.map((rows) => rows.length > 0),
      step("isExpecting")
    ),
    expectations: (keys) =>
      Effect.forEach(
        Arr.chunksOf(keys, rowsPerStatement),
        (some) => sql<ExpectationRow>`SELECT * FROM expectations WHERE ${open} AND key IN ${sql.in(some)} ORDER BY id`
      ).pipe(Effect.map((rows) => rows.flat().map(toOpen(model))), step("expectations")),
    meet: Effect.fnUntraced(function*({ delivery, everywhere, id, met, name, write }, record) {
      if (writes[name].shows?.model === model) {
        const seen = JSON.stringify({ model, id: record, at: yield* Clock.currentTimeMillis })
        // the journal first, as whoever begins and finishes writes does   (X13)
        yield* sql`
          UPDATE journal SET seen = ${seen} WHERE delivery = ${Number(delivery)} AND done = 0 AND seen IS NULL
            AND handler || '/' || occasion || '/' || step = ${write}`
      }
      yield* everywhere
        ? sql`UPDATE expectations SET met = ${JSON.stringify([...met, record])} WHERE id = ${id}`
        : sql`DELETE FROM expectations WHERE id = ${id}`
    }, step("meet")),
    passBy: Effect.fnUntraced(function*(reading) {
      // what is observed of a record and waits to be published may be what is expected of it
      yield* sql`
        UPDATE expectations SET sweeps = sweeps + 1 WHERE ${open} AND since < ${reading} AND NOT EXISTS (
          SELECT 1 FROM pending p
          WHERE p.stream = expectations.stream AND p.status <> 'disputed'
            AND (p.id = substr(expectations.key, 4) OR expectations.key = ${anyRecord}))`
      yield* sql`
        DELETE FROM expectations WHERE ${open} AND sweeps >= ${patience} AND (certain = 0 OR met <> '[]')`
    }, step("passBy")),
    overdue: sql<ExpectationRow>`
      SELECT * FROM expectations WHERE ${open} AND sweeps >= ${patience} ORDER BY id LIMIT ${rowsPerStatement}`.pipe(
      Effect.map(Arr.map(toOpen(model))),
      step("overdue")
    ),
    close: Effect.fnUntraced(function*(shown, unconfirmed) {
      const now = yield* Clock.currentTimeMillis
      const ids = (some: ReadonlyArray<Open>) => sql.in(some.map(({ id }) => id))
      if (shown.length > 0) yield* sql`DELETE FROM expectations WHERE id IN ${ids(shown)}`
      if (unconfirmed.length > 0) {
        yield* sql`UPDATE expectations SET reported_at = ${now} WHERE id IN ${ids(unconfirmed)}`
        yield* sql`DELETE FROM expectations WHERE reported_at < ${now - listedFor}`
      }
    }, step("close"))
  }
}
