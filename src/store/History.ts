/** The history of the installation: one sample a minute, kept for a day. */
import type { Operation } from "./StoreError.ts"

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
  /** Open holds. */
  readonly holds: number
}

export interface History {
  /**
   * Adds a sample, unless the history already has a sample of the same minute. The sample replaces the one of the previous day. Any
   * process may call this.
   */
  readonly recordSample: (sample: HistorySample) => Operation<void>
  /** The samples at or after `since` (our clock, in ms), oldest first. */
  readonly history: (since: number) => Operation<ReadonlyArray<HistorySample>>
}
