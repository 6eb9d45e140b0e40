/**
 * The port behind which all durable state lives: integrations, streams, heads, pending rows, the event log, readers.
 * Hides the database, its dialect and its locking.
 *
 * Invariants
 * 1. What a `transact` body writes is committed together or not at all   (I2)
 * 2. Positions are gap-free and become visible in order: a reader that asks for `position > mine` misses none   (I5, X13)
 * 3. A transaction of an owner whose epoch is no longer the newest fails with `Fenced` and changes nothing   (I10)
 *
 * Gotchas
 * - Content is stored once, in the event log. `before` is the `after` of the record's previous row.
 * - A silent row of the log is given to no reader; it has a position, a version and, unless it was erased, content.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { LogEntry, LogIdentity, NewEvent } from "../domain/ChangeEvent.ts"
import type { Expectation, OpenExpectation, PluginWrite } from "../domain/Expectation.ts"
import type { DerivedModel, StreamKey } from "../domain/Model.ts"
import type { References } from "../domain/Reference.ts"
import type {
  Head,
  Hold,
  HoldState,
  IntegrationState,
  OperatorAction,
  Pending,
  PendingStatus,
  Quarantined,
  ReleaseMode,
  StreamState
} from "./State.ts"
import { faultOf } from "./StoreFault.ts"

// ---- errors -------------------------------------------------------------------------------------------------------

/** A newer owner took over: stop, do not retry. */
export class Fenced extends Schema.TaggedError<Fenced>()("Fenced", { scope: Schema.String, epoch: Schema.Number }) {
  get retryable(): boolean {
    return false
  }
  get hint(): string {
    return `another process owns "${this.scope}" now; this one stops writing. Nothing is lost. A store is for one process: if both are meant to run, give each its own.`
  }
}
/** The database cannot be used now (see `StoreFault`), or too many want the same rows: nothing was committed, try later. */
export class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", {
  operation: Schema.String,
  cause: Schema.Defect()
}) {
  get retryable(): boolean {
    return true
  }
  get hint(): string {
    const fault = faultOf(this.cause)
    return fault === null
      ? "the store could not do this now, because others change the same rows; it is tried again."
      : `${fault.message}; ${fault.hint}.`
  }
}
/** An older copy of the database answers: nothing was read from it or committed to it, try again later. */
export class OlderCopy extends Schema.TaggedError<OlderCopy>()("OlderCopy", {
  /** How many commits of this process it lacks. */
  missing: Schema.Number
}) {
  get retryable(): boolean {
    return true
  }
  get hint(): string {
    const commits = this.missing === 1 ? "a commit" : `${this.missing} commits`
    return `the database that answers lacks ${commits} of this process: an older copy of the store took its place, by a failover that lost data or a disk that was set back. Nothing is read from it or written to it. Bring back the database that has what was committed, and Rollcall goes on by itself; or stop Rollcall, run \`rollcall store adopt\`, and start it again.`
  }
}
/** The configured place holds no store and none can be made there: the message says what to do. */
export class Misconfigured extends Schema.TaggedError<Misconfigured>()("Misconfigured", { message: Schema.String }) {
  get retryable(): boolean {
    return false
  }
  get hint(): string {
    return this.message
  }
}
/** What is stored is not what this program wrote, or was written by a newer one. */
export class Incompatible extends Schema.TaggedError<Incompatible>()("Incompatible", { message: Schema.String }) {
  get retryable(): boolean {
    return false
  }
  get hint(): string {
    return `${this.message}; use the version of Rollcall that wrote this store, or another store.`
  }
}
/** What is stored is not what this program wrote: nothing that was read from there may be used. */
export class Damaged extends Schema.TaggedError<Damaged>()("Damaged", { message: Schema.String }) {
  get retryable(): boolean {
    return false
  }
  get hint(): string {
    return `${this.message}; check the disk, restore the store from a backup, and run \`rollcall store adopt\`.`
  }
}
/** What the caller does next is in the reason. */
export class StoreError extends Schema.TaggedError<StoreError>()("StoreError", {
  reason: Schema.Union([Fenced, Unavailable, OlderCopy, Misconfigured, Incompatible, Damaged])
}) {
  override get message(): string {
    return `${this.reason._tag}: ${this.reason.hint}`
  }
}

// ---- what it is given, and gives ----------------------------------------------------------------------------------

/** Why the store cannot be used; `since` is our clock, ms. */
export interface Outage {
  readonly message: string
  readonly hint: string
  readonly since: number
}

export interface Owner {
  readonly scope: string
  readonly epoch: number
}

/** What is written of one record in one transaction; the store gives events their positions, in array order. */
export interface RecordWrite {
  /** `position` is that of the row *before* `events`; the store replaces it by that of the last event. */
  readonly head: Head
  readonly events: ReadonlyArray<NewEvent>
  /** The events are for no reader: rows of the log like others, which `log` passes over. */
  readonly silent?: boolean
  /** Deleted, and nothing is left of it at its source: what the log holds of it is for `dropErased` (D11, D23). */
  readonly erased?: boolean
  /**
   * What the record shows of others, before and now; absent = the same. `before` null = not known, nobody is owed a
   * re-read for it.
   */
  readonly references?: { readonly before: References | null; readonly after: References }
}

/** Records to be re-read because content they repeat was seen changed elsewhere; too many to name = everything. */
export type StaleRecords = ReadonlyArray<string> | "everything"

/** A record that was last published in an earlier generation. */
export interface OlderGenerationRecord {
  readonly head: Head
  readonly remoteId: string | null
  readonly changedAt: string | null
  /** Content as it was published; null on a delete. */
  readonly content: string | null
}

/** A hold as it is listed: its stream, and how many rows it has now. */
export type ListedHold = StreamKey & Hold & { readonly rows: number }

/** A write of which nothing was ever seen. */
export interface UnconfirmedWrite extends StreamKey, Pick<PluginWrite, "name" | "plugin" | "delivery" | "depth"> {
  /** Where it was looked for. */
  readonly key: Expectation["key"]
  /** Our clock, ms. */
  readonly reportedAt: number
}

export interface LogQuery {
  /** Rows after this position; 0 = from the oldest. */
  readonly after: number
  readonly limit: number
  readonly integration?: string | undefined
  readonly model?: string | undefined
}

/**
 * Name under which `readerPosition` gives the position behind which publishing begins: where the generation does, 0 in the first, or later
 * where retention had taken events before there was anything to publish to.
 */
export const publishingStart = "publishing"
/** What part of the log can be read. */
export interface LogRange {
  readonly oldest: number
  readonly newest: number
}

/** What proves a log: see `chainOf`. */
export interface LogChains extends LogRange {
  /** At `newest`. */
  readonly chain: string
  readonly chains: ReadonlyArray<string | null>
}

// ---- the port -----------------------------------------------------------------------------------------------------

/** What a transaction on one stream can do. Valid only inside its `transact`. */
export interface StreamTx {
  /** As committed when the transaction began. */
  readonly state: StreamState
  readonly heads: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, Head>, StoreError>
  readonly pending: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, Pending>, StoreError>
  /** Content (`after`) of the log rows at these positions; null where it was erased or the row is a delete. */
  readonly contents: (positions: ReadonlyArray<number>) => Effect.Effect<ReadonlyMap<number, string | null>, StoreError>
  /** Content of the row before the one at `position`: the last before-image of a deleted record. */
  readonly beforeImages: (
    positions: ReadonlyArray<number>
  ) => Effect.Effect<ReadonlyMap<number, string | null>, StoreError>
  /** Pending rows of one status in id order, at most `limit`, after `after`. */
  readonly pendingWithStatus: (
    status: PendingStatus,
    after: string | null,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Pending>, StoreError>
  /** How many records of the stream live, as published. */
  readonly liveCount: Effect.Effect<number, StoreError>
  /** How many records are absent by at least one confirm. */
  readonly absentCount: Effect.Effect<number, StoreError>
  /** The stream's holds that are neither approved nor cancelled, in order of their ids. */
  readonly holds: Effect.Effect<ReadonlyArray<Hold>, StoreError>
  /** Gives the id. */
  readonly openHold: (hold: Omit<Hold, "id">) => Effect.Effect<Hold, StoreError>
  readonly saveHold: (hold: Hold) => Effect.Effect<void, StoreError>
  readonly holdSize: (hold: number) => Effect.Effect<number, StoreError>
  /** Pending rows of one hold, but those to be re-read, in id order, at most `limit`, after `after`. */
  readonly pendingOfHold: (
    hold: number,
    after: string | null,
    limit: number
  ) => Effect.Effect<ReadonlyArray<Pending>, StoreError>
  /** Marks records as met by a reading; never lowers the mark. */
  readonly markSeen: (ids: ReadonlyArray<string>, reading: number) => Effect.Effect<void, StoreError>
  readonly putPending: (rows: ReadonlyArray<Pending>) => Effect.Effect<void, StoreError>
  readonly dropPending: (ids: ReadonlyArray<string>) => Effect.Effect<void, StoreError>
  readonly quarantine: (rows: ReadonlyArray<Quarantined>) => Effect.Effect<void, StoreError>
  /** Who is owed a re-read, in id order, at most `limit`. */
  readonly takeStale: (limit: number) => Effect.Effect<StaleRecords, StoreError>
  /** These were re-read after they were taken; what was owed anew since then stays owed. */
  readonly markRefreshed: (ids: ReadonlyArray<string>) => Effect.Effect<void, StoreError>
  /** Nobody of the stream is owed anything any more: how many were. */
  readonly clearStale: Effect.Effect<number, StoreError>
  /** Owes these records a re-read. */
  readonly markStale: (ids: ReadonlyArray<string>) => Effect.Effect<void, StoreError>
  /** What is derived of this stream, in the same transaction: its `state`, `heads`, `contents`, `save` and `write`. */
  readonly derived: (model: DerivedModel) => Effect.Effect<StreamTx, StoreError>
  /** Which record of a derived model each of these was last set to show. */
  readonly derivedIds: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, string>, StoreError>
  /** Who is set to show these and lives, with the log row of its content: in id order, at most `most` for each. */
  readonly liveSources: (
    children: ReadonlyArray<string>,
    most: number
  ) => Effect.Effect<ReadonlyMap<string, ReadonlyArray<{ readonly id: string; readonly position: number }>>, StoreError>
  /** Who is set to show these and is deleted. */
  readonly deletedSources: (
    children: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyMap<string, ReadonlyArray<string>>, StoreError>
  /** By id of the one that shows it; null = it shows none. */
  readonly setDerivedIds: (children: ReadonlyMap<string, string | null>) => Effect.Effect<void, StoreError>
  /** Heads whose log row is of a generation before `generation`, with that row; in id order after `after`, at most `limit`. */
  readonly olderGenerationRecords: (
    generation: number,
    after: string | null,
    limit: number
  ) => Effect.Effect<ReadonlyArray<OlderGenerationRecord>, StoreError>
  /** Deletes log rows of generations before `generation`, which no head may refer to any more; at most `limit`, returns how many. */
  readonly deleteOlderGenerationEvents: (generation: number, limit: number) => Effect.Effect<number, StoreError>
  /** Whether anything that plugins wrote is still to be seen here. */
  readonly hasExpectations: Effect.Effect<boolean, StoreError>
  /** What is still to be seen under these keys, in the order of writing. */
  readonly openExpectations: (keys: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<OpenExpectation>, StoreError>
  /** This record shows it. */
  readonly recordMatch: (expectation: OpenExpectation, record: string) => Effect.Effect<void, StoreError>
  /** A sweep is complete: counts it for all that was written before it began, and forgets what may be forgotten. */
  readonly countSweep: (reading: number) => Effect.Effect<void, StoreError>
  /** What one sweep too many has passed by, a few of it. */
  readonly overdueExpectations: Effect.Effect<ReadonlyArray<OpenExpectation>, StoreError>
  /** Waits for these no longer; the unconfirmed stay listed. */
  readonly closeExpectations: (
    shown: ReadonlyArray<OpenExpectation>,
    unconfirmed: ReadonlyArray<OpenExpectation>
  ) => Effect.Effect<void, StoreError>
  readonly saveState: (state: StreamState) => Effect.Effect<void, StoreError>
  /** Writes down what an operator did. */
  readonly audit: (entry: OperatorAction) => Effect.Effect<void, StoreError>
  /**
   * Heads and events, and what the records mention; whoever shows changed content otherwise, in any stream of the
   * integration, is owed a re-read from here on. Call it last, the log's counter is locked from here to the commit.
   */
  readonly write: (records: ReadonlyArray<RecordWrite>) => Effect.Effect<void, StoreError>
}

export class Store extends Context.Service<Store, {
  readonly identity: LogIdentity
  /** Whether there was no store here before it was opened. */
  readonly isNew: boolean
  /** Why the store cannot be used now, from memory; null while it answers. */
  readonly outage: Effect.Effect<Outage | null>

  /**
   * Runs readings that belong to one answer. On SQLite they take one turn among the transactions, where each by itself would
   * wait for another transaction.
   */
  readonly batchReads: <A, R>(readings: Effect.Effect<A, StoreError, R>) => Effect.Effect<A, StoreError, R>

  /** Takes `scope` over and fences whoever had it (I10). */
  readonly takeOwnership: (scope: string) => Effect.Effect<Owner, StoreError>

  // integrations
  /** All there ever were, by id. */
  readonly integrations: Effect.Effect<ReadonlyArray<IntegrationState>, StoreError>
  /** Writes one, and with it the act that led there, if an operator did. */
  readonly saveIntegration: (
    owner: Owner,
    integration: IntegrationState,
    act: OperatorAction | null
  ) => Effect.Effect<void, StoreError>
  /** What operators did, the newest first. */
  readonly auditLog: (limit: number) => Effect.Effect<ReadonlyArray<OperatorAction>, StoreError>

  // streams
  /** Creates the streams that are missing, leaves the others as they are. */
  readonly ensureStreams: (streams: ReadonlyArray<StreamState>) => Effect.Effect<void, StoreError>
  readonly streams: Effect.Effect<ReadonlyArray<StreamState>, StoreError>
  readonly stream: (key: StreamKey) => Effect.Effect<StreamState | null, StoreError>
  /**
   * Leaves nothing of a stream that nobody reads any more. Its rows of the log become empty, silent ones and keep
   * positions and event ids; the newest goes first, so that no reader ever meets an event without the content before it.
   * In many small transactions; begun and not ended, it is to be called again.
   */
  readonly eraseStream: (owner: Owner, key: StreamKey) => Effect.Effect<void, StoreError>
  /** All streams and the newest position of one moment: what their watermarks promise lies at or before it. */
  readonly streamsAtPosition: Effect.Effect<
    { readonly position: number; readonly chain: string; readonly streams: ReadonlyArray<StreamState> },
    StoreError
  >
  /** One transaction on one stream, fenced by `owner`. The body may run more than once (deadlock, lock time-out). */
  readonly transact: <A, E>(
    owner: Owner,
    key: StreamKey,
    body: (tx: StreamTx) => Effect.Effect<A, E>
  ) => Effect.Effect<A, E | StoreError>
  /** Live records that no reading from `reading` on has met, in id order. */
  readonly liveNotSeenSince: (
    key: StreamKey,
    reading: number,
    after: string | null,
    limit: number
  ) => Effect.Effect<ReadonlyArray<string>, StoreError>
  /** Which of these records are live. */
  readonly liveIds: (key: StreamKey, ids: ReadonlyArray<string>) => Effect.Effect<ReadonlySet<string>, StoreError>
  /** The first and the last `limit` of the ids met live by `reading` or later, in their order: controls of a confirm. */
  readonly controlIds: (
    key: StreamKey,
    reading: number,
    limit: number
  ) => Effect.Effect<ReadonlyArray<string>, StoreError>
  /** Pending rows without their content, over all streams, of one, or of one hold, in key order; `after` an id. */
  readonly pendingRows: (
    query: {
      readonly key?: StreamKey | undefined
      readonly hold?: number | undefined
      readonly after?: string | undefined
      readonly limit: number
    }
  ) => Effect.Effect<ReadonlyArray<StreamKey & Omit<Pending, "content">>, StoreError>
  /** Per stream: live records, pending rows by status, quarantined rows. */
  readonly counts: Effect.Effect<
    ReadonlyArray<
      StreamKey & {
        readonly live: number
        readonly quarantined: number
        /** Records owed a re-read. */
        readonly owed: number
        readonly pending: Readonly<Partial<Record<PendingStatus, number>>>
      }
    >,
    StoreError
  >

  // holds
  /** Newest first; without `states` those that are neither approved nor cancelled. `before` an id. */
  readonly holds: (
    query: {
      readonly states?: ReadonlyArray<HoldState> | undefined
      readonly before?: number | undefined
      readonly limit: number
    }
  ) => Effect.Effect<ReadonlyArray<ListedHold>, StoreError>
  readonly hold: (id: number) => Effect.Effect<ListedHold | null, StoreError>
  /**
   * Writes down what a person decided, in any process; whoever owns the stream carries an approval out. False = there was
   * nothing to decide: the hold is approved, cancelled, or rejected already.
   */
  readonly decide: (
    id: number,
    decision: { readonly state: "rejected" } | { readonly state: "approving"; readonly release: ReleaseMode },
    /** Our clock, ms. */
    now: number
  ) => Effect.Effect<boolean, StoreError>
  /** Returns once more than `seen` decisions were written down by this process, and gives how many. */
  readonly awaitDecision: (seen: number) => Effect.Effect<number>

  // what plugins wrote
  /** Writes that some polled model can show and that two sweeps did not find, the newest first (L2). */
  readonly unconfirmedWrites: (limit: number) => Effect.Effect<ReadonlyArray<UnconfirmedWrite>, StoreError>

  // the event log
  /** Rows that are not silent, in the order of positions. */
  readonly readLog: (query: LogQuery) => Effect.Effect<ReadonlyArray<LogEntry>, StoreError>
  /** Oldest kept and newest position; both 0 when nothing was ever appended, `oldest` = newest + 1 when all was pruned. */
  readonly logRange: Effect.Effect<LogRange, StoreError>
  /**
   * The range, the chain at the newest position, and the chain at each of these positions in their order, all of one moment.
   * Null: the log ends before that position, or has pruned the row behind it   (X14, X18).
   */
  readonly chains: (positions: ReadonlyArray<number>) => Effect.Effect<LogChains, StoreError>
  /** Returns once the log holds more than `after`; other processes' appends may take a second to be noticed. */
  readonly awaitLog: (after: number) => Effect.Effect<void, StoreError>
  /** Current published content of a stream's live records in id order, and the newest position at that moment. */
  readonly records: (
    key: StreamKey,
    after: string | null,
    limit: number
  ) => Effect.Effect<
    {
      readonly position: number
      readonly chain: string
      readonly records: ReadonlyArray<
        { readonly id: string; readonly version: number; readonly generation: number; readonly content: string }
      >
    },
    StoreError
  >
  /** Deletes log rows appended before `before` (our clock, ms), not past `upTo`, as the retention rule allows; returns how many. */
  readonly prune: (query: { readonly before: number; readonly upTo: number }) => Effect.Effect<number, StoreError>
  /**
   * Takes the content of records that were erased at their source, and leaves their deletes: where the erasure was noticed
   * before `before` (our clock, ms), the delete is not past `upTo` and no delivery needs it; returns of how many records.
   */
  readonly purgeErased: (query: { readonly before: number; readonly upTo: number }) => Effect.Effect<number, StoreError>

  /**
   * Begins the log anew in a later generation: no row before this moment is read any more, and every reader stands at its
   * beginning, `publishingStart` too. Positions go on. Whoever has the store open keeps the identity it knows. Not later than now: nothing happens.
   */
  readonly raiseGeneration: (owner: Owner, generation: number) => Effect.Effect<void, StoreError>

  // readers of the log
  readonly readerPosition: (reader: string) => Effect.Effect<number, StoreError>
  readonly saveReaderPosition: (owner: Owner, reader: string, position: number) => Effect.Effect<void, StoreError>
}>()("rollcall/store/Store") {}
