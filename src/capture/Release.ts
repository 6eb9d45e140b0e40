/**
 * Publishes what readings staged, in the last transaction of a complete reading.
 *
 * Invariants
 * 1. What an unfinished reading staged stays pending until one of its kind is complete   (X17, D21)
 * 2. Published → observed is compared once, at release: one event, however often it was observed   (D20)
 *
 * Gotchas
 * - Rows are taken 250 at a time inside the one transaction: memory does not grow with the size of a wave (I9).
 */
import * as Effect from "effect/Effect"
import type { NewEvent, Origin } from "../domain/ChangeEvent.ts"
import { diff } from "../domain/Diff.ts"
import { parseTime } from "../domain/Watermark.ts"
import type { Head, Pending, RecordWrite, StoreError, StreamTx } from "../store/Store.ts"
import type { Occasion } from "./Absorb.ts"
import { type Next, parseContent, publication } from "./Publication.ts"

const chunk = 250

/** Polls release what polls, refreshes and re-reads staged; sweeps their own. */
const releases = (reader: Origin, staged: Origin): boolean => (reader === "sweep") === (staged === "sweep")

/** What of a published event is measured. */
export type Detected = Pick<NewEvent, "kind" | "origin" | "changedAt" | "detectedAt">

/** Returns what was published. `occasion.origin` says which kind of reading is complete. */
export const release = Effect.fnUntraced(function*(
  tx: StreamTx,
  occasion: Occasion
): Effect.fn.Return<ReadonlyArray<Detected>, StoreError> {
  const published: Array<Detected> = []
  let after: string | null = null
  for (;;) {
    const page: ReadonlyArray<Pending> = yield* tx.pendingBy("staged", after, chunk)
    const rows = page.filter((row) => releases(occasion.origin, row.origin))
    const writes = yield* publications(tx, rows, occasion)
    yield* tx.dropPending(rows.map((row) => row.id))
    yield* tx.write(writes)
    for (const write of writes) published.push(...write.events.map(detected))
    if (page.length < chunk) return published
    after = page.at(-1)!.id
  }
})

export const detected = ({ changedAt, detectedAt, kind, origin }: NewEvent): Detected => ({
  kind,
  origin,
  changedAt,
  detectedAt
})

const publications = Effect.fnUntraced(function*(tx: StreamTx, rows: ReadonlyArray<Pending>, occasion: Occasion) {
  const heads = yield* tx.heads(rows.map((row) => row.id))
  const positions = [...heads.values()].flatMap((head) => head.position === null ? [] : [head.position])
  const contents = yield* tx.contents(positions)
  const images = yield* tx.beforeImages(positions)
  return rows.flatMap((row): ReadonlyArray<RecordWrite> => {
    const head = heads.get(row.id)
    const content = parseContent(row.content)
    return head === undefined || content === null ? [] : [publish(row, head, content)]
  })

  function publish(row: Pending, head: Head, content: NonNullable<ReturnType<typeof parseContent>>): RecordWrite {
    const next: Next = { ...row, content, changedAtMs: parseTime(row.changedAt) }
    const circumstances = {
      stream: occasion.stream,
      processing: occasion.processing,
      origin: row.origin,
      reading: row.reading,
      detectedAt: row.detectedAt
    }
    if (row.deleted) {
      return publication(
        head,
        head.live ? { kind: "deleted", reason: row.reason ?? "flagged" } : { kind: "tombstone" },
        next,
        circumstances
      )
    }
    if (!head.live) {
      const image = parseContent(images.get(head.position ?? 0))
      return publication(head, { kind: "restored", before: image }, next, circumstances)
    }
    if (head.canonicalHash === row.canonicalHash) return publication(head, { kind: "same" }, next, circumstances)
    const before = occasion.processing.apply(parseContent(contents.get(head.position ?? 0)) ?? {})
    const changes = diff(occasion.processing.shape, before, content)
    return publication(head, { kind: "updated", before, changes }, next, circumstances)
  }
})
