/** Holds as the API shows them: with the sweep that ends a hold without a decision. Pure. */
import * as Duration from "effect/Duration"
import { sweepIntervalOf } from "../../capture/schedule/NextStep.ts"
import { isBelowLimits } from "../../domain/Guard.ts"
import { type Models, streamName } from "../../domain/Model.ts"
import { defaultProcessing } from "../../domain/Processing.ts"
import { formatTime, timeInWords } from "../../domain/Watermark.ts"
import type { ListedHold } from "../../store/Records.ts"
import type { IntegrationState, StreamState } from "../../store/State.ts"
import type { HoldView } from "../contract/HoldApi.ts"
import { formatTimeOrNull } from "../contract/Schemas.ts"

export interface Surroundings {
  /** Null if the store does not have the stream. */
  readonly state: StreamState | null
  readonly integration: IntegrationState | null
  /** Our clock, in ms. */
  readonly now: number
}

/** The process that reads a stream releases its approved holds. A retired stream is not read, so its holds wait. */
const waitingReason = (hold: ListedHold, state: StreamState | null): string | null =>
  hold.state === "approving" && state?.retired === true
    ? `${streamName(hold)} is no longer read; its changes are released once it is configured or added again`
    : null

/** When the next sweep is due, which ends a hold below the limits; null for other holds. Our clock, in ms. */
const sweepAt = (models: Models, hold: ListedHold, { integration, state }: Surroundings): number | null => {
  if (hold.state !== "open" || state === null || integration === null || !isBelowLimits(hold.reason)) return null
  const settings = {
    interval: Duration.millis(integration.interval),
    sweepInterval: Duration.millis(integration.sweepInterval)
  }
  const processing = defaultProcessing(hold.model, models)
  return (state.lastSweep?.endedAt ?? hold.openedAt) + sweepIntervalOf({ settings, processing, jitter: 0 }, state)
}

/** Without a time if the sweep is late, or if nothing is read now. */
const sweepText = (at: number, { now, state }: Surroundings): string =>
  state === null || state.paused || state.blocked !== null || state.failing !== null || at <= now
    ? "the next complete sweep"
    : `the sweep at about ${timeInWords(formatTime(at)).replace(/:\d\d UTC$/, " UTC")}`

export const holdView = (models: Models, hold: ListedHold, around: Surroundings): HoldView => {
  const at = sweepAt(models, hold, around)
  return {
    ...hold,
    stream: streamName(hold),
    reason: at === null
      ? hold.reason
      : `${hold.reason}: ${sweepText(at, around)} publishes those that it still finds, unless you reject the hold`,
    opened_at: formatTime(hold.openedAt),
    decided_at: formatTimeOrNull(hold.decidedAt),
    records: hold.rows,
    published: hold.published !== null,
    waiting_reason: waitingReason(hold, around.state),
    sweep_at: formatTimeOrNull(at)
  }
}
