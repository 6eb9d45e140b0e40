/**
 * A sink in memory: what Kafka does for us, without Kafka, and with faults at the caller's command.
 *
 * Invariants
 * 1. The same as of the port: order, fencing, and the last published position remembered together with the events.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Kind, type LogEntry, type LogIdentity, partitionKey } from "../domain/ChangeEvent.ts"
import { streamName } from "../domain/Model.ts"
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
} from "./Sink.ts"

export interface MemoryEvent {
  readonly key: string
  readonly eventId: string
  readonly generation: number
  readonly version: number
  readonly kind: Kind
  readonly after: string | null
  readonly stub: boolean
}

/** What stands at the other end: it outlives the sinks that publish to it. */
export class MemoryBroker {
  readonly events: Array<MemoryEvent> = []
  /** Records of which the latest content is kept, by key. */
  readonly state = new Map<string, RecordKey>()
  /** By stream name. */
  readonly progress = new Map<string, StreamProgress>()
  /** By store; whoever published last comes last. */
  readonly published = new Map<string, SinkCheckpoint>()
  openCount = 0
  /** Largest content in characters that is taken whole. */
  readonly limit: number
  /** While set, whatever is asked fails with it. */
  failure: SinkError["reason"] | null = null
  /** Answers of the next publishings that get lost after they took effect. */
  lostResponses = 0

  constructor(limit = 1_000_000) {
    this.limit = limit
  }
}

export const layer = (broker: MemoryBroker): Layer.Layer<Sink> =>
  Layer.sync(Sink, () => {
    let mine = 0
    const requireAvailable = Effect.suspend(() =>
      broker.failure === null ? Effect.void : Effect.fail(new SinkError({ reason: broker.failure }))
    )
    const requireOpen = Effect.andThen(
      requireAvailable,
      Effect.suspend(() =>
        mine === broker.openCount
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
        mine = ++broker.openCount
        const published = [...broker.published.values()].at(-1) ?? null
        const foreign = findForeignStore(identity, published)
        return foreign === null ? published : yield* new SinkError({ reason: foreign })
      }),
      publish: Effect.fnUntraced(function*(
        identity: LogIdentity,
        batch: ReadonlyArray<LogEntry>,
        reached: Checkpoint | undefined = checkpointOf(batch)
      ) {
        yield* requireOpen
        if (reached === undefined) return
        for (const entry of batch) append(entry)
        broker.published.delete(identity.store)
        broker.published.set(identity.store, { ...identity, ...reached })
        if (broker.lostResponses > 0) {
          broker.lostResponses--
          return yield* new SinkError({ reason: new Unreachable({ message: "the answer was lost", cause: null }) })
        }
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
