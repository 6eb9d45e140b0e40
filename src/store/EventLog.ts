/**
 * The values of the event log: queries, ranges, readers, and the places of events in the sink.
 *
 * Invariants
 * 1. Positions are gap-free and become visible in order, so a reader that queries `position > mine` misses no event   (I5, X13)
 *
 * Gotchas
 * - Readers never receive a silent row of the log. It has a position, a version and, unless it was erased, content.
 */
import type { Kind, LogEntry } from "../domain/ChangeEvent.ts"

// ---- queries ------------------------------------------------------------------------------------------------------

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
  /** The vendor's id of a record. */
  readonly remoteId?: string | undefined
  /** Events at or after this position; absent to search back to the oldest event. */
  readonly from?: number | undefined
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

// ---- readers ------------------------------------------------------------------------------------------------------

/**
 * Name of a reader that never reads: publishing starts after its position. That is the start of the generation (0 in the first one), or a
 * later position if retention had deleted events before a sink was configured.
 */
export const publishingStart = "publishing"
/** Name of the reader that publishes: all events up to its position are in the sink. Also the name of the publisher's ownership scope. */
export const relayReader = "relay"

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
