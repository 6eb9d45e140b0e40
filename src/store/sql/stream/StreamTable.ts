/**
 * The table of streams: transactions on one stream, states, counts, lists, and the erasure of a stream.
 *
 * Invariants
 * 1. One transaction at a time runs per stream, and per integration (see `Locks`)
 */
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type { SqlClient } from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { CurrentModels } from "../../../domain/BuiltInModels.ts"
import { genesis } from "../../../domain/ChangeEvent.ts"
import { type Forgotten, nothingForgotten } from "../../../domain/Forgotten.ts"
import { derivedFrom, type Model, type StreamKey } from "../../../domain/Model.ts"
import type { PageQuery, PendingStatus } from "../../Records.ts"
import type { Owner, StreamCounts, StreamQuery, StreamState } from "../../State.ts"
import { incompatible, type StoreError } from "../../StoreError.ts"
import { issue } from "../Connection.ts"
import type { ContentCipher } from "../ContentCipher.ts"
import type { EventTable } from "../EventTable.ts"
import type { Fencing } from "../Fencing.ts"
import { forgottenRows, toForgotten } from "../ForgottenTable.ts"
import { listRuns } from "../HistoryTable.ts"
import * as Locks from "../Locks.ts"
import { inBatches, rowsPerStatement, type StreamRow, toState, toStates } from "../Rows.ts"
import { among, insertion } from "../RowValues.ts"
import { convertEach, toStoreError, withRetry } from "../SqlRetry.ts"
import * as HoldTable from "./HoldTable.ts"
import * as PageReads from "./PageReads.ts"
import * as StreamTransaction from "./StreamTransaction.ts"
import type { OpenedStream, StreamTx } from "./StreamTransaction.ts"

/** The tables with rows of one stream, besides the event log. */
const streamTables = [
  "heads",
  "pending",
  "quarantine",
  "holds",
  "stale_records",
  "record_references",
  "derivations",
  "expectations",
  "runs"
] as const

const missing = ({ integration, model }: StreamKey): Effect.Effect<never, StoreError> =>
  Effect.fail(incompatible(`the stream ${integration}/${model} is not in the store`))

/** The page that a transaction reads, given the forgotten records of its integration. */
type PageOf = (forgotten: Forgotten) => PageQuery

type Nullable<A> = { readonly [K in keyof A]: A[K] | null }

interface CountRow {
  readonly key: number
  readonly live: number
  readonly quarantined: number
  readonly stale: number
}

interface PendingCount {
  readonly stream: number
  readonly status: PendingStatus
  readonly count: number
}

/** The counts of a stream's rows, given the counts of the pending rows of several streams. */
const withPending = (pending: ReadonlyArray<PendingCount>) => {
  const byStream = Map.groupBy(pending, ({ stream }) => Number(stream))
  return ({ key, live, quarantined, stale }: CountRow): StreamCounts => ({
    live: Number(live),
    quarantined: Number(quarantined),
    stale: Number(stale),
    pending: Object.fromEntries((byStream.get(Number(key)) ?? []).map(({ count, status }) => [status, Number(count)]))
  })
}

/** The condition that selects one stream. */
export const isStream = (sql: SqlClient) => (key: StreamKey) =>
  sql`integration = ${key.integration} AND model = ${key.model}`

export const make = (
  sql: SqlClient,
  log: EventTable,
  cipher: ContentCipher,
  { fence, fenceWith, orIncompatible }: Fencing
) => {
  const locks = Locks.make(sql)
  const is = isStream(sql)
  // the counts of rows use narrow indexes only and read no rows
  const rowCounts = sql`s.key,
    s.live_records AS live,
    (SELECT count(*) FROM quarantine q WHERE q.stream = s.key) AS quarantined,
    (SELECT count(*) FROM stale_records o WHERE o.stream = s.key) AS stale`

  /** The forgotten records of integrations that have some, as a transaction last read them. */
  const lastForgotten = new Map<string, Forgotten>()

  /** Begins the body of a transaction, with one send. That send reads the page too, and assumes that no more records were forgotten. */
  const open = Effect.fnUntraced(function*(key: StreamKey, pageOf?: PageOf) {
    const { integration, model } = key
    const models = yield* CurrentModels
    const derivedModel = derivedFrom(models, model, models.names)
    yield* locks.streams(integration)
    const assumed = lastForgotten.get(integration)
    const query = pageOf?.(assumed ?? nothingForgotten)
    const ahead = query === undefined ? null : {
      query,
      rows: yield* issue(PageReads.find(sql, sql`(SELECT key FROM streams WHERE ${is(key)})`, query))
    }
    const issued = ahead === null || assumed === undefined ? null : yield* issue(forgottenRows(sql, integration))
    const rows = yield* sql<StreamRow & OpenedStream & { readonly hasForgotten: number | boolean }>`
      SELECT s.key, s.integration, s.model, s.state,
        EXISTS (SELECT 1 FROM forgotten f WHERE f.integration = s.integration) AS "hasForgotten",
        EXISTS (SELECT 1 FROM holds h WHERE h.stream = s.key AND ${sql.literal(HoldTable.isUnended)}) AS "hasHolds",
        EXISTS (SELECT 1 FROM pending p WHERE p.stream = s.key AND p.status = 'staged') AS "hasStaged",
        EXISTS (SELECT 1 FROM expectations e WHERE e.stream = s.key AND e.reported_at IS NULL) AS "hasExpectations"
      FROM streams s WHERE s.integration = ${integration} AND s.model IN ${sql.in([model, derivedModel ?? model])}`
    let known: Forgotten | null = rows.some(({ hasForgotten }) => hasForgotten) ? null : nothingForgotten
    if (known !== null) lastForgotten.delete(integration)
    const forgotten = Effect.gen(function*() {
      if (known !== null) return known
      known = toForgotten(issued?.() ?? (yield* forgottenRows(sql, integration)))
      lastForgotten.set(integration, known)
      return known
    })
    const keyOf = (of: Model | undefined) => rows.find((row) => row.model === of)?.key ?? 0
    const operations = Effect.fnUntraced(function*(of: Model, derived: number, ahead: PageReads.ReadAhead | null) {
      const row = rows.find(({ model }) => model === of)
      if (row === undefined) return yield* missing({ integration, model: of })
      return StreamTransaction.make(sql, log, row, derived, yield* toState(row), cipher, forgotten, ahead)
    })
    const own = yield* operations(model, keyOf(derivedModel), ahead)
    const derived = derivedModel === undefined
      ? missing(key)
      : Effect.map(operations(derivedModel, 0, null), (found) => ({ ...found, derived: missing(key) }))
    return { ...own, derived }
  })

  /** One bounded transaction of `eraseStream`. The row of the stream, which has the key, is deleted last. */
  const eraseSome = Effect.fnUntraced(
    function*(owner: Owner, key: StreamKey, readTo: number): Effect.fn.Return<
      "erased" | "more" | "unread",
      SqlError | StoreError
    > {
      yield* fence(owner)
      yield* locks.streams(key.integration)
      const [row] = yield* sql<{ key: number }>`SELECT key FROM streams WHERE ${is(key)}`
      if (row === undefined) return "erased"
      const stream = row.key
      const [unread] = yield* sql`
        SELECT position FROM events WHERE stream = ${stream} AND silent = 0 AND position > ${readTo} LIMIT 1`
      if (unread !== undefined) return "unread"
      if ((yield* log.eraseSome(stream)) > 0) return "more"
      for (const name of streamTables) {
        const table = sql(name)
        const id = sql(name === "quarantine" ? "hash" : "id")
        const live = sql.literal(name === "heads" ? "live" : "0")
        const deleted = yield* sql<{ live: number }>`DELETE FROM ${table} WHERE stream = ${stream} AND ${id} IN (
          SELECT ${id} FROM ${table} WHERE stream = ${stream} LIMIT ${rowsPerStatement}) RETURNING ${live} AS live`
        const liveDeleted = deleted.reduce((sum, { live }) => sum + live, 0)
        if (liveDeleted > 0) {
          yield* sql`UPDATE streams SET live_records = live_records - ${liveDeleted} WHERE key = ${stream}`
        }
        if (deleted.length > 0) return "more"
      }
      yield* sql`DELETE FROM streams WHERE key = ${stream}`
      return "erased"
    },
    sql.withTransaction,
    withRetry("eraseStream")
  )

  return {
    ...convertEach(withRetry, {
      /** Creates the missing streams; leaves existing ones unchanged. */
      ensureStreams: (streams: ReadonlyArray<StreamState>) =>
        inBatches(streams, (some) =>
          sql`INSERT INTO streams ${
            insertion(
              sql,
              Arr.map(some, (state) => ({
                integration: state.integration,
                model: state.model,
                state: JSON.stringify(state)
              }))
            )
          } ON CONFLICT (integration, model) DO NOTHING`).pipe(sql.withTransaction),
      streams: Effect.flatMap(
        sql<StreamRow>`SELECT key, integration, model, state FROM streams ORDER BY integration, model`,
        toStates
      ),
      /** The streams of one integration. */
      streamsOf: (integration: string) =>
        Effect.flatMap(
          sql<StreamRow>`
            SELECT key, integration, model, state FROM streams WHERE integration = ${integration} ORDER BY model`,
          Effect.forEach(toState)
        ),
      stream: (key: StreamKey) =>
        sql<StreamRow>`SELECT key, integration, model, state FROM streams WHERE ${is(key)}`.pipe(
          Effect.flatMap(([row]) => row === undefined ? Effect.succeed(null) : toState(row))
        ),
      /** The history of the stream's runs, newest first. */
      runs: (key: StreamKey) => listRuns(sql, is(key)),
      /** All streams and the newest position, read at one moment. Every change up to the watermarks is at or before that position. */
      streamsAtPosition: sql<StreamRow & { newest: number; chain: string }>`
        SELECT s.key, s.integration, s.model, s.state, c.position AS newest, c.chain
        FROM log_counter c LEFT JOIN streams s ON TRUE ORDER BY s.integration, s.model`.pipe(
        Effect.flatMap((rows) =>
          Effect.map(toStates(rows.filter(({ key }) => key !== null)), (streams) => ({
            position: Number(rows[0]?.newest),
            chain: rows[0]?.chain ?? genesis,
            streams
          }))
        )
      ),
      /** The counts of every stream. */
      counts: Effect.gen(function*() {
        const streams = yield* sql<StreamKey & CountRow>`
          SELECT s.integration, s.model, ${rowCounts} FROM streams s ORDER BY s.integration, s.model`
        const pending = yield* sql<
          PendingCount
        >`SELECT stream, status, count(*) AS count FROM pending GROUP BY stream, status`
        const counts = withPending(pending)
        return streams.map((row) => ({ integration: row.integration, model: row.model, ...counts(row) }))
      }),
      /** Streams in the order of integration and model, with their counts and the newest position, read at one moment. */
      streamPage: ({ after, integrations, limit, models }: StreamQuery) =>
        Effect.gen(function*() {
          const conditions = [
            sql`TRUE`,
            ...integrations === undefined ? [] : [sql`s.integration IN ${sql.in(integrations)}`],
            ...models === undefined ? [] : [sql`s.model IN ${sql.in(models)}`],
            ...after === undefined ? [] : [sql`(s.integration, s.model) > (${after.integration}, ${after.model})`]
          ]
          // the outer join gives a row with the position even if no stream matches
          const rows = yield* sql<Nullable<StreamRow & CountRow> & { newest: number; chain: string }>`
            SELECT c.position AS newest, c.chain, s.*
            FROM log_counter c LEFT JOIN (
              SELECT s.integration, s.model, s.state, ${rowCounts} FROM streams s
              WHERE ${sql.and(conditions)} ORDER BY s.integration, s.model LIMIT ${limit}
            ) s ON TRUE ORDER BY s.integration, s.model`
          const found = rows.filter((row): row is StreamRow & CountRow & { newest: number; chain: string } =>
            row.key !== null
          )
          const pending = found.length === 0 ? [] : yield* sql<PendingCount>`
            SELECT stream, status, count(*) AS count FROM pending
            WHERE stream ${among(sql, found.map(({ key }) => key))} GROUP BY stream, status`
          const counts = withPending(pending)
          return {
            position: Number(rows[0]?.newest),
            chain: rows[0]?.chain ?? genesis,
            streams: yield* Effect.forEach(found, (row) =>
              Effect.map(toState(row), (state) => ({ state, counts: counts(row) })))
          }
        }).pipe(sql.withTransaction)
    }),
    /**
     * Runs one transaction on one stream, fenced by `owner`. The body may run more than once (deadlock, lock timeout). `pageOf`: the query of
     * a page that the body will `read` before it writes, without these forgotten records. Its rows are read when the transaction begins.
     */
    transact: <A, E>(
      owner: Owner,
      key: StreamKey,
      body: (tx: StreamTx) => Effect.Effect<A, E>,
      pageOf?: PageOf
    ): Effect.Effect<A, E | StoreError> =>
      fenceWith(owner, toStoreError("begin")(open(key, pageOf))).pipe(
        Effect.flatMap(body),
        sql.withTransaction,
        orIncompatible,
        withRetry("transact")
      ),
    /**
     * Replaces the state `before` of a stream by `after`, in one statement. Returns false if nothing was changed, because the stream has a
     * different state now, has pending rows, stale records or holds that have not ended, or because `owner` is fenced. Fails without a retry:
     * if the connection is lost, it is unknown whether the state was replaced, so the caller must read it again. Not for use in a transaction:
     * the result comes with its commit.
     */
    replaceQuietState: (owner: Owner, before: StreamState, after: StreamState) =>
      issue(sql`
        UPDATE streams SET state = ${JSON.stringify(after)}
        WHERE ${is(before)} AND state = ${JSON.stringify(before)}
          AND EXISTS (
            SELECT 1 FROM ownership WHERE scope = ${owner.scope} AND epoch = ${owner.epoch} ${locks.owned(owner.scope)})
          AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.stream = streams.key)
          AND NOT EXISTS (SELECT 1 FROM stale_records r WHERE r.stream = streams.key)
          AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.stream = streams.key AND ${sql.literal(HoldTable.isUnended)})
        RETURNING key`).pipe(
        // the rows arrive with the commit, in one round trip
        sql.withTransaction,
        Effect.map((rows) => (rows()?.length ?? 0) > 0),
        toStoreError("replaceQuietState")
      ),
    /**
     * Erases a stream that is no longer read. Its log rows become silent and empty, but keep their positions and event ids. The newest
     * row is emptied first, so no reader ever gets an event whose `before` is already erased. Runs in many small
     * transactions; if the erasure was interrupted, call this again. Returns false as soon as the stream has an event after `readTo`, the
     * position up to which all readers have read: forgetting a record may add events at any time.
     */
    eraseStream: Effect.fnUntraced(function*(owner: Owner, key: StreamKey, readTo: number) {
      for (;;) {
        const state = yield* eraseSome(owner, key, readTo)
        if (state !== "more") return state === "erased"
        yield* Effect.yieldNow
      }
    })
  }
}
