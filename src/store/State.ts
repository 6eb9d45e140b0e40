/**
 * All that is durable, as values: what is kept of integrations, streams, records and holds, and of what operators did.
 *
 * Gotchas
 * - A head says what was *published*; what was observed and not yet published is a pending row.
 */
import type { DeleteReason, Origin } from "../domain/ChangeEvent.ts"
import type { HourlyCounts } from "../domain/Guard.ts"
import type { Model, StreamKey } from "../domain/Model.ts"
import type { Processing, ProcessingRules } from "../domain/Processing.ts"

// ---- integrations -------------------------------------------------------------------------------------------------

/** One connected third-party system, and how it is to be read. */
export interface IntegrationState {
  /** `<tool>:<identifier>` */
  readonly id: string
  readonly account: string
  /** `auto`: all that the integration's tool is not known to lack. */
  readonly models: "auto" | ReadonlyArray<Model>
  /** Between two polls, and two sweeps, of a stream; ms. */
  readonly interval: number
  readonly sweepInterval: number
  readonly backfill: "publish" | "fill"
  /** Configuration names it. Others were added at run time and stay over restarts. */
  readonly declared: boolean
  /** Raised when its records are erased. */
  readonly generation: number
  /** `removed`: not read, all is kept. `erasing`: until everybody who must has read its events. `erased`: nothing is left. */
  readonly state: "active" | "removed" | "erasing" | "erased"
}

// ---- streams ------------------------------------------------------------------------------------------------------

export type BlockReason = "unsupported" | "permission" | "key" | "not_ready" | "inactive" | "unreadable"

/** Rows of one reading: read = sum of all the others. */
export interface RowCounts {
  readonly read: number
  readonly unchanged: number
  readonly equivalent: number
  readonly changed: number
  readonly tombstones: number
  readonly duplicates: number
  readonly pending: number
  readonly erased: number
  readonly forgotten: number
  readonly quarantined: number
}

export interface Run {
  readonly id: number
  readonly kind: "poll" | "sweep"
  /** First sweep of the stream. */
  readonly backfill: boolean
  /** `updated_after` sent, server milliseconds; null = everything. */
  readonly updatedAfter: number | null
  readonly cursor: string | null
  /** A sweep reads its pages first and then confirms what it did not meet. */
  readonly phase: "pages" | "confirm"
  readonly pages: number
  /** Our clock, ms. */
  readonly startedAt: number
  /** What the watermark becomes when a poll's last page commits; server ms. */
  readonly watermark: number | null
  readonly rowCounts: RowCounts
  /** Rows of a poll that did not change since `from`. */
  readonly unfilteredRows?: number
  /** Changes a sweep met that polls should have shown, had they shown anything. */
  readonly missedByPolls?: number
  /** Pages in a row, up to here, without a record that is new to it. */
  readonly pagesWithoutNewRows?: number
  /** A cursor it came by: only a list that leads in a circle comes by there again. */
  readonly loopMarker?: string | null
  /** Of a sweep: how often the list was read in a row, this time included; absent = 1. */
  readonly pass?: number
  /** How many of these passes one process read without a long pause. */
  readonly uninterruptedPasses?: number
  /** When its newest page was committed (our clock, ms), and the epoch of the process that did. */
  readonly lastPageAt?: number
  readonly lastPageEpoch?: number
  /** The stream's newest reading at that moment. */
  readonly newestRunAtLastPage?: number
  /**
   * The worst reason why it may have skipped a record: a record changed meanwhile, there was a long pause between two pages, a
   * confirm showed more records than the pages, or another process read on.
   */
  readonly possibleGap?: "change" | "pause" | "hidden" | "restart"
  /** The list has to be read again for that reason. */
  readonly mustRepeat?: boolean
}

/** Everything durable about one stream but its records. */
export interface StreamState extends StreamKey {
  readonly account: string
  readonly generation: number
  readonly phase: "starting" | "backfilling" | "live"
  readonly paused: boolean
  /** No longer to be read: kept, not shown. */
  readonly retired?: boolean
  /** Old records are only taken in, as version 1: no event of theirs is published. */
  readonly silentBackfill?: boolean
  readonly blocked: {
    readonly reason: BlockReason
    readonly code: string | null
    readonly message: string
    readonly since: number
  } | null
  /** W: server time up to which the stream is complete, ms. */
  readonly watermark: number | null
  /** P: the watermark before; polls read from P − margin. */
  readonly previousWatermark: number | null
  /** ms; only ever raised. */
  readonly overlap: number
  /** What polls are answered instead of what changed; absent = what changed (W12, C6). */
  readonly pollsReturn?: "everything" | "nothing"
  /** Up to when the last poll was complete that was answered anything, server ms. */
  readonly lastNonEmptyPollAt?: number
  /** Newest samples of (server clock − our clock), ms. */
  readonly clockOffsets: ReadonlyArray<number>
  /** Until when the stream was reported to be complete, server ms: never lower within a generation. */
  readonly reportedTo?: number
  /** Server ms: start of the first sweep, and end of the last pass of it. */
  readonly backfillStartedAt: number | null
  readonly backfilledAt: number | null
  /** Last reading id given. */
  readonly lastRunId: number
  /** The sweep in progress: resumed after a restart. */
  readonly sweep: Run | null
  readonly lastPoll: (Run & { readonly endedAt: number }) | null
  readonly lastSweep: (Run & { readonly endedAt: number }) | null
  /** Deletes and restores published lately, for the guard's window. */
  readonly guardHistory?: ReadonlyArray<HourlyCounts>
  /** By which rules hashes of its heads were made, newest last; the key of redaction is kept nowhere. */
  readonly processings?: ReadonlyArray<ProcessingRules & Pick<Processing, "fingerprint">>
  /** Consecutive failed readings, and the last fault in words (no personal data). */
  readonly failing: { readonly count: number; readonly message: string; readonly since: number } | null
}

// ---- records ------------------------------------------------------------------------------------------------------

/** What was last published of one record. */
export interface Head {
  readonly id: string
  /** 0 = never published (a tombstone met as such, or a backfill that only fills). */
  readonly version: number
  readonly live: boolean
  /** Log row of the latest version; null when version is 0. */
  readonly position: number | null
  /** Hash of the serialized text as last observed *and published*. */
  readonly textHash: string
  readonly canonicalHash: string
  /** What processing (normaliser, redaction, registry entry) the hashes were made with. */
  readonly fingerprint: string
  /** `changed_at`, milliseconds. */
  readonly changedAt: number | null
  /** Newest reading that met the record, live or deleted. */
  readonly lastSeenRunId: number
}

export type PendingStatus = "staged" | "held" | "rejected" | "disputed" | "absent"

/** Observed and not yet published: one row a record, the newest observation replaces its content. */
export interface Pending {
  readonly id: string
  readonly status: PendingStatus
  /** Reading that staged it. */
  readonly runId: number
  readonly origin: Origin
  /** What was observed; null for `absent` (nothing was). */
  readonly content: string | null
  readonly deleted: boolean
  readonly reason: DeleteReason | null
  readonly textHash: string
  readonly canonicalHash: string
  readonly remoteId: string | null
  readonly changedAt: string | null
  readonly detectedAt: number
  /** `absent`: how many spaced confirms agreed, and when the last did (our clock, ms). */
  readonly confirms: number
  readonly confirmedAt: number | null
  /** `held` and `rejected`: the hold it belongs to; `disputed`: the one it goes back to if it is what it was. */
  readonly hold: number | null
}

export interface Quarantined {
  /** Hash of the record's text: the same unreadable record is one row, counted. */
  readonly hash: string
  readonly reason: string
  /** Never shown in logs; kept so that nothing is lost. */
  readonly content: string
  readonly at: number
}

// ---- holds --------------------------------------------------------------------------------------------------------

export type HoldState = "open" | "rejected" | "approving" | "approved" | "cancelled"

/** How an approved hold is released. */
export interface ReleaseMode {
  /** Origin of its events; null = as found. */
  readonly origin: "backfill" | null
  /** Of a scope hold: nothing is published, the records count as they are now shown. */
  readonly silent: boolean
}

/** Pending rows that the guard keeps back until someone decides. */
export interface Hold {
  readonly id: number
  readonly kind: "deletes" | "restores" | "scope"
  readonly state: HoldState
  /** In words, without personal data. */
  readonly reason: string
  /** `scope`: what keeps its published value; `*` is any member of an array. */
  readonly paths: ReadonlyArray<string>
  /** Our clock, ms. */
  readonly openedAt: number
  /** When its state was last decided, by a person or because nothing was left of it. */
  readonly decidedAt: number | null
  /** Rows released once it was approved. */
  readonly released: number
  /** While and after it is approved. */
  readonly release: ReleaseMode | null
}

// ---- operators ----------------------------------------------------------------------------------------------------

/** Something an operator did. */
export interface OperatorAction {
  /** Our clock, ms. */
  readonly at: number
  readonly command: string
  /** What it was done to. */
  readonly target: string
  /** In words, without secrets and personal data. */
  readonly detail: string
}
