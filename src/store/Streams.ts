/**
 * The streams of the store: their states and counts, and transactions on one stream (`StreamTx.ts`).
 *
 * Invariants
 * 1. If the owner's epoch is no longer the newest, its transaction fails with `Fenced` and changes nothing   (I10)
 */
import type * as Effect from "effect/Effect"
import type { StreamKey } from "../domain/Model.ts"
import type { Owner } from "./Ownership.ts"
import type { EndedRun } from "./Run.ts"
import type { StreamState } from "./State.ts"
import type { Operation, StoreError } from "./StoreError.ts"
import type { PendingStatus } from "./StreamRecords.ts"
import type { StreamTx } from "./StreamTx.ts"

/** Selects streams: each given property must match with any of its values. */
export interface StreamQuery {
  readonly integrations?: ReadonlyArray<string> | undefined
  readonly models?: ReadonlyArray<string> | undefined
  /** Streams after this one, in the order of integration and model. */
  readonly after?: { readonly integration: string; readonly model: string } | undefined
  readonly limit: number
}

/** How many rows of a stream the store has. */
export interface StreamCounts {
  readonly live: number
  readonly quarantined: number
  /** Records that wait for a re-read. */
  readonly stale: number
  readonly pending: Readonly<Partial<Record<PendingStatus, number>>>
}

export interface Streams {
  /** Creates the missing streams; leaves existing ones unchanged. */
  readonly ensureStreams: (streams: ReadonlyArray<StreamState>) => Operation<void>
  readonly streams: Operation<ReadonlyArray<StreamState>>
  /** The streams of one integration. */
  readonly streamsOf: (integration: string) => Operation<ReadonlyArray<StreamState>>
  readonly stream: (key: StreamKey) => Operation<StreamState | null>
  /** All streams and the newest position, read at one moment. Every change up to the watermarks is at or before that position. */
  readonly streamsAtPosition: Operation<
    { readonly position: number; readonly chain: string; readonly streams: ReadonlyArray<StreamState> }
  >
  /** The counts of every stream. */
  readonly counts: Operation<ReadonlyArray<StreamKey & StreamCounts>>
  /** Streams in the order of integration and model, with their counts and the newest position, read at one moment. */
  readonly streamPage: (query: StreamQuery) => Operation<
    {
      readonly position: number
      readonly chain: string
      readonly streams: ReadonlyArray<{ readonly state: StreamState; readonly counts: StreamCounts }>
    }
  >
  /** The history of the stream's runs, newest first. */
  readonly runs: (key: StreamKey) => Operation<ReadonlyArray<EndedRun>>
  /** Runs one transaction on one stream, fenced by `owner`. The body may run more than once (deadlock, lock timeout). */
  readonly transact: <A, E>(
    owner: Owner,
    key: StreamKey,
    body: (tx: StreamTx) => Effect.Effect<A, E>
  ) => Effect.Effect<A, E | StoreError>
  /**
   * Replaces the state `before` of a stream by `after`, in one statement. Returns false if nothing was changed, because the stream has a
   * different state now, has pending rows, stale records or undecided holds, or because `owner` is fenced. Fails without a retry: if the
   * connection is lost, it is unknown whether the state was replaced, so the caller must read it again.
   */
  readonly replaceQuietState: (owner: Owner, before: StreamState, after: StreamState) => Operation<boolean>
  /**
   * Erases a stream that is no longer read. Its log rows become silent and empty, but keep their positions and event ids. The newest
   * row is emptied first, so no reader ever gets an event whose `before` is already erased. Runs in many small
   * transactions; if the erasure was interrupted, call this again.
   */
  readonly eraseStream: (owner: Owner, key: StreamKey) => Operation<void>
}
