/**
 * The records of a stream as the store keeps them: heads, pending rows with their holds, quarantined rows, and what a transaction writes.
 *
 * Gotchas
 * - A head describes the *published* state of a record. A change that is observed but not yet published is a pending row.
 * - Content is stored once, in the event log: `before` of a row is `after` of the record's previous row.
 */
import type { JsonObject } from "../domain/Canonical.ts"
import type { DeleteReason, LogEntry, NewEvent, Origin } from "../domain/ChangeEvent.ts"
import type { Expectation, PluginWrite } from "../domain/Expectation.ts"
import type { StreamKey } from "../domain/Model.ts"
import type { References } from "../domain/Reference.ts"

/** JSON text of a record, with the id of the rules that were applied to it; null if not known. */
export interface StoredContent {
  readonly content: string
  readonly redaction: string | null
}

/**
 * Stands for the canonical hash of the content in a live record's newest row of the log, with the head's processing. A transaction that
 * removes values from that row must store the hash first (V1).
 */
export const unhashed = "-"

/** The last published state of one record. */
export interface Head {
  readonly id: string
  /**
   * 0 if the record has no row in the log of its generation: it was already deleted when it was first read, or before the store was
   * adopted. A silent backfill stores version 1, in a row that readers do not get.
   */
  readonly version: number
  readonly live: boolean
  /** Log row of the latest version; null when version is 0. */
  readonly position: number | null
  /** Hash of the serialized text as last observed *and published*. */
  readonly textHash: string
  /** `unhashed` until the record's bytes change; empty if every content differs from it. */
  readonly canonicalHash: string
  /** Identifies the processing (normalizer, redaction, registry entry) with which the hashes were made. */
  readonly fingerprint: string
  /** `changed_at`, milliseconds. */
  readonly changedAt: number | null
  /** Newest run that read the record, whether the record was live or deleted. */
  readonly lastSeenRunId: number
}

export type PendingStatus = "staged" | "held" | "rejected" | "disputed" | "absent"

/** A change that is observed but not yet published. There is one row per record, and a newer observation replaces its content. */
export interface Pending {
  readonly id: string
  readonly status: PendingStatus
  /** Run that staged the change. */
  readonly runId: number
  readonly origin: Origin
  /** The observed content; null for `absent`, because no content was observed. */
  readonly content: string | null
  readonly deleted: boolean
  readonly reason: DeleteReason | null
  readonly textHash: string
  readonly canonicalHash: string
  readonly remoteId: string | null
  readonly changedAt: string | null
  readonly detectedAt: number
  /** `absent`: how many confirmations, spaced in time, did not find the record, and when the last one was made (our clock, in ms). */
  readonly confirmations: number
  readonly confirmedAt: number | null
  /** Id of the rules that were applied to the content; null if not known. */
  readonly redaction: string | null
  /**
   * Id of the row's hold if the row is `held` or `rejected`. For a `disputed` row, the hold to which it returns if the dispute confirms
   * its content.
   */
  readonly hold: number | null
}

/** A row of the API that cannot be read as a record, for example because it has no id. It is stored, and not published. */
export interface Quarantined {
  /** Hash of the record without volatile properties, so that an unreadable record that is read repeatedly is one row with a count. */
  readonly hash: string
  readonly reason: string
  /** Never shown in logs; kept so that nothing is lost. */
  readonly content: string
  /** Id of the rules that were applied to the content; null if not known. */
  readonly redaction: string | null
  readonly at: number
}

/** A quarantined row with its count. */
export interface QuarantinedRow extends Omit<Quarantined, "at"> {
  readonly occurrences: number
  /** Our clock, in ms. */
  readonly firstAt: number
  readonly lastAt: number
}

/** A record as published. */
export interface LiveRecord extends StoredContent {
  readonly id: string
  readonly version: number
  readonly generation: number
}

// ---- holds ----------------------------------------------------------------------------------------------------------

/**
 * `open`: waits for an operator. `rejected`: an operator decided that its changes stay unpublished. `approving`: approved, but not all of
 * its rows are published yet. `approved`: all of its rows are published. `canceled`: no rows were left before an operator decided, or
 * after a rejection.
 */
export type HoldState = "open" | "rejected" | "approving" | "approved" | "canceled"

/** How the changes of an approved hold are released. */
export interface ReleaseMode {
  /** Origin of the released events; null if each event keeps the origin with which its change was found. */
  readonly origin: "backfill" | null
  /** Scope holds only: true if no events are published, and the current content is stored as if it had been published. */
  readonly silent: boolean
}

/** Pending rows that the guard keeps unpublished until an operator decides. */
export interface Hold {
  readonly id: number
  readonly kind: "deletes" | "restores" | "scope"
  readonly state: HoldState
  /** Text for operators, without personal data. */
  readonly reason: string
  /** `scope`: paths that keep their published value; `*` is any member of an array. */
  readonly paths: ReadonlyArray<string>
  /** Our clock, in ms. */
  readonly openedAt: number
  /** When an operator last decided; if none did, when no rows were left (our clock, in ms). Null while the hold is open. */
  readonly decidedAt: number | null
  /** Number of rows released since the approval. */
  readonly released: number
  /**
   * The positions of the first and the last event of the release; null if nothing is published. Between them the stream has no other events: a
   * release that an outage interrupts continues before the next run.
   */
  readonly published: { readonly first: number; readonly last: number } | null
  /** Set once the hold is approved. */
  readonly release: ReleaseMode | null
}

/** A row of a hold. `published`: the content of its record as published; null if the record is not live. */
export interface HeldRow extends Pending {
  readonly published: string | null
}

/** The hash and the number of the rows of a hold at one moment. An approval refers to exactly these rows. */
export interface HoldPlan {
  /** Identifies these rows, with their content. */
  readonly hash: string
  readonly rows: number
}

/** An operator's decision. `plan`: the hash of the rows that the operator has seen. */
export type HoldDecision = { readonly state: "rejected" } | {
  readonly state: "approving"
  readonly release: ReleaseMode
  readonly plan?: string | undefined
}

/** A hold with its stream and its current number of rows. */
export type ListedHold = StreamKey & Hold & { readonly rows: number }

// ---- what a transaction reads and writes ----------------------------------------------------------------------------

/** In a `PageQuery`: the stored record is needed in any case, because the page shows several copies that differ. No record has this hash. */
export const anyHash = "*"

/** A page that a run has read, or other records. */
export interface PageQuery {
  /** The hash of each record's bytes, or `anyHash`; null if only the head and the pending row of the record are needed. */
  readonly hashes: ReadonlyMap<string, string | null>
  readonly runId: number
}

/** A query for these records: with their content, or without it, because it may be damaged. */
export const queryFor = (ids: ReadonlyArray<string>, hash: typeof anyHash | null): PageQuery => ({
  hashes: new Map(ids.map((id) => [id, hash])),
  runId: 0
})

/** The stored records of a page by id, except for the unchanged ones. */
export interface PageRead {
  /** True if the record is stored with the hash of the page and is not pending, and this run has not read it before. */
  readonly isUnchanged: (id: string) => boolean
  readonly heads: ReadonlyMap<string, Head>
  /**
   * Content as published, of records whose hash differs or that are pending; of a deleted record the content before the delete. Null if it
   * was erased.
   */
  readonly contents: ReadonlyMap<string, StoredContent | null>
  readonly pending: ReadonlyMap<string, Pending>
  /** The holds of the stream that are neither approved nor canceled, in id order. */
  readonly holds: ReadonlyArray<Hold>
}

/** Everything that one transaction writes about one record. The store assigns positions to the events, in array order. */
export interface RecordWrite {
  /** `position` is the position of the record's row *before* `events`; the store replaces it with the position of the last event. */
  readonly head: Head
  readonly events: ReadonlyArray<NewEvent>
  /** Whether the record was live until now; absent if that does not change. */
  readonly wasLive?: boolean
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
   * record becomes stale. `isReindexed`: an earlier processing may have found other references, so those that did not change are stored too.
   */
  readonly references?: {
    readonly before: References | null
    readonly after: References
    readonly isReindexed?: boolean
  }
}

/** A query for the derived records of source records that change. */
export interface SourcesQuery {
  /** Ids of the source records that change. */
  readonly changed: ReadonlyArray<string>
  /** The derived records that they show now, with the hash of their texts; null: the other sources of the record are read in any case. */
  readonly copies: ReadonlyArray<{ readonly id: string; readonly parent: string; readonly textHash: string | null }>
  /** At most so many other source records of a derived record. */
  readonly limit: number
}

/** A live source record; `content` is null if it was erased. */
export interface DerivedSource {
  readonly id: string
  readonly content: StoredContent | null
}

export interface Sources {
  /** The derived record that each changed source record showed until now, as `setDerivedIds` last assigned it. */
  readonly before: ReadonlyMap<string, string>
  /** The derived records that the changed ones show now or showed until now, by id; `content` is null if the shown text is the stored one. */
  readonly derived: ReadonlyMap<string, { readonly head: Head; readonly content: StoredContent | null }>
  /** The other live source records of derived records whose stored text is not shown, by id of the derived record, in id order. */
  readonly live: ReadonlyMap<string, ReadonlyArray<DerivedSource>>
  /** Ids of these derived records that another, deleted source record shows. */
  readonly withDeleted: ReadonlySet<string>
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
export interface LogContent extends Pick<LogEntry, "id" | "kind" | "remoteId" | "changes" | "transitions"> {
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

/** A plugin's write that no record has ever shown. */
export interface UnconfirmedWrite extends StreamKey, Pick<PluginWrite, "name" | "plugin" | "delivery" | "depth"> {
  /** The record, or the kind of record, that was expected to show the write. */
  readonly key: Expectation["key"]
  /** Our clock, in ms. */
  readonly reportedAt: number
}
