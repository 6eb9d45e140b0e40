/**
 * Decides whether publishing may resume, and from which position: compares the sink's checkpoint with the log.
 *
 * Invariants
 * 1. Up to the sink's position, the sink must contain exactly the events of this log   (X14, X18)
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { genesis } from "../domain/ChangeEvent.ts"
import { streamName } from "../domain/Model.ts"
import { type LogRange, publishingStart, relayReader } from "../store/EventLog.ts"
import type { Owner } from "../store/State.ts"
import type { Store } from "../store/Store.ts"
import { type Checkpoint, findPublishedElsewhere, type RecordKey, type Sink, type SinkCheckpoint } from "./Sink.ts"

/**
 * The sink and the log do not fit together. Either the sink has events that this log does not have; or it lacks events that this store has
 * published; or events that were not published are no longer in the log; or rows of the log are missing.
 */
export class Diverged extends Schema.TaggedError<Diverged>()("Diverged", { message: Schema.String }) {
  readonly hint =
    "possible causes: the store was restored from a backup or replaced, the sink was emptied, or Rollcall ran without Kafka " +
    "for longer than `retention`. Publishing stays stopped so that no consumer mixes two histories or misses events. " +
    "Bring back the store that published last, or stop Rollcall and run `rollcall store adopt`, which publishes every live " +
    "record of this store again in a later generation."
}

/** The state of the log that is compared with the sink's checkpoint. */
export interface LogState extends LogRange {
  readonly generation: number
  /** Position that the store saved after publishing; 0 if there is none. */
  readonly saved: number
  /** The log's chain at the sink's position; see `Store.chains`. */
  readonly chain: string | null
}

/** Describes the unpublished positions that the log no longer keeps; null if there are none   (I1). */
const findGap = (position: number, { oldest }: LogRange): string | null =>
  position > 0 && position < oldest - 1
    ? `positions ${position + 1} to ${oldest - 1} were not published and are no longer kept`
    : null

/** Describes why this log does not continue from `checkpoint`; null if it does. */
export const findMismatch = (
  checkpoint: Checkpoint,
  { chain, ...range }: Pick<LogState, "oldest" | "newest" | "chain">
): string | null => {
  const { position } = checkpoint
  if (position > range.newest) return `the sink holds position ${position}, but the log ends at ${range.newest}`
  return findGap(position, range) ?? (chain === checkpoint.chain
    ? null
    : `at position ${position} the log has another event, or other events before it, than the sink`)
}

/**
 * Describes why the sink's events are not from this log, or why the log does not continue them; null if neither is the case. Equal
 * chains prove that every event up to the sink's position is the same, whatever position the store has saved. A store that
 * crashed before saving its position still matches; a restored store does not, unless it has the same events in the same
 * order   (X4, X14, X18).
 */
export const findDivergence = (published: SinkCheckpoint | null, log: LogState): string | null => {
  if (published === null) {
    // After an adoption the saved position is the one before the oldest row of the log, because no event of this generation is published.
    return log.saved > 0 && log.saved >= log.oldest
      ? `this store has published up to position ${log.saved}, but the sink has no published position`
      : findGap(log.saved, log)
  }
  const { generation } = published
  if (generation > log.generation) {
    return `the sink holds generation ${generation} of this store, but the store is in generation ${log.generation}`
  }
  return generation < log.generation ? findGap(log.saved, log) : findMismatch(published, log)
}

export const failOn = (mismatch: string | null): Effect.Effect<void, Diverged> =>
  mismatch === null ? Effect.void : Effect.fail(new Diverged({ message: mismatch }))

/** After an adoption: removes records from the sink that the store does not have, before any event is published. */
const reconcile = Effect.fnUntraced(function*(sink: Sink["Service"], store: Store["Service"]) {
  const streams = yield* store.streams
  const ours = new Map(streams.map((stream) => [streamName(stream), stream]))
  yield* sink.reconcile(
    store.identity,
    streams,
    Effect.fnUntraced(function*(records) {
      const lacking: Array<RecordKey> = []
      for (const [name, own] of Map.groupBy(records, streamName)) {
        const stream = ours.get(name)
        // a store that was adopted while empty gets its streams only when their shards are taken, perhaps by another process
        const living = stream === undefined ? new Set() : yield* store.liveIds(stream, own.map(({ id }) => id))
        lacking.push(...own.filter(({ id }) => !living.has(id)))
      }
      return lacking
    })
  )
})

/** The checkpoint to resume from; fails unless the sink holds this log. `published`: the sink's checkpoint. */
export const findResumePoint = Effect.fnUntraced(function*(
  { owner, sink, store }: {
    readonly owner: Owner
    readonly sink: Sink["Service"]
    readonly store: Store["Service"]
  },
  published: SinkCheckpoint | null
) {
  const { identity } = store
  const saved = yield* store.readerPosition(relayReader)
  const start = yield* store.readerPosition(publishingStart)
  const { chains, newest, oldest } = yield* store.chains([published?.position ?? 0])
  const logState: LogState = { generation: identity.generation, saved, oldest, newest, chain: chains[0] ?? null }
  yield* failOn(findDivergence(published, logState) ?? findPublishedElsewhere(identity, published, { saved, start }))
  if (published?.generation === identity.generation) {
    // A process may have died after the sink's commit, before it saved the places of the last events. The checkpoint has them.
    yield* store.saveReaderPosition(owner, relayReader, published.position, published.published)
    return published
  }
  if (identity.generation > 1) yield* reconcile(sink, store)
  const position = saved > 0 ? saved : Math.max(0, oldest - 1)
  if (position !== saved) {
    yield* Effect.logWarning(`the log begins at position ${oldest}: earlier events are not published`)
    yield* store.saveReaderPosition(owner, publishingStart, position)
  }
  // this also checks the ownership: a relay that was replaced before it opened the sink must not publish
  yield* store.saveReaderPosition(owner, relayReader, position)
  const checkpoint: Checkpoint = { position, chain: (yield* store.chains([position])).chains[0] ?? genesis }
  return checkpoint
})
