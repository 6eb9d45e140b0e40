/**
 * The event log: its readers and their positions, the search for people, the places of events in the sink, and retention.
 *
 * Invariants
 * 1. Positions are gap-free and become visible in order, so a reader that queries `position > mine` misses no event   (I5, X13)
 *
 * Gotchas
 * - Readers never receive a silent row of the log. It has a position, a version and, unless it was erased, content.
 */
import type { Kind, LogEntry } from "../domain/ChangeEvent.ts"
import type { Owner } from "./Ownership.ts"
import type { Operation } from "./StoreError.ts"

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

// ---- the log ------------------------------------------------------------------------------------------------------

export interface EventLog {
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

  readonly readerPosition: (reader: string) => Operation<number>
  /** Notes that this process needs the log until these readers have read it. */
  readonly noteReaders: (readers: ReadonlyArray<string>) => Operation<void>
  /** The positions of the readers that a process has noted less than `within` ms ago, so that a process without them keeps the log too. */
  readonly neededPositions: (within: number) => Operation<ReadonlyArray<number>>
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

  /**
   * Deletes log rows that were appended before `before` (our clock, in ms) and are at or before position `upTo`, except those that retention
   * must keep; returns how many.
   */
  readonly prune: (query: { readonly before: number; readonly upTo: number }) => Operation<number>
  /**
   * Removes the content of records that their source erased; their delete events stay. Applies to records whose erasure was
   * noticed before `before` (our clock, in ms), whose delete event is at or before position `upTo`, and that no delivery needs. Returns how
   * many records.
   */
  readonly purgeErased: (query: { readonly before: number; readonly upTo: number }) => Operation<number>

  /**
   * Restarts the log in a later generation: existing rows are no longer read, and every reader, including `publishingStart`, moves to the
   * new start. Positions continue. A process that already has the store open keeps the identity that it read then, and can no longer take
   * over ownership. `owners`: the owners of all streams; fails if one of them is fenced. Ends all sessions. Does nothing if `generation`
   * is not later than the current one.
   */
  readonly raiseGeneration: (owners: ReadonlyArray<Owner>, generation: number) => Operation<void>
}
