/**
 * The port to the leases of request slots, and to the pauses of accounts, that the processes of a fleet share.
 *
 * Gotchas
 * - A lease expires by the clock of the database. The caller measures `left` by its clock, from the moment before the call.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { Lease, Share } from "../domain/RequestShare.ts"
import type { StoreError } from "./Store.ts"

export interface LeaseClaim {
  readonly account: string
  /** How long the lease lasts. */
  readonly duration: Duration.Duration
  /** How many requests this process may have in flight if it is the only one. */
  readonly concurrency: number
  /** How many slots the process could use. */
  readonly wanted: number
  /** How many slots the process keeps: at least as many as it has requests in flight. It returns the others, and stops using them now. */
  readonly keep: number
  /** Pauses the account for at least this time; zero for no pause. */
  readonly pause: Duration.Duration
}

export interface LeaseResult extends Share {
  /** How long the lease lasts. */
  readonly left: Duration.Duration
  /** How long the pause of the account lasts. */
  readonly pauseLeft: Duration.Duration
}

/** The leases of an account that have not expired, of all processes. */
export interface AccountLeases {
  readonly leases: ReadonlyArray<Pick<Lease, "concurrency" | "slots" | "wanted">>
  readonly pauseLeft: Duration.Duration
}

export class RequestLeases extends Context.Service<RequestLeases, {
  /**
   * Reports demand and pauses of this process, and renews its leases. Returns the result for each account. A lease without slots and
   * demand is removed. While nothing changes this is one statement, otherwise one transaction; the number of statements does not depend
   * on the number of accounts. Each account has at most one claim.
   */
  readonly claim: (claims: ReadonlyArray<LeaseClaim>) => Effect.Effect<ReadonlyMap<string, LeaseResult>, StoreError>
  /** Reads the leases of an account and its pause. */
  readonly leasesOf: (account: string) => Effect.Effect<AccountLeases, StoreError>
}>()("rollcall/store/RequestLeases") {}
