/**
 * The port to where events are published.
 *
 * Invariants
 * 1. `publish` keeps the order of its batch per record   (I5)
 * 2. After `open` whoever published before is fenced   (I10, X15)
 * 3. What `report` tells is seen by nobody before the events that were published until then
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { LogEntry, LogIdentity } from "../domain/ChangeEvent.ts"
import type { StreamKey } from "../domain/Model.ts"

/** The sink is away: keep the position, try again. */
export class Unreachable extends Schema.TaggedError<Unreachable>()("Unreachable", {
  message: Schema.String,
  cause: Schema.Defect()
}) {
  readonly retryable = true
  readonly hint =
    "Kafka does not answer; events wait in the log and go out in order when it is back. Check KAFKA_BROKERS."
}
/** Another relay took over: this one stops. */
export class Fenced extends Schema.TaggedError<Fenced>()("Fenced", { message: Schema.String }) {
  readonly retryable = false
  readonly hint = "another process publishes this store now; this one stops publishing."
}
/** The sink will never take this as it is: credentials, authorisation, topic configuration. */
export class Refused extends Schema.TaggedError<Refused>()("Refused", { message: Schema.String, hint: Schema.String }) {
  readonly retryable = false
}

export class SinkError extends Schema.TaggedError<SinkError>()("SinkError", {
  reason: Schema.Union([Unreachable, Fenced, Refused])
}) {
  override get message(): string {
    return `${this.reason.message} (${this.reason.hint})`
  }
}

/** How far publishing came in the log, and what proves it. */
export interface Reached {
  /** Everything up to this row is published, be it for readers or silent. */
  readonly position: number
  /** At this row: proves all of them, silent ones too   (X4, X14, X18). See `chainOf`. */
  readonly chain: string
}

/** Of a batch that ends with an event for readers; undefined for an empty one. */
export const reachedBy = (batch: ReadonlyArray<LogEntry>): Reached | undefined => {
  const last = batch.at(-1)
  return last && { position: last.position, chain: last.chain }
}

/** How far what is published shows a stream completely. */
export interface StreamProgress extends StreamKey {
  readonly lineage: number
  /** Server time, ms: every change up to then is published or pending. */
  readonly completeTo: number
  /** Of the log: everything up to it is published. */
  readonly position: number
  /** When that was found, our clock, ms. */
  readonly at: number
}

export interface RecordKey extends StreamKey {
  readonly id: string
}

/** What the sink itself remembers of the last thing published. */
export interface Published extends LogIdentity, Reached {}

export class Sink extends Context.Service<Sink, {
  /** Fences older publishers of this store, then says what was last published; null = nothing yet. */
  readonly open: (identity: LogIdentity) => Effect.Effect<Published | null, SinkError>
  /**
   * Publishes in order and remembers how far it came, in one transaction where the sink has them; returns once every event
   * is durable at the other end. An event too large for the sink is replaced by a stub that points at the log (K1).
   */
  readonly publish: (
    identity: LogIdentity,
    batch: ReadonlyArray<LogEntry>,
    reached?: Reached
  ) => Effect.Effect<void, SinkError>
  /** Tells how far streams are complete; of each the newest word is kept. */
  readonly report: (identity: LogIdentity, streams: ReadonlyArray<StreamProgress>) => Effect.Effect<void, SinkError>
  /**
   * Where the latest content of records is kept: removes what `lacking` picks out of it. For a store that was adopted,
   * and does not know of all that was published   (X14)
   */
  readonly reconcile: <E>(
    identity: LogIdentity,
    streams: ReadonlyArray<StreamKey>,
    lacking: (records: ReadonlyArray<RecordKey>) => Effect.Effect<ReadonlyArray<RecordKey>, E>
  ) => Effect.Effect<void, SinkError | E>
}>()("rollcall/publish/Sink") {}
