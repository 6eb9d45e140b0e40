/**
 * The records that an operator made Rollcall forget, and the search for rows that repeat their data.
 *
 * Invariants
 * 1. After a request is committed, no transaction stores the record until an operator allows it
 */
import type { ForgettableRecord } from "../domain/Forgotten.ts"
import type { StreamKey } from "../domain/Model.ts"
import type { OperatorAction } from "./AuditLog.ts"
import type { Owner } from "./Ownership.ts"
import type { Operation } from "./StoreError.ts"

/** A record that an operator made Rollcall forget: its data is deleted, and no run stores it again until an operator allows it. */
export interface ForgottenRecord {
  readonly integration: string
  /** A name of `forgettableModels`. */
  readonly model: string
  readonly id: string
  /** `erasing`: some of its data may be left. The erasure continues after a restart. */
  readonly state: "erasing" | "forgotten"
  /** Our clock, in ms. */
  readonly requestedAt: number
  readonly doneAt: number | null
  /** How far the removal is; null before it has found the records to change, and after it is complete. */
  readonly progress: ForgettingProgress | null
}

export interface ForgettingProgress {
  /** Records that have been changed: the record itself, and those that repeat it. */
  readonly done: number
  readonly total: number
}

/** A row of the log or a pending row, with its content; `changes` is "[]" for a pending row. */
export interface StoredRow extends StreamKey {
  readonly id: string
  readonly content: string | null
  readonly changes: string
}

/** A row that was found. `position`: of a row of the log; null for a pending row. */
export interface FoundRow extends Pick<StoredRow, "integration" | "model" | "id"> {
  readonly position: number | null
  /** The row cannot be decrypted: whether it contains the text is unknown. */
  readonly unreadable?: true
}

export interface ForgottenRecords {
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
}
