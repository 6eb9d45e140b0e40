/** A process of the service as everything around it sees it, and the observer of all processes. */
import type * as Effect from "effect/Effect"
import type { ForgettableRecord } from "../../../src/domain/Forgotten.ts"
import type { StreamKey } from "../../../src/domain/Model.ts"
import type { AttemptOutcome, ClaimResult } from "../../../src/store/DeliveryClaims.ts"
import type { Owner } from "../../../src/store/State.ts"
import type { Store } from "../../../src/store/Store.ts"
import type { ServedPage } from "../world/FaultyApi.ts"
import type { CommittedTransaction } from "./CommittedTransaction.ts"

/** A process as its environment and the oracle see it. */
export interface RunningProcess {
  readonly number: number
  readonly dead: boolean
  /** It reads candidates as a list, and derives none. */
  readonly listsCandidates: boolean
  /** Identifies the process since it took over the stream's shard: what it read before belongs to an earlier owner. */
  readonly readerOf: (stream: Pick<StreamKey, "integration">) => string
  /** Runs an effect with this process's clock and random numbers. */
  readonly within: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
  /** Runs an effect while the process lives; afterwards it never returns. */
  readonly whileAlive: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
  readonly kill: () => void
}

export type ForgettingState = "erasing" | "forgotten" | "allowed"

/** Observes all processes. */
export interface ProcessObserver {
  readonly pageServed: (process: RunningProcess, delivery: ServedPage) => void
  readonly ownerClaimed: (owner: Owner) => void
  /** Whether no later owner of the same scope is known. */
  readonly isLatestOwner: (owner: Owner) => boolean
  /** A write may be sent for this owner. */
  readonly writeAllowed: (owner: Owner) => void
  /** A write is sent. */
  readonly writeSent: (owner: Owner) => void
  /** The relay of this owner opened the sink; it published a batch. */
  readonly sinkOpened: (store: Store["Service"], owner: Owner) => void
  readonly published: (store: Store["Service"], owner: Owner) => void
  /** Committed: handlers are registered; attempts are settled and deliveries claimed. */
  readonly handlersRegistered: () => void
  readonly settledAndClaimed: (
    owners: ReadonlyArray<Owner>,
    outcomes: ReadonlyArray<AttemptOutcome>,
    result: ClaimResult
  ) => void
  readonly committed: (process: RunningProcess, written: CommittedTransaction) => void
  /** Committed: an operator wants a record forgotten; it is removed from all places; or it may be stored again. */
  readonly forgettingChanged: (record: ForgettableRecord, state: ForgettingState) => void
}

/** For processes that a benchmark runs. */
export const unobserved: ProcessObserver = {
  pageServed: () => {},
  ownerClaimed: () => {},
  isLatestOwner: () => true,
  writeAllowed: () => {},
  writeSent: () => {},
  sinkOpened: () => {},
  published: () => {},
  handlersRegistered: () => {},
  settledAndClaimed: () => {},
  committed: () => {},
  forgettingChanged: () => {}
}
