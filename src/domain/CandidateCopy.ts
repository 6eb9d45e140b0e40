/**
 * Which of the copies that applications show of one candidate is the candidate.
 *
 * Invariants
 * 1. The choice depends on the copies alone, not on the order in which they were met   (N5)
 *
 * Gotchas
 * - `changed_at` says when the service noticed: two copies of one moment may differ, while one of them is stale.
 */

/** The candidate as one application shows it. */
export interface CandidateCopy {
  /** Id of the application. */
  readonly parent: string
  readonly canonicalHash: string
  /** The candidate's own, ms; null if it cannot be read. */
  readonly changedAtMs: number | null
}

/** In the order in which they are believed: one without `changed_at` comes after all that have one. */
const isBefore = (a: CandidateCopy, b: CandidateCopy): boolean =>
  a.changedAtMs === b.changedAtMs
    ? a.parent < b.parent
    : (a.changedAtMs ?? -Infinity) > (b.changedAtMs ?? -Infinity)

/**
 * The copy with the greatest `changed_at`, of several the one of the smallest application id. `disputed`: another of that
 * moment shows the candidate differently.
 */
export const chooseCopy = <C extends CandidateCopy>(
  copies: readonly [C, ...Array<C>]
): { readonly copy: C; readonly disputed: boolean } => {
  const copy = copies.reduce((best, other) => isBefore(other, best) ? other : best)
  const disputed = copies.some((other) =>
    other.changedAtMs === copy.changedAtMs && other.canonicalHash !== copy.canonicalHash
  )
  return { copy, disputed }
}
