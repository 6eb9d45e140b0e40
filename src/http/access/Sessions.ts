/**
 * Sessions of users: a page cannot send a token with each request, so signing in exchanges the token for a cookie. A session is valid in
 * every process of the store.
 *
 * Invariants
 * 1. A session ends after `idleLimit` without activity, `absoluteLimit` after its start (both in `StoredSessions.ts`), and when the token
 *    that started it is no longer valid
 * 2. Only a hash of a session's secret is stored   (I11)
 * 3. Only a valid token starts a session, and the number of sessions is limited   (I9)
 * 4. A session that was ended in another process ends here within about a second, if the store answers
 *
 * Details
 * The secret has two parts: a random text, and the seal of that text, which only a holder of the token can make. A secret with a wrong
 * seal is refused without a query. After the store has confirmed a session, the session is not checked again for `freshFor`. If the store
 * does not answer, a session that it has confirmed to this process stays valid, because no process can end the session without the store.
 *
 * Gotchas
 * - Browsers send a cookie to every port of a host. The name of the cookie therefore contains the port, so that two servers
 *   on one machine do not replace each other's sessions.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { createHash, randomBytes } from "node:crypto"
import type { OperatorAction } from "../../store/Operators.ts"
import { StoreError, Unavailable } from "../../store/Store.ts"
import { maxSessions, type SessionSelection, type StoredSession, StoredSessions } from "../../store/StoredSessions.ts"
import { StoreFault } from "../../store/StoreFault.ts"
import type { Caller } from "../request/Caller.ts"
import type { OwnOrigin } from "../request/RequestOrigin.ts"
import { type Grant, Tokens } from "./Tokens.ts"

/** How long a session is valid without another check after the store has confirmed it, in ms. */
const freshFor = 1_000
/** Minimum time between two updates of a session's last activity by one process, in ms. */
const activityInterval = 10_000
/** How long a request waits for the store if the store has confirmed its session before, and if it has not. */
const [knownTimeout, unknownTimeout] = ["200 millis", "2 seconds"] as const
/** How many confirmed sessions a process remembers: as many as the store keeps, in both scopes. */
const maxKnown = 2 * maxSessions

const hash = (secret: string): string => createHash("sha256").update(secret).digest("base64url")
/** Makes the texts that are sealed: one from the first part of a secret, one from the id of a session. */
const [ofSecret, ofId] = [(text: string) => `secret ${text}`, (id: string) => `session ${id}`]

/** A session that the store confirmed. Times are those of the monotonic clock, in ms. */
interface Known {
  readonly caller: Caller
  checkedAt: number
  readonly activeAt: number
  readonly expiresAt: number
}

const timedOut = new StoreError({
  reason: new Unavailable({ operation: "session", cause: new StoreFault("silent", "the store") })
})

/** Name and attributes of the cookie. `__Host-` makes browsers accept it only over TLS and from this host. */
export const cookieFor = ({ isSecure, origin }: OwnOrigin) => {
  const port = origin === null ? "" : new URL(origin).port
  return {
    name: `${isSecure ? "__Host-" : ""}rollcall${port === "" ? "" : `_${port}`}`,
    options: { httpOnly: true, path: "/", sameSite: "strict", secure: isSecure }
  } as const
}

const make = Effect.gen(function*() {
  const stored = yield* StoredSessions
  const tokens = yield* Tokens
  const scope = yield* Scope.Scope
  const monotonic = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos / 1_000_000n))
  const known = new Map<string, Known>()
  const checks = new Map<string, Fiber.Fiber<Known | null, StoreError>>()
  /** Number of times that this process has ended sessions. A check that started before the latest time does not confirm a session. */
  let ends = 0

  const isOfToken = ({ id, scope, seal }: Pick<StoredSession, "id" | "scope" | "seal">): boolean =>
    tokens.sealedBy(ofId(id), seal) === scope

  const isSealed = (secret: string): boolean => {
    const [text = "", seal = ""] = secret.split(".", 2)
    return tokens.sealedBy(ofSecret(text), seal) !== null
  }

  const remember = (key: string, found: Known): void => {
    known.delete(key)
    known.set(key, found)
    const [oldest] = known.keys()
    if (known.size > maxKnown && oldest !== undefined) known.delete(oldest)
  }

  /** Queries the store. If the activity cannot be stored, for example because the disk is full, the session is still found. */
  const check = Effect.fnUntraced(function*(key: string, isActivity: boolean) {
    const [at, endsBefore] = [yield* monotonic, ends]
    const read = stored.find(key, false)
    const session = yield* isActivity ? Effect.catch(stored.find(key, true), () => read) : read
    if (session === null || !isOfToken(session)) {
      known.delete(key)
      return null
    }
    const found: Known = {
      caller: { scope: session.scope, authenticatedBy: "session", session: session.id },
      checkedAt: at,
      activeAt: isActivity ? at : known.get(key)?.activeAt ?? -Infinity,
      expiresAt: at + session.left
    }
    if (ends === endsBefore) remember(key, found)
    return found
  })

  /** The running check of the session, or a new check. The check continues if the request stops waiting for it. */
  const checking = (key: string, isActivity: boolean) =>
    Effect.suspend(() => {
      const running = checks.get(key)
      if (running !== undefined) return Effect.succeed(running)
      return check(key, isActivity).pipe(
        Effect.ensuring(Effect.sync(() => checks.delete(key))),
        Effect.forkIn(scope),
        // a check may end before this line
        Effect.tap((fiber) => Effect.sync(() => fiber.pollUnsafe() === undefined && checks.set(key, fiber)))
      )
    })

  /**
   * Drops what this process knows about the sessions: later requests query the store, and do not wait for a check that started
   * earlier.
   */
  const dropKnown = (keys: Iterable<string>): void => {
    ends++
    for (const key of keys) {
      known.delete(key)
      checks.delete(key)
    }
  }

  return {
    /** Starts a session. The returned secret is the value of the cookie. */
    start: Effect.fnUntraced(function*({ caller, seal }: Grant, address: string) {
      const text = randomBytes(32).toString("base64url")
      const id = randomBytes(8).toString("hex")
      const secret = `${text}.${seal(ofSecret(text))}`
      yield* stored.start({ key: hash(secret), id, scope: caller.scope, seal: seal(ofId(id)), address })
      return { id, secret }
    }),
    /** The caller of a live session; null if there is none. `isActivity`: whether the request restarts the idle time of the session. */
    find: Effect.fnUntraced(function*(secret: string | undefined, isActivity: boolean) {
      if (secret === undefined || !isSealed(secret)) return null
      const key = hash(secret)
      const now = yield* monotonic
      const before = known.get(key)
      const confirmed = before !== undefined && now < before.expiresAt ? before : null
      const mustStore = isActivity && (confirmed === null || now - confirmed.activeAt >= activityInterval)
      if (confirmed !== null && !mustStore && now - confirmed.checkedAt < freshFor) return confirmed.caller
      const result = yield* Fiber.join(yield* checking(key, mustStore)).pipe(
        Effect.timeoutOption(confirmed === null ? unknownTimeout : knownTimeout),
        Effect.map(Option.getOrElse(() => timedOut)),
        Effect.catch(Effect.succeed)
      )
      if (!(result instanceof StoreError)) return result?.caller ?? null
      if (confirmed === null) return yield* result
      return confirmed.caller
    }),
    end: Effect.fnUntraced(function*(secret: string | undefined) {
      if (secret === undefined || !isSealed(secret)) return
      const key = hash(secret)
      yield* Effect.ensuring(stored.end({ key }, () => null), Effect.sync(() => dropKnown([key])))
    }),
    /** The live sessions, the one with the oldest request first. */
    list: Effect.map(stored.list, (all) => all.filter(isOfToken)),
    /** Ends the selected live sessions, with an entry in the audit log; returns how many ended. */
    endSelected: (which: SessionSelection, toAction: (count: number) => OperatorAction) =>
      stored.end(which, (ended) => {
        const { length } = ended.filter(isOfToken)
        return length === 0 ? null : toAction(length)
      }).pipe(
        Effect.tap(() => Effect.sync(() => dropKnown([...known.keys(), ...checks.keys()]))),
        Effect.map((ended) => ended.filter(isOfToken).length)
      )
  }
})

export class Sessions extends Context.Service<Sessions>()("rollcall/http/Sessions", { make }) {
  static readonly layer: Layer.Layer<Sessions, never, StoredSessions | Tokens> = Layer.effect(Sessions, make)
}

/** Ends sessions on request of an operator, and records that in the audit log; returns how many sessions ended. */
export const endSessions = Effect.fnUntraced(function*(target: string, which: SessionSelection) {
  const { endSelected } = yield* Sessions
  const at = yield* Clock.currentTimeMillis
  const count = yield* endSelected(
    which,
    (count) => ({ at, command: "sessions.end", target, detail: `${count} ended` })
  )
  if (count > 0) yield* Effect.annotateLogs(Effect.logInfo("sessions ended"), { target, count })
  return count
})
