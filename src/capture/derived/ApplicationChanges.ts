/**
 * The changes of a transaction to the candidates that its applications contain.
 *
 * Gotchas
 * - If all fields of a copy are empty, the candidate is erased in that application.
 */
import { hash } from "node:crypto"
import { candidates } from "../../domain/BuiltInModels.ts"
import type { JsonObject } from "../../domain/Canonical.ts"
import type { Origin } from "../../domain/ChangeEvent.ts"
import { embeddedRow, type Observation, observe } from "../../domain/Observation.ts"
import type { Processing } from "../../domain/Processing.ts"
import type { RecordWrite } from "../../store/Records.ts"
import type { PageContext } from "../record/PageContext.ts"
import { parseContent } from "../record/RecordWrite.ts"

export const { from: sourceModel, model: candidateModel, property } = candidates

/**
 * A candidate's copy in an application. `text`: its content as it is stored. `textHash`: equal for copies with the same content, time and
 * deletion, which were processed in the same way.
 */
export type ObservedCopy = Observation & { readonly parent: string; readonly text: string }

/** The candidate of one application after a change. */
export interface ApplicationChange {
  readonly parent: string
  /** Null if the application has no candidate. */
  readonly copy: ObservedCopy | null
  /** True if the candidate was erased in this application. */
  readonly erased: boolean
  /** True if the application is flagged as deleted. It may be restored, so it still contains the candidate until it is erased. */
  readonly flagged: boolean
  /** True if the application is old. A candidate that only old applications contain is old too. */
  readonly old: boolean
  readonly origin: Origin
  readonly detectedAt: number
}

/** Null if the application has no candidate. */
export const copyIn = (processing: Processing, parent: string, content: JsonObject | null): ObservedCopy | null => {
  const row = embeddedRow(content?.[property])
  if (row === null) return null
  const observed = observe(processing, row)
  const text = JSON.stringify(observed.content)
  // rules may remove the time and the mark of deletion from the text
  const parts = [processing.fingerprint, observed.deleted, observed.changedAt, text]
  return { ...observed, parent, text, textHash: hash("sha256", parts.join("\n"), "base64url") }
}

export const toApplicationChange = (
  processing: Processing,
  content: JsonObject | null,
  details: Omit<ApplicationChange, "copy">
): ApplicationChange => {
  const copy = copyIn(processing, details.parent, content)
  return copy?.blank === true ? { ...details, copy: null, erased: true } : { ...details, copy }
}

/** Includes applications with unchanged candidates: a later `changed_at` is not a change, but it decides which copy is published. */
export const applicationChangesOf = (
  writes: ReadonlyArray<RecordWrite>,
  processing: Processing,
  context: PageContext
): ReadonlyArray<ApplicationChange> =>
  writes.flatMap(({ content, erased = false, events, head: { id } }) => {
    const event = events.at(-1)
    if (event === undefined && !erased) return []
    const old = event?.kind === "created" && event.origin === "backfill" && !event.restored
    const foundBy = context.backfill ? "backfill" : context.origin
    return [toApplicationChange(processing, content === undefined ? parseContent(event?.after) : content, {
      parent: id,
      erased,
      flagged: event?.reason === "flagged" && !erased,
      old,
      origin: old ? foundBy : event?.origin ?? context.origin,
      detectedAt: event?.detectedAt ?? context.now
    })]
  })

/**
 * The candidate that each application shows after these writes, for `setDerivedIds`: plugins ask for the applications of a candidate, even if
 * candidates are a list. A flagged application still shows its candidate.
 */
export const shownCandidates = (writes: ReadonlyArray<RecordWrite>): ReadonlyMap<string, string | null> =>
  new Map(writes.flatMap(({ content, erased = false, events, head: { id } }) => {
    const event = events.at(-1)
    if (!erased && (event === undefined || event.reason === "flagged")) return []
    const shown = embeddedRow((content === undefined ? parseContent(event?.after) : content)?.[property])
    return [[id, shown?.id ?? null] as const]
  }))

/** The changes of this transaction that concern one candidate. */
interface CandidateChanges {
  readonly causes: Array<ApplicationChange>
  readonly copies: Array<ObservedCopy>
  /** Number of applications that contained the candidate and no longer do. */
  left: number
  erased: boolean
  flagged: boolean
}

/** By candidate. `before`: the candidate that each application contained before the transaction. */
export const groupByCandidate = (changes: ReadonlyArray<ApplicationChange>, before: ReadonlyMap<string, string>) => {
  const candidates = new Map<string, CandidateChanges>()
  const changesOf = (id: string, cause: ApplicationChange): CandidateChanges => {
    const known = candidates.get(id) ?? { causes: [], copies: [], left: 0, erased: false, flagged: false }
    candidates.set(id, known)
    known.causes.push(cause)
    return known
  }
  for (const one of changes) {
    const shown = before.get(one.parent)
    if (one.copy !== null) changesOf(one.copy.id, one).copies.push(one.copy)
    if (shown === undefined || shown === one.copy?.id) continue
    const left = changesOf(shown, one)
    left.left++
    left.erased ||= one.erased
    left.flagged ||= one.flagged
  }
  return candidates
}
