/**
 * Pending rows against what was published: what each of them is, and what is written when it is released.
 *
 * Invariants
 * 1. Published → observed is compared once, at release: one event, however often it was observed   (D18, D20)
 */
import * as Effect from "effect/Effect"
import { canonicalHash, type JsonObject } from "../../domain/Canonical.ts"
import type { NewEvent } from "../../domain/ChangeEvent.ts"
import { diff } from "../../domain/Diff.ts"
import type { Wave } from "../../domain/Guard.ts"
import type { Model } from "../../domain/Model.ts"
import { isBlank, storableText } from "../../domain/Observation.ts"
import { parseTime } from "../../domain/Watermark.ts"
import type { Head, Pending, ReleaseMode } from "../../store/State.ts"
import type { RecordWrite, StoreError, StreamTx } from "../../store/Store.ts"
import type { PageContext } from "../commit/Ingest.ts"
import { buildRecordWrite, type NewContent, parseContent, type RecordChange } from "../commit/RecordWrite.ts"

/** A pending row with what was published of its record. */
export interface StagedChange {
  readonly row: Pending
  readonly head: Head
  /** As it was published, with today's processing; of a deleted record what it was before, if that is kept. */
  readonly published: JsonObject | null
  /** As it was observed, with today's processing; nothing was of a record that is absent. */
  readonly observed: JsonObject
  /** `nothing`: what was observed is what is published. */
  readonly kind: Wave | "update" | "nothing"
}

const kindOf = (row: Pending, head: Head): StagedChange["kind"] => {
  if (row.deleted) return head.live ? "deletes" : "nothing"
  if (!head.live) return "restores"
  return head.canonicalHash === row.canonicalHash ? "nothing" : "update"
}

/** Rows of records that nothing is known of are left out. */
export const loadStagedChanges = Effect.fnUntraced(function*(
  tx: StreamTx,
  rows: ReadonlyArray<Pending>,
  { processing }: Pick<PageContext, "processing">
): Effect.fn.Return<ReadonlyArray<StagedChange>, StoreError> {
  const heads = yield* tx.heads(rows.map((row) => row.id))
  const positions = (live: boolean) =>
    [...heads.values()].flatMap((head) => head.live === live && head.position !== null ? [head.position] : [])
  const contents = yield* tx.contents(positions(true))
  const images = yield* tx.beforeImages(positions(false))
  return rows.flatMap((row): ReadonlyArray<StagedChange> => {
    const head = heads.get(row.id)
    if (head === undefined) return []
    const content = parseContent((head.live ? contents : images).get(head.position ?? 0))
    return [{
      row,
      head,
      published: content === null ? null : processing.apply(content),
      observed: processing.apply(parseContent(row.content) ?? {}),
      kind: kindOf(row, head)
    }]
  })
})

type ReleaseContext = Pick<PageContext, "stream" | "processing">

/** As its reading found it, unless a person said otherwise. */
export const releaseAsObserved: ReleaseMode = { origin: null, silent: false }

const toRecordChange = (
  staged: StagedChange,
  content: JsonObject,
  context: ReleaseContext,
  how: ReleaseMode
): RecordChange => {
  const { head, kind, observed, published, row } = staged
  const erased = row.content !== null && isBlank(observed)
  if (kind === "deletes") return { kind: "deleted", reason: row.reason ?? "flagged", before: published, erased }
  if (kind === "restores") return { kind: "restored", before: published }
  if (kind === "nothing" || how.silent) return head.live ? { kind: "same" } : { kind: "tombstone", erased }
  const before = published ?? {}
  const changes = diff(context.processing.shape, before, content)
  return changes.length === 0 ? { kind: "same" } : { kind: "updated", before, changes }
}

/** Head and events of a row that is released, with `content` instead of all that was observed. */
export const published = (
  weighed: StagedChange,
  place: ReleaseContext,
  how: ReleaseMode,
  content: JsonObject = weighed.observed
): RecordWrite => {
  const { head, row } = weighed
  const next: NewContent = {
    ...row,
    content,
    remoteId: row.remoteId ?? storableText(weighed.published?.["remote_id"]),
    canonicalHash: row.content === null ? row.canonicalHash : canonicalHash(place.processing.shape, content),
    changedAtMs: parseTime(row.changedAt)
  }
  return buildRecordWrite(head, toRecordChange(weighed, content, place, how), next, {
    stream: place.stream,
    processing: place.processing,
    origin: how.origin ?? row.origin,
    runId: row.runId,
    detectedAt: row.detectedAt
  })
}

/** What of a published event is measured and counted. */
export interface DetectedEvent extends Pick<NewEvent, "kind" | "restored" | "origin" | "changedAt" | "detectedAt"> {
  readonly model: Model
}

export const toDetectedEvent = (
  model: Model,
  { changedAt, detectedAt, kind, origin, restored }: NewEvent
): DetectedEvent => ({
  model,
  kind,
  restored,
  origin,
  changedAt,
  detectedAt
})
