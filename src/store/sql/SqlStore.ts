/**
 * The store over any `SqlClient`: joins the tables, and has the operations on the database as a whole.
 *
 * Invariants
 * 1. A transaction first reads the owner's epoch and share-locks its row   (I10, X20)
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { publishingStart } from "../EventLog.ts"
import { Processes } from "../Processes.ts"
import type { Owner } from "../State.ts"
import type { StoreError } from "../StoreError.ts"
import * as AuditTable from "./AuditTable.ts"
import * as EncryptionTable from "./EncryptionTable.ts"
import * as EventTable from "./EventTable.ts"
import * as Fencing from "./Fencing.ts"
import * as ForgottenTable from "./ForgottenTable.ts"
import { Health } from "./Health.ts"
import * as HistoryTable from "./HistoryTable.ts"
import * as IntegrationTable from "./IntegrationTable.ts"
import { checkVersion, migrate } from "./Migrations.ts"
import * as ReaderTable from "./ReaderTable.ts"
import * as Signals from "./Signals.ts"
import { AllowLongStatement, convertEach, toStoreError, withRetry } from "./SqlRetry.ts"
import * as ExpectationTable from "./stream/ExpectationTable.ts"
import * as HoldTable from "./stream/HoldTable.ts"
import * as RecordTable from "./stream/RecordTable.ts"
import * as StreamTable from "./stream/StreamTable.ts"

/** Migrates the database first. */
export const make = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const { outage } = yield* Health
  const { self } = yield* Processes
  const { identity, isNew } = yield* migrate
  let knownGeneration = identity.generation
  const signals = yield* Signals.make
  const cipher = yield* EncryptionTable.cipherOf(sql)
  yield* EncryptionTable.checkKeys(sql, cipher).pipe(withRetry("encryption"))
  const log = EventTable.make(sql, cipher)
  const fencing = Fencing.make(sql)

  const reclaim: Effect.Effect<boolean, SqlError> = sql.onDialectOrElse({
    pg: () => Effect.succeed(true),
    // deleted content is already overwritten with zeros in the pages of the file, but older copies of the pages are in the `-wal` file
    orElse: () =>
      sql<{ busy: number }>`PRAGMA wal_checkpoint(TRUNCATE)`.pipe(
        Effect.map(([row]) => row?.busy !== 1),
        Effect.provideService(AllowLongStatement, true)
      )
  })

  const store = {
    identity,
    /** Whether opening the store created it. */
    isNew,
    /** Why the store is unavailable; null while it answers. Read from memory, without a query. */
    outage,
    /** Id of the key with which new content is encrypted; null if it is stored unencrypted. */
    encryptionKey: cipher.current,
    /**
     * Runs reads that belong to one response. On SQLite they run in one transaction, so they wait for other transactions once, not once per
     * read.
     */
    batchReads: <A, R>(reads: Effect.Effect<A, StoreError, R>): Effect.Effect<A, StoreError, R> =>
      sql.onDialectOrElse({
        pg: () => reads,
        // the transaction does not take the write lock, which another process may hold
        orElse: () =>
          reads.pipe(
            sql.withTransaction,
            Effect.provideService(SqlClient.BeginTransaction, "BEGIN"),
            toStoreError("read")
          )
      }),
    /**
     * Waits until this process knows of more than `seen` decisions on holds; returns how many it knows of. On PostgreSQL it may take a
     * second to notice a decision that another process saved.
     */
    awaitDecision: (seen: number) => signals.after("decision", seen),
    /** The number of saves of integrations that this process knows of: on PostgreSQL those of other processes within a second. Read from memory. */
    integrationSaves: signals.after("integration", -1),
    ...EncryptionTable.make(sql, cipher, self),
    ...StreamTable.make(sql, log, cipher, fencing),
    ...Fencing.makeTakeover(sql, self, () => knownGeneration, EncryptionTable.registerKey(sql, cipher)),
    ...log.readers,
    ...log.retention,

    // each of these is one statement or one transaction, which `withRetry` retries as a whole
    ...convertEach(withRetry, {
      ...RecordTable.make(sql, cipher),
      ...HoldTable.make(sql, signals),
      ...ForgottenTable.make(sql, cipher, fencing),
      ...IntegrationTable.make(sql, fencing, signals),
      ...AuditTable.make(sql),
      ...HistoryTable.make(sql),
      ...ReaderTable.make(sql, fencing),
      ...log.queries,
      /** Writes that a polled model can show and that two sweeps did not find, the newest first (L2). */
      unconfirmedWrites: ExpectationTable.make(sql).unconfirmed,
      /** Fails with `Incompatible` if a newer version has changed the store, so that this version cannot use it. */
      checkVersion: checkVersion(sql),
      /** Bytes of the whole database; with SQLite without its `-wal` file. */
      size: sql.onDialectOrElse({
        pg: () => sql<{ bytes: number }>`SELECT pg_database_size(current_database()) AS bytes`,
        orElse: () =>
          sql<{ bytes: number }>`
          SELECT c.page_count * s.page_size AS bytes FROM pragma_page_count AS c, pragma_page_size AS s`
      }).pipe(Effect.map(([row]) => Number(row?.bytes))),
      /**
       * Removes deleted and overwritten content from the bytes of the store's files too. Call it after content was deleted or rewritten.
       * Returns false if another process is reading the store: call it again later. On PostgreSQL it does nothing, because the server's
       * vacuum does this.
       */
      reclaim,
      /**
       * Restarts the log in a later generation: existing rows are no longer read, and every reader, including `publishingStart`, moves to
       * the new start. Positions continue. A process that already has the store open keeps the identity that it read then, and can no longer
       * take over ownership. `owners`: the owners of all streams; fails if one of them is fenced. Ends all sessions. Does nothing if
       * `generation` is not later than the current one.
       */
      raiseGeneration: Effect.fnUntraced(function*(owners: ReadonlyArray<Owner>, generation: number) {
        yield* Effect.forEach(owners, fencing.fence, { discard: true })
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
  }
  return { store, signals }
})
