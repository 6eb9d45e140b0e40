/** The states of integrations and of their streams, without the records; lists of streams; owners. States are stored as JSON, which earlier versions read too. */
import type { HourlyCounts } from "../domain/Guard.ts"
import type { Model, StreamKey } from "../domain/Model.ts"
import type { Processing, ProcessingRules } from "../domain/Processing.ts"
import type { AppliedRules } from "../domain/Redaction.ts"
import type { PendingStatus } from "./Records.ts"
import type { EndedRun, IdlePolls, Run } from "./Run.ts"

// ---- integrations -------------------------------------------------------------------------------------------------

/** One connected third-party system and its settings. */
export interface IntegrationState {
  /** `<tool>:<identifier>` */
  readonly id: string
  readonly account: string
  /** `auto`: all models except those that the API's catalog lists as unsupported by the integration's tool. */
  readonly models: "auto" | ReadonlyArray<Model>
  /** Time between two polls of a stream, in ms. */
  readonly interval: number
  /** Time between two sweeps of a stream, in ms. */
  readonly sweepInterval: number
  readonly backfill: "publish" | "fill"
  /** True if the integration is in the configuration. Other integrations were added at run time, and survive restarts. */
  readonly declared: boolean
  /**
   * Increased when the records of the integration are erased. The generation of its streams is this number or the store's generation,
   * whichever is greater.
   */
  readonly generation: number
  /**
   * `removed`: no longer read, its data is kept. `erasing`: waits until all required readers have read its events. `erased`:
   * its data is deleted.
   */
  readonly state: "active" | "removed" | "erasing" | "erased"
}

// ---- streams ------------------------------------------------------------------------------------------------------

export const blockReasonNames = ["unsupported", "permission", "key", "not_ready", "inactive", "unreadable"] as const
export type BlockReason = (typeof blockReasonNames)[number]

/** The state of one stream, without its records. */
export interface StreamState extends StreamKey {
  readonly account: string
  /** Generation of the stream's new events. */
  readonly generation: number
  readonly phase: "starting" | "backfilling" | "live"
  readonly paused: boolean
  /** True if the stream is no longer read. Its state is kept but hidden from operators. */
  readonly retired?: boolean
  /** True if old records are stored as version 1 without a published event. */
  readonly silentBackfill?: boolean
  readonly blocked: {
    readonly reason: BlockReason
    readonly code: string | null
    readonly message: string
    readonly since: number
    /** The page of the API's log about the last failure; absent if the response named none. */
    readonly logUrl?: string
  } | null
  /**
   * Server time of the first response of the newest poll that moved the watermark, in ms. Two complete polls are needed for completeness:
   * see `completeTo`.
   */
  readonly watermark: number | null
  /**
   * The watermark before the newest poll that moved it, or an earlier time that a rewind set. A poll reads from this time minus the
   * overlap, so that two complete polls cover every change.
   */
  readonly previousWatermark: number | null
  /** How far before `previousWatermark` a poll starts, in ms. It never decreases; see `domain/Lateness.ts`. */
  readonly overlap: number
  /**
   * The result of polls if the filter `updated_after` does not work: the whole list, or nothing. Absent if the filter works (W12, C6).
   */
  readonly pollsReturn?: "everything" | "nothing"
  /** Watermark of the last poll that returned any records, in ms of the server's clock. */
  readonly lastNonEmptyPollAt?: number
  /** Newest samples of (server clock − our clock), in ms. */
  readonly clockOffsets: ReadonlyArray<number>
  /** Latest `complete_to` that was reported, in ms of the server's clock. Never decreases within a generation. */
  readonly reportedTo?: number
  /** Start of the newest backfill, in ms of the server's clock. It separates old records from new ones. */
  readonly backfillStartedAt: number | null
  /** End of the last pass of the newest backfill, in ms of the server's clock; null until then. */
  readonly backfilledAt: number | null
  /** The world of the sandbox that the stream was read from first, and another one that answered last. Absent if there is none. */
  readonly world?: string
  readonly otherWorld?: string
  /** Id of the newest run. */
  readonly lastRunId: number
  /** When the newest command of an operator was executed; the clock of the process that executed it, like the times of the runs. */
  readonly commandedAt?: number
  /** The sweep in progress. It is resumed after a restart. */
  readonly sweep: Run | null
  readonly lastPoll: (Run & { readonly endedAt: number }) | null
  /** Number of the newest run in the history; absent = 0. */
  readonly recordedRuns?: number
  /** Polls since that run. */
  readonly idlePolls?: IdlePolls
  /** The newest entry of the history, if it is a failure and no run has ended since. */
  readonly lastFailure?:
    | Pick<EndedRun, "number" | "times" | "idle"> & { readonly outcome: "failed" | "blocked"; readonly since: number }
    | null
  /** The latest complete pass, even if the list must be read again. */
  readonly lastSweep: (Run & { readonly endedAt: number }) | null
  /** Recently published deletes and restores, for the guard's window. */
  readonly guardHistory?: ReadonlyArray<HourlyCounts>
  /** The processing rules by which the hashes of the stream's heads were made, newest last. The redaction key is not stored. */
  readonly processings?: ReadonlyArray<ProcessingRules & Pick<Processing, "fingerprint">>
  /** All rules that were applied to stored content of the stream. */
  readonly redactions: ReadonlyArray<AppliedRules>
  /** Id of the key with which all content of the stream is encrypted; absent or null if some may be unencrypted or have another key. */
  readonly encryptedWith?: string | null
  /** Progress of redacting and encrypting content that was stored earlier; absent if there is nothing to do. */
  readonly redacting?: RedactionProgress
  /** Number of consecutive failed runs, and the last error message (no personal data). */
  readonly failing: {
    readonly count: number
    readonly message: string
    readonly since: number
    /** The message of the failure that opened the circuit, if an open circuit did not send the last request. */
    readonly openedBy?: string
    /** As in `blocked`. */
    readonly logUrl?: string
  } | null
}

/**
 * How far the stored content of a stream is redacted by the current rules and encrypted with the current key. The log is rewritten from
 * its newest row to its oldest.
 */
export interface RedactionProgress {
  /** Id of the rules. */
  readonly rules: string
  /** Id of the key with which content is encrypted; null if it is stored unencrypted. */
  readonly key: string | null
  readonly table: "pending" | "quarantine" | "events"
  /** Where to continue in the table: the last pending id, quarantine hash or log position that is done; null at the beginning. */
  readonly after: string | number | null
  /** Newest position of the log at the beginning. */
  readonly newest: number
  /** Our clock, in ms. */
  readonly startedAt: number
  /** How many rows were rewritten. */
  readonly rewritten: number
}

// ---- lists of streams ---------------------------------------------------------------------------------------------

/** Selects streams: each given property must match with any of its values. */
export interface StreamQuery {
  readonly integrations?: ReadonlyArray<string> | undefined
  readonly models?: ReadonlyArray<string> | undefined
  /** Streams after this one, in the order of integration and model. */
  readonly after?: { readonly integration: string; readonly model: string } | undefined
  readonly limit: number
}

/** How many rows of a stream the store has. */
export interface StreamCounts {
  readonly live: number
  readonly quarantined: number
  /** Records that wait for a re-read. */
  readonly stale: number
  readonly pending: Readonly<Partial<Record<PendingStatus, number>>>
}

// ---- owners ---------------------------------------------------------------------------------------------------------

/** The process that may write for a shard, or for the relay: the newest one that took it over (I10). */
export interface Owner {
  readonly scope: string
  readonly epoch: number
}
