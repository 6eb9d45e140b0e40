/**
 * Builds the write for one classified record: its new head and the events to append.
 *
 * Invariants
 * 1. Per record, versions count 1, 2, 3 … without gaps   (I4)
 * 2. `before` of an event is `after` of the record's previous event: the diff is made against the published content   (I3)
 */
import { isObject, type JsonObject } from "../../domain/Canonical.ts"
import {
  type DeleteReason,
  eventIdOf,
  type Json,
  type Kind,
  type NewEvent,
  type Origin
} from "../../domain/ChangeEvent.ts"
import type { PathChange } from "../../domain/Diff.ts"
import type { Observation } from "../../domain/Observation.ts"
import type { Processing } from "../../domain/Processing.ts"
import { findReferences, noReferences } from "../../domain/Reference.ts"
import { transitionsOf } from "../../domain/Transition.ts"
import type { Head, RecordWrite } from "../../store/Records.ts"
import type { StreamState } from "../../store/State.ts"

/** The record's new content, from an observation or from a pending row. */
export interface NewContent
  extends Pick<Observation, "id" | "remoteId" | "content" | "textHash" | "changedAt" | "changedAtMs">
{
  readonly canonicalHash: string
  /** The content as JSON, if it is known. */
  readonly text?: string
}

/** `old`: the record existed before the backfill, so its events have the origin `backfill`. */
export type RecordChange =
  | { readonly kind: "created"; readonly old: boolean }
  | { readonly kind: "unseen"; readonly old: boolean }
  | { readonly kind: "updated"; readonly before: JsonObject; readonly changes: ReadonlyArray<PathChange> }
  /** `erased`: the API erased the record's content. */
  | {
    readonly kind: "deleted"
    readonly reason: DeleteReason
    readonly before: JsonObject | null
    readonly erased: boolean
  }
  /** `before`: content before the delete, if it is still kept. */
  | { readonly kind: "restored"; readonly before: JsonObject | null }
  /** No event is published; only the head is updated. */
  | { readonly kind: "tombstone"; readonly erased: boolean }
  | { readonly kind: "same" }

export interface RecordWriteContext {
  readonly stream: StreamState
  readonly processing: Processing
  readonly origin: Origin
  /** The run that observed the change. For a pending row, this is not the run that releases it. */
  readonly runId: number
  readonly detectedAt: number
}

export const parseContent = (text: string | null | undefined): JsonObject | null => {
  if (text === null || text === undefined) return null
  const value: unknown = JSON.parse(text)
  return isObject(value) ? value : null
}

/** One event of a record. `after`: the content after it; null for a delete. */
export const newEvent = (
  stream: Pick<StreamState, "integration" | "model" | "generation">,
  record: Pick<NewContent, "id" | "remoteId" | "changedAt">,
  after: Json | null,
  details: Pick<NewEvent, "version" | "kind" | "origin" | "detectedAt"> & Partial<NewEvent>
): NewEvent => ({
  eventId: eventIdOf(stream, record.id, details.version, details.kind, after),
  id: record.id,
  remoteId: record.remoteId,
  generation: stream.generation,
  after,
  changes: "[]",
  transitions: "[]",
  reason: null,
  restored: false,
  changedAt: record.changedAt,
  cause: null,
  ...details
})

/** Applies `change` to a record whose current head is `head`; undefined if the record is not known yet. */
export const buildRecordWrite = (
  head: Head | undefined,
  change: RecordChange,
  next: NewContent,
  context: RecordWriteContext
): RecordWrite => {
  const { detectedAt, origin, processing, stream } = context
  const event = (kind: Kind, version: number, details: Partial<NewEvent>): NewEvent => {
    const after = kind === "deleted" ? null : next.text ?? JSON.stringify(next.content)
    return newEvent(stream, next, after, { kind, version, origin, detectedAt, ...details })
  }
  // Transitions of an old record happened long ago, so none are reported (B3).
  const transitions = (before: JsonObject | null): string =>
    origin === "backfill" ? "[]" : JSON.stringify(transitionsOf(processing.entry, before, next.content))
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
    redaction: context.processing.applied.id,
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
    wasLive: head?.live === true,
    content: events.length > 0 && events.at(-1)?.after !== null ? next.content : null,
    erased: (change.kind === "deleted" || change.kind === "tombstone") && change.erased,
    silent: stream.silentBackfill === true && (change.kind === "created" || change.kind === "unseen") && change.old
  }
}

/** The later `changed_at`: an old copy with unchanged content must not set the head's `changed_at` back (P3). */
const laterOf = (a: number | null, b: number | null): number | null =>
  a === null || b === null ? a ?? b : Math.max(a, b)

/**
 * References of the record before and after the change. `before` is null if only the hashes changed, because the processing changed. In
 * that case, no record becomes stale. A deleted record has no references.
 */
const referencesBy = (
  change: RecordChange,
  head: Head | undefined,
  next: NewContent,
  { processing, stream }: RecordWriteContext
): RecordWrite["references"] => {
  const of = (content: JsonObject) => findReferences(stream, processing, content)
  const isReindexed = head !== undefined && head.fingerprint !== processing.fingerprint
  switch (change.kind) {
    case "created":
    case "restored":
      return { before: noReferences, after: of(next.content) }
    case "updated":
      return { before: of(change.before), after: of(next.content), isReindexed }
    case "deleted":
      return change.before === null ? undefined : { before: of(change.before), after: noReferences }
    case "same":
      return isReindexed || head === undefined ? { before: null, after: of(next.content) } : undefined
    default:
      return undefined
  }
}
