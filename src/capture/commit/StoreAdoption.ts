/**
 * Makes a restored or exchanged store the truth again: raises its generation and publishes every live record anew.
 *
 * Invariants
 * 1. A later generation is later than any that this store, or whoever reads it, has seen: no event id, no (generation, version)
 *    and no position of another history is ever used for other content   (I4, X11, X14)
 * 2. A stream takes the new generation in the transaction after its last record did: until then nothing of it is read, and
 *    nobody is told that it is complete
 * 3. Killed at any moment, it is finished by whoever opens the store next to read or to adopt
 *
 * Gotchas
 * - Nothing outside of the store remembers how often it was adopted, and a copy made before an adoption does not either:
 *   the clock does. Adopted twice from one copy, the second generation is still the later one.
 * - Watermarks, pending rows and quarantine stay as they are: those of an older copy lie before what was lost since, so
 *   that the next polls read it again.
 * - Tombstones are not published; their versions begin anew, for a record that comes back is `created` version 1.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { canonicalHash } from "../../domain/Canonical.ts"
import { eventIdOf } from "../../domain/ChangeEvent.ts"
import { type StreamKey, streamName } from "../../domain/Model.ts"
import type { Processing } from "../../domain/Processing.ts"
import type { Head } from "../../store/State.ts"
import { type OlderGenerationRecord, type Owner, type RecordWrite, Store, type StoreError } from "../../store/Store.ts"
import { parseContent } from "./RecordWrite.ts"

/** What an adoption would do, counted. */
export interface Plan {
  /** Newest generation there is, and the one that takes its place. */
  readonly from: number
  readonly to: number
  readonly streams: number
  /** Published anew. */
  readonly live: number
  /** Kept as they are. */
  readonly pending: number
  readonly quarantined: number
  /** Positions that readers can no longer continue from. */
  readonly oldest: number
  readonly newest: number
}

const firstMinute = Date.UTC(2026, 0)

/** `known`: the newest generation that readers outside of the store have seen, as far as can be told. */
export const plan = Effect.fn("StoreAdoption.plan")(
  function*(known: number): Effect.fn.Return<Plan, StoreError, Store> {
    const store = yield* Store
    const now = yield* Clock.currentTimeMillis
    const { streams } = yield* store.streamsAtPosition
    const generations = [...streams, ...(yield* store.integrations)].map(({ generation }) => generation)
    const from = Math.max(known, store.identity.generation, ...generations)
    const counts = yield* store.counts
    const sum = (of: (count: typeof counts[number]) => number) => counts.reduce((total, count) => total + of(count), 0)
    return {
      from,
      to: Math.max(from + 1, Math.floor((now - firstMinute) / Duration.toMillis("1 minute"))),
      streams: streams.length,
      live: sum(({ live }) => live),
      pending: sum(({ pending }) => Object.values(pending).reduce((total, count) => total + count, 0)),
      quarantined: sum(({ quarantined }) => quarantined),
      ...(yield* store.logRange)
    }
  }
)

/** Few enough to be held in memory, and to let others at the database in between. */
const batchRows = 250

/** What is published of a record: what was before, without what may not be shown by now. */
const publishableContent = (content: string, { canonicalHash: hash }: Head, processing: Processing | null) => {
  const record = parseContent(content)
  if (record === null || processing === null) return { content, hash }
  const processed = processing.apply(record)
  return { content: JSON.stringify(processed), hash: canonicalHash(processing.shape, processed) }
}

const republish = (stream: StreamKey, generation: number, processing: Processing | null, now: number) =>
(
  record: OlderGenerationRecord
): RecordWrite => {
  const head = { ...record.head, version: 0, position: null }
  if (!head.live || record.content === null) return { head, events: [] }
  const { content, hash } = publishableContent(record.content, head, processing)
  return {
    head: { ...head, version: 1 },
    events: [{
      eventId: eventIdOf({ ...stream, generation, id: head.id }, 1, "created", hash),
      id: head.id,
      remoteId: record.remoteId,
      generation,
      version: 1,
      kind: "created",
      origin: "backfill",
      after: content,
      changes: "[]",
      transitions: "[]",
      reason: null,
      restored: false,
      changedAt: record.changedAt,
      detectedAt: now,
      cause: null
    }]
  }
}

const adoptStream = Effect.fnUntraced(
  function*(owner: Owner, stream: StreamKey, generation: number, processing: Processing | null) {
    const { transact } = yield* Store
    const publishAfter = Effect.fnUntraced(function*(last: string | null) {
      const now = yield* Clock.currentTimeMillis
      return yield* transact(
        owner,
        stream,
        Effect.fnUntraced(function*(tx) {
          const records = yield* tx.olderGenerationRecords(generation, last, batchRows)
          yield* tx.write(records.map(republish(stream, generation, processing, now)))
          return records.at(-1)?.head.id ?? null
        })
      )
    })
    let last = yield* publishAfter(null)
    while (last !== null) last = yield* publishAfter(last)
    const drop = transact(owner, stream, (tx) => tx.deleteOlderGenerationEvents(generation, batchRows))
    yield* Effect.repeat(drop, { until: (dropped) => dropped === 0 })
    yield* transact(owner, stream, (tx) => tx.saveState({ ...tx.state, generation }))
  }
)

/** How records of a stream are processed by now; null = as they were. */
export type ProcessingOf = (stream: StreamKey) => Processing | null

/** Brings every stream to `generation` that is not there yet. */
export const finish = Effect.fn("StoreAdoption.finish")(function*(
  owner: Owner,
  generation: number,
  processingOf: ProcessingOf
): Effect.fn.Return<void, StoreError, Store> {
  const { streams } = yield* Effect.flatMap(Store, (store) => store.streamsAtPosition)
  for (const stream of streams.filter((stream) => stream.generation < generation)) {
    yield* adoptStream(owner, stream, generation, processingOf(stream))
    yield* Effect.logInfo("stream adopted").pipe(Effect.annotateLogs({ stream: streamName(stream), generation }))
  }
})

/** Takes streams and relay over from whoever had them, then does as planned. */
export const adopt = Effect.fn("StoreAdoption.adopt")(function*(
  { to }: Plan,
  processingOf: ProcessingOf
): Effect.fn.Return<void, StoreError, Store> {
  const store = yield* Store
  yield* store.takeOwnership("relay")
  const owner = yield* store.takeOwnership("capture")
  yield* store.raiseGeneration(owner, to)
  yield* finish(owner, to, processingOf)
})
