/**
 * Sessions: a page cannot send a token with each request, so signing in exchanges the token for a cookie.
 *
 * Invariants
 * 1. A session ends after `idleLimit` without activity, `absoluteLimit` after its start, and when the token that started it is no longer
 *    valid
 * 2. Only a hash of its secret is stored, and only in memory: a restart ends all sessions   (I11)
 * 3. Only a valid token starts a session, and there are never more than `maxSessions` of each right   (I9)
 *
 * Gotchas
 * - Browsers send a cookie to every port of a host. The name of the cookie therefore contains the port, so that two servers
 *   on one machine do not replace each other's sessions.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { createHash, randomBytes } from "node:crypto"
import type { Caller, Scope } from "./Caller.ts"
import type { OwnOrigin } from "./RequestOrigin.ts"
import type { Grant } from "./Tokens.ts"

const idleLimit = Duration.toMillis("30 minutes")
const absoluteLimit = Duration.toMillis("12 hours")
const maxSessions = 100

/** A session as operators see it. Times are those of our clock, ms. */
export interface OpenSession {
  /** Names the session for operators. It is not the secret, and gives no access. */
  readonly id: string
  readonly scope: Scope
  /** Where the user signed in. */
  readonly address: string
  readonly startedAt: number
  readonly lastRequestAt: number
  readonly expiresAt: number
}

interface Session extends Pick<OpenSession, "id" | "address" | "startedAt"> {
  readonly grant: Grant
  lastRequestAt: number
}

const hash = (secret: string): string => createHash("sha256").update(secret).digest("base64url")

const expiryOf = ({ lastRequestAt, startedAt }: Session): number =>
  Math.min(lastRequestAt + idleLimit, startedAt + absoluteLimit)

const isLive = (session: Session, now: number): boolean => now < expiryOf(session) && session.grant.isValid()

/** Name and attributes of the cookie. `__Host-` makes browsers accept it only over TLS and from this host. */
export const cookieFor = ({ isSecure, origin }: OwnOrigin) => {
  const port = origin === null ? "" : new URL(origin).port
  return {
    name: `${isSecure ? "__Host-" : ""}rollcall${port === "" ? "" : `_${port}`}`,
    options: { httpOnly: true, path: "/", sameSite: "strict", secure: isSecure }
  } as const
}

export class Sessions extends Context.Service<Sessions, {
  /** Starts a session. The returned secret is the value of the cookie. */
  readonly start: (grant: Grant, address: string) => Effect.Effect<{ readonly id: string; readonly secret: string }>
  /** The caller of a live session, or null. `isActivity`: whether the request counts as activity, so that the idle time starts again. */
  readonly find: (secret: string | undefined, isActivity: boolean) => Effect.Effect<Caller | null>
  readonly end: (secret: string | undefined) => Effect.Effect<void>
  /** The live sessions, the one with the oldest request first. */
  readonly list: Effect.Effect<ReadonlyArray<OpenSession>>
  /** Ends the live sessions that are selected, and returns them. */
  readonly endEach: (isSelected: (session: OpenSession) => boolean) => Effect.Effect<ReadonlyArray<OpenSession>>
}>()("rollcall/http/Sessions") {
  static readonly layer: Layer.Layer<Sessions> = Layer.sync(Sessions, () => {
    /** Hash of the secret → session, the one with the oldest request first. */
    const sessions = new Map<string, Session>()

    const dropDead = (now: number): void => {
      for (const [key, session] of sessions) if (!isLive(session, now)) sessions.delete(key)
    }
    const view = (session: Session): OpenSession => ({
      id: session.id,
      scope: session.grant.caller.scope,
      address: session.address,
      startedAt: session.startedAt,
      lastRequestAt: session.lastRequestAt,
      expiresAt: expiryOf(session)
    })

    return Sessions.of({
      start: (grant, address) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          dropDead(now)
          // of the same right: the holders of the read token must not be able to sign out operators
          const peers = [...sessions].filter(([, session]) => session.grant.caller.scope === grant.caller.scope)
          const [longestIdle] = peers
          if (peers.length >= maxSessions && longestIdle !== undefined) sessions.delete(longestIdle[0])
          const secret = randomBytes(32).toString("base64url")
          const id = randomBytes(8).toString("hex")
          sessions.set(hash(secret), { id, grant, address, startedAt: now, lastRequestAt: now })
          return { id, secret }
        }),
      find: Effect.fnUntraced(function*(secret, isActivity) {
        if (secret === undefined) return null
        const key = hash(secret)
        const session = sessions.get(key)
        const now = yield* Clock.currentTimeMillis
        if (session === undefined) return null
        if (!isLive(session, now)) {
          sessions.delete(key)
          return null
        }
        if (isActivity) {
          session.lastRequestAt = now
          sessions.delete(key)
          sessions.set(key, session)
        }
        return { scope: session.grant.caller.scope, means: "session", session: session.id }
      }),
      end: (secret) => Effect.sync(() => void (secret !== undefined && sessions.delete(hash(secret)))),
      list: Effect.map(Clock.currentTimeMillis, (now) => {
        dropDead(now)
        return [...sessions.values()].map(view)
      }),
      endEach: (isSelected) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          dropDead(now)
          const ended = [...sessions].filter(([, session]) => isSelected(view(session)))
          for (const [key] of ended) sessions.delete(key)
          return ended.map(([, session]) => view(session))
        })
    })
  })
}
