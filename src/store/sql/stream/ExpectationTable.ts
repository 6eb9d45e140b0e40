/**
 * The table of expectations: plugin writes that records are still expected to show.
 *
 * Invariants
 * 1. `expect`, `tookEffect` and `withdraw` run in the caller's transaction: an expectation is committed together with the intent of
 *    its write, before the write is sent   (E2)
 *
 * Gotchas
 * - A stream that is not read can show no write, so it gets no expectations.
 * - An unconfirmed write stays listed for a week. Its row is deleted later: with the next unconfirmed write of any stream.
 */
import * as Arr from "effect/Array"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import { writes } from "../../../api/Writes.ts"
import { CurrentModels } from "../../../domain/BuiltInModels.ts"
import {
  anyRecord,
  candidateIdIn,
  type Expectation,
  expectById,
  type OpenExpectation,
  type PluginWrite
} from "../../../domain/Expectation.ts"
import type { Model, Models } from "../../../domain/Model.ts"
import type { UnconfirmedWrite } from "../../Records.ts"
import {
  codec,
  type Columns,
  flag,
  inBatches,
  json,
  type Row,
  rowsPerStatement,
  type StreamRow,
  toState
} from "../Rows.ts"
import { among, insertion } from "../RowValues.ts"
import { toStoreError } from "../SqlRetry.ts"

const writeColumns: Columns<Pick<PluginWrite, "name" | "plugin" | "delivery" | "depth">> = {
  name: "name",
  plugin: "plugin",
  delivery: "delivery",
  depth: "depth"
}
const newColumns: Columns<Omit<OpenExpectation, "id" | "model">> = {
  ...writeColumns,
  write: "write",
  key: "key",
  target: "target",
  matcher: json("matcher"),
  everywhere: flag("all_records"),
  required: flag("required"),
  fulfilledIn: json("matched_records")
}
const newExpectations = codec(newColumns)
const storedExpectations = codec<Omit<OpenExpectation, "model">>({ ...newColumns, id: "id" })
const unconfirmedWrites = codec<UnconfirmedWrite>({
  ...writeColumns,
  key: "key",
  integration: "integration",
  model: "model",
  reportedAt: "reported_at"
})

/** The model whose sweeps are counted for this model: the source of a derived model, otherwise the model itself. */
const sweptModelOf = (models: Models, model: Model): Model => models.derivedOf(model)?.from ?? model

/** A write is unconfirmed after this many sweeps that did not find it. */
const maxMissedSweeps = 2
const unconfirmedRetentionMillis = 7 * 86_400_000

/** The operations of the delivery that writes. Each one except `unconfirmed` is a step of an open transaction. */
export const make = (sql: SqlClient) => {
  /** Call before a write is sent. If the same write is sent again, its expectations start again. */
  const expect = Effect.fnUntraced(function*(own: PluginWrite, expectations: ReadonlyArray<Expectation>) {
    const { integration, ...write } = own
    yield* sql`DELETE FROM expectations WHERE write = ${own.write}`
    if (expectations.length === 0) return
    const known = yield* CurrentModels
    const models = new Set(expectations.flatMap(({ model }) => [model, sweptModelOf(known, model)]))
    const rows = yield* sql<StreamRow>`
      SELECT key, integration, model, state FROM streams
      WHERE integration = ${integration} AND model IN ${sql.in([...models])}`
    const streams = yield* Effect.forEach(
      rows,
      (row) => Effect.map(toState(row), (state) => ({ key: row.key, ...state }))
    )
    for (const { key, model, retired } of streams) {
      const ofModel = retired === true ? [] : expectations.filter((one) => one.model === model)
      const lastRunId = streams.find((stream) => stream.model === sweptModelOf(known, model))?.lastRunId ?? 0
      for (const target of new Set(ofModel.map((one) => one.target))) {
        yield* sql`UPDATE expectations SET required = 0
          WHERE stream = ${key} AND target = ${target} AND reported_at IS NULL`
      }
      // a run in progress may already be past some records, so only later runs are counted
      const inserted = ofModel.map((one) => ({
        ...newExpectations.toRow({ ...one, ...write, fulfilledIn: [] }),
        stream: key,
        since_run: lastRunId + 1,
        missed_sweeps: 0,
        reported_at: null
      }))
      yield* inBatches(inserted, (some) => sql`INSERT INTO expectations ${insertion(sql, some)}`)
    }
  }, toStoreError("expect"))

  /**
   * Call when the write took effect. `created`: ids of the records that it created. A new tag of a candidate may not appear in any poll, so
   * the records that show the candidate become stale   (N1).
   */
  const tookEffect = Effect.fnUntraced(function*(write: string, created: Readonly<Partial<Record<Model, string>>>) {
    const rows = yield* sql<{ id: number; stream: number; model: Model; key: string }>`
      SELECT e.id, e.stream, s.model, e.key FROM expectations e JOIN streams s ON s.key = e.stream
      WHERE e.write = ${write} ORDER BY e.id`
    for (const { id, key, model, stream } of rows) {
      const record = created[model]
      const candidate = candidateIdIn(key)
      if (record !== undefined) {
        const byId = expectById(record)
        yield* sql`UPDATE expectations SET key = ${byId.key}, matcher = ${
          JSON.stringify(byId.matcher)
        } WHERE id = ${id}`
      }
      if (candidate !== null) {
        yield* sql`
          INSERT INTO stale_records (stream, id, requested) SELECT stream, id, 0 FROM derivations
          WHERE stream = ${stream} AND derived_id = ${candidate}
          ON CONFLICT (stream, id) DO UPDATE SET requested = 0`
      }
    }
  }, toStoreError("tookEffect"))

  /** The write had no effect: no record will show it. */
  const withdraw = (write: string) =>
    sql`DELETE FROM expectations WHERE write = ${write}`.pipe(Effect.asVoid, toStoreError("withdraw"))

  const unconfirmed = Effect.fnUntraced(function*(limit: number) {
    const since = (yield* Clock.currentTimeMillis) - unconfirmedRetentionMillis
    const rows = yield* sql<Row>`
      SELECT e.*, s.integration, s.model FROM expectations e JOIN streams s ON s.key = e.stream
      WHERE e.reported_at > ${since} ORDER BY e.reported_at DESC, e.id DESC LIMIT ${limit}`
    return rows.map(unconfirmedWrites.fromRow)
  })

  return { expect, tookEffect, withdraw, unconfirmed }
}

export type ExpectationTable = ReturnType<typeof make>

/** The operations of the stream's owner, which observes the records. */
export const streamExpectations = (sql: SqlClient, stream: number, model: Model) => {
  const open = sql`stream = ${stream} AND reported_at IS NULL`
  const toOpen = (row: Row): OpenExpectation => ({ ...storedExpectations.fromRow(row), model })
  return {
    /** Open expectations with these keys, in the order of their writes. */
    openExpectations: (keys: ReadonlyArray<string>) =>
      inBatches(
        keys,
        (some) => sql<Row>`SELECT * FROM expectations WHERE ${open} AND key ${among(sql, some)} ORDER BY id`
      ).pipe(Effect.map(Arr.map(toOpen))),
    /** Saves that this record shows the expected write. */
    recordMatch: Effect.fnUntraced(
      function*({ delivery, everywhere, id, fulfilledIn, name, write }: OpenExpectation, record: string) {
        if (writes[name].visibleIn?.model === model) {
          const seen = JSON.stringify({ model, id: record, at: yield* Clock.currentTimeMillis })
          // the journal first: `begin` and `finish` lock the tables in this order too   (X13)
          yield* sql`
          UPDATE journal SET shown_by = ${seen} WHERE delivery = ${Number(delivery)} AND done = 0 AND shown_by IS NULL
            AND handler || '/' || dedup_key || '/' || step = ${write}`
        }
        yield* everywhere
          ? sql`UPDATE expectations SET matched_records = ${JSON.stringify([...fulfilledIn, record])} WHERE id = ${id}`
          : sql`DELETE FROM expectations WHERE id = ${id}`
      }
    ),
    /** Counts a complete sweep for every expectation whose write was made before it, and deletes the expectations that need no report. */
    countSweep: Effect.fnUntraced(function*(runId: number) {
      // a pending row may contain the expected write, so its record is not counted as missed
      yield* sql`
        UPDATE expectations SET missed_sweeps = missed_sweeps + 1
        WHERE ${open} AND since_run < ${runId} AND NOT EXISTS (
          SELECT 1 FROM pending p
          WHERE p.stream = expectations.stream AND p.status <> 'rejected'
            AND (p.id = substr(expectations.key, 4) OR expectations.key = ${anyRecord}))`
      yield* sql`
        DELETE FROM expectations WHERE ${open} AND missed_sweeps >= ${maxMissedSweeps} AND (required = 0 OR matched_records <> '[]')`
    }),
    /** Expectations that were still open after too many sweeps, up to a limit. */
    overdueExpectations: sql<Row>`
      SELECT * FROM expectations WHERE ${open} AND missed_sweeps >= ${maxMissedSweeps}
      ORDER BY id LIMIT ${rowsPerStatement}`.pipe(
      Effect.map(Arr.map(toOpen))
    ),
    /** Closes these expectations; the unconfirmed ones stay listed. */
    closeExpectations: Effect.fnUntraced(
      function*(shown: ReadonlyArray<OpenExpectation>, unconfirmed: ReadonlyArray<OpenExpectation>) {
        const now = yield* Clock.currentTimeMillis
        const ids = (some: ReadonlyArray<OpenExpectation>) => sql.in(some.map(({ id }) => id))
        if (shown.length > 0) yield* sql`DELETE FROM expectations WHERE id IN ${ids(shown)}`
        if (unconfirmed.length > 0) {
          yield* sql`UPDATE expectations SET reported_at = ${now} WHERE id IN ${ids(unconfirmed)}`
          yield* sql`DELETE FROM expectations WHERE reported_at < ${now - unconfirmedRetentionMillis}`
        }
      }
    )
  }
}
