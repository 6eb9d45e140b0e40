/**
 * The port to the sessions of users and programs that signed in to the operating API. A session that one process starts is valid in all
 * processes.
 *
 * Gotchas
 * - All times are those of the database's clock, because the clocks of two processes may differ.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { OperatorAction } from "./AuditLog.ts"
import type { StoreError } from "./Store.ts"

/** A session ends after this time without activity. */
export const idleLimit = Duration.minutes(30)
/** A session ends at the latest this long after its start. */
export const absoluteLimit = Duration.hours(12)
/** Maximum number of sessions per scope. Each scope has its own limit, so that holders of the read token cannot sign out operators. */
export const maxSessions = 100

export interface StoredSession {
  /** Identifies the session for operators. It is not the secret. */
  readonly id: string
  /** `read` allows GET and HEAD only. */
  readonly scope: "read" | "operate"
  /** Shows with which token the session started, without revealing the token. */
  readonly seal: string
  /** Where the user signed in. */
  readonly address: string
  readonly startedAt: number
  readonly lastRequestAt: number
  readonly expiresAt: number
  /** Time until `expiresAt`, in ms. */
  readonly left: number
}

/** Selects sessions that have all of the given properties. */
export interface SessionSelection {
  readonly key?: string
  readonly id?: string
  readonly scope?: StoredSession["scope"]
}

type Operation<A> = Effect.Effect<A, StoreError>

export class StoredSessions extends Context.Service<StoredSessions, {
  /**
   * Starts a session. `key`: the hash of its secret. If there are then more than `maxSessions` of the same scope, those with the oldest
   * last request end. The statements are not one transaction: a failover that loses a session must not be reported as a loss of data.
   */
  readonly start: (
    session: Pick<StoredSession, "id" | "scope" | "seal" | "address"> & { readonly key: string }
  ) => Operation<void>
  /** The live session with this key; null if there is none. `isActivity`: whether the idle time of the session starts again. */
  readonly find: (key: string, isActivity: boolean) => Operation<StoredSession | null>
  /** The live sessions, the one with the oldest request first. */
  readonly list: Operation<ReadonlyArray<StoredSession>>
  /** Ends sessions, and adds the operator's action to the audit log unless it is null. Returns the sessions that were live. */
  readonly end: (
    which: SessionSelection,
    toAction: (ended: ReadonlyArray<StoredSession>) => OperatorAction | null
  ) => Operation<ReadonlyArray<StoredSession>>
}>()("rollcall/store/StoredSessions") {}
