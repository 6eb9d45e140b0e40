/**
 * A sink in memory that behaves like Kafka; tests can make it fail.
 *
 * Invariants
 * 1. It has the invariants of the port: order, fencing, and a checkpoint that is saved together with the events
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Kind, type LogEntry, type LogIdentity, partitionKey } from "../../../src/domain/ChangeEvent.ts"
import { streamName } from "../../../src/domain/Model.ts"
import {
  type Checkpoint,
  checkpointOf,
  Fenced,
  findForeignStore,
  type RecordKey,
  Sink,
  type SinkCheckpoint,
  SinkError,
  type StreamProgress,
  Unreachable
} from "../../../src/publish/Sink.ts"

export interface MemoryEvent {
  readonly key: string
  readonly eventId: string
  readonly generation: number
  readonly version: number
  readonly kind: Kind
  readonly after: string | null
  readonly stub: boolean
}

/** All events are in one partition. */
export const topic = "memory"

/** The published data; it outlives the sinks that publish to it. */
export class MemoryBroker {
  readonly events: Array<MemoryEvent> = []
  /** Records whose latest content is kept, by key. */
  readonly state = new Map<string, RecordKey>()
  /** By stream name. */
  readonly progress = new Map<string, StreamProgress>()
  /** Checkpoint per store; the store that published last comes last. */
  readonly published = new Map<string, SinkCheckpoint>()
  openCount = 0
  /** Largest content, in characters, that is not replaced by a stub. */
  readonly limit: number
  /** While set, every operation fails with it. */
  failure: SinkError["reason"] | null = null
  /** How many of the next publications take effect but lose their response. */
  lostResponses = 0

  constructor(limit = 1_000_000) {
    this.limit = limit
  }
}

export const layer = (broker: MemoryBroker): Layer.Layer<Sink> =>
  Layer.sync(Sink, () => {
    let ownOpenCount = 0
    const requireAvailable = Effect.suspend(() =>
      broker.failure === null ? Effect.void : Effect.fail(new SinkError({ reason: broker.failure }))
    )
    const requireOpen = Effect.andThen(
      requireAvailable,
      Effect.suspend(() =>
        ownOpenCount === broker.openCount
          ? Effect.void
          : Effect.fail(new SinkError({ reason: new Fenced({ message: "a newer relay opened this sink" }) }))
      )
    )
    const append = (entry: LogEntry) => {
      const stub = (entry.before?.length ?? 0) + (entry.after?.length ?? 0) > broker.limit
      const { after, eventId, id, integration, kind, generation, model, version } = entry
      const key = partitionKey(entry)
      broker.events.push({ key, eventId, generation, version, kind, after, stub })
      if (after === null) broker.state.delete(key)
      else broker.state.set(key, { integration, model, id })
    }
    return Sink.of({
      open: Effect.fnUntraced(function*(identity: LogIdentity) {
        yield* requireAvailable
        ownOpenCount = ++broker.openCount
        const published = [...broker.published.values()].at(-1) ?? null
        const foreign = findForeignStore(identity, published)
        return foreign === null ? published : yield* new SinkError({ reason: foreign })
      }),
      publish: Effect.fnUntraced(function*(
        identity: LogIdentity,
        batch: ReadonlyArray<LogEntry>,
        checkpoint: Checkpoint | undefined = checkpointOf(batch)
      ) {
        yield* requireOpen
        if (checkpoint === undefined) return []
        const places = batch.length === 0
          ? []
          : [{ topic, partition: 0, offset: broker.events.length, positions: batch.map(({ position }) => position) }]
        for (const entry of batch) append(entry)
        broker.published.delete(identity.store)
        broker.published.set(identity.store, {
          ...identity,
          ...checkpoint,
          ...places.length === 0 ? {} : { published: { at: yield* Clock.currentTimeMillis, places } }
        })
        if (broker.lostResponses > 0) {
          broker.lostResponses--
          return yield* new SinkError({ reason: new Unreachable({ message: "the response was lost", cause: null }) })
        }
        return places
      }),
      publishProgress: Effect.fnUntraced(function*(_identity, streams) {
        yield* requireOpen
        for (const stream of streams) broker.progress.set(streamName(stream), stream)
      }),
      reconcile: Effect.fnUntraced(function*(_identity, _streams, lacking) {
        yield* requireOpen
        for (const record of yield* lacking([...broker.state.values()])) broker.state.delete(partitionKey(record))
      })
    })
  })
