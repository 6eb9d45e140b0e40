/**
 * The values of claims: a process claims due deliveries of its shards, attempts them, and settles them.
 *
 * Invariants
 * 1. Per handler and ordering key, at most one delivery is claimed at a time: the earliest that is not settled   (I5)
 * 2. An owner or a claim that is no longer the newest cannot settle a delivery   (I10, X16)
 */
import type { HandlerCircuit } from "../domain/HandlerCircuit.ts"
import type { Delivery, FailedAttempt, Subject } from "./Delivery.ts"
import type { Owner } from "./State.ts"

/** A delivery that this process may attempt until a later claim exists. */
export interface Claimed extends Delivery {
  readonly claim: number
  /** Number of earlier claims whose process ended before they were settled or released; see `isolateAfterCrashes`. */
  readonly crashes: number
}

export interface RunningDelivery {
  readonly id: number
  readonly shard: number
}

/** The deliveries that a handler has capacity for. */
export interface ClaimRequest {
  readonly handler: number
  /** Maximum number of deliveries, or of batches. */
  readonly most: number
  /**
   * Replaces `most` while one of the handler's due or running deliveries was running during an earlier crash. The next crash is counted
   * for every claimed delivery, so only as many are claimed as can start at once.
   */
  readonly mostAfterCrash: number
  /**
   * True to claim only deliveries that must run alone, and at most one for all requests together. Otherwise only other deliveries are
   * claimed.
   */
  readonly isolated: boolean
  /** Maximum number of deliveries in a batch; null if the handler takes no batches. */
  readonly size: number | null
  /**
   * Maximum number of deliveries, or of batches, that are claimed in all processes together, while other processes own shards too. A
   * process that owns all shards may claim more than it starts at once.
   */
  readonly concurrency: number
  /** Integrations whose deliveries are not claimed now. */
  readonly excludedIntegrations: ReadonlyArray<string>
  /** The only integrations whose deliveries are claimed; all if absent. */
  readonly onlyIntegrations?: ReadonlyArray<string>
  /**
   * The kind of delivery that the handler takes. Another one was made when the handler of this name took events, and takes
   * ticks now, or the other way around.
   */
  readonly subject: Subject["_tag"]
  /** A delivery that is due more than this far ahead, in ms, becomes due now, because our clock was set back   (W4). */
  readonly maxLead: number
}

export interface ClaimResult {
  readonly claimed: ReadonlyArray<Claimed>
  /** When the next delivery will be due; null if no delivery is waiting for its time. */
  readonly next: number | null
  /** True if a delivery that must run alone is due, and a request for other deliveries skipped it. */
  readonly isolatedDue: boolean
  readonly lost: ReadonlyArray<Owner>
  /** The circuits of handlers that failed since their last success, in any process. The others are closed. */
  readonly circuits: ReadonlyMap<number, HandlerCircuit>
}

/** How an attempt ended. The outcome of a batch applies to all its members. */
export type AttemptOutcome =
  & {
    readonly deliveries: ReadonlyArray<number>
    /**
     * The result of the attempt for the handler's circuit. `failed`: the ordering key of the failed record; null if it succeeded. Absent
     * if the circuit does not change, because the handler did not run, or met a rate limit.
     */
    readonly result?: { readonly handler: number; readonly failed: string | null }
  }
  & (
    | { readonly _tag: "Settled" }
    /** The deliveries are due again, as if they had not been claimed. */
    | { readonly _tag: "Released" }
    | {
      readonly _tag: "Retry"
      readonly dueAt: number
      readonly attempts: number
      readonly failedAttempt: FailedAttempt
      /** True if the attempt ended because all writes are stopped. The delivery is due as soon as they are resumed. */
      readonly stopped?: boolean
    }
    | { readonly _tag: "Dead"; readonly attempts: number; readonly failedAttempt: FailedAttempt }
    /** The batch becomes two batches. */
    | { readonly _tag: "Split"; readonly batch: string; readonly dueAt: number; readonly failedAttempt: FailedAttempt }
  )
