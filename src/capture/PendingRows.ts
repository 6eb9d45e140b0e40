/**
 * Pending rows against what was published: what each of them is, and what is written when it is released.
 *
 * Invariants
 * 1. Published → observed is compared once, at release: one event, however often it was observed   (D18, D20)
 */
import * as Effect from "effect/Effect"
import { canonicalHash, type JsonObject } from "../domain/Canonical.ts"
import type { NewEvent } from "../domain/ChangeEvent.ts"
import { diff } from "../domain/Diff.ts"
import type { Wave } from "../domain/Guard.ts"
import type { Model } from "../domain/Model.ts"
import { isBlank, textOf } from "../domain/Observation.ts"
import { parseTime } from "../domain/Watermark.ts"
import type { Head, Pending, Release } from "../store/State.ts"
import type { RecordWrite, StoreError, StreamTx } from "../store/Store.ts"
import type { Occasion } from "./Absorb.ts"
import { type Next, parseContent, publication, type Step } from "./Publication.ts"

/** A pending row with what was published of its record. */
export interface Weighed {
  readonly row: Pending
  readonly head: Head
  /** As it was published, with today's processing; of a deleted record what it was before, if that is kept. */
  readonly published: JsonObject | null
  /** As it was observed, with today's processing; nothing was of a record that is absent. */
  readonly observed: JsonObject
  /** `nothing`: what was observed is what is published. */
  readonly kind: Wave | "update" | "nothing"
}

const kindOf = (row: Pending, head: Head): Weighed["kind"] => {
  if (row.deleted) return head.live ? "deletes" : "nothing"
  if (!head.live) return "restores"
  return head.canonicalHash === row.canonicalHash ? "nothing" : "update"
}

/** Rows of records that nothing is known of are left out. */
export const weigh = Effect.fnUntraced(function*(
  tx: StreamTx,
  rows: ReadonlyArray<Pending>,
  { processing }: Pick<Occasion, "processing">
): Effect.fn.Return<ReadonlyArray<Weighed>, StoreError> {
  const heads = yield* tx.heads(rows.map((row) => row.id))
  const positions = (live: boolean) =>
    [...heads.values()].flatMap((head) => head.live === live && head.position !== null ? [head.position] : [])
  const contents = yield* tx.contents(positions(true))
  const images = yield* tx.beforeImages(positions(false))
  return rows.flatMap((row): ReadonlyArray<Weighed> => {
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

type Place = Pick<Occasion, "stream" | "processing">

/** As its reading found it, unless a person said otherwise. */
export const asFound: Release = { origin: null, silent: false }

const stepOf = (weighed: Weighed, content: JsonObject, place: Place, how: Release): Step => {
  const { head, kind, observed, published, row } = weighed
  const erased = row.content !== null && isBlank(observed)
  if (kind === "deletes") return { kind: "deleted", reason: row.reason ?? "flagged", before: published, erased }
  if (kind === "restores") return { kind: "restored", before: published }
  if (kind === "nothing" || how.silent) return head.live ? { kind: "same" } : { kind: "tombstone", erased }
  const before = published ?? {}
  const changes = diff(place.processing.shape, before, content)
  return changes.length === 0 ? { kind: "same" } : { kind: "updated", before, changes }
}

/** Head and events of a row that is released, with `content` instead of all that was observed. */
export const published = (
  weighed: Weighed,
  place: Place,
  how: Release,
  content: JsonObject = weighed.observed
): RecordWrite => {
  const { head, row } = weighed
  const next: Next = {
    ...row,
    content,
    remoteId: row.remoteId ?? textOf(weighed.published?.["remote_id"]),
    canonicalHash: row.content === null ? row.canonicalHash : canonicalHash(place.processing.shape, content),
    changedAtMs: parseTime(row.changedAt)
  }
  return publication(head, stepOf(weighed, content, place, how), next, {
    stream: place.stream,
    processing: place.processing,
    origin: how.origin ?? row.origin,
    reading: row.reading,
    detectedAt: row.detectedAt
  })
}

/** What of a published event is measured and counted. */
export interface Detected extends Pick<NewEvent, "kind" | "restored" | "origin" | "changedAt" | "detectedAt"> {
  readonly model: Model
}

export const detected = (model: Model, { changedAt, detectedAt, kind, origin, restored }: NewEvent): Detected => ({
  model,
  kind,
  restored,
  origin,
  changedAt,
  detectedAt
})
