/**
 * The transaction on one stream: the operations that the body of `Streams.transact` uses, and the values that it reads and writes.
 *
 * Invariants
 * 1. All writes of the body are committed together, or none of them is   (I2)
 *
 * Gotchas
 * - Content is stored once, in the event log: `before` of a row is `after` of the record's previous row.
 */
import type { JsonObject } from "../domain/Canonical.ts"
import type { LogEntry, NewEvent } from "../domain/ChangeEvent.ts"
import type { OpenExpectation } from "../domain/Expectation.ts"
import type { Forgotten } from "../domain/Forgotten.ts"
import type { DerivedModel } from "../domain/Model.ts"
import type { References } from "../domain/Reference.ts"
import type { OperatorAction } from "./AuditLog.ts"
import type { Hold } from "./Holds.ts"
import type { EndedRun } from "./Run.ts"
import type { StreamState } from "./State.ts"
import type { Operation } from "./StoreError.ts"
import type { Head, Pending, PendingStatus, Quarantined, QuarantinedRow, StoredContent } from "./StreamRecords.ts"

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
  /** Notes which log rows of generations before `generation` unsettled deliveries need. Retention deletes them once they are settled. */
  readonly retainOlderGenerationEvents: (generation: number) => Operation<void>
  /**
   * Deletes log rows of generations before `generation`, except for those that were noted, at most `limit`; returns how many. Heads must
   * no longer refer to these rows.
   */
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
  readonly recordAction: (action: OperatorAction) => Operation<void>
  /**
   * Writes heads, events and references. Records of any stream of the integration that still show the old version of changed
   * content become stale. Call it last, because the log's counter is locked from this call to the commit.
   */
  readonly write: (records: ReadonlyArray<RecordWrite>) => Operation<void>
}
