/**
 * A run, which is one poll or one sweep of a stream, and the history of the runs that have ended.
 *
 * Gotchas
 * - A sweep in progress is part of the stream's state (`State.ts`) and is resumed after a restart. A poll in progress is not stored: it
 *   starts again.
 */

/** Rows of one run by outcome. `read` is the sum of all the others. */
export interface RowCounts {
  readonly read: number
  readonly unchanged: number
  readonly equivalent: number
  readonly changed: number
  readonly tombstones: number
  readonly duplicates: number
  readonly pending: number
  readonly quarantined: number
}

export const zeroRowCounts: RowCounts = {
  read: 0,
  unchanged: 0,
  equivalent: 0,
  changed: 0,
  tombstones: 0,
  duplicates: 0,
  pending: 0,
  quarantined: 0
}

export const addRowCounts = (a: RowCounts, b: RowCounts): RowCounts =>
  Object.fromEntries(
    (Object.keys(zeroRowCounts) as ReadonlyArray<keyof RowCounts>).map((key) => [key, a[key] + b[key]])
  ) as Record<keyof RowCounts, number>

/** Events of one run by kind; a record that returns is created. */
export interface PublishedCounts {
  readonly created: number
  readonly updated: number
  readonly deleted: number
}

/** A poll or a sweep. */
export interface Run {
  readonly id: number
  readonly kind: "poll" | "sweep"
  /** True for the stream's first sweep, and for a sweep that the command `backfill` starts. */
  readonly backfill: boolean
  /** The `updated_after` parameter of the requests, in ms of the server's clock; null if the parameter is not sent, so that the whole list is read. */
  readonly updatedAfter: number | null
  readonly cursor: string | null
  /** A sweep first reads all pages and then confirms the absence of the records that were not in them. */
  readonly phase: "pages" | "confirm"
  /** Id of the last record that the open sweep has confirmed, in the order of the ids; absent if there is none. */
  readonly confirmedTo?: string
  readonly pages: number
  /** Our clock, in ms. */
  readonly startedAt: number
  /** Server time (ms) of the first response; it becomes the stream's watermark when a poll ends. Null before the first page. */
  readonly watermark: number | null
  readonly rowCounts: RowCounts
  /** Events that the run has published so far; absent = none. */
  readonly published?: PublishedCounts
  /** Rows of a poll whose `changed_at` is before `updatedAfter`. */
  readonly unfilteredRows?: number
  /** Changes that a sweep found, and that earlier polls should have returned. */
  readonly missedByPolls?: number
  /** Number of consecutive pages, up to the latest page, on which every record had already been read by this run. */
  readonly pagesWithoutNewRows?: number
  /** A cursor that the run has already used. If the API returns it again, the pagination is a loop. */
  readonly loopMarker?: string | null
  /** Number of the sweep's current pass over the list; 1 if absent. */
  readonly pass?: number
  /** How many of the passes were read by a single process without a long pause. */
  readonly uninterruptedPasses?: number
  /** When the latest page was committed (our clock, in ms), and by which owner. */
  readonly lastPageAt?: number
  readonly lastPageOwner?: { readonly scope: string; readonly epoch: number }
  /** Id of the stream's newest run when the latest page was committed. */
  readonly newestRunAtLastPage?: number
  /**
   * The most serious reason why the run may have skipped a record. In a pass of a sweep: a record changed during the pass (`change`),
   * there was a long pause between two pages (`pause`), a confirmation found records that the pages did not contain (`hidden`), or
   * another process continued the pass (`restart`). In a poll: two pages contained the same record (`change`).
   */
  readonly possibleGap?: "change" | "pause" | "hidden" | "restart"
  /** True if the list must be read again because of `possibleGap`. Such a poll did not move the watermark. */
  readonly mustRepeat?: boolean
}

/** How many of the runs of a stream its history has. */
export const keptRuns = 50

/** Consecutive polls that found nothing new; our clock, in ms. */
export interface IdlePolls {
  readonly polls: number
  /** Records that they read nevertheless, because polls overlap. */
  readonly read: number
  readonly since: number
  readonly until: number
}

/** A run in the history of its stream. */
export interface EndedRun extends Pick<Run, "backfill" | "pages" | "rowCounts" | "published" | "startedAt"> {
  /** 1, 2, 3 … per stream. */
  readonly number: number
  /** null if it failed before the run started. */
  readonly id: number | null
  readonly kind: Run["kind"]
  readonly pass: number
  readonly endedAt: number
  /** `repeated`: complete, but it may have skipped records, so the list is read again. `replaced`: by a sweep that an operator started. */
  readonly outcome: "complete" | "repeated" | "failed" | "blocked" | "replaced"
  /** Of a failure: the message of the newest one. Otherwise the possible gap, if there was one. */
  readonly reason: NonNullable<Run["possibleGap"]> | string | null
  /** Failures in a row are one entry, from the beginning of the first to the end of the newest. */
  readonly times: number
  /** Polls between this run and the one before it. */
  readonly idle: IdlePolls | null
}
