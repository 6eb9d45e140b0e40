/**
 * Decides when `updated_after` matches a record: a change of nested content can reach the records that embed it.
 *
 * Invariants
 * 1. The propagation table of the lists is the only rule: a path marked "yes" matches although `changed_at` stays;
 *    a path that is marked "no" or is not in the table never matches (failure case N1). All paths marked "yes" are properties of the
 *    record itself.
 *
 * Gotchas
 * - Only changes of the linked record itself matter: if the candidate in an offer's application is renamed, the offer does not match
 *   (`application.candidate` is marked "no").
 */
import { incrementalModels, lists, type Propagation } from "../../api/Lists.ts"
import type { Row } from "./Records.ts"

const propagationPaths = new Map<string, ReadonlyArray<readonly [path: string, Propagation]>>(
  incrementalModels.map((model) => [model, Object.entries<Propagation>(lists[model].propagation)])
)

/** The latest moment, in ms, at which a change made `updated_after` match this record. */
export const lastMatchingChangeAt = (row: Row): number => {
  let latest = Math.max(row.changedAt, row.entriesChangedAt)
  for (const [path, { entries, linked }] of propagationPaths.get(row.model) ?? []) {
    const one = row.one[path]
    for (const record of row.many[path] ?? (one ? [one] : [])) {
      if (linked) latest = Math.max(latest, ownChangeOf(record))
      // A hard-deleted entry is treated as removed, because the array got shorter.
      if (entries === true) latest = Math.max(latest, record.hardDeletedAt ?? 0, skillOf(record)?.hardDeletedAt ?? 0)
    }
  }
  return latest
}

/** An entry of `skills` is an expectation together with the skill it expects. */
const ownChangeOf = (row: Row): number => Math.max(row.changedAt, skillOf(row)?.changedAt ?? 0)
const skillOf = (row: Row): Row | null | undefined => row.model === "hris.expectation" ? row.one["skill"] : null
