/**
 * The `Store` port over any `SqlClient`: combines the tables, and has the statements on integrations, readers and generations.
 *
 * Invariants
 * 1. A transaction first reads the owner's epoch and share-locks its row   (I10, X20)
 */
import * as Arr from "effect/Array"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import { publishingStart } from "../EventLog.ts"
import { Processes } from "../Processes.ts"
import { Store, type StoreError } from "../Store.ts"
import { StoredSessions } from "../StoredSessions.ts"
import * as AuditTable from "./AuditTable.ts"
import * as DatabaseTime from "./DatabaseTime.ts"
import * as EncryptionTable from "./EncryptionTable.ts"
import * as EventTable from "./EventTable.ts"
import * as Fencing from "./Fencing.ts"
import * as ForgottenTable from "./ForgottenTable.ts"
import { Health } from "./Health.ts"
import * as HistoryTable from "./HistoryTable.ts"
import { checkVersion, migrate } from "./Migrations.ts"
import * as PublicationTable from "./PublicationTable.ts"
import { activeAccount, type Integer, type IntegrationRow, toIntegration } from "./Rows.ts"
import * as Signals from "./Signals.ts"
import { AllowLongStatement, convertAs, toStoreError, withRetry } from "./SqlRetry.ts"
import * as ExpectationTable from "./stream/ExpectationTable.ts"
import * as HoldTable from "./stream/HoldTable.ts"
import * as RecordTable from "./stream/RecordTable.ts"
import * as StreamTable from "./stream/StreamTable.ts"

const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const { outage } = yield* Health
  const { self } = yield* Processes
  const { identity, isNew } = yield* migrate
  let knownGeneration = identity.generation
  const signals = yield* Signals.make
  const cipher = yield* EncryptionTable.cipherOf(sql)
  yield* EncryptionTable.checkKeys(sql, cipher).pipe(withRetry("encryption"))
  const log = EventTable.make(sql, cipher)
  const audit = AuditTable.make(sql)
  const samples = HistoryTable.make(sql)
  const publications = PublicationTable.make(sql)
  const { fence } = Fencing.make(sql)
  const time = DatabaseTime.make(sql)
  /** The accounts of active integrations. Jumps from one to the next in the index, because there are few. */
  const accountsInUse = sql<{ account: string }>`
    WITH RECURSIVE used (account) AS (
      SELECT '' UNION ALL
      SELECT (SELECT min(${activeAccount(sql)}) FROM integrations WHERE ${activeAccount(sql)} > used.account) FROM used
      WHERE used.account IS NOT NULL
    ) SELECT account FROM used WHERE account > ''`
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
    ...EncryptionTable.make(sql, cipher, self),
    ...StreamTable.make(sql, log, cipher, { fence }),
    ...Fencing.makeTakeover(sql, self, () => knownGeneration, EncryptionTable.registerKey(sql, cipher)),
    awaitDecision,
    integrationSaves: signals.after("integration", -1),
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
  const singleTransactions = convertAs<Omit<Store["Service"], keyof typeof selfRetrying>>(withRetry, {
    ...RecordTable.make(sql, cipher),
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
    integration: (id) =>
      Effect.flatMap(
        sql<IntegrationRow>`SELECT id, state FROM integrations WHERE id = ${id}`,
        ([row]) => row === undefined ? Effect.succeed(null) : toIntegration(row)
      ),
    // two statements, because the databases would read all integrations to join them with the accounts
    unavailableIntegrations: Effect.fnUntraced(function*(accounts) {
      const used = accounts === undefined ? [] : yield* accountsInUse
      const others = used.flatMap(({ account }) => accounts?.has(account) === true ? [] : [account])
      const rows = yield* sql<IntegrationRow>`
        SELECT id, state FROM integrations WHERE ${activeAccount(sql)} IN ${sql.in(["", ...others])} ORDER BY id`
      return yield* Effect.forEach(rows, toIntegration)
    }),
    saveIntegration: Effect.fnUntraced(function*(owner, integration, action) {
      yield* fence(owner)
      yield* sql`
        INSERT INTO integrations ${sql.insert({ id: integration.id, state: JSON.stringify(integration) })}
        ON CONFLICT (id) DO UPDATE SET state = excluded.state`
      if (action !== null) yield* audit.record(action)
      yield* signals.raise("integration")
    }, sql.withTransaction),
    recordAction: audit.record,
    auditLog: audit.list,
    recordRead: audit.recordRead,
    auditedReads: audit.reads,
    pruneReads: audit.pruneReads,
    recordSample: samples.record,
    history: samples.since,

    readerPosition: (reader) =>
      sql<{ position: number }>`SELECT position FROM readers WHERE name = ${reader}`.pipe(
        Effect.map(([row]) => row?.position ?? 0)
      ),
    noteReaders: (readers) =>
      Effect.flatMap(time, (now) =>
        Effect.forEach(readers, (name) =>
          sql`
            INSERT INTO readers (name, position, needed_at) VALUES (${name}, 0, ${now})
            ON CONFLICT (name) DO UPDATE SET needed_at = excluded.needed_at`, { discard: true })),
    // a time in the future was noted before the clock was set back   (W4)
    neededPositions: (within) =>
      Effect.flatMap(time, (now) =>
        Effect.map(
          sql<{ position: Integer }>`
            SELECT position FROM readers WHERE abs(needed_at - ${now}) < ${within}`,
          Arr.map(({ position }) => Number(position))
        )),
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
> = Layer.provideMerge(Layer.effectContext(make), Layer.merge(Processes.layer, StoredSessions.layer))
