/**
 * Turns what one observation means into what is written: the record's new head and the events that lead there.
 *
 * Invariants
 * 1. Versions count 1, 2, 3 … without gaps per record   (I4)
 * 2. `before` of an event is `after` of the one before: the diff is made against what was published   (I3)
 */
import { isObject, type JsonObject } from "../../domain/Canonical.ts"
import { type DeleteReason, eventIdOf, type Kind, type NewEvent, type Origin } from "../../domain/ChangeEvent.ts"
import type { PathChange } from "../../domain/Diff.ts"
import type { Processing } from "../../domain/Processing.ts"
import { findReferences, noReferences } from "../../domain/Reference.ts"
import { transitionsOf } from "../../domain/Transition.ts"
import type { Head, StreamState } from "../../store/State.ts"
import type { RecordWrite } from "../../store/Store.ts"

/** What a record becomes: an observation is one, and so is what a pending row holds. */
export interface NewContent {
  readonly id: string
  readonly remoteId: string | null
  readonly content: JsonObject
  readonly textHash: string
  readonly canonicalHash: string
  readonly changedAt: string | null
  readonly changedAtMs: number | null
}

export type RecordChange =
  | { readonly kind: "created"; readonly old: boolean }
  | { readonly kind: "unseen"; readonly old: boolean }
  | { readonly kind: "updated"; readonly before: JsonObject; readonly changes: ReadonlyArray<PathChange> }
  /** `erased`: nothing is left of it at its source. */
  | {
    readonly kind: "deleted"
    readonly reason: DeleteReason
    readonly before: JsonObject | null
    readonly erased: boolean
  }
  /** `before`: content before the delete, if it is still kept. */
  | { readonly kind: "restored"; readonly before: JsonObject | null }
  /** Nothing to publish: the head only remembers what was met. */
  | { readonly kind: "tombstone"; readonly erased: boolean }
  | { readonly kind: "same" }

export interface RecordWriteContext {
  readonly stream: StreamState
  readonly processing: Processing
  readonly origin: Origin
  readonly runId: number
  readonly detectedAt: number
}

export const parseContent = (text: string | null | undefined): JsonObject | null => {
  if (text === null || text === undefined) return null
  const value: unknown = JSON.parse(text)
  return isObject(value) ? value : null
}

/** Head and events of one step from `head` (undefined: the record is new to us). */
export const buildRecordWrite = (
  head: Head | undefined,
  change: RecordChange,
  next: NewContent,
  context: RecordWriteContext
): RecordWrite => {
  const { stream } = context
  const event = (kind: Kind, version: number, details: Partial<NewEvent>): NewEvent => ({
    eventId: eventIdOf({ ...stream, id: next.id }, version, kind, kind === "deleted" ? null : next.canonicalHash),
    id: next.id,
    remoteId: next.remoteId,
    generation: stream.generation,
    version,
    kind,
    origin: context.origin,
    after: kind === "deleted" ? null : JSON.stringify(next.content),
    changes: "[]",
    transitions: "[]",
    reason: null,
    restored: false,
    changedAt: next.changedAt,
    detectedAt: context.detectedAt,
    cause: null,
    ...details
  })
  // What is old takes no step today (B3).
  const transitions = (before: JsonObject | null): string =>
    context.origin === "backfill" ? "[]" : JSON.stringify(transitionsOf(stream.model, before, next.content))
  const version = head?.version ?? 0
  const eventsOf = (): ReadonlyArray<NewEvent> => {
    switch (change.kind) {
      case "created":
        return [event("created", version + 1, change.old ? { origin: "backfill" } : { transitions: transitions(null) })]
      case "unseen": {
        const details: Partial<NewEvent> = { reason: "unseen", ...(change.old ? { origin: "backfill" as const } : {}) }
        return [event("created", version + 1, details), event("deleted", version + 2, details)]
      }
      case "updated":
        return [event("updated", version + 1, {
          changes: JSON.stringify(change.changes),
          transitions: transitions(change.before)
        })]
      case "deleted":
        return [event("deleted", version + 1, { reason: change.reason })]
      case "restored":
        return [event("created", version + 1, {
          restored: true,
          transitions: change.before === null ? "[]" : transitions(change.before)
        })]
      default:
        return []
    }
  }
  const events = eventsOf()
  const references = referencesBy(change, head, next, context)
  return {
    ...references === undefined ? {} : { references },
    head: {
      id: next.id,
      version: version + events.length,
      live: change.kind === "created" || change.kind === "updated" || change.kind === "restored" ||
        (change.kind === "same" && head?.live === true),
      position: head?.position ?? null,
      textHash: next.textHash,
      canonicalHash: next.canonicalHash,
      fingerprint: context.processing.fingerprint,
      changedAt: events.length > 0 ? next.changedAtMs : laterOf(head?.changedAt ?? null, next.changedAtMs),
      lastSeenRunId: Math.max(head?.lastSeenRunId ?? 0, context.runId)
    },
    events,
    erased: (change.kind === "deleted" || change.kind === "tombstone") && change.erased,
    silent: stream.silentBackfill === true && (change.kind === "created" || change.kind === "unseen") && change.old
  }
}

/** An old copy that shows what is published says nothing of when that came to be (P3). */
const laterOf = (known: number | null, shown: number | null): number | null =>
  known === null || shown === null ? known ?? shown : Math.max(known, shown)

/** Silent where hashes were only made anew; a deleted record shows nothing. */
const referencesBy = (
  change: RecordChange,
  head: Head | undefined,
  next: NewContent,
  { processing, stream }: RecordWriteContext
): RecordWrite["references"] => {
  const of = (content: JsonObject) => findReferences(stream, processing, content)
  switch (change.kind) {
    case "created":
    case "restored":
      return { before: noReferences, after: of(next.content) }
    case "updated":
      return { before: of(change.before), after: of(next.content) }
    case "deleted":
      return change.before === null ? undefined : { before: of(change.before), after: noReferences }
    case "same":
      return head?.fingerprint === processing.fingerprint ? undefined : { before: null, after: of(next.content) }
    default:
      return undefined
  }
}
