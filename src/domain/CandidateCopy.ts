/**
 * Chooses which copy of a candidate is published, because several applications can contain copies of one candidate.
 *
 * Invariants
 * 1. The choice depends only on the copies, not on the order in which they were read   (N5)
 *
 * Gotchas
 * - `changed_at` is the time at which the unified API noticed a change. Two copies with the same `changed_at` may differ, because one of
 *   the copies may be stale.
 */
import type { Observation } from "./Observation.ts"

/** A candidate as it appears in one application. */
export interface CandidateCopy extends Pick<Observation, "canonicalHash" | "changedAtMs"> {
  /** Id of the application. */
  readonly parent: string
}

/** True if copy `a` is preferred to copy `b`. Every copy with a `changed_at` is preferred to a copy without one. */
const isBefore = (a: CandidateCopy, b: CandidateCopy): boolean =>
  a.changedAtMs === b.changedAtMs
    ? a.parent < b.parent
    : (a.changedAtMs ?? -Infinity) > (b.changedAtMs ?? -Infinity)

/**
 * Returns the copy with the greatest `changed_at`; ties go to the smallest application id. `disputed` is true if another copy
 * with the same `changed_at` has different content.
 */
export const chooseCopy = <C extends CandidateCopy>(
  copies: readonly [C, ...Array<C>]
): { readonly copy: C; readonly disputed: boolean } => {
  const copy = copies.reduce((best, other) => isBefore(other, best) ? other : best)
  const disputed = copies.some((other) =>
    other.changedAtMs === copy.changedAtMs && other.canonicalHash() !== copy.canonicalHash()
  )
  return { copy, disputed }
}
