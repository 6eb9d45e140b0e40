/**
 * The life of a stream: `starting → backfilling → live`, paused or blocked beside it, and what a failed reading does to it.
 *
 * Gotchas
 * - A blocked stream keeps its watermark and infers nothing; it is probed, rarely, and goes on where it stopped (C1, C4).
 */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import { isStreamModel, type Model, type StreamKey, type StreamModel } from "../../domain/Model.ts"
import type { Processing } from "../../domain/Processing.ts"
import type { SourceError } from "../../source/Source.ts"
import type { BlockReason, StreamState } from "../../store/State.ts"

/** The reading cannot go on; nothing it committed is lost, the watermark stays. */
export class RunAborted extends Schema.TaggedError<RunAborted>()("RunAborted", {
  message: Schema.String,
  /** Trying again soon does not help: the stream is blocked. */
  blocks: Schema.optionalKey(Schema.Literal("unreadable"))
}) {}

/** What configuration says of one stream. */
export interface StreamSettings {
  readonly integration: string
  readonly model: StreamModel
  readonly account: string
  readonly interval: Duration.Duration
  readonly sweepInterval: Duration.Duration
  /** `fill`: old records are only taken in; by default they are published. */
  readonly backfill?: "publish" | "fill"
  /** Of the integration; 1 unless its records were erased before. */
  readonly generation?: number
  /** What is dropped or redacted; by default `remote_data` is dropped. */
  readonly processing?: Processing
  /** How what is derived of its records is processed; nothing is derived without it. */
  readonly derivedProcessing?: Processing
}

/** One that capture can read: of a model that has a list of its own. */
export const isReadable = <S extends StreamKey>(stream: S): stream is S & { readonly model: StreamModel } =>
  isStreamModel(stream.model)

export const initialState = <M extends Model>(
  settings: Omit<StreamSettings, "model"> & { readonly model: M },
  overlapMin: Duration.Duration
): StreamState & { readonly model: M } => ({
  integration: settings.integration,
  model: settings.model,
  account: settings.account,
  generation: settings.generation ?? 1,
  phase: "starting",
  paused: false,
  blocked: null,
  watermark: null,
  previousWatermark: null,
  overlap: Duration.toMillis(overlapMin),
  clockOffsets: [],
  backfillStartedAt: null,
  backfilledAt: null,
  lastRunId: 0,
  sweep: null,
  lastPoll: null,
  lastSweep: null,
  failing: null,
  silentBackfill: settings.backfill === "fill"
})

const mostProcessings = 8

/** The state as it is kept with hashes that `processing` makes: a later one can then tell what changed but for it (V1). */
export const withProcessing = (state: StreamState, { fingerprint, rules }: Processing): StreamState => {
  const { processings = [] } = state
  if (processings.at(-1)?.fingerprint === fingerprint) return state
  const others = processings.filter((known) => known.fingerprint !== fingerprint)
  return { ...state, processings: [...others, { fingerprint, ...rules }].slice(-mostProcessings) }
}

/** How long a blocked stream is left alone. `not_ready` is asked at each poll. */
const probeAfter: Record<BlockReason, Duration.Duration | null> = {
  unsupported: Duration.days(1),
  permission: Duration.minutes(15),
  key: Duration.minutes(5),
  inactive: Duration.minutes(15),
  unreadable: Duration.minutes(15),
  not_ready: null
}

const probeDelay = (reason: BlockReason, interval: Duration.Duration): number =>
  Duration.toMillis(probeAfter[reason] ?? interval)

const blockReasons: Partial<Record<SourceError["reason"]["_tag"], BlockReason>> = {
  Unsupported: "unsupported",
  Forbidden: "permission",
  Unauthorized: "key",
  Inactive: "inactive",
  NotReady: "not_ready"
}

/** The state after a reading failed: blocked where waiting is all one can do, failing where it will be tried again. */
export const afterFailure = (
  state: StreamState,
  error: SourceError | RunAborted,
  now: number
): StreamState => {
  const reason = error._tag === "RunAborted" ? error.blocks : blockReasons[error.reason._tag]
  if (reason === undefined) return afterTransientFailure(state, error.message, now)
  return {
    ...state,
    failing: null,
    blocked: {
      reason,
      code: error._tag === "RunAborted" ? null : error.reason.code,
      message: error.message,
      since: state.blocked?.reason === reason ? state.blocked.since : now
    }
  }
}

const afterTransientFailure = (state: StreamState, message: string, now: number): StreamState => ({
  ...state,
  failing: { count: (state.failing?.count ?? 0) + 1, message, since: state.failing?.since ?? now }
})

const maxOverlap = Duration.toMillis(Duration.hours(6))

/**
 * Twice the largest lag that was seen, at most six hours. A lag counts as no more than polls look back in regular
 * operation: what lies further back a sweep found, or drift hid it after an outage.
 */
export const widenOverlap = (state: StreamState, lag: number, interval: Duration.Duration): number => {
  const regular = state.overlap + 3 * Duration.toMillis(interval)
  return Math.max(state.overlap, Math.min(2 * Math.min(lag, regular), maxOverlap))
}

/** Any complete page shows that nothing blocks. */
export const clearFailure = (state: StreamState): StreamState =>
  state.blocked === null && state.failing === null ? state : { ...state, blocked: null, failing: null }

const mostBackoff = (interval: Duration.Duration): number =>
  Math.max(Duration.toMillis(interval), Duration.toMillis(Duration.minutes(15)))

/**
 * How long a stream that cannot be read is left alone, ms: one that failed twice as long with each failure, at most 15
 * minutes, also where it was a probe that failed; a blocked one until its next probe.
 */
export const backoffDelay = ({ blocked, failing }: StreamState, interval: Duration.Duration): number => {
  if (failing !== null) {
    return Math.min(Duration.toMillis(interval) * 2 ** Math.min(failing.count - 1, 10), mostBackoff(interval))
  }
  return blocked === null ? 0 : probeDelay(blocked.reason, interval)
}

/**
 * Until when a stream is left alone, our clock, ms. What lies further ahead than that ever lasts was set before our clock was set
 * back: nobody waits until it caught up (W4).
 */
export const backoffUntil = (
  { blocked, failing }: StreamState,
  { retryAt, settings: { interval } }: { readonly retryAt: number; readonly settings: StreamSettings },
  now: number
): number => {
  const longest = failing !== null || blocked === null ? mostBackoff(interval) : probeDelay(blocked.reason, interval)
  return retryAt - now > longest ? 0 : retryAt
}
