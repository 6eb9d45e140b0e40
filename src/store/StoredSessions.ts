/**
 * The port to the sessions of users and programs that signed in to the operating API. Any process may call it; a session holds in all of
 * them.
 *
 * Gotchas
 * - All times are those of the database's clock, because the clocks of two processes may differ.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { OperatorAction } from "./State.ts"
import type { StoreError } from "./Store.ts"

export interface StoredSession {
  /** Names the session for operators. */
  readonly id: string
  /** `read` allows GET and HEAD only. */
  readonly scope: "read" | "operate"
  /** Shows with which token the session began, without revealing the token. */
  readonly seal: string
  /** Where the user signed in. */
  readonly address: string
  readonly startedAt: number
  readonly lastRequestAt: number
  readonly expiresAt: number
  /** Time until `expiresAt`, ms. */
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
   * Starts a session. `key`: the hash of its secret. If there are too many sessions of the same scope, those without a request for the
   * longest time end. It is not a transaction, so a failover that loses a session is not taken for a loss of data.
   */
  readonly start: (
    session: Pick<StoredSession, "id" | "scope" | "seal" | "address"> & { readonly key: string }
  ) => Operation<void>
  /** A live session; null = there is none. `isActivity`: its idle time starts again. */
  readonly find: (key: string, isActivity: boolean) => Operation<StoredSession | null>
  /** The live sessions, the one with the oldest request first. */
  readonly list: Operation<ReadonlyArray<StoredSession>>
  /** Ends sessions, and adds the operator's action to the audit log unless it is null. Returns the sessions that were live. */
  readonly end: (
    which: SessionSelection,
    toAction: (ended: ReadonlyArray<StoredSession>) => OperatorAction | null
  ) => Operation<ReadonlyArray<StoredSession>>
}>()("rollcall/store/StoredSessions") {}
