/**
 * The `Store` port over any `SqlClient`: integrations, streams, ownership, readers, counts and lists.
 *
 * Invariants
 * 1. A transaction first reads the owner's epoch and share-locks its row   (I10, X20)
 * 2. One transaction at a time runs per stream, and per integration (see `Locks`)
 */
import * as Arr from "effect/Array"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import { genesis } from "../../domain/ChangeEvent.ts"
import type { StreamKey } from "../../domain/Model.ts"
import { publishingStart } from "../EventLog.ts"
import type { Owner } from "../Ownership.ts"
import { Processes } from "../Processes.ts"
import type { StreamState } from "../State.ts"
import { incompatible, Store, type StoreError } from "../Store.ts"
import type { StoredSessions } from "../StoredSessions.ts"
import type { LiveRecord, PendingStatus } from "../StreamRecords.ts"
import type { StreamCounts } from "../Streams.ts"
import type { StreamTx } from "../StreamTx.ts"
import * as AuditTable from "./AuditTable.ts"
import * as Checksum from "./Checksum.ts"
import type { Content } from "./Checksum.ts"
import type { Row } from "./Columns.ts"
import * as ContentCipher from "./ContentCipher.ts"
import * as EncryptionTable from "./EncryptionTable.ts"
import * as EventTable from "./EventTable.ts"
import * as Fencing from "./Fencing.ts"
import * as ForgottenTable from "./ForgottenTable.ts"
import { Health } from "./Health.ts"
import * as HistoryTable from "./HistoryTable.ts"
import * as Locks from "./Locks.ts"
import { checkVersion, migrate } from "./Migrations.ts"
import * as ProcessTable from "./ProcessTable.ts"
import * as PublicationTable from "./PublicationTable.ts"
import {
  inBatches,
  type IntegrationRow,
  listedPendings,
  rowsPerStatement,
  type StreamRow,
  toIntegration,
  toState
} from "./Rows.ts"
import { among, insertion } from "./RowValues.ts"
import * as SessionTable from "./SessionTable.ts"
import * as Signals from "./Signals.ts"
import { AllowLongStatement, convertEach, toStoreError, withRetry } from "./SqlRetry.ts"
import * as ExpectationTable from "./stream/ExpectationTable.ts"
import * as HoldTable from "./stream/HoldTable.ts"
import * as RunTable from "./stream/RunTable.ts"
import * as StreamTransaction from "./stream/StreamTransaction.ts"

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

const missing = ({ integration, model }: StreamKey) =>
  incompatible(`the stream ${integration}/${model} is not in the store`)

const idsOf = Arr.map(({ id }: { readonly id: string }) => id)

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

const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const { outage } = yield* Health
  const { self } = yield* Processes
  const { identity, isNew } = yield* migrate
  let knownGeneration = identity.generation
  const signals = yield* Signals.make
  const cipher = ContentCipher.make(yield* ContentCipher.EncryptionKeys)
  yield* EncryptionTable.checkKeys(sql, cipher)
  const log = EventTable.make(sql, cipher)
  const { checked } = Checksum.make(cipher)
  const audit = AuditTable.make(sql)
  const samples = HistoryTable.make(sql)
  const publications = PublicationTable.make(sql)
  const { fence } = Fencing.make(sql)
  const locks = Locks.make(sql)
  const is = (key: StreamKey) => sql`integration = ${key.integration} AND model = ${key.model}`
  // these counts use narrow indexes only and read no rows
  const rowCounts = sql`s.key,
    (SELECT count(*) FROM heads h WHERE h.stream = s.key AND h.live = 1) AS live,
    (SELECT count(*) FROM quarantine q WHERE q.stream = s.key) AS quarantined,
    (SELECT count(*) FROM stale_records o WHERE o.stream = s.key) AS stale`
  const keyOf = (key: StreamKey) => sql`(SELECT key FROM streams WHERE ${is(key)})`

  const open = (key: StreamKey): Effect.Effect<StreamTx, StoreError> =>
    locks.streams(key.integration).pipe(
      Effect.andThen(sql<StreamRow>`SELECT key, integration, model, state FROM streams WHERE ${is(key)}`),
      Effect.flatMap(([row]) =>
        row === undefined ? Effect.fail(missing(key)) : Effect.zip(Effect.succeed(row), toState(row))
      ),
      Effect.map(([row, state]) =>
        StreamTransaction.make(sql, log, row.key, state, cipher, (model) => open({ ...key, model }))
      ),
      toStoreError("begin")
    )

  /**
   * One bounded transaction of `eraseStream`; returns true once nothing is left. The row of the stream, which has the key, is deleted
   * last.
   */
  const eraseSome = Effect.fnUntraced(
    function*(owner: Owner, key: StreamKey) {
      yield* fence(owner)
      yield* locks.streams(key.integration)
      const [row] = yield* sql<{ key: number }>`SELECT key FROM streams WHERE ${is(key)}`
      if (row === undefined) return true
      const stream = row.key
      if ((yield* log.eraseSome(stream)) > 0) return false
      for (const name of streamTables) {
        const table = sql(name)
        const id = sql(name === "quarantine" ? "hash" : "id")
        const deleted = yield* sql`DELETE FROM ${table} WHERE stream = ${stream} AND ${id} IN (
          SELECT ${id} FROM ${table} WHERE stream = ${stream} LIMIT ${rowsPerStatement}) RETURNING stream`
        if (deleted.length > 0) return false
      }
      yield* sql`DELETE FROM streams WHERE key = ${stream}`
      return true
    },
    sql.withTransaction,
    withRetry("eraseStream")
  )

  const { awaitDecision, ...holds } = HoldTable.make(sql, signals)

  /** Operations that retry their own transactions, or that need no transaction. */
  const selfRetrying = {
    identity,
    isNew,
    outage,
    // on SQLite, the transaction does not take the write lock, which another process may hold
    batchReads: <A, R>(reads: Effect.Effect<A, StoreError, R>) =>
      sql.onDialectOrElse({
        pg: () => reads,
        orElse: () =>
          reads.pipe(
            sql.withTransaction,
            Effect.provideService(SqlClient.BeginTransaction, "BEGIN"),
            toStoreError("read")
          )
      }),
    encryptionKey: cipher.current,
    ...EncryptionTable.make(sql, cipher),
    ...Fencing.makeTakeover(sql, self, () => knownGeneration),
    transact: <A, E>(owner: Owner, key: StreamKey, body: (tx: StreamTx) => Effect.Effect<A, E>) =>
      fence(owner).pipe(
        Effect.andThen(open(key)),
        Effect.flatMap(body),
        sql.withTransaction,
        withRetry("transact")
      ),
    replaceQuietState: (owner: Owner, before: StreamState, after: StreamState) =>
      sql`
        UPDATE streams SET state = ${JSON.stringify(after)}
        WHERE ${is(before)} AND state = ${JSON.stringify(before)}
          AND EXISTS (SELECT 1 FROM ownership WHERE scope = ${owner.scope} AND epoch = ${owner.epoch} ${locks.shared})
          AND NOT EXISTS (SELECT 1 FROM pending p WHERE p.stream = streams.key)
          AND NOT EXISTS (SELECT 1 FROM stale_records r WHERE r.stream = streams.key)
          AND NOT EXISTS (SELECT 1 FROM holds h WHERE h.stream = streams.key AND ${sql.literal(HoldTable.isUndecided)})
        RETURNING key`.pipe(
        sql.withTransaction,
        Effect.map((rows) => rows.length > 0),
        toStoreError("replaceQuietState")
      ),
    eraseStream: Effect.fnUntraced(function*(owner: Owner, key: StreamKey) {
      while (!(yield* eraseSome(owner, key))) yield* Effect.yieldNow
    }),
    awaitDecision,
    // deleted content is already overwritten with zeros in the pages of the file, but older copies of the pages are in the `-wal` file
    reclaim: sql.onDialectOrElse({
      pg: () => Effect.succeed(true),
      orElse: () =>
        sql<{ busy: number }>`PRAGMA wal_checkpoint(TRUNCATE)`.pipe(
          Effect.map(([row]) => row?.busy !== 1),
          Effect.provideService(AllowLongStatement, true),
          withRetry("reclaim")
        )
    }),
    awaitLog: log.awaitAfter,
    prune: log.prune,
    purgeErased: log.purgeErased
  }

  /** Operations that are one statement or one transaction, which `withRetry` retries as a whole. */
  const singleTransactions = convertEach<Omit<Store["Service"], keyof typeof selfRetrying>>(withRetry, {
    ...holds,
    ...ForgottenTable.make(sql, cipher, { fence }),
    checkVersion: checkVersion(sql),
    size: sql.onDialectOrElse({
      pg: () => sql<{ bytes: number }>`SELECT pg_database_size(current_database()) AS bytes`,
      orElse: () =>
        sql<{ bytes: number }>`
          SELECT c.page_count * s.page_size AS bytes FROM pragma_page_count AS c, pragma_page_size AS s`
    }).pipe(Effect.map(([row]) => Number(row?.bytes))),
    unconfirmedWrites: ExpectationTable.make(sql).unconfirmed,
    readLog: log.log,
    searchLog: log.search,
    echoesOf: log.echoesOf,
    logRange: log.range,
    chains: log.chains,
    positionBefore: log.positionBefore,

    integrations: Effect.flatMap(
      sql<IntegrationRow>`SELECT id, state FROM integrations ORDER BY id`,
      Effect.forEach(toIntegration)
    ),
    saveIntegration: Effect.fnUntraced(function*(owner, integration, action) {
      yield* fence(owner)
      yield* sql`
        INSERT INTO integrations ${sql.insert({ id: integration.id, state: JSON.stringify(integration) })}
        ON CONFLICT (id) DO UPDATE SET state = excluded.state`
      if (action !== null) yield* audit.record(action)
    }, sql.withTransaction),
    recordAction: audit.record,
    auditLog: audit.list,
    recordReads: audit.recordReads,
    auditedReads: audit.reads,
    pruneReads: audit.pruneReads,
    recordSample: samples.record,
    history: samples.since,

    ensureStreams: (streams) =>
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
      Effect.forEach(toState)
    ),
    streamsOf: (integration) =>
      Effect.flatMap(
        sql<StreamRow>`
          SELECT key, integration, model, state FROM streams WHERE integration = ${integration} ORDER BY model`,
        Effect.forEach(toState)
      ),
    stream: (key) =>
      sql<StreamRow>`SELECT key, integration, model, state FROM streams WHERE ${is(key)}`.pipe(
        Effect.flatMap(([row]) => row === undefined ? Effect.succeed(null) : toState(row))
      ),
    runs: (key) => RunTable.list(sql, is(key)),
    streamsAtPosition: sql<StreamRow & { newest: number; chain: string }>`
      SELECT s.key, s.integration, s.model, s.state, c.position AS newest, c.chain
      FROM log_counter c LEFT JOIN streams s ON TRUE ORDER BY s.integration, s.model`.pipe(
      Effect.flatMap((rows) =>
        Effect.map(Effect.forEach(rows.filter(({ key }) => key !== null), toState), (streams) => ({
          position: Number(rows[0]?.newest),
          chain: rows[0]?.chain ?? genesis,
          streams
        }))
      )
    ),

    liveNotSeenSince: (key, runId, after, limit) =>
      sql<{ id: string }>`
        SELECT id FROM heads
        WHERE stream = ${keyOf(key)} AND id > ${after ?? ""} AND live = 1 AND last_run_id < ${runId}
        ORDER BY id LIMIT ${limit}`.pipe(Effect.map(idsOf)),
    liveIds: (key, ids) =>
      inBatches(ids, (some) =>
        sql<{ id: string }>`
          SELECT id FROM heads WHERE stream = ${keyOf(key)} AND id ${among(sql, some)} AND live = 1`).pipe(
          Effect.map((rows) => new Set(idsOf(rows)))
        ),
    controlIds: (key, runId, limit) => {
      const seen = sql`SELECT id FROM heads WHERE stream = ${keyOf(key)} AND live = 1 AND last_run_id >= ${runId}`
      return sql<{ id: string }>`
        SELECT id FROM (${seen} ORDER BY id LIMIT ${limit}) AS first
        UNION
        SELECT id FROM (${seen} ORDER BY id DESC LIMIT ${limit}) AS last
        ORDER BY id`.pipe(Effect.map(idsOf))
    },
    // one statement, so that the position and the records are read at one moment
    records: (key, after, limit, id) =>
      sql<Content & Omit<LiveRecord, "id"> & { id: string | null; newest: number; chain: string }>`
        SELECT c.position AS newest, c.chain, r.id, r.version, r.generation, r.position, r.content, r.content_sum, r.redaction
        FROM log_counter c LEFT JOIN (
          SELECT h.id, h.version, e.generation, e.position, e.content, e.content_sum, e.redaction
          FROM heads h JOIN events e ON e.position = h.position
          WHERE h.stream = ${keyOf(key)} AND h.id > ${after ?? ""} AND h.live = 1 AND e.content IS NOT NULL
            ${id === undefined ? sql.literal("") : sql`AND h.id = ${id}`}
          ORDER BY h.id LIMIT ${limit}
        ) r ON TRUE ORDER BY r.id`.pipe(
        Effect.flatMap(checked),
        Effect.map((rows) => ({
          position: Number(rows[0]?.newest),
          chain: rows[0]?.chain ?? genesis,
          records: rows.flatMap(({ content, id, generation, redaction, version }) =>
            id === null ? [] : [{ id, version, generation, content, redaction }]
          )
        }))
      ),
    pendingRows: ({ after, hold, key, limit }) => {
      const conditions = [
        ...key === undefined ? [] : [is(key)],
        ...hold === undefined ? [] : [sql`p.hold = ${hold}`],
        ...after === undefined ? [] : [sql`p.id > ${after}`]
      ]
      return sql<Row>`
        SELECT ${listedPendings.columns()} FROM pending p JOIN streams s ON s.key = p.stream
        WHERE ${sql.and(conditions)} ORDER BY s.integration, s.model, p.id LIMIT ${limit}`.pipe(
        Effect.map(Arr.map(listedPendings.fromRow))
      )
    },
    counts: Effect.gen(function*() {
      const streams = yield* sql<StreamKey & CountRow>`
        SELECT s.integration, s.model, ${rowCounts} FROM streams s ORDER BY s.integration, s.model`
      const pending = yield* sql<
        PendingCount
      >`SELECT stream, status, count(*) AS count FROM pending GROUP BY stream, status`
      const counts = withPending(pending)
      return streams.map((row) => ({ integration: row.integration, model: row.model, ...counts(row) }))
    }),
    streamPage: ({ after, integrations, limit, models }) =>
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
      }).pipe(sql.withTransaction),

    pruneQuarantine: (before) =>
      sql`DELETE FROM quarantine WHERE last_at < ${before} RETURNING stream`.pipe(Effect.map((rows) => rows.length)),

    readerPosition: (reader) =>
      sql<{ position: number }>`SELECT position FROM readers WHERE name = ${reader}`.pipe(
        Effect.map(([row]) => row?.position ?? 0)
      ),
    saveReaderPosition: (owner, reader, position, published = null) =>
      fence(owner).pipe(
        Effect.andThen(sql`
          INSERT INTO readers (name, position) VALUES (${reader}, ${position})
          ON CONFLICT (name) DO UPDATE SET position = excluded.position`),
        Effect.andThen(published === null ? Effect.succeed([]) : publications.record(position, published)),
        sql.withTransaction
      ),
    placeOf: publications.placeOf,
    prunePlaces: publications.prune,

    raiseGeneration: Effect.fnUntraced(function*(owners, generation) {
      yield* Effect.forEach(owners, fence, { discard: true })
      const raised = yield* sql`
        UPDATE meta SET generation = ${generation} WHERE generation < ${generation} RETURNING generation`
      if (raised.length === 0) return
      yield* sql`UPDATE log_counter SET pruned = position, pruned_chain = chain`
      yield* sql`
        INSERT INTO readers (name, position) SELECT ${publishingStart}, 0 WHERE TRUE
        ON CONFLICT (name) DO NOTHING`
      yield* sql`UPDATE readers SET position = (SELECT position FROM log_counter)`
      // a restored store may contain sessions that were ended after its backup
      yield* sql`DELETE FROM sessions`
      knownGeneration = generation
    }, sql.withTransaction)
  })

  return Context.make(Store, { ...selfRetrying, ...singleTransactions }).pipe(Context.add(Signals.Signals, signals))
})

/** Migrates the database, then provides the ports over it. */
export const layer: Layer.Layer<
  Store | Signals.Signals | Processes | StoredSessions,
  StoreError,
  SqlClient.SqlClient | Health
> = Layer.provideMerge(Layer.effectContext(make), Layer.merge(ProcessTable.layer, SessionTable.layer))
