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
import { isStreamModel, registry, type StreamKey, streamName } from "../../domain/Model.ts"
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
const describe = (
  { blocked, failing }: Failing
): { readonly message: string; readonly why: string; readonly logUrl?: string | undefined } | null =>
  failing !== null
    ? { message: "run failed", why: failing.message, logUrl: failing.logUrl }
    : blocked === null
    ? null
    : { message: `stream blocked: ${blocked.reason}`, why: blocked.message, logUrl: blocked.logUrl }

/** The request of the stream's list, such as `GET /ats/tags`. */
const requestOf = ({ model }: Failing): { readonly request?: string } =>
  isStreamModel(model) ? { request: `GET ${registry[model].path}` } : {}

export const make = (): FailureLog => {
  /** The integration and the cause of each failing stream, by stream. */
  const failures = new Map<string, { readonly cause: string; readonly isLogged: boolean }>()
  /**
   * How many streams fail for each cause, and for how many of them this process has logged it. During an outage all streams fail: a search
   * among them for each of them would take minutes.
   */
  const causes = new Map<string, { streams: number; logged: number }>()

  /** Drops the failure of a stream; returns its cause. */
  const forget = (key: StreamKey): string | undefined => {
    const known = failures.get(streamName(key))
    if (known === undefined) return undefined
    failures.delete(streamName(key))
    const count = causes.get(known.cause)!
    count.streams--
    if (known.isLogged) count.logged--
    if (count.streams === 0) causes.delete(known.cause)
    return known.cause
  }
  const note = (stream: Failing, isLogged: boolean) => {
    forget(stream)
    const found = describe(stream)
    if (found === null) return null
    const cause = JSON.stringify([stream.integration, found.message, found.why])
    const count = causes.get(cause) ?? { streams: 0, logged: 0 }
    const isShared = count.logged > 0
    count.streams++
    if (isLogged) count.logged++
    causes.set(cause, count)
    failures.set(streamName(stream), { cause, isLogged })
    return { ...found, isShared }
  }

  return {
    remember: (stream) => void note(stream, false),
    isLogged: (key) => failures.get(streamName(key))?.isLogged === true,
    failed: (stream) =>
      Effect.suspend(() => {
        const failure = note(stream, true)
        if (failure === null) return Effect.void
        const { isShared, logUrl, message, why } = failure
        const details = { ...requestOf(stream), why, ...(logUrl === undefined ? {} : { logUrl }) }
        return annotate(stream, details)(isShared ? Effect.logDebug(message) : Effect.logWarning(message))
      }),
    recovered: (key) =>
      Effect.suspend(() => {
        const cause = forget(key)
        const isShared = cause !== undefined && causes.has(cause)
        return annotate(key)(isShared ? Effect.logDebug("stream recovered") : Effect.logInfo("stream recovered"))
      }),
    drop: (key) => void forget(key)
  }
}
