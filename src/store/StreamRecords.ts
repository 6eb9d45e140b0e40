/**
 * The records of a stream as the store keeps them: heads, pending rows and quarantined rows. The interface `StreamRecords` reads them
 * outside a transaction.
 *
 * Gotchas
 * - A head describes the *published* state of a record. A change that is observed but not yet published is a pending row.
 */
import type { DeleteReason, Origin } from "../domain/ChangeEvent.ts"
import type { StreamKey } from "../domain/Model.ts"
import type { Operation } from "./StoreError.ts"

/** JSON text of a record, with the id of the rules that were applied to it; null if not known. */
export interface StoredContent {
  readonly content: string
  readonly redaction: string | null
}

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

export interface StreamRecords {
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
  /** Live records that no run has seen since run `runId` started, in id order. */
  readonly liveNotSeenSince: (
    key: StreamKey,
    runId: number,
    after: string | null,
    limit: number
  ) => Operation<ReadonlyArray<string>>
  /** The live records among these. */
  readonly liveIds: (key: StreamKey, ids: ReadonlyArray<string>) => Operation<ReadonlySet<string>>
  /**
   * The first and the last `limit` ids of live records that run `runId` or a later one has seen, in id order. A confirmation uses these
   * records, which should still exist, as controls.
   */
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
  /** Deletes quarantined rows that were last read before `before` (our clock, in ms); returns how many. */
  readonly pruneQuarantine: (before: number) => Operation<number>
}
