/**
 * What stands at the other end of the relay: takes a batch and remembers the last of it in one step, as Kafka does with
 * its transactions, keeps the newest of each record, as a compacted topic does, fences whoever opened it before, and fails
 * when told to.
 */
import * as Effect from "effect/Effect"
import type { LogEntry, LogIdentity } from "../../src/domain/ChangeEvent.ts"
import { streamName } from "../../src/domain/Model.ts"
import {
  Fenced,
  foreignTo,
  type Published,
  type Reached,
  reachedBy,
  type RecordKey,
  type Sink,
  SinkError,
  Unreachable
} from "../../src/publish/Sink.ts"

/** Who sends, as far as the outlet is concerned. */
interface Sender {
  readonly kill: () => void
  readonly gate: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
}

type Trap = "killBefore" | "killAfter" | "away" | "unsure"

const recordName = (record: RecordKey): string => `${streamName(record)}/${record.id}`

const unreachable = new SinkError({ reason: new Unreachable({ message: "simulated", cause: null }) })

export class Outlet {
  readonly entries: Array<LogEntry> = []
  /** The newest of each record that is not deleted. */
  readonly kept = new Map<string, LogEntry>()
  #published: Published | null = null

  /** Newest lineage it has seen. */
  get lineage(): number {
    return this.#published?.lineage ?? 0
  }

  /** Whether what it has was published by another store than this one, which was not adopted in a later lineage since. */
  isForeign({ lineage, store }: LogIdentity): boolean {
    return this.#published !== null && this.#published.store !== store && lineage <= this.lineage
  }

  #openings = 0
  #batches = 0
  #traps: Array<{ readonly at: number; readonly trap: Trap }> = []

  /** Springs at the `count`th batch from now on. */
  trap(trap: Trap, count: number): void {
    this.#traps.push({ at: this.#batches + 1 + count, trap })
  }

  calm(): void {
    this.#traps = []
  }

  sink(sender: Sender): Sink["Service"] {
    let mine = 0
    const fenced = () => new SinkError({ reason: new Fenced({ message: "a newer relay opened this sink" }) })
    return {
      open: (identity) =>
        sender.gate(Effect.suspend(() => {
          mine = ++this.#openings
          const foreign = foreignTo(identity, this.#published)
          return foreign === null ? Effect.succeed(this.#published) : Effect.fail(new SinkError({ reason: foreign }))
        })),
      publish: (identity, batch, reached = reachedBy(batch)) =>
        sender.gate(Effect.suspend(() => {
          if (mine !== this.#openings) return Effect.fail(fenced())
          const number = ++this.#batches
          const trap = this.#traps.find(({ at }) => at === number)?.trap
          if (trap === "killBefore") sender.kill()
          if (trap === "killBefore" || trap === "away") return Effect.fail(unreachable)
          this.#take(identity, batch, reached)
          if (trap === "killAfter") sender.kill()
          return trap === "unsure" ? Effect.fail(unreachable) : Effect.void
        })),
      report: () => sender.gate(Effect.suspend(() => mine === this.#openings ? Effect.void : Effect.fail(fenced()))),
      reconcile: (_, streams, lacking) => {
        const names = new Set(streams.map(streamName))
        const own = [...this.kept.values()].filter((entry) => names.has(streamName(entry)))
        return sender.gate(Effect.map(lacking(own), (records) => {
          for (const record of records) this.kept.delete(recordName(record))
        }))
      }
    }
  }

  #take(identity: LogIdentity, batch: ReadonlyArray<LogEntry>, reached: Reached | undefined): void {
    this.entries.push(...batch)
    for (const entry of batch) {
      if (entry.after === null) this.kept.delete(recordName(entry))
      else this.kept.set(recordName(entry), entry)
    }
    if (reached !== undefined) this.#published = { ...identity, ...reached }
  }
}
