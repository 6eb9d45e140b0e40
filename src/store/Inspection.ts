/** What is found of a store that is only looked at: nothing is written, and nobody's ownership is taken. */
import type { LogIdentity } from "../domain/ChangeEvent.ts"

export interface Inspection {
  /** Whether there is a store; if not, one can be made there. */
  readonly exists: boolean
  /** Whether another program keeps everybody from writing. */
  readonly locked: boolean
  /** null where there is no store. */
  readonly log: StoredLog | null
}

export interface StoredLog extends LogIdentity {
  /** Saved position of the relay; 0 = none. */
  readonly saved: number
  /** Position behind which publishing begins (`publishingStart`). */
  readonly start: number
  /** Oldest position that is read, and newest. */
  readonly oldest: number
  readonly newest: number
}

/** The chain of a log at a position, as `Store.chains` has it. */
export const chainQuery = (position: number): string => `
  SELECT CASE ${position} WHEN c.position THEN c.chain WHEN c.pruned THEN c.pruned_chain ELSE
    (SELECT e.chain FROM events e WHERE e.position = ${position} AND e.position > c.pruned) END AS chain
  FROM log_counter c`
