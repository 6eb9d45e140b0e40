/**
 * What stands at the other end of the relay: takes a batch and remembers the last of it in one step, as Kafka does with
 * its transactions, keeps the newest of each record, as a compacted topic does, fences whoever opened it before, and fails
 * when told to.
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

/** Who sends, as far as the simulatedSink is concerned. */
interface Sender {
  readonly kill: () => void
  readonly whileAlive: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
}

type InjectedFailure = "killBefore" | "killAfter" | "away" | "unsure"

const recordName = (record: RecordKey): string => `${streamName(record)}/${record.id}`

const unreachable = new SinkError({ reason: new Unreachable({ message: "simulated", cause: null }) })

export class SimulatedSink {
  readonly entries: Array<LogEntry> = []
  /** The newest of each record that is not deleted. */
  readonly latest = new Map<string, LogEntry>()
  #published: SinkCheckpoint | null = null

  /** Newest generation it has seen. */
  get generation(): number {
    return this.#published?.generation ?? 0
  }

  /** Whether what it has was published by another store than this one, which was not adopted in a later generation since. */
  isForeign({ generation, store }: LogIdentity): boolean {
    return this.#published !== null && this.#published.store !== store && generation <= this.generation
  }

  #openings = 0
  #batches = 0
  #traps: Array<{ readonly at: number; readonly trap: InjectedFailure }> = []

  /** Springs at the `count`th batch from now on. */
  injectFailure(trap: InjectedFailure, count: number): void {
    this.#traps.push({ at: this.#batches + 1 + count, trap })
  }

  clearFailures(): void {
    this.#traps = []
  }

  sink(sender: Sender): Sink["Service"] {
    let mine = 0
    const fenced = () => new SinkError({ reason: new Fenced({ message: "a newer relay opened this sink" }) })
    return {
      open: (identity) =>
        sender.whileAlive(Effect.suspend(() => {
          mine = ++this.#openings
          const foreign = findForeignStore(identity, this.#published)
          return foreign === null ? Effect.succeed(this.#published) : Effect.fail(new SinkError({ reason: foreign }))
        })),
      publish: (identity, batch, reached = checkpointOf(batch)) =>
        sender.whileAlive(Effect.suspend(() => {
          if (mine !== this.#openings) return Effect.fail(fenced())
          const number = ++this.#batches
          const trap = this.#traps.find(({ at }) => at === number)?.trap
          if (trap === "killBefore") sender.kill()
          if (trap === "killBefore" || trap === "away") return Effect.fail(unreachable)
          this.#take(identity, batch, reached)
          if (trap === "killAfter") sender.kill()
          return trap === "unsure" ? Effect.fail(unreachable) : Effect.void
        })),
      publishProgress: () =>
        sender.whileAlive(Effect.suspend(() => mine === this.#openings ? Effect.void : Effect.fail(fenced()))),
      reconcile: (_, streams, lacking) => {
        const names = new Set(streams.map(streamName))
        const own = [...this.latest.values()].filter((entry) => names.has(streamName(entry)))
        return sender.whileAlive(Effect.map(lacking(own), (records) => {
          for (const record of records) this.latest.delete(recordName(record))
        }))
      }
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
