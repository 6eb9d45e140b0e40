/**
 * Logs why streams cannot be read, and when they can be read again. If an integration is broken, all its streams fail for the same cause:
 * only the first one logs the cause as a warning, and only the last one logs that it has recovered. The others log at the level `debug`.
 * If the API refuses the key of an account, the same is true of all its integrations.
 *
 * Gotchas
 * - A process that starts while streams fail, or that takes their shard, logs the cause at their next failure: its log would otherwise not
 *   show why nothing is read.
 */
import * as Effect from "effect/Effect"
import { type Models, type StreamKey, streamName } from "../../domain/Model.ts"
import type { StreamState } from "../../store/State.ts"
import { annotate } from "../Stream.ts"

type Failing = Pick<StreamState, "integration" | "model" | "blocked" | "failing">

interface Failure {
  readonly message: string
  readonly why: string
  readonly logUrl?: string | undefined
  /** The account, if the API refuses its key; else null. */
  readonly account: string | null
}

/** A blocked stream whose probe failed for a reason that does not block a stream is failing too. */
const describe = ({ blocked, failing }: Failing, account: string): Failure | null => {
  if (failing !== null) return { message: "run failed", why: failing.message, logUrl: failing.logUrl, account: null }
  if (blocked === null) return null
  const { logUrl, message: why, reason } = blocked
  return reason === "key"
    ? { message: "account blocked: key", why, logUrl, account }
    : { message: `stream blocked: ${reason}`, why, logUrl, account: null }
}

/** Adds the account to log lines, or the stream if that is null. */
const annotatePlace = (account: string | null, key: StreamKey) =>
  account === null ? annotate(key) : Effect.annotateLogs({ account })

/** The request of the stream's list, such as `GET /ats/tags`. */
const requestOf = (models: Models, { model }: Failing): { readonly request?: string } => {
  const list = models.listOf(model)
  return list === undefined ? {} : { request: `GET ${list.path}` }
}

export type FailureLog = ReturnType<typeof make>

export const make = (models: Models) => {
  /** The integration and the cause of each failing stream, by stream. */
  const failures = new Map<string, Pick<Failure, "account"> & { readonly cause: string; readonly isLogged: boolean }>()
  /**
   * How many streams fail for each cause, and for how many of them this process has logged it. During an outage all streams fail: a search
   * among them for each of them would take minutes.
   */
  const causes = new Map<string, { streams: number; logged: number }>()

  /** Drops the failure of a stream, and returns it. */
  const forget = (key: StreamKey) => {
    const known = failures.get(streamName(key))
    if (known === undefined) return undefined
    failures.delete(streamName(key))
    const count = causes.get(known.cause)!
    count.streams--
    if (known.isLogged) count.logged--
    if (count.streams === 0) causes.delete(known.cause)
    return known
  }
  const note = (stream: Failing, account: string, isLogged: boolean) => {
    forget(stream)
    const found = describe(stream, account)
    if (found === null) return null
    const cause = JSON.stringify([found.account ?? stream.integration, found.message, found.why])
    const count = causes.get(cause) ?? { streams: 0, logged: 0 }
    const isShared = count.logged > 0
    count.streams++
    if (isLogged) count.logged++
    causes.set(cause, count)
    failures.set(streamName(stream), { cause, account: found.account, isLogged })
    return { ...found, isShared }
  }

  return {
    /** Remembers the failure of a stream that this process begins to read, if there is one. */
    remember: (stream: Failing, account: string) => void note(stream, account, false),
    /** Whether this process has logged the failure of the stream. */
    isLogged: (key: StreamKey) => failures.get(streamName(key))?.isLogged === true,
    /** `stream`: after the failure. */
    failed: (stream: Failing, account: string) =>
      Effect.suspend(() => {
        const failure = note(stream, account, true)
        if (failure === null) return Effect.void
        const { isShared, logUrl, message, why } = failure
        const place = annotatePlace(isShared ? null : failure.account, stream)
        const details = { ...requestOf(models, stream), why, ...(logUrl === undefined ? {} : { logUrl }) }
        return (isShared ? Effect.logDebug(message) : Effect.logWarning(message)).pipe(
          Effect.annotateLogs(details),
          place
        )
      }),
    recovered: (key: StreamKey) =>
      Effect.suspend(() => {
        const { account = null, cause } = forget(key) ?? {}
        if (cause !== undefined && causes.has(cause)) return annotate(key)(Effect.logDebug("stream recovered"))
        return annotatePlace(account, key)(Effect.logInfo(account === null ? "stream recovered" : "account recovered"))
      }),
    /** Drops the failure of a stream that is no longer read. */
    drop: (key: StreamKey) => void forget(key)
  }
}
