/** The records that an operator had Rollcall forget. */

/** A record that an operator had Rollcall forget: its data is deleted, and no run stores it again until an operator allows it. */
export interface ForgottenRecord {
  readonly integration: string
  /** A name of `forgettableModels`. */
  readonly model: string
  readonly id: string
  /** `erasing`: some of its data may be left. The erasure continues after a restart. */
  readonly state: "erasing" | "forgotten"
  /** Our clock, in ms. */
  readonly requestedAt: number
  readonly doneAt: number | null
  /** How far the removal is; null before it has found the records to change, and after it is complete. */
  readonly progress: ForgettingProgress | null
}

export interface ForgettingProgress {
  /** Records that have been changed: the record itself, and those that repeat it. */
  readonly done: number
  readonly total: number
}
