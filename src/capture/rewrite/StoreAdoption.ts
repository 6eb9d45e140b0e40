/**
 * Adopts a restored or exchanged store: raises its generation and publishes every live record again, so that readers can
 * rebuild their state.
 *
 * Invariants
 * 1. The new generation is greater than every generation that this store or its readers have seen. No event id, (generation,
 *    version) or position of an earlier history is ever reused for other content   (I4, X11, X14)
 * 2. A stream's generation is raised after all of its records are committed. Until then the stream is not read and not reported as
 *    complete
 * 3. An adoption that was interrupted at any moment is finished by the next process that opens the store to read or to adopt
 * 4. The records of an integration that is being erased are not published: if it is added again, it starts in the new generation with
 *    version 1   (X19)
 *
 * Gotchas
 * - The new generation is derived from the clock. A count of adoptions in the store would not do, because a copy from before an adoption
 *   lacks it. If the same copy is adopted twice, the second generation is still greater.
 * - Unsettled deliveries are kept, with the rows of the log that they need: they run after the adoption.
 * - Watermarks, pending rows and quarantine are kept. In an older copy they are older than the lost changes, so the next polls
 *   read those changes again.
 * - A request to forget a record may be unfinished: neither the record nor its copies are published.
 * - Tombstones are not published. Their versions are reset, so that a record that is restored later is `created` version 1.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { type Forgotten, withoutCopies } from "../../domain/Forgotten.ts"
import { type StreamKey, streamName } from "../../domain/Model.ts"
import type { Processing } from "../../domain/Processing.ts"
import { combine } from "../../domain/Redaction.ts"
import type { OlderGenerationRecord, RecordWrite, StoredContent } from "../../store/Records.ts"
import type { Owner, StreamState } from "../../store/State.ts"
import { Store, type StoreError } from "../../store/Store.ts"
import { newEvent } from "../record/RecordWrite.ts"
import { currentContent, earlierProcessings, hashOfHead, rulesOf, withRedaction } from "../record/StoredContent.ts"
import { type Ownership, takeStreams } from "../Stream.ts"
import * as Redactor from "./Redactor.ts"

/** The effects of an adoption, as counts. */
export interface Plan {
  /** Newest generation that exists, and the one that replaces it. */
  readonly from: number
  readonly to: number
  readonly streams: number
  /** Live records that are published again. */
  readonly live: number
  /** Pending rows, which are kept. */
  readonly pending: number
  readonly quarantined: number
  /** First and last position of the log, from which readers can no longer resume. */
  readonly oldest: number
  readonly newest: number
}

const firstMinute = Date.UTC(2026, 0)

/** Whether the stream is adopted: the records of an integration that is being erased are not published again. */
const isAdopted = Effect.map(Effect.flatMap(Store, ({ integrations }) => integrations), (integrations) => {
  const erasing = new Set(integrations.filter(({ state }) => state === "erasing").map(({ id }) => id))
  return ({ integration }: Pick<StreamKey, "integration">) => !erasing.has(integration)
})

/** `known`: the newest generation that readers outside the store are known to have seen. */
export const plan = Effect.fn("StoreAdoption.plan")(
  function*(known: number): Effect.fn.Return<Plan, StoreError, Store> {
    const store = yield* Store
    const now = yield* Clock.currentTimeMillis
    const { streams } = yield* store.streamsAtPosition
    const generations = [...streams, ...(yield* store.integrations)].map(({ generation }) => generation)
    const from = Math.max(known, store.identity.generation, ...generations)
    const counts = (yield* store.counts).filter(yield* isAdopted)
    const sum = (of: (count: typeof counts[number]) => number) => counts.reduce((total, count) => total + of(count), 0)
    return {
      from,
      to: Math.max(from + 1, Math.floor((now - firstMinute) / Duration.toMillis("1 minute"))),
      streams: counts.length,
      live: sum(({ live }) => live),
      pending: sum(({ pending }) => Object.values(pending).reduce((total, count) => total + count, 0)),
      quarantined: sum(({ quarantined }) => quarantined),
      ...(yield* store.logRange)
    }
  }
)

/** Small enough to keep in memory, and to let other transactions run in between. */
const batchRows = 250

/** The stored content, processed by the current rules, without copies of forgotten records. */
const publishableContent = (
  stream: StreamState,
  stored: StoredContent,
  processing: Processing | null,
  forgotten: Forgotten
): StoredContent & { readonly lacksCopies: boolean } => {
  const content = processing === null ? null : currentContent(processing, stream, stored)
  if (processing === null || content === null) return { ...stored, lacksCopies: false }
  const record = withoutCopies(processing.models, stream.model, content, forgotten)
  const lacksCopies = record !== content
  const { id } = combine(rulesOf(stream, stored.redaction), processing.applied)
  return { content: JSON.stringify(record), redaction: id, lacksCopies }
}

/** The state with the rules of all content that is published again. */
const withRedactions = (state: StreamState, { applied }: Processing): StreamState =>
  state.redactions.map((before) => combine(before, applied)).reduce(withRedaction<StreamState>, state)

interface Republishing {
  readonly stream: StreamState
  readonly generation: number
  readonly processing: Processing | null
  /** By fingerprint; null to publish the content as stored. */
  readonly processingOf: ReturnType<typeof earlierProcessings> | null
  readonly forgotten: Forgotten
  readonly now: number
}

const republish = ({ forgotten, generation, now, processing, processingOf, stream }: Republishing) =>
(
  record: OlderGenerationRecord
): RecordWrite => {
  const head = { ...record.head, version: 0, position: null }
  if (!head.live || record.content === null) return { head, events: [] }
  if (forgotten.get(stream.model)?.has(head.id) === true) {
    return { head: { ...head, live: false, textHash: "", canonicalHash: "" }, events: [], wasLive: true }
  }
  const stored = { content: record.content, redaction: record.redaction }
  const { content, lacksCopies, redaction } = publishableContent(stream, stored, processing, forgotten)
  return {
    ...redaction === null ? {} : { redaction },
    head: {
      ...head,
      version: 1,
      // of the content so far, which may contain values that are redacted now (V1)
      canonicalHash: processingOf === null
        ? head.canonicalHash
        : hashOfHead(head, stored, processingOf(head.fingerprint)),
      // without hashes, so that the record is published with the copies again once they are allowed
      ...(lacksCopies ? { textHash: "", canonicalHash: "" } : {})
    },
    events: [
      newEvent({ ...stream, generation }, { ...record, id: head.id }, content, {
        version: 1,
        kind: "created",
        origin: "backfill",
        detectedAt: now
      })
    ]
  }
}

/** Called with the number of records that were published again, after each transaction. */
type Report = (records: number) => Effect.Effect<void>

const adoptStream = Effect.fnUntraced(
  function*(owner: Owner, stream: StreamKey, generation: number, processing: Processing | null, report: Report) {
    const { transact } = yield* Store
    const publishAfter = Effect.fnUntraced(function*(last: string | null) {
      const now = yield* Clock.currentTimeMillis
      return yield* transact(
        owner,
        stream,
        Effect.fnUntraced(function*(tx) {
          const records = yield* tx.olderGenerationRecords(generation, last, batchRows)
          const known = processing === null ? tx.state : withRedactions(tx.state, processing)
          if (known !== tx.state) yield* tx.saveState(known)
          const forgotten = yield* tx.forgotten
          const processingOf = processing && earlierProcessings(processing, tx.state)
          const writes = records.map(
            republish({ stream: tx.state, generation, processing, processingOf, forgotten, now })
          )
          yield* tx.write(writes)
          const published = writes.reduce((sum, { events }) => sum + events.length, 0)
          return { last: records.at(-1)?.head.id ?? null, published }
        })
      ).pipe(Effect.tap(({ published }) => report(published)), Effect.map(({ last }) => last))
    })
    let last = yield* publishAfter(null)
    while (last !== null) last = yield* publishAfter(last)
    yield* transact(owner, stream, (tx) => tx.retainOlderGenerationEvents(generation))
    const drop = transact(owner, stream, (tx) => tx.deleteOlderGenerationEvents(generation, batchRows))
    yield* Effect.repeat(drop, { until: (dropped) => dropped === 0 })
    yield* transact(owner, stream, (tx) => tx.saveState({ ...tx.state, generation }))
  }
)

/** The current processing of a stream's records; null to publish the content as stored. */
export type ProcessingOf = (stream: StreamKey) => Processing | null

/** Raises the generation of every owned stream to `generation`, unless it already is that high. */
export const finish = Effect.fn("StoreAdoption.finish")(function*(
  { ownerOf, owns }: Ownership,
  generation: number,
  processingOf: ProcessingOf,
  report: Report = () => Effect.void
): Effect.fn.Return<void, StoreError, Store> {
  const { streams } = yield* Effect.flatMap(Store, (store) => store.streamsAtPosition)
  const adopted = yield* isAdopted
  const older = streams.filter((stream) =>
    stream.generation < generation && owns(stream.integration) && adopted(stream)
  )
  for (const stream of older) {
    yield* adoptStream(ownerOf(stream.integration), stream, generation, processingOf(stream), report)
    yield* Effect.logInfo("stream adopted").pipe(Effect.annotateLogs({ stream: streamName(stream), generation }))
  }
})

/** Takes over the streams and the relay from other processes, then carries out the plan. */
export const adopt = Effect.fn("StoreAdoption.adopt")(function*(
  { to }: Plan,
  processingOf: ProcessingOf,
  report: Report = () => Effect.void
): Effect.fn.Return<void, StoreError, Store> {
  const store = yield* Store
  yield* store.takeOwnership("relay")
  const { owners, ...ownership } = yield* takeStreams
  yield* Redactor.begin(ownership, processingOf)
  // This fails if a process has taken over a shard in the meantime. A process that opened the store before the raise can take over
  // nothing afterwards.
  yield* store.raiseGeneration(owners, to)
  yield* finish(ownership, to, processingOf, report)
})
