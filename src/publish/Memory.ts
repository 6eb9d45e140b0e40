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
  Fenced,
  foreignTo,
  type Published,
  type Reached,
  reachedBy,
  type RecordKey,
  Sink,
  SinkError,
  type StreamProgress,
  Unreachable
} from "./Sink.ts"

export interface MemoryEvent {
  readonly key: string
  readonly eventId: string
  readonly lineage: number
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
  readonly published = new Map<string, Published>()
  openings = 0
  /** Largest content in characters that is taken whole. */
  readonly limit: number
  /** While set, whatever is asked fails with it. */
  fault: SinkError["reason"] | null = null
  /** Answers of the next publishings that get lost after they took effect. */
  lostAnswers = 0

  constructor(limit = 1_000_000) {
    this.limit = limit
  }
}

export const layer = (broker: MemoryBroker): Layer.Layer<Sink> =>
  Layer.sync(Sink, () => {
    let mine = 0
    const working = Effect.suspend(() =>
      broker.fault === null ? Effect.void : Effect.fail(new SinkError({ reason: broker.fault }))
    )
    const opened = Effect.andThen(
      working,
      Effect.suspend(() =>
        mine === broker.openings
          ? Effect.void
          : Effect.fail(new SinkError({ reason: new Fenced({ message: "a newer relay opened this sink" }) }))
      )
    )
    const take = (entry: LogEntry) => {
      const stub = (entry.before?.length ?? 0) + (entry.after?.length ?? 0) > broker.limit
      const { after, eventId, id, integration, kind, lineage, model, version } = entry
      const key = partitionKey(entry)
      broker.events.push({ key, eventId, lineage, version, kind, after, stub })
      if (after === null) broker.state.delete(key)
      else broker.state.set(key, { integration, model, id })
    }
    return Sink.of({
      open: Effect.fnUntraced(function*(identity: LogIdentity) {
        yield* working
        mine = ++broker.openings
        const published = [...broker.published.values()].at(-1) ?? null
        const foreign = foreignTo(identity, published)
        return foreign === null ? published : yield* new SinkError({ reason: foreign })
      }),
      publish: Effect.fnUntraced(function*(
        identity: LogIdentity,
        batch: ReadonlyArray<LogEntry>,
        reached: Reached | undefined = reachedBy(batch)
      ) {
        yield* opened
        if (reached === undefined) return
        for (const entry of batch) take(entry)
        broker.published.delete(identity.store)
        broker.published.set(identity.store, { ...identity, ...reached })
        if (broker.lostAnswers > 0) {
          broker.lostAnswers--
          return yield* new SinkError({ reason: new Unreachable({ message: "the answer was lost", cause: null }) })
        }
      }),
      report: Effect.fnUntraced(function*(_identity, streams) {
        yield* opened
        for (const stream of streams) broker.progress.set(streamName(stream), stream)
      }),
      reconcile: Effect.fnUntraced(function*(_identity, _streams, lacking) {
        yield* opened
        for (const record of yield* lacking([...broker.state.values()])) broker.state.delete(partitionKey(record))
      })
    })
  })
