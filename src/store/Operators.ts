/** Values for operators: the caller of a request, the audit log, forgotten records, and the history of the installation. */
import * as Context from "effect/Context"
import type { StreamKey } from "../domain/Model.ts"

// ---- the caller ---------------------------------------------------------------------------------------------------

export interface Actor {
  /** `operate token`, `session`, `no token`; with ` (cli)` if the client is the `rollcall` command. `process`: no request. */
  readonly actor: string
  /** The address of the connection; null if there is no connection. */
  readonly address: string | null
}

/** The caller that causes a change of the store. The operating API sets it for each request. */
export const CurrentActor = Context.Reference<Actor>("rollcall/store/CurrentActor", {
  defaultValue: () => ({ actor: "process", address: null })
})

// ---- the audit log ------------------------------------------------------------------------------------------------

/** One command of an operator, for the audit log. */
export interface OperatorAction {
  /** Our clock, in ms. */
  readonly at: number
  readonly command: string
  /** The stream, hold, plugin … that the command was applied to. */
  readonly target: string
  /** Text without secrets and personal data. */
  readonly detail: string
}

/** That a caller read records in an hour, for the audit log. Contains no id of a record. */
export interface AuditedRead {
  /** Start of the hour; our clock, in ms. */
  readonly period: number
  /** The route that shows records, such as `/v1/events`. */
  readonly route: string
  /** `<integration>/<model>`. A part is `*` if the request names none or several. */
  readonly target: string
  /** See `Actor`. */
  readonly actor: string
  /** The address of the connection; `several` if there are too many to list. */
  readonly address: string
  /** The first such read that a process noted; our clock, in ms. */
  readonly firstAt: number
}

/** An action in the audit log. */
export interface AuditEntry extends OperatorAction {
  readonly id: number
  /** See `Actor`. */
  readonly actor: string
  readonly address: string | null
}

// ---- forgotten records --------------------------------------------------------------------------------------------

/** A record that an operator made Rollcall forget: its data is deleted, and no run stores it again until an operator allows it. */
export interface ForgottenRecord {
  readonly integration: string
  /** The name of any model, even of a list that the configuration no longer defines. */
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

// ---- the history --------------------------------------------------------------------------------------------------

/** Time between two samples of the history, in ms. */
export const historyInterval = 60_000

/** How many samples are kept: those of a day. */
export const historySlots = 1_440

/** The state of the whole installation at one time, for plots. It contains numbers only. */
export interface HistorySample {
  /** Our clock, in ms. */
  readonly at: number
  /** Freshness of the streams that are read, in seconds: median, 95th percentile and maximum; absent if no stream is read. */
  readonly median?: number
  readonly p95?: number
  readonly worst?: number
  /** Newest position of the event log. */
  readonly events: number
  readonly unpublished: number
  /** Deliveries that are not settled. */
  readonly deliveries: number
  readonly deadLetters: number
  /** Streams. */
  readonly late: number
  readonly blocked: number
  readonly failing: number
  /** Open holds. */
  readonly holds: number
}
