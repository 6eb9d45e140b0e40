/**
 * Decides when to report how far streams are complete. It reads the watermarks, and releases the report when all events that the log had
 * at that moment are published.
 *
 * Invariants
 * 1. The watermarks and the newest position are read at the same moment. A page's events and its watermark are committed
 *    together, so all events up to a watermark are at or before that position. The report is released only after that
 *    position is published, never earlier
 * 2. After an adoption, a stream is reported only once it is published in the new generation   (X14)
 *
 * Gotchas
 * - A stream is not reported before its backfill is complete, and not again while its progress is unchanged.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { type Models, streamName } from "../domain/Model.ts"
import { completeToOf } from "../domain/Watermark.ts"
import type { Store } from "../store/Store.ts"
import type { StreamProgress } from "./Sink.ts"

interface ProgressReport {
  readonly position: number
  readonly streams: ReadonlyArray<StreamProgress>
}

/** Reads the progress at most once per `every`; intermediate progress is not reported. */
export const make = (
  { identity, streamsAtPosition }: Store["Service"],
  models: Models,
  every: Duration.Duration
) => {
  const lastReported = new Map<string, string>()
  let pendingReport: ProgressReport | null = null
  let lastReadAt = -Infinity
  const fingerprintOf = ({ completeTo, generation }: StreamProgress) => `${generation} ${completeTo}`

  const readProgress = Effect.fnUntraced(function*(at: number) {
    lastReadAt = at
    const { position, streams } = yield* streamsAtPosition
    return {
      position,
      streams: streams.flatMap((state): ReadonlyArray<StreamProgress> => {
        const { integration, generation, model } = state
        const complete = completeToOf(state, models.derivedOf(state.model)?.from, streams)
        if (complete === null || state.retired === true || generation < identity.generation) return []
        return [{ integration, model, generation, completeTo: complete, position, at }]
      })
    }
  })

  return {
    /** The report to publish after all events up to `position` are published; null if no report is due. */
    due: Effect.fnUntraced(function*(position: number) {
      const now = yield* Clock.currentTimeMillis
      // If the last read lies in the future, our clock was set back: read again   (W4).
      const isTime = now < lastReadAt || now - lastReadAt >= Duration.toMillis(every)
      if (pendingReport === null && isTime) pendingReport = yield* readProgress(now)
      if (pendingReport === null || pendingReport.position > position) return null
      const due = pendingReport
      pendingReport = null
      return {
        ...due,
        streams: due.streams.filter((stream) => lastReported.get(streamName(stream)) !== fingerprintOf(stream))
      }
    }),
    /** Records that the report was published. */
    markReported: ({ streams }: ProgressReport) => {
      for (const stream of streams) lastReported.set(streamName(stream), fingerprintOf(stream))
    },
    /** Makes the next `due` read the progress again, even if the interval has not passed. */
    checkNow: () => {
      lastReadAt = -Infinity
      pendingReport = null
    }
  }
}
