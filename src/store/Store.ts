/**
 * The port to all durable state: integrations, streams, heads, pending rows, the event log and its readers.
 *
 * Invariants
 * 1. All writes of a `transact` body are committed together, or none of them is   (I2)
 * 2. Positions are gap-free and become visible in order, so a reader that queries `position > mine` misses no event   (I5, X13)
 * 3. If the owner's epoch is no longer the newest, its transaction fails with `Fenced` and changes nothing   (I10)
 *
 * Gotchas
 * - Content is stored once, in the event log: `before` of a row is `after` of the record's previous row.
 * - Readers never receive a silent row of the log. It has a position, a version and, unless it was erased, content.
 */
import type { NonEmptyReadonlyArray } from "effect/Array"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { JsonObject } from "../domain/Canonical.ts"
import type { LogEntry, LogIdentity, NewEvent } from "../domain/ChangeEvent.ts"
import type { Expectation, OpenExpectation, PluginWrite } from "../domain/Expectation.ts"
import type { ForgettableRecord, Forgotten } from "../domain/Forgotten.ts"
import type { DerivedModel, StreamKey } from "../domain/Model.ts"
import type { References } from "../domain/Reference.ts"
import type { AuditEntry, OperatorAction, ReadSummary } from "./AuditLog.ts"
import type { EventPlace, FoundEvents, FoundRow, LogQuery, LogSearch, Publication, StoredRow } from "./EventLog.ts"
import type { ForgettingProgress, ForgottenRecord } from "./ForgottenRecords.ts"
import type { HistorySample } from "./History.ts"
import type { Hold, HoldState, ReleaseMode } from "./Holds.ts"
import type { EndedRun } from "./Run.ts"
import type { IntegrationState, StreamCounts, StreamQuery, StreamState } from "./State.ts"
import type { StoreError } from "./StoreError.ts"
import type { Head, Pending, PendingStatus, Quarantined, QuarantinedRow, StoredContent } from "./StreamRecords.ts"
// ---- values -------------------------------------------------------------------------------------------------------

export {
  Damaged,
  Fenced,
  Incompatible,
  incompatible,
  Misconfigured,
  misconfigured,
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

export interface Owner {
  readonly scope: string
  readonly epoch: number
}

/** Everything that one transaction writes about one record. The store assigns positions to the events, in array order. */
export interface RecordWrite {
  /** `position` is the position of the record's row *before* `events`; the store replaces it with the position of the last event. */
  readonly head: Head
  readonly events: ReadonlyArray<NewEvent>
  /** `after` of the last event, as a value; absent if not known without parsing it. */
  readonly content?: JsonObject | null
  /** Id of the rules that were applied to the events' content; absent if not known. */
  readonly redaction?: string
  /** True if readers do not receive the events: these are ordinary rows of the log that `readLog` skips. */
  readonly silent?: boolean
  /** The record is deleted and its source erased its content: `purgeErased` also removes the content from the log (D11, D23). */
  readonly erased?: boolean
  /**
   * The content of other records that the record repeats, before and now; absent if unchanged. `before` is null if it is unknown: then no
   * record becomes stale.
   */
  readonly references?: { readonly before: References | null; readonly after: References }
}

/** Records to read again because content that they repeat has changed elsewhere; "everything" if there are too many to list. */
export type StaleRecords = ReadonlyArray<string> | "everything"

/** A record whose newest event belongs to an earlier generation. */
export interface OlderGenerationRecord extends Pick<StoredContent, "redaction"> {
  readonly head: Head
  readonly remoteId: string | null
  readonly changedAt: string | null
  /** Content as published; null for a delete. */
  readonly content: string | null
}

/** A record as published. */
export interface LiveRecord extends StoredContent {
  readonly id: string
  readonly version: number
  readonly generation: number
}

/** A row of the log whose content may have to be rewritten. */
export interface LogContent extends Pick<LogEntry, "kind" | "remoteId" | "changes" | "transitions"> {
  readonly position: number
  readonly after: StoredContent | null
  /** Content of the record's previous row; null if there is none, or it is no longer kept. */
  readonly before: StoredContent | null
  /** Id of the rules that were applied to the row, even if it has no content; null if not known. */
  readonly redaction: string | null
}

/** The new content of a log row. All other columns of the row stay. */
export interface RewrittenContent
  extends Pick<LogContent, "position" | "remoteId" | "changes" | "transitions" | "redaction">
{
  readonly after: string | null
}

/** The hash and the number of the rows of a hold at one moment. An approval refers to exactly these rows. */
export interface HoldPlan {
  /** Identifies these rows, with their content. */
  readonly hash: string
  readonly rows: number
}

/** A hold with its stream and its current number of rows. */
export type ListedHold = StreamKey & Hold & { readonly rows: number }

/** A plugin's write that no record has ever shown. */
export interface UnconfirmedWrite extends StreamKey, Pick<PluginWrite, "name" | "plugin" | "delivery" | "depth"> {
  /** The record, or the kind of record, that was expected to show the write. */
  readonly key: Expectation["key"]
  /** Our clock, in ms. */
  readonly reportedAt: number
}

export type { FoundEvents, FoundRow, LogFilter, LogQuery, LogSearch, StoredRow } from "./EventLog.ts"

/**
 * Name of a reader that never reads: publishing starts after its position. That is the start of the generation (0 in the first one), or a
 * later position if retention had deleted events before a sink was configured.
 */
export const publishingStart = "publishing"
/** Name of the reader that publishes: all events up to its position are in the sink. Also the name of the publisher's ownership scope. */
export const relayReader = "relay"

/** The part of the log that can be read. */
export interface LogRange {
  readonly oldest: number
  readonly newest: number
}

/** Chains that identify a log's events (see `chainOf`), and a number that shows whether a reader may hold content that was removed. */
export interface LogChains extends LogRange {
  /**
   * The number of removals of content from rows that readers may not have read yet. A reader that holds content compares it with the
   * number from before it read the content; if they differ, it reads the content again   (I11).
   */
  readonly removals: number
  /** The chain at `newest`. */
  readonly chain: string
  readonly chains: ReadonlyArray<string | null>
}

// ---- the port -----------------------------------------------------------------------------------------------------

type Operation<A> = Effect.Effect<A, StoreError>

/** The operations of a transaction on one stream. Valid only inside its `transact`. */
export interface StreamTx {
  /** As committed when the transaction started. */
  readonly state: StreamState
  readonly heads: (ids: ReadonlyArray<string>) => Operation<ReadonlyMap<string, Head>>
  readonly pending: (ids: ReadonlyArray<string>) => Operation<ReadonlyMap<string, Pending>>
  /** Content (`after`) of the log rows at these positions; null if the content was erased or the row is a delete. */
  readonly contents: (positions: ReadonlyArray<number>) => Operation<ReadonlyMap<number, StoredContent | null>>
  /** The content of the record's previous row (for a deleted record, its last content), by position. */
  readonly beforeImages: (positions: ReadonlyArray<number>) => Operation<ReadonlyMap<number, StoredContent | null>>
  /** Pending rows of one status in id order, at most `limit`, after `after`. */
  readonly pendingWithStatus: (
    status: PendingStatus,
    after: string | null,
    limit: number
  ) => Operation<ReadonlyArray<Pending>>
  /** All pending rows in id order, at most `limit`, after `after`. */
  readonly allPending: (after: string | null, limit: number) => Operation<ReadonlyArray<Pending>>
  /** How many records of the stream are live, as published. */
  readonly liveCount: Operation<number>
  /** How many records at least one confirmation has found absent. */
  readonly absentCount: Operation<number>
  /** The stream's holds that are neither approved nor canceled, in id order. */
  readonly holds: Operation<ReadonlyArray<Hold>>
  /** Assigns the id. */
  readonly openHold: (hold: Omit<Hold, "id">) => Operation<Hold>
  readonly saveHold: (hold: Hold) => Operation<void>
  readonly holdSize: (hold: number) => Operation<number>
  /** Pending rows of one hold, except disputed ones, in id order, at most `limit`, after `after`. */
  readonly pendingOfHold: (hold: number, after: string | null, limit: number) => Operation<ReadonlyArray<Pending>>
  /** Marks records as seen by a run; never lowers the mark. */
  readonly markSeen: (ids: ReadonlyArray<string>, runId: number) => Operation<void>
  readonly putPending: (rows: ReadonlyArray<Pending>) => Operation<void>
  readonly dropPending: (ids: ReadonlyArray<string>) => Operation<void>
  /** Adds the rows. If a row with the same hash exists, its count is increased and its content is replaced. */
  readonly quarantine: (rows: ReadonlyArray<Quarantined>) => Operation<void>
  /** Quarantined rows in the order of their hashes, at most `limit`, after `after`. */
  readonly quarantined: (after: string | null, limit: number) => Operation<ReadonlyArray<QuarantinedRow>>
  /** Replaces the quarantined rows that have these hashes. New rows with the same hash are combined, and their counts are added. */
  readonly replaceQuarantined: (
    hashes: ReadonlyArray<string>,
    rows: ReadonlyArray<QuarantinedRow>
  ) => Operation<void>
  /** Rows of the log before position `before`, the newest first, at most `limit`. Silent rows are included. */
  readonly logContents: (before: number, limit: number) => Operation<ReadonlyArray<LogContent>>
  /** Replaces the content of log rows that this transaction has read. Positions, event ids and chains stay. */
  readonly rewriteLog: (rows: ReadonlyArray<RewrittenContent>) => Operation<void>
  /** Raises `LogChains.removals`. The log's counter is locked from this call to the commit. */
  readonly noteRemoval: Operation<void>
  /** The next stale records to read again, in id order, at most `limit`. */
  readonly takeStale: (limit: number) => Operation<StaleRecords>
  /**
   * Marks records that `takeStale` returned as refreshed, after they were read again. A record that became stale again in the meantime
   * stays stale.
   */
  readonly markRefreshed: (ids: ReadonlyArray<string>) => Operation<void>
  /** Clears the stream's refresh queue; returns how many records were queued. */
  readonly clearStale: Operation<number>
  /** Queues these records to be read again. */
  readonly markStale: (ids: ReadonlyArray<string>) => Operation<void>
  /** The stream of a derived model, in the same transaction: its `state`, `heads`, `contents`, `saveState` and `write`. */
  readonly derived: (model: DerivedModel) => Operation<StreamTx>
  /** The derived record that `setDerivedIds` last assigned to each source record, by id of the source record. */
  readonly derivedIds: (ids: ReadonlyArray<string>) => Operation<ReadonlyMap<string, string>>
  /**
   * The live source records of each derived record, with the log row of their content, by derived id; in id order, at most `limit` per
   * derived id.
   */
  readonly liveSources: (
    derivedIds: ReadonlyArray<string>,
    limit: number
  ) => Operation<ReadonlyMap<string, ReadonlyArray<{ readonly id: string; readonly position: number }>>>
  /** The deleted source records of each derived record, by derived id. */
  readonly deletedSources: (derivedIds: ReadonlyArray<string>) => Operation<ReadonlyMap<string, ReadonlyArray<string>>>
  /** Assigns derived records, by id of the source record; null if the source record contains no derived record. */
  readonly setDerivedIds: (derivedIds: ReadonlyMap<string, string | null>) => Operation<void>
  /** Heads whose log row belongs to a generation before `generation`, with that row; in id order after `after`, at most `limit`. */
  readonly olderGenerationRecords: (
    generation: number,
    after: string | null,
    limit: number
  ) => Operation<ReadonlyArray<OlderGenerationRecord>>
  /** Deletes log rows of generations before `generation`, at most `limit`; returns how many. Heads must no longer refer to these rows. */
  readonly deleteOlderGenerationEvents: (generation: number, limit: number) => Operation<number>
  /** True if a record of the stream is still expected to show a plugin's write. */
  readonly hasExpectations: Operation<boolean>
  /** Open expectations with these keys, in the order of their writes. */
  readonly openExpectations: (keys: ReadonlyArray<string>) => Operation<ReadonlyArray<OpenExpectation>>
  /** Saves that this record shows the expected write. */
  readonly recordMatch: (expectation: OpenExpectation, record: string) => Operation<void>
  /** Counts a complete sweep for every expectation whose write was made before it, and deletes the expectations that need no report. */
  readonly countSweep: (runId: number) => Operation<void>
  /** Expectations that were still open after too many sweeps, up to a limit. */
  readonly overdueExpectations: Operation<ReadonlyArray<OpenExpectation>>
  /** Closes these expectations; the unconfirmed ones stay listed. */
  readonly closeExpectations: (
    shown: ReadonlyArray<OpenExpectation>,
    unconfirmed: ReadonlyArray<OpenExpectation>
  ) => Operation<void>
  readonly saveState: (state: StreamState) => Operation<void>
  /** Adds a run to the stream's history, or replaces the one with its number. The history keeps the newest `keptRuns`. */
  readonly recordRun: (run: EndedRun) => Operation<void>
  /** The forgotten records of the stream's integration. */
  readonly forgotten: Operation<Forgotten>
  /** Adds an operator's action to the audit log. */
  readonly audit: (entry: OperatorAction) => Operation<void>
  /**
   * Writes heads, events and references. Records of any stream of the integration that still show the old version of changed
   * content become stale. Call it last, because the log's counter is locked from this call to the commit.
   */
  readonly write: (records: ReadonlyArray<RecordWrite>) => Operation<void>
}

export class Store extends Context.Service<Store, {
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
  /** Deletes the ids of all keys except the current one, and returns them. Call it when all content is encrypted with the current key. */
  readonly retireKeys: Operation<ReadonlyArray<string>>

  /** Takes over `scope`, and fences its previous owner (I10). */
  readonly takeOwnership: (scope: string) => Operation<Owner>
  /** Takes over several scopes in one transaction. Returns the owners by scope. */
  readonly takeOwnerships: (scopes: NonEmptyReadonlyArray<string>) => Operation<ReadonlyMap<string, Owner>>

  // integrations
  /** All integrations in id order, including removed and erased ones. */
  readonly integrations: Operation<ReadonlyArray<IntegrationState>>
  /** Saves an integration, together with the operator's action if there was one. */
  readonly saveIntegration: (
    owner: Owner,
    integration: IntegrationState,
    action: OperatorAction | null
  ) => Operation<void>
  /** Adds an operator's action that changes nothing in the store to the audit log. */
  readonly recordAction: (action: OperatorAction) => Operation<void>
  /** Operators' actions, the newest first; `before`: only those with a smaller id. */
  readonly auditLog: (limit: number, before?: number) => Operation<ReadonlyArray<AuditEntry>>
  /**
   * Adds requests to the audit log. `requests` is added to the summary of the same hour, route, target, actor and address, if there
   * is one. Any process may call this.
   */
  readonly recordReads: (reads: ReadonlyArray<ReadSummary>) => Operation<void>
  /** Summaries of requests, the newest first; `before`: only those with a smaller id. */
  readonly auditedReads: (
    limit: number,
    before?: number
  ) => Operation<ReadonlyArray<ReadSummary & { readonly id: number }>>

  // history
  /**
   * Adds a sample, unless the history already has a sample of the same minute. The sample replaces the one of the previous day. Any
   * process may call this.
   */
  readonly recordSample: (sample: HistorySample) => Operation<void>
  /** The samples at or after `since` (our clock, in ms), oldest first. */
  readonly history: (since: number) => Operation<ReadonlyArray<HistorySample>>

  // streams
  /** Creates the missing streams; leaves existing ones unchanged. */
  readonly ensureStreams: (streams: ReadonlyArray<StreamState>) => Operation<void>
  readonly streams: Operation<ReadonlyArray<StreamState>>
  /** The streams of one integration. */
  readonly streamsOf: (integration: string) => Operation<ReadonlyArray<StreamState>>
  readonly stream: (key: StreamKey) => Operation<StreamState | null>
  /**
   * Erases a stream that is no longer read. Its log rows become silent and empty, but keep their positions and event ids. The newest
   * row is emptied first, so no reader ever gets an event whose `before` is already erased. Runs in many small
   * transactions; if the erasure was interrupted, call this again.
   */
  readonly eraseStream: (owner: Owner, key: StreamKey) => Operation<void>
  /** All streams and the newest position, read at one moment. Every change up to the watermarks is at or before that position. */
  readonly streamsAtPosition: Operation<
    { readonly position: number; readonly chain: string; readonly streams: ReadonlyArray<StreamState> }
  >
  /** Runs one transaction on one stream, fenced by `owner`. The body may run more than once (deadlock, lock timeout). */
  readonly transact: <A, E>(
    owner: Owner,
    key: StreamKey,
    body: (tx: StreamTx) => Effect.Effect<A, E>
  ) => Effect.Effect<A, E | StoreError>
  /**
   * Replaces the state `before` of a stream by `after`, in one statement. Returns false if nothing was changed, because the stream has a
   * different state now, has pending rows, stale records or undecided holds, or because `owner` is fenced. Fails without a retry: if the
   * connection is lost, it is unknown whether the state was replaced, so the caller must read it again.
   */
  readonly replaceQuietState: (owner: Owner, before: StreamState, after: StreamState) => Operation<boolean>
  /** Live records that no run has seen since run `runId` started, in id order. */
  readonly liveNotSeenSince: (
    key: StreamKey,
    runId: number,
    after: string | null,
    limit: number
  ) => Operation<ReadonlyArray<string>>
  /** The live records among these. */
  readonly liveIds: (key: StreamKey, ids: ReadonlyArray<string>) => Operation<ReadonlySet<string>>
  /** The first and the last `limit` ids of live records that run `runId` or a later one has seen, in id order: controls of a confirmation. */
  readonly controlIds: (key: StreamKey, runId: number, limit: number) => Operation<ReadonlyArray<string>>
  /** Pending rows without their content, in key order: of all streams, of one stream, or of one hold. `after` is an id. */
  readonly pendingRows: (
    query: {
      readonly key?: StreamKey | undefined
      readonly hold?: number | undefined
      readonly after?: string | undefined
      readonly limit: number
    }
  ) => Operation<ReadonlyArray<StreamKey & Omit<Pending, "content">>>
  /** The counts of every stream. */
  readonly counts: Operation<ReadonlyArray<StreamKey & StreamCounts>>
  /** Streams in the order of integration and model, with their counts and the newest position, read at one moment. */
  readonly streamPage: (query: StreamQuery) => Operation<
    {
      readonly position: number
      readonly chain: string
      readonly streams: ReadonlyArray<{ readonly state: StreamState; readonly counts: StreamCounts }>
    }
  >

  /** The history of the stream's runs, newest first. */
  readonly runs: (key: StreamKey) => Operation<ReadonlyArray<EndedRun>>

  // holds
  /** Newest first. Without `states`: holds that are neither approved nor canceled. `before` is an id. */
  readonly holds: (
    query: {
      readonly states?: ReadonlyArray<HoldState> | undefined
      readonly before?: number | undefined
      readonly limit: number
    }
  ) => Operation<ReadonlyArray<ListedHold>>
  readonly hold: (id: number) => Operation<ListedHold | null>
  /** Null if the hold does not exist. */
  readonly holdPlan: (id: number) => Operation<HoldPlan | null>
  /**
   * Saves an operator's decision. Any process may call this; the stream's owner carries out an approval. `plan` is the hash of the rows
   * that the operator has seen. Returns false if nothing was decided, because the hold was already approved, canceled or rejected, or
   * because its rows are no longer those of the plan.
   */
  readonly decide: (
    id: number,
    decision: { readonly state: "rejected" } | {
      readonly state: "approving"
      readonly release: ReleaseMode
      readonly plan?: string | undefined
    },
    /** Our clock, in ms. */
    now: number
  ) => Operation<boolean>
  /**
   * Waits until this process knows of more than `seen` decisions; returns how many it knows of. On PostgreSQL it may take a second to
   * notice a decision that another process saved.
   */
  readonly awaitDecision: (seen: number) => Effect.Effect<number>

  // forgotten records
  /** The forgotten records, in the order of the requests. */
  readonly forgotten: Operation<ReadonlyArray<ForgottenRecord>>
  /** Commits the request, together with the operator's action: from now on no transaction stores the record. */
  readonly requestForgetting: (owner: Owner, record: ForgottenRecord, action: OperatorAction) => Operation<void>
  /** Saves how far the removal of the record is. */
  readonly noteForgetting: (
    owner: Owner,
    record: ForgettableRecord,
    progress: ForgettingProgress
  ) => Operation<void>
  /** Marks the record as forgotten: all of its data is deleted. `at`: our clock, in ms. */
  readonly endForgetting: (owner: Owner, record: ForgettableRecord, at: number) => Operation<void>
  /** Allows transactions to store the record again, together with the operator's action. */
  readonly allowForgotten: (owner: Owner, record: ForgettableRecord, action: OperatorAction) => Operation<void>
  /**
   * The pending rows and log rows of these streams that contain the text and for which `isWanted` is true. Reads the whole log. Damaged
   * rows that contain the text, and rows that cannot be decrypted, are always returned.
   */
  readonly findRows: (
    streams: ReadonlyArray<StreamKey>,
    text: string,
    isWanted: (row: StoredRow) => boolean
  ) => Operation<ReadonlyArray<FoundRow>>
  /** Deletes the quarantined rows of an integration that contain the text, or cannot be decrypted; returns how many. */
  readonly dropQuarantinedCopies: (owner: Owner, integration: string, text: string) => Operation<number>

  // plugin writes
  /** Writes that a polled model can show and that two sweeps did not find, the newest first (L2). */
  readonly unconfirmedWrites: (limit: number) => Operation<ReadonlyArray<UnconfirmedWrite>>

  // the event log
  /** Rows that are not silent, in position order. */
  readonly readLog: (query: LogQuery) => Operation<ReadonlyArray<LogEntry>>
  /** Events that are not silent, newest first. For people who look for a change; readers use `readLog`. */
  readonly searchLog: (query: LogSearch) => Operation<FoundEvents>
  /** Events that writes of this delivery caused, among the `positions` positions after `after`; oldest first, at most ten. */
  readonly echoesOf: (
    query: { readonly delivery: number; readonly after: number; readonly positions: number }
  ) => Operation<ReadonlyArray<LogEntry>>
  /** Oldest kept and newest position. Both are 0 if nothing was ever appended; `oldest` is `newest` + 1 if every row was pruned. */
  readonly logRange: Operation<LogRange>
  /**
   * The range, the chain at the newest position, the number of removals, and the chains at these positions in their order, all read at
   * one moment.
   * A chain is null if the log ends before that position, or if the row after that position is pruned   (X14, X18).
   */
  readonly chains: (positions: ReadonlyArray<number>) => Operation<LogChains>
  /**
   * The position before the first row that was appended at or after `time` (our clock, in ms); the newest position if there is none. Null
   * if such rows may have been pruned. If the clock was set back, the times of the rows are not in order, and several positions fit: one
   * of them is returned.
   */
  readonly positionBefore: (time: number) => Operation<number | null>
  /** Waits until the log holds rows after `after`. It may take a second to notice another process's append. */
  readonly awaitLog: (after: number) => Operation<void>
  /**
   * Current published content of a stream's live records in id order, with the newest position, read at one moment. `id`: of this record
   * only; the list is empty if the record is not live.
   */
  readonly records: (
    key: StreamKey,
    after: string | null,
    limit: number,
    id?: string
  ) => Operation<{ readonly position: number; readonly chain: string; readonly records: ReadonlyArray<LiveRecord> }>
  /**
   * Deletes log rows that were appended before `before` (our clock, in ms) and are at or before position `upTo`, except those that retention
   * must keep; returns how many.
   */
  readonly prune: (query: { readonly before: number; readonly upTo: number }) => Operation<number>
  /** Deletes summaries of requests whose hour started before `before` (our clock, in ms). */
  readonly pruneReads: (before: number) => Operation<void>
  /** Deletes quarantined rows that were last read before `before` (our clock, in ms); returns how many. */
  readonly pruneQuarantine: (before: number) => Operation<number>
  /**
   * Removes the content of records that their source erased; their delete events stay. Applies to records whose erasure was
   * noticed before `before` (our clock, in ms), whose delete event is at or before position `upTo`, and that no delivery needs. Returns how
   * many records.
   */
  readonly purgeErased: (query: { readonly before: number; readonly upTo: number }) => Operation<number>

  /**
   * Removes deleted and overwritten content from the bytes of the store's files too. Call it after content was deleted or rewritten.
   * Returns false if another process is reading the store: call it again later. On PostgreSQL it does nothing, because the server's
   * vacuum does this.
   */
  readonly reclaim: Operation<boolean>

  /**
   * Restarts the log in a later generation: existing rows are no longer read, and every reader, including `publishingStart`, moves to the
   * new start. Positions continue. A process that already has the store open keeps the identity that it read then, and can no longer take
   * over ownership. `owners`: the owners of all streams; fails if one of them is fenced. Ends all sessions. Does nothing if `generation`
   * is not later than the current one.
   */
  readonly raiseGeneration: (owners: ReadonlyArray<Owner>, generation: number) => Operation<void>

  // readers of the log
  readonly readerPosition: (reader: string) => Operation<number>
  /** `published`: where the events of the batch that ends at `position` are in the sink; null or absent if that is not known. */
  readonly saveReaderPosition: (
    owner: Owner,
    reader: string,
    position: number,
    published?: Publication | null
  ) => Operation<void>
  /** Where the event at this position is in the sink; null if it was not recorded, or no longer is. */
  readonly placeOf: (position: number) => Operation<EventPlace | null>
  /** Deletes where events are that were published before `before` (our clock, ms). */
  readonly prunePlaces: (before: number) => Operation<void>
}>()("rollcall/store/Store") {}
