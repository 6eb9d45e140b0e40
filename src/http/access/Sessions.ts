/**
 * Sessions of browsers: a page cannot send a token with each request, so signing in exchanges the token for a cookie.
 *
 * Invariants
 * 1. A session ends after `idleLimit` without a request and after `absoluteLimit` in any case
 * 2. Only a hash of its secret is stored, and only in memory: a restart ends all sessions   (I11)
 * 3. Only a right token makes a session, and there are never more than `maxSessions`   (I9)
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

const idleLimit = Duration.minutes(30)
const absoluteLimit = Duration.hours(12)
const maxSessions = 100

interface Session {
  readonly scope: Scope
  /** Our clock, ms. */
  readonly startedAt: number
  lastRequestAt: number
}

const hash = (secret: string): string => createHash("sha256").update(secret).digest("base64url")

const isLive = ({ lastRequestAt, startedAt }: Session, now: number): boolean =>
  now - lastRequestAt < Duration.toMillis(idleLimit) && now - startedAt < Duration.toMillis(absoluteLimit)

/** Name and attributes of the cookie. `__Host-` makes browsers accept it only over TLS and from this host. */
export const cookieFor = ({ isSecure, origin }: OwnOrigin) => {
  const port = origin === null ? "" : new URL(origin).port
  return {
    name: `${isSecure ? "__Host-" : ""}rollcall${port === "" ? "" : `_${port}`}`,
    options: { httpOnly: true, path: "/", sameSite: "strict", secure: isSecure }
  } as const
}

export class Sessions extends Context.Service<Sessions, {
  /** Returns the secret of a new session. */
  readonly start: (scope: Scope) => Effect.Effect<string>
  /** The caller of a live session, or null. `prolong`: whether the request counts as activity. */
  readonly find: (secret: string | undefined, prolong: boolean) => Effect.Effect<Caller | null>
  readonly end: (secret: string | undefined) => Effect.Effect<void>
}>()("rollcall/http/Sessions") {
  static readonly layer: Layer.Layer<Sessions> = Layer.sync(Sessions, () => {
    /** Hash of the secret → session, the one with the oldest request first. */
    const sessions = new Map<string, Session>()

    const makeRoom = (now: number): void => {
      for (const [key, session] of sessions) {
        if (sessions.size >= maxSessions || !isLive(session, now)) sessions.delete(key)
      }
    }

    return Sessions.of({
      start: (scope) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          makeRoom(now)
          const secret = randomBytes(32).toString("base64url")
          sessions.set(hash(secret), { scope, startedAt: now, lastRequestAt: now })
          return secret
        }),
      find: Effect.fnUntraced(function*(secret, prolong) {
        if (secret === undefined) return null
        const key = hash(secret)
        const session = sessions.get(key)
        const now = yield* Clock.currentTimeMillis
        if (session === undefined) return null
        if (!isLive(session, now)) {
          sessions.delete(key)
          return null
        }
        if (prolong) {
          session.lastRequestAt = now
          sessions.delete(key)
          sessions.set(key, session)
        }
        return { scope: session.scope, means: "session" }
      }),
      end: (secret) => Effect.sync(() => void (secret !== undefined && sessions.delete(hash(secret))))
    })
  })
}
