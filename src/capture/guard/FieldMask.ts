/**
 * What scope holds keep back of a record: its masked paths keep their published values while the rest goes on.
 *
 * Invariants
 * 1. A record of which something is kept back has a pending row of that hold with all that was observed   (I1)
 */
import type { JsonObject } from "../../domain/Canonical.ts"
import { keepPublished } from "../../domain/ScopeChange.ts"
import type { Hold, PendingStatus } from "../../store/State.ts"

/** Of a stream's holds those that mask paths, open ones first; a rejected one goes on to do so. */
export const maskingHolds = (holds: ReadonlyArray<Hold>): ReadonlyArray<Hold> => {
  const scopes = holds.filter(({ kind, state }) => kind === "scope" && state !== "approving")
  return [...scopes.filter(({ state }) => state === "open"), ...scopes.filter(({ state }) => state !== "open")]
}

/** Status of a row that belongs to `hold`. */
export const pendingStatusFor = (hold: Hold): PendingStatus => hold.state === "rejected" ? "rejected" : "held"

/** What may be published of `observed`, and the first mask that kept something of it back. */
export const applyMasks = (
  published: JsonObject,
  observed: JsonObject,
  masks: ReadonlyArray<Hold>
): { readonly content: JsonObject; readonly hold: Hold | null } =>
  masks.reduce<{ readonly content: JsonObject; readonly hold: Hold | null }>(({ content, hold }, mask) => {
    const kept = keepPublished(published, content, mask.paths)
    return kept === content ? { content, hold } : { content: kept, hold: hold ?? mask }
  }, { content: observed, hold: null })
