/** What is found of a store that is only looked at: nothing is written, and nobody's ownership is taken. */
import type { LogIdentity } from "../domain/ChangeEvent.ts"

export interface Examination {
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
  /** Oldest position that is read. */
  readonly oldest: number
}
