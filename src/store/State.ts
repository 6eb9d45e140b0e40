/**
 * The values that the store keeps: integrations, streams, records, holds and operator actions.
 *
 * Gotchas
 * - A head describes the *published* state of a record. A change that is observed but not yet published is a pending row.
 */
import type { DeleteReason, Origin } from "../domain/ChangeEvent.ts"
import type { HourlyCounts } from "../domain/Guard.ts"
import type { Model, StreamKey } from "../domain/Model.ts"
import type { Processing, ProcessingRules } from "../domain/Processing.ts"
import type { AppliedRules } from "../domain/Redaction.ts"

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
  /** How far before `previousWatermark` a poll starts, in ms. It never decreases. */
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
  /** Id of the newest run. */
  readonly lastRunId: number
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
  /**
   * All rules that were applied to stored content of the stream. Absent if an earlier version of Rollcall stored the content, so that the
   * rules are unknown.
   */
  readonly redactions?: ReadonlyArray<AppliedRules>
  /** Id of the key with which all content of the stream is encrypted; absent or null if some content may be unencrypted. */
  readonly encryptedWith?: string | null
  /** Progress of redacting and encrypting content that was stored earlier; absent if there is nothing to do. */
  readonly redacting?: RedactionProgress
  /** Number of consecutive failed runs, and the last error message (no personal data). */
  readonly failing: { readonly count: number; readonly message: string; readonly since: number } | null
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

// ---- records ------------------------------------------------------------------------------------------------------

/** JSON text of a record, with the id of the rules that were applied to it; null if not known. */
export interface StoredContent {
  readonly content: string
  readonly redaction: string | null
}

/** The last published state of one record. */
export interface Head {
  readonly id: string
  /** 0 if the record was never published: it was already deleted when it was first read, or a silent backfill stored it. */
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

// ---- holds --------------------------------------------------------------------------------------------------------

/**
 * `open`: waits for an operator. `rejected`: an operator decided that its changes stay unpublished. `approving`: approved, but not all of
 * its rows are published yet. `approved`: all of its rows are published. `canceled`: no rows were left before an operator decided, or
 * after a rejection.
 */
export type HoldState = "open" | "rejected" | "approving" | "approved" | "canceled"

/** How the changes of an approved hold are released. */
export interface ReleaseMode {
  /** Origin of the released events; null if each event keeps the origin with which its change was found. */
  readonly origin: "backfill" | null
  /** Scope holds only: true if no events are published, and the current content is stored as if it had been published. */
  readonly silent: boolean
}

/** Pending rows that the guard keeps unpublished until an operator decides. */
export interface Hold {
  readonly id: number
  readonly kind: "deletes" | "restores" | "scope"
  readonly state: HoldState
  /** Text for operators, without personal data. */
  readonly reason: string
  /** `scope`: paths that keep their published value; `*` is any member of an array. */
  readonly paths: ReadonlyArray<string>
  /** Our clock, in ms. */
  readonly openedAt: number
  /** When the state last changed: an operator decided, or no rows were left (our clock, in ms). */
  readonly decidedAt: number | null
  /** Number of rows released since the approval. */
  readonly released: number
  /** Set once the hold is approved. */
  readonly release: ReleaseMode | null
}

// ---- forgotten records ---------------------------------------------------------------------------------------------

/** A record that an operator had Rollcall forget: its data is deleted, and no run stores it again until an operator allows it. */
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

// ---- operators ----------------------------------------------------------------------------------------------------

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

/** Requests of one caller within one hour, for the audit log. Contains no id of a record. */
export interface ReadSummary {
  /** Start of the hour; our clock, in ms. */
  readonly period: number
  /** The route that shows records, such as `/v1/events`; `*`: all requests of the caller. */
  readonly route: string
  /** `<integration>/<model>`. A part is `*` if the request names none or several. */
  readonly target: string
  /** See `Actor.ts`. */
  readonly actor: string
  /** The address of the connection; `several` if there are too many to list. */
  readonly address: string
  readonly firstAt: number
  readonly lastAt: number
  readonly requests: number
}

/** An action in the audit log. */
export interface AuditEntry extends OperatorAction {
  readonly id: number
  /** See `Actor.ts`; null in entries of earlier versions. */
  readonly actor: string | null
  readonly address: string | null
}

// ---- history ------------------------------------------------------------------------------------------------------

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
