/**
 * Decides when `updated_after` matches a record: a change of nested content can reach the records that embed it.
 *
 * Invariants
 * 1. The propagation table of the lists is the only rule: a path marked "yes" matches although `changed_at` stays;
 *    a path that is marked "no" or is not in the table never matches (failure case N1).
 *
 * Gotchas
 * - Only changes of the linked record itself matter: if the candidate in an offer's application is renamed, the offer does not match
 *   (`application.candidate` is marked "no").
 */
import { type IncrementalModel, incrementalModels, lists, type Propagation } from "../../api/Lists.ts"
import type { Row } from "./Records.ts"

interface PropagationPath extends Propagation {
  readonly path: ReadonlyArray<string>
}

const propagationPaths = new Map<string, ReadonlyArray<PropagationPath>>(
  incrementalModels.map((model: IncrementalModel) => [
    model,
    Object.entries<Propagation>(lists[model].propagation)
      .filter(([, { entries, linked }]) => entries === true || linked)
      .map(([path, propagation]) => ({ path: path.split("."), ...propagation }))
  ])
)

/** The latest moment, in ms, at which a change made `updated_after` match this record. */
export const lastMatchingChangeAt = (row: Row): number => {
  let latest = Math.max(row.changedAt, row.entriesChangedAt)
  for (const trigger of propagationPaths.get(row.model) ?? []) {
    latest = Math.max(latest, latestChangeAlong(row, trigger, 0))
  }
  return latest
}

const latestChangeAlong = (row: Row, trigger: PropagationPath, depth: number): number => {
  const step = trigger.path[depth]
  if (step === undefined) return trigger.linked ? ownChangeOf(row) : 0
  const one = row.one[step]
  let latest = one ? latestChangeAlong(one, trigger, depth + 1) : 0
  for (const entry of row.many[step] ?? []) {
    latest = Math.max(latest, latestChangeAlong(entry, trigger, depth + 1))
    // A hard-deleted entry is treated as removed, because the array got shorter.
    if (trigger.entries === true) {
      latest = Math.max(latest, entry.hardDeletedAt ?? 0, skillOf(entry)?.hardDeletedAt ?? 0)
    }
  }
  return latest
}

/** An entry of `skills` is an expectation together with the skill it expects. */
const ownChangeOf = (row: Row): number => Math.max(row.changedAt, skillOf(row)?.changedAt ?? 0)
const skillOf = (row: Row): Row | null | undefined => row.model === "hris.expectation" ? row.one["skill"] : null
