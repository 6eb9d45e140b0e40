/**
 * The port to all durable state of capture and the event log. Each part has its interface in its own file:
 *
 * - `Ownership.ts`: the owners of shards, and of the relay
 * - `Streams.ts`: streams and their transactions. `StreamTx.ts`: the operations inside a transaction. `State.ts`, `Run.ts`: the states
 * - `StreamRecords.ts`: heads, pending rows and quarantined rows. `Holds.ts`: holds. `ForgottenRecords.ts`: forgotten records
 * - `EventLog.ts`: the log and its readers
 * - `AuditLog.ts`: operators' actions and reads. `History.ts`: samples for plots
 *
 * This file has the database itself, encryption and integrations. `Deliveries.ts` is the port to the state of deliveries.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { LogIdentity } from "../domain/ChangeEvent.ts"
import type { Expectation, PluginWrite } from "../domain/Expectation.ts"
import type { StreamKey } from "../domain/Model.ts"
import type { AuditLog, OperatorAction } from "./AuditLog.ts"
import type { EventLog } from "./EventLog.ts"
import type { ForgottenRecords } from "./ForgottenRecords.ts"
import type { History } from "./History.ts"
import type { Holds } from "./Holds.ts"
import type { Owner, Ownership } from "./Ownership.ts"
import type { IntegrationState } from "./State.ts"
import type { Operation, StoreError } from "./StoreError.ts"
import type { StreamRecords } from "./StreamRecords.ts"
import type { Streams } from "./Streams.ts"

export {
  Damaged,
  Fenced,
  Incompatible,
  incompatible,
  Misconfigured,
  misconfigured,
  MissingKey,
  missingKeys,
  OlderCopy,
  StoreError,
  Unavailable
} from "./StoreError.ts"

/** Why the store cannot be used; `since` is our clock, in ms. */
export interface Outage {
  readonly message: string
  readonly hint: string
  readonly since: number
}

/** A plugin's write that no record has ever shown. */
export interface UnconfirmedWrite extends StreamKey, Pick<PluginWrite, "name" | "plugin" | "delivery" | "depth"> {
  /** The record, or the kind of record, that was expected to show the write. */
  readonly key: Expectation["key"]
  /** Our clock, in ms. */
  readonly reportedAt: number
}

export class Store extends Context.Service<
  Store,
  Ownership & Streams & StreamRecords & Holds & ForgottenRecords & EventLog & AuditLog & History & {
    readonly identity: LogIdentity
    /** Whether opening the store created it. */
    readonly isNew: boolean
    /** Fails with `Incompatible` if a newer version has changed the store, so that this version cannot use it. */
    readonly checkVersion: Operation<void>
    /** Bytes of the whole database; with SQLite without its `-wal` file. */
    readonly size: Operation<number>
    /** Why the store is unavailable; null while it answers. Read from memory, without a query. */
    readonly outage: Effect.Effect<Outage | null>

    /**
     * Runs reads that belong to one response. On SQLite they run in one transaction, so they wait for other transactions once, not once per
     * read.
     */
    readonly batchReads: <A, R>(reads: Effect.Effect<A, StoreError, R>) => Effect.Effect<A, StoreError, R>

    /** Id of the key with which new content is encrypted; null if it is stored unencrypted. */
    readonly encryptionKey: string | null
    /** Encrypts all results in the journal with the current key, in many small transactions; returns how many it encrypted. */
    readonly encryptJournal: Operation<number>
    /** Ids of the keys with which content is or may be encrypted, and which this process does not have. */
    readonly missingKeys: Operation<ReadonlyArray<string>>
    /**
     * Deletes the ids of all keys except the current one, and returns them, if the current key encrypts all streams and the journal. Null
     * while a living process has another current key. An owner that may be frozen is fenced, because it could encrypt with such a key when it
     * wakes.
     */
    readonly retireKeys: Operation<ReadonlyArray<string> | null>

    /**
     * Removes deleted and overwritten content from the bytes of the store's files too. Call it after content was deleted or rewritten.
     * Returns false if another process is reading the store: call it again later. On PostgreSQL it does nothing, because the server's
     * vacuum does this.
     */
    readonly reclaim: Operation<boolean>

    /** All integrations in id order, including removed and erased ones. */
    readonly integrations: Operation<ReadonlyArray<IntegrationState>>
    /** The integration with this id; null if there is none. */
    readonly integration: (id: string) => Operation<IntegrationState | null>
    /** The number of saves of integrations that this process knows of: on PostgreSQL those of other processes within a second. Read from memory. */
    readonly integrationSaves: Effect.Effect<number>
    /** The integrations that are not active, and the active ones in other accounts than these. All accounts if absent. */
    readonly unavailableIntegrations: (
      accounts?: ReadonlySet<string>
    ) => Operation<ReadonlyArray<IntegrationState>>
    /** Saves an integration, together with the operator's action if there was one. */
    readonly saveIntegration: (
      owner: Owner,
      integration: IntegrationState,
      action: OperatorAction | null
    ) => Operation<void>

    /** Writes that a polled model can show and that two sweeps did not find, the newest first (L2). */
    readonly unconfirmedWrites: (limit: number) => Operation<ReadonlyArray<UnconfirmedWrite>>
  }
>()("rollcall/store/Store") {}
