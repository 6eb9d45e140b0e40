/**
 * Applies scope holds to a record: the masked paths keep their published values, and the other changes are published.
 *
 * Invariants
 * 1. A record with a masked change has a pending row in the hold, with the complete observed content   (I1)
 */
import type { JsonObject } from "../../domain/Canonical.ts"
import { keepPublished } from "../../domain/ScopeChange.ts"
import type { Hold, PendingStatus } from "../../store/Records.ts"

/** The scope holds that mask paths, open holds first. A rejected scope hold continues to mask its paths. */
export const maskingHolds = (holds: ReadonlyArray<Hold>): ReadonlyArray<Hold> => {
  const scopes = holds.filter(({ kind, state }) => kind === "scope" && state !== "approving")
  return [...scopes.filter(({ state }) => state === "open"), ...scopes.filter(({ state }) => state !== "open")]
}

/** Status of a row that belongs to `hold`. */
export const pendingStatusFor = (hold: Hold): PendingStatus => hold.state === "rejected" ? "rejected" : "held"

/** Returns the content that may be published, and the first hold that masked a change in it. */
export const applyMasks = (
  published: JsonObject,
  observed: JsonObject,
  masks: ReadonlyArray<Hold>
): { readonly content: JsonObject; readonly hold: Hold | null } =>
  masks.reduce<{ readonly content: JsonObject; readonly hold: Hold | null }>(({ content, hold }, mask) => {
    const kept = keepPublished(published, content, mask.paths)
    return kept === content ? { content, hold } : { content: kept, hold: hold ?? mask }
  }, { content: observed, hold: null })
