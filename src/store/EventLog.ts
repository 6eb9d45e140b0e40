/** Queries of the event log: by readers that follow it, and by people who search it. */
import type { Kind, LogEntry } from "../domain/ChangeEvent.ts"
import type { StreamKey } from "../domain/Model.ts"

/** Selects rows of the log: each given property must match with any of its values. */
export interface LogFilter {
  readonly integrations?: ReadonlyArray<string> | undefined
  readonly models?: ReadonlyArray<string> | undefined
  readonly kinds?: ReadonlyArray<Kind> | undefined
  /** Names of transitions. */
  readonly transitions?: ReadonlyArray<string> | undefined
}

export interface LogQuery extends LogFilter {
  /** Rows after this position; 0 to start at the oldest row. */
  readonly after: number
  /**
   * Rows up to this position. A query by kind or transition reads every row up to the next match, so a reader that must respond soon
   * limits how far it searches.
   */
  readonly upTo?: number | undefined
  readonly limit: number
}

/** Selects events from the newest to the oldest. */
export interface LogSearch extends LogFilter {
  /** Id of a record; then all its events are found, however old they are. */
  readonly id?: string | undefined
  /** Events before this position; absent to start at the newest event. */
  readonly before?: number | undefined
  readonly limit: number
  /** Maximum number of positions that a search without an id reads. */
  readonly positions: number
}

export interface FoundEvents {
  /** Newest first. */
  readonly entries: ReadonlyArray<LogEntry>
  /** The search continues with the events before this position; null if there are no earlier events. */
  readonly next: number | null
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

// ---- publications -------------------------------------------------------------------------------------------------

/** Where events are in one partition of a topic: messages that were appended without another one between them. */
export interface EventPlaces {
  readonly topic: string
  readonly partition: number
  /** Of the first message. */
  readonly offset: number
  /** For each message the position of its event in the log, in order; an event may have several messages in a row. */
  readonly positions: ReadonlyArray<number>
}

/** Where the events of one batch are in the sink. */
export interface Publication {
  /** When the sink had them; our clock, in ms. */
  readonly at: number
  readonly places: ReadonlyArray<EventPlaces>
}

/** Where one event is in the sink. */
export interface EventPlace extends Pick<EventPlaces, "topic" | "partition" | "offset">, Pick<Publication, "at"> {}
