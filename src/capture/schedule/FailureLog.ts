/**
 * Logs why streams cannot be read, and when they can be read again. If an integration is broken, all its
 * streams fail for the same cause: only the first one logs the cause as a warning, and only the last one logs that it has recovered.
 * The others log at the level `debug`.
 *
 * Gotchas
 * - A process that starts while streams fail, or that takes their shard, logs the cause at their next failure: its log would otherwise not
 *   show why nothing is read.
 */
import * as Effect from "effect/Effect"
import { type StreamKey, streamName } from "../../domain/Model.ts"
import type { StreamState } from "../../store/State.ts"
import { annotate } from "../Stream.ts"

type Failing = Pick<StreamState, "integration" | "model" | "blocked" | "failing">

export interface FailureLog {
  /** Remembers the failure of a stream that this process begins to read, if there is one. */
  readonly remember: (stream: Failing) => void
  /** Whether this process has logged the failure of the stream. */
  readonly isLogged: (key: StreamKey) => boolean
  /** `stream`: after the failure. */
  readonly failed: (stream: Failing) => Effect.Effect<void>
  readonly recovered: (key: StreamKey) => Effect.Effect<void>
  /** Drops the failure of a stream that is no longer read. */
  readonly drop: (key: StreamKey) => void
}

/** A blocked stream whose probe failed for a reason that does not block a stream is failing too. */
const describe = ({ blocked, failing }: Failing): { readonly message: string; readonly why: string } | null =>
  failing !== null
    ? { message: "run failed", why: failing.message }
    : blocked === null
    ? null
    : { message: `stream blocked: ${blocked.reason}`, why: blocked.message }

export const make = (): FailureLog => {
  /** The integration and the cause of each failing stream, by stream. */
  const failures = new Map<string, { readonly cause: string; readonly isLogged: boolean }>()
  const note = (stream: Failing, isLogged: boolean) => {
    const found = describe(stream)
    if (found === null) return null
    const cause = JSON.stringify([stream.integration, found.message, found.why])
    failures.set(streamName(stream), { cause, isLogged })
    return { ...found, cause }
  }
  return {
    remember: (stream) => void note(stream, false),
    isLogged: (key) => failures.get(streamName(key))?.isLogged === true,
    failed: (stream) =>
      Effect.suspend(() => {
        failures.delete(streamName(stream))
        const logged = [...failures.values()].filter(({ isLogged }) => isLogged)
        const failure = note(stream, true)
        if (failure === null) return Effect.void
        const { cause, message, why } = failure
        const isShared = logged.some((other) => other.cause === cause)
        return annotate(stream, { why })(isShared ? Effect.logDebug(message) : Effect.logWarning(message))
      }),
    recovered: (key) =>
      Effect.suspend(() => {
        const cause = failures.get(streamName(key))?.cause
        failures.delete(streamName(key))
        const isShared = [...failures.values()].some((other) => other.cause === cause)
        return annotate(key)(isShared ? Effect.logDebug("stream recovered") : Effect.logInfo("stream recovered"))
      }),
    drop: (key) => void failures.delete(streamName(key))
  }
}
