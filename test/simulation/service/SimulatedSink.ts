/**
 * The simulated sink of the relay. It stores a batch and its position in one step, as Kafka does with
 * transactions, in the partitions of a topic for each model, keeps the newest entry of each record, as a compacted topic does, fences the
 * process that opened it before, and fails on request.
 */
import * as Effect from "effect/Effect"
import type { LogEntry, LogIdentity } from "../../../src/domain/ChangeEvent.ts"
import { streamName } from "../../../src/domain/Model.ts"
import {
  type Checkpoint,
  checkpointOf,
  Fenced,
  findForeignStore,
  type RecordKey,
  type Sink,
  type SinkCheckpoint,
  SinkError,
  Unreachable
} from "../../../src/publish/Sink.ts"
import type { EventPlace, EventPlaces } from "../../../src/store/EventLog.ts"

/** The process that sends. */
interface Sender {
  readonly kill: () => void
  readonly whileAlive: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
}

/** Observes what takes effect. */
export interface SinkObserver {
  readonly opened: () => void
  readonly published: () => void
}

export type SinkPlace = Pick<EventPlace, "topic" | "partition" | "offset">

const partitions = 3
/** Any function of the record. */
const partitionOf = ({ id }: LogEntry): number =>
  [...id].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % partitions

type InjectedFailure = "killBefore" | "killAfter" | "away" | "unsure"

const recordName = (record: RecordKey): string => `${streamName(record)}/${record.id}`

const unreachable = new SinkError({ reason: new Unreachable({ message: "simulated", cause: null }) })

export class SimulatedSink {
  readonly entries: Array<LogEntry> = []
  /** The newest entry of each record that is not deleted. */
  readonly latest = new Map<string, LogEntry>()
  /** By event id. */
  readonly places = new Map<string, SinkPlace>()
  /** By topic and partition: the next offset. */
  readonly #offsets = new Map<string, number>()
  #published: SinkCheckpoint | null = null

  /** The newest published generation. */
  get generation(): number {
    return this.#published?.generation ?? 0
  }

  /** The number of entries, and the newest published position. */
  get taken(): { readonly count: number; readonly position: number } {
    return { count: this.entries.length, position: this.#published?.position ?? 0 }
  }

  /** Whether another store published the sink's entries, and this store was not adopted in a later generation since. */
  isForeign({ generation, store }: LogIdentity): boolean {
    return this.#published !== null && this.#published.store !== store && generation <= this.generation
  }

  #openings = 0
  #batches = 0
  #failures: Array<{ readonly at: number; readonly failure: InjectedFailure }> = []

  /** Injects a failure into the `count`th batch from now on. */
  injectFailure(failure: InjectedFailure, count: number): void {
    this.#failures.push({ at: this.#batches + 1 + count, failure })
  }

  clearFailures(): void {
    this.#failures = []
  }

  sink(sender: Sender, observer: SinkObserver): Sink["Service"] {
    let ownOpening = 0
    const fenced = () => new SinkError({ reason: new Fenced({ message: "a newer relay opened this sink" }) })
    return {
      open: (identity) =>
        sender.whileAlive(Effect.suspend(() => {
          ownOpening = ++this.#openings
          observer.opened()
          const foreign = findForeignStore(identity, this.#published)
          return foreign === null ? Effect.succeed(this.#published) : Effect.fail(new SinkError({ reason: foreign }))
        })),
      publish: (identity, batch, reached = checkpointOf(batch)) =>
        sender.whileAlive(Effect.clockWith((clock) => {
          if (ownOpening !== this.#openings) return Effect.fail(fenced())
          const number = ++this.#batches
          const failure = this.#failures.find(({ at }) => at === number)?.failure
          if (failure === "killBefore") sender.kill()
          if (failure === "killBefore" || failure === "away") return Effect.fail(unreachable)
          const places = this.#take(identity, batch, reached, clock.currentTimeMillisUnsafe())
          observer.published()
          if (failure === "killAfter") sender.kill()
          return failure === "unsure" ? Effect.fail(unreachable) : Effect.succeed(places)
        })),
      publishProgress: () =>
        sender.whileAlive(Effect.suspend(() => ownOpening === this.#openings ? Effect.void : Effect.fail(fenced()))),
      // all streams of a world are configured
      reconcile: (_identity, _streams, lacking) =>
        sender.whileAlive(Effect.map(Effect.suspend(() => lacking([...this.latest.values()])), (records) => {
          for (const record of records) this.latest.delete(recordName(record))
        }))
    }
  }

  #take(
    identity: LogIdentity,
    batch: ReadonlyArray<LogEntry>,
    reached: Checkpoint | undefined,
    at: number
  ): ReadonlyArray<EventPlaces> {
    this.entries.push(...batch)
    for (const entry of batch) {
      if (entry.after === null) this.latest.delete(recordName(entry))
      else this.latest.set(recordName(entry), entry)
    }
    const places = this.#append(batch)
    if (reached !== undefined) this.#published = { ...identity, ...reached, published: { at, places } }
    return places
  }

  #append(batch: ReadonlyArray<LogEntry>): ReadonlyArray<EventPlaces> {
    const byPartition = Map.groupBy(batch, (entry) => `${entry.model} ${partitionOf(entry)}`)
    return [...byPartition].map(([name, entries]) => {
      const [topic, partition, offset] = [entries[0]!.model, partitionOf(entries[0]!), this.#offsets.get(name) ?? 0]
      entries.forEach(({ eventId }, index) => this.places.set(eventId, { topic, partition, offset: offset + index }))
      // the marker of the transaction has an offset too
      this.#offsets.set(name, offset + entries.length + 1)
      return { topic, partition, offset, positions: entries.map(({ position }) => position) }
    })
  }
}
