/**
 * The lifecycle of a stream: `starting → backfilling → live`, independently paused or blocked, and the effect of a failed run.
 *
 * Gotchas
 * - A blocked stream keeps its watermark and infers no deletes. It is probed at long intervals, and continues where it stopped
 *   (C1, C4).
 */
import * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import type { Model, Models, StreamKey } from "../domain/Model.ts"
import type { Processing } from "../domain/Processing.ts"
import type { SourceError } from "../source/Source.ts"
import { type Run, zeroRowCounts } from "../store/Run.ts"
import type { BlockReason, StreamState } from "../store/State.ts"

/** The run cannot continue. Its committed pages are kept; the watermark does not move. */
export class RunAborted extends Schema.TaggedError<RunAborted>()("RunAborted", {
  message: Schema.String,
  /** Set if an early retry would not help, so that the stream is blocked. */
  blocks: Schema.optionalKey(Schema.Literal("unreadable"))
}) {}

/** Configuration of one stream. */
export interface StreamSettings {
  readonly integration: string
  readonly model: Model
  readonly account: string
  readonly interval: Duration.Duration
  readonly sweepInterval: Duration.Duration
  /** `fill`: old records are stored but not published. Default: they are published. */
  readonly backfill?: "publish" | "fill"
  /** Generation of the integration; 1 unless its records were erased before. */
  readonly generation?: number
  /** Default: `remote_data` becomes null and nothing is redacted. */
  readonly processing?: Processing
  /** Processing of the model that is derived from the stream's records; absent if no model is derived. */
  readonly derivedProcessing?: Processing
}

/** True if capture reads the stream, that is, if its model is not derived. */
export const isReadable = (models: Models) => ({ model }: Pick<StreamKey, "model">): boolean =>
  models.derivedOf(model) === undefined

export const initialState = (settings: StreamSettings, minOverlap: Duration.Duration): StreamState => ({
  integration: settings.integration,
  model: settings.model,
  account: settings.account,
  generation: settings.generation ?? 1,
  phase: "starting",
  paused: false,
  blocked: null,
  watermark: null,
  previousWatermark: null,
  overlap: Duration.toMillis(minOverlap),
  clockOffsets: [],
  backfillStartedAt: null,
  backfilledAt: null,
  lastRunId: 0,
  sweep: null,
  lastPoll: null,
  lastSweep: null,
  failing: null,
  redactions: [],
  silentBackfill: settings.backfill === "fill"
})

export const newRun = (
  state: StreamState,
  kind: Run["kind"],
  details: Pick<Run, "updatedAfter" | "startedAt" | "backfill">
): Run => ({
  id: state.lastRunId + 1,
  kind,
  cursor: null,
  phase: "pages",
  pages: 0,
  watermark: null,
  rowCounts: zeroRowCounts,
  ...details
})

/** Time until a blocked stream is probed; null for the poll interval. */
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

/** The state after a failed run: blocked if only an operator or the API can help, else failing and to be retried. */
export const afterFailure = (
  state: StreamState,
  error: SourceError | RunAborted,
  now: number
): StreamState => {
  const { code, logUrl, openedBy, reason } = error._tag === "RunAborted"
    ? { reason: error.blocks, code: null, logUrl: undefined, openedBy: undefined }
    : { openedBy: undefined, ...error.reason, reason: blockReasons[error.reason._tag] }
  const log = logUrl === undefined ? {} : { logUrl }
  if (reason === undefined) {
    const { count = 0, since = now } = state.failing ?? {}
    const opened = openedBy === undefined ? {} : { openedBy }
    return { ...state, failing: { count: count + 1, message: error.message, since, ...opened, ...log } }
  }
  return {
    ...state,
    failing: null,
    blocked: {
      reason,
      code,
      message: error.message,
      since: state.blocked?.reason === reason ? state.blocked.since : now,
      ...log
    }
  }
}

/** Clears `blocked` and `failing`. Called for every committed page, since a page shows that the stream can be read. */
export const clearFailure = (state: StreamState): StreamState =>
  state.blocked === null && state.failing === null ? state : { ...state, blocked: null, failing: null }

/** The longest delay, in ms: 15 minutes, or the interval if that is longer. */
const maxBackoff = (interval: Duration.Duration): number =>
  Math.max(Duration.toMillis(interval), Duration.toMillis(Duration.minutes(15)))

/**
 * Delay after a failure, in ms.
 * - A failing stream: the interval, doubled with each further failure, up to `maxBackoff`
 * - A blocked stream: the time until its next probe
 * - A blocked stream whose probe failed for another reason, such as a time-out: it is also failing, and waits like a failing stream
 */
export const backoffDelay = ({ blocked, failing }: StreamState, interval: Duration.Duration): number => {
  if (failing !== null) {
    return Math.min(Duration.toMillis(interval) * 2 ** Math.min(failing.count - 1, 10), maxBackoff(interval))
  }
  return blocked === null ? 0 : probeDelay(blocked.reason, interval)
}

/**
 * The time before which the stream is not read; our clock, in ms. If `retryAt` is further ahead than the longest delay, our clock was set
 * back, and the stream is read at once (W4).
 */
export const backoffUntil = (
  { blocked, failing }: StreamState,
  { retryAt, settings: { interval } }: { readonly retryAt: number; readonly settings: StreamSettings },
  now: number
): number => {
  const longest = failing !== null || blocked === null ? maxBackoff(interval) : probeDelay(blocked.reason, interval)
  return retryAt - now > longest ? 0 : retryAt
}
