/**
 * Logs why streams cannot be read, and when they can be read again. If an integration is broken, all its
 * streams fail for the same cause: only the first one logs the cause as a warning, and only the last one logs that it has recovered.
 * The others log at the level `debug`.
 */
import * as Effect from "effect/Effect"
import { type StreamKey, streamName } from "../../domain/Model.ts"
import { annotate } from "../Stream.ts"

export interface FailureLog {
  readonly failed: (key: StreamKey, message: string, why: string) => Effect.Effect<void>
  readonly recovered: (key: StreamKey) => Effect.Effect<void>
  /** Drops the failure of a stream that is no longer read. */
  readonly drop: (key: StreamKey) => void
}

export const make = (): FailureLog => {
  /** The integration and the cause of each failing stream, by stream. */
  const causes = new Map<string, string>()
  const isShared = (cause: string | undefined): boolean => [...causes.values()].some((other) => other === cause)
  return {
    failed: (key, message, why) =>
      Effect.suspend(() => {
        const cause = JSON.stringify([key.integration, message, why])
        causes.delete(streamName(key))
        const log = isShared(cause) ? Effect.logDebug(message) : Effect.logWarning(message)
        causes.set(streamName(key), cause)
        return annotate(key, { why })(log)
      }),
    recovered: (key) =>
      Effect.suspend(() => {
        const cause = causes.get(streamName(key))
        causes.delete(streamName(key))
        return annotate(key)(isShared(cause) ? Effect.logDebug("stream recovered") : Effect.logInfo("stream recovered"))
      }),
    drop: (key) => void causes.delete(streamName(key))
  }
}
