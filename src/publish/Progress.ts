/**
 * Decides when it may be said how far streams are complete: once everything is published that was in the log by then.
 *
 * Invariants
 * 1. A watermark and the newest position are read in one moment. A page's events and its watermark are committed
 *    together, so what the watermark promises lies at or before that position: it is handed out behind it, never before
 * 2. A stream that was not yet published anew since the store was adopted is not spoken of   (X14)
 *
 * Gotchas
 * - Nothing is said of a stream before its backfill is complete, nor twice of one that stands still.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { derivedRegistry, isDerived, streamName } from "../domain/Model.ts"
import { completeTo } from "../domain/Watermark.ts"
import type { StreamState } from "../store/State.ts"
import type { Store, StoreError } from "../store/Store.ts"
import type { StreamProgress } from "./Sink.ts"

interface ProgressReport {
  readonly position: number
  readonly streams: ReadonlyArray<StreamProgress>
}

export interface Progress {
  /** What is to be told by who has published everything up to `position`; null = nothing to tell from. */
  readonly due: (position: number) => Effect.Effect<ProgressReport | null, StoreError>
  /** It was told. */
  readonly markReported: (note: ProgressReport) => void
  /** Looks at the next occasion, not when it is time. */
  readonly checkNow: () => void
}

/** What is derived is complete as far as what it is derived from, once it was filled. */
const completeToOf = (state: StreamState, streams: ReadonlyArray<StreamState>): number | null => {
  if (!isDerived(state.model)) return completeTo(state)
  const { from } = derivedRegistry[state.model]
  const source = streams.find(({ integration, model }) => integration === state.integration && model === from)
  return source === undefined || state.backfilledAt === null ? null : completeTo(source)
}

/** Streams are looked at once in `every`; of several steps in between only the last is told. */
export const make = ({ identity, streamsAtPosition }: Store["Service"], every: Duration.Duration): Progress => {
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
        const complete = completeToOf(state, streams)
        if (complete === null || state.retired === true || generation < identity.generation) return []
        return [{ integration, model, generation, completeTo: complete, position, at }]
      })
    }
  })

  return {
    due: Effect.fnUntraced(function*(position) {
      const now = yield* Clock.currentTimeMillis
      // looked at in the future it was before our clock was set back   (W4)
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
    markReported: ({ streams }) => {
      for (const stream of streams) lastReported.set(streamName(stream), fingerprintOf(stream))
    },
    checkNow: () => {
      lastReadAt = -Infinity
    }
  }
}
