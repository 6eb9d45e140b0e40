/**
 * The holds of the guard: any process lists and decides them. The stream's owner opens and saves them (`StreamTx.ts`).
 *
 * Gotchas
 * - The rows of a hold are pending rows, see `StreamRecords.ts`.
 */
import type * as Effect from "effect/Effect"
import type { StreamKey } from "../domain/Model.ts"
import type { Operation } from "./StoreError.ts"

/**
 * `open`: waits for an operator. `rejected`: an operator decided that its changes stay unpublished. `approving`: approved, but not all of
 * its rows are published yet. `approved`: all of its rows are published. `canceled`: no rows were left before an operator decided, or
 * after a rejection.
 */
export type HoldState = "open" | "rejected" | "approving" | "approved" | "canceled"

/** How the changes of an approved hold are released. */
export interface ReleaseMode {
  /** Origin of the released events; null if each event keeps the origin with which its change was found. */
  readonly origin: "backfill" | null
  /** Scope holds only: true if no events are published, and the current content is stored as if it had been published. */
  readonly silent: boolean
}

/** Pending rows that the guard keeps unpublished until an operator decides. */
export interface Hold {
  readonly id: number
  readonly kind: "deletes" | "restores" | "scope"
  readonly state: HoldState
  /** Text for operators, without personal data. */
  readonly reason: string
  /** `scope`: paths that keep their published value; `*` is any member of an array. */
  readonly paths: ReadonlyArray<string>
  /** Our clock, in ms. */
  readonly openedAt: number
  /** When an operator last decided; if none did, when no rows were left (our clock, in ms). Null while the hold is open. */
  readonly decidedAt: number | null
  /** Number of rows released since the approval. */
  readonly released: number
  /** Set once the hold is approved. */
  readonly release: ReleaseMode | null
}

/** The hash and the number of the rows of a hold at one moment. An approval refers to exactly these rows. */
export interface HoldPlan {
  /** Identifies these rows, with their content. */
  readonly hash: string
  readonly rows: number
}

/** A hold with its stream and its current number of rows. */
export type ListedHold = StreamKey & Hold & { readonly rows: number }

export interface Holds {
  /** Newest first. Without `states`: holds that are neither approved nor canceled. `before` is an id. */
  readonly holds: (
    query: {
      readonly states?: ReadonlyArray<HoldState> | undefined
      readonly before?: number | undefined
      readonly limit: number
    }
  ) => Operation<ReadonlyArray<ListedHold>>
  readonly hold: (id: number) => Operation<ListedHold | null>
  /** Null if the hold does not exist. */
  readonly holdPlan: (id: number) => Operation<HoldPlan | null>
  /**
   * Saves an operator's decision. Any process may call this; the stream's owner carries out an approval. `plan` is the hash of the rows
   * that the operator has seen. Returns false if nothing was decided, because the hold was already approved, canceled or rejected, or
   * because its rows are no longer those of the plan.
   */
  readonly decide: (
    id: number,
    decision: { readonly state: "rejected" } | {
      readonly state: "approving"
      readonly release: ReleaseMode
      readonly plan?: string | undefined
    },
    /** Our clock, in ms. */
    now: number
  ) => Operation<boolean>
  /**
   * Waits until this process knows of more than `seen` decisions; returns how many it knows of. On PostgreSQL it may take a second to
   * notice a decision that another process saved.
   */
  readonly awaitDecision: (seen: number) => Effect.Effect<number>
}
