/** The holds of the guard. Their rows are pending rows, see `StreamRecords.ts`. */

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
  /** When the state last changed: an operator decided, or no rows were left (our clock, in ms). */
  readonly decidedAt: number | null
  /** Number of rows released since the approval. */
  readonly released: number
  /** Set once the hold is approved. */
  readonly release: ReleaseMode | null
}
