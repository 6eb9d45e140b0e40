/**
 * The simulated sink of the relay. It stores a batch and its position in one step, as Kafka does with
 * transactions, keeps the newest entry of each record, as a compacted topic does, fences the process that opened it before, and
 * fails on request.
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

type InjectedFailure = "killBefore" | "killAfter" | "away" | "unsure"

const recordName = (record: RecordKey): string => `${streamName(record)}/${record.id}`

const unreachable = new SinkError({ reason: new Unreachable({ message: "simulated", cause: null }) })

export class SimulatedSink {
  readonly entries: Array<LogEntry> = []
  /** The newest entry of each record that is not deleted. */
  readonly latest = new Map<string, LogEntry>()
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
        sender.whileAlive(Effect.suspend(() => {
          if (ownOpening !== this.#openings) return Effect.fail(fenced())
          const number = ++this.#batches
          const failure = this.#failures.find(({ at }) => at === number)?.failure
          if (failure === "killBefore") sender.kill()
          if (failure === "killBefore" || failure === "away") return Effect.fail(unreachable)
          this.#take(identity, batch, reached)
          observer.published()
          if (failure === "killAfter") sender.kill()
          return failure === "unsure" ? Effect.fail(unreachable) : Effect.succeed([])
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

  #take(identity: LogIdentity, batch: ReadonlyArray<LogEntry>, reached: Checkpoint | undefined): void {
    this.entries.push(...batch)
    for (const entry of batch) {
      if (entry.after === null) this.latest.delete(recordName(entry))
      else this.latest.set(recordName(entry), entry)
    }
    if (reached !== undefined) this.#published = { ...identity, ...reached }
  }
}
