/**
 * The port to where events are published.
 *
 * Invariants
 * 1. `publish` keeps the order of its batch per record   (I5)
 * 2. After `open` whoever published before is fenced   (I10, X15)
 * 3. A store that did not write what is there publishes nothing, unless it was adopted since   (X14)
 * 4. What `report` tells is seen by nobody before the events that were published until then
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { LogEntry, LogIdentity } from "../domain/ChangeEvent.ts"
import type { StreamKey } from "../domain/Model.ts"

/** The sink is away: keep the position, try again. */
export class Unreachable extends Schema.TaggedError<Unreachable>()("Unreachable", {
  message: Schema.String,
  cause: Schema.Defect(),
  /** What to do, where that is known better than from the fact alone. */
  advice: Schema.optionalKey(Schema.String)
}) {
  readonly retryable = true
  get hint(): string {
    const advice = this.advice ?? "Check KAFKA_BROKERS."
    return `Kafka does not answer; events wait in the log and go out in order when it is back. ${advice}`
  }
}
/** Another relay took over: this one stops. */
export class Fenced extends Schema.TaggedError<Fenced>()("Fenced", { message: Schema.String }) {
  readonly retryable = false
  readonly hint = "another process publishes this store now; this one stops publishing."
}
/** Another store published here last, and this one was not adopted since: publishing would mix two histories. */
export class ForeignStore extends Schema.TaggedError<ForeignStore>()("ForeignStore", { message: Schema.String }) {
  readonly retryable = false
  readonly hint =
    "is ROLLCALL_STORE right, is its volume mounted, did Rollcall start in another directory? Bring back the store that " +
    "published there; or stop Rollcall and run `rollcall store adopt`, which publishes every live record of this store " +
    "anew, in a later generation; or give this store topics of its own with ROLLCALL_TOPIC."
}
/** The sink will never take this as it is: credentials, authorisation, topic configuration. */
export class Refused extends Schema.TaggedError<Refused>()("Refused", { message: Schema.String, hint: Schema.String }) {
  readonly retryable = false
}

export class SinkError extends Schema.TaggedError<SinkError>()("SinkError", {
  reason: Schema.Union([Unreachable, Fenced, ForeignStore, Refused])
}) {
  override get message(): string {
    return `${this.reason.message} (${this.reason.hint})`
  }
}

/** How far publishing came in the log, and what proves it. */
export interface Checkpoint {
  /** Everything up to this row is published, be it for readers or silent. */
  readonly position: number
  /** At this row: proves all of them, silent ones too   (X4, X14, X18). See `chainOf`. */
  readonly chain: string
}

/** What the sink itself remembers of the last thing published, by whichever store. */
export interface SinkCheckpoint extends LogIdentity, Checkpoint {}

/** Why this store must not publish after what is there; null when it may. `null` as identity: a store yet to be made. */
export const findForeignStore = (
  identity: LogIdentity | null,
  published: SinkCheckpoint | null
): ForeignStore | null => {
  if (published === null || published.store === identity?.store) return null
  if (identity !== null && identity.generation > published.generation) return null
  const other =
    `store ${published.store} published there up to position ${published.position} in generation ${published.generation}`
  const own = identity === null
    ? "this store does not exist yet"
    : `this is store ${identity.store} in generation ${identity.generation}`
  return new ForeignStore({ message: `the topics were written by another store: ${other}, ${own}` })
}

/**
 * Why a store must not go on from its saved position, in words: it published events of this generation, and they are not here.
 * null when it may. `start`: the position behind which publishing begins.
 */
export const findPublishedElsewhere = (
  identity: LogIdentity,
  published: SinkCheckpoint | null,
  { saved, start }: { readonly saved: number; readonly start: number }
): string | null => {
  if (saved <= start || (published?.store === identity.store && published.generation >= identity.generation)) {
    return null
  }
  const there = published === null
    ? "nothing was published"
    : published.store === identity.store
    ? `it published in generation ${published.generation} last`
    : `store ${published.store} published last`
  return `this store published up to position ${saved}, and not to these topics: there ${there}`
}

/** Of a batch that ends with an event for readers; undefined for an empty one. */
export const checkpointOf = (batch: ReadonlyArray<LogEntry>): Checkpoint | undefined => {
  const last = batch.at(-1)
  return last && { position: last.position, chain: last.chain }
}

/** How far what is published shows a stream completely. */
export interface StreamProgress extends StreamKey {
  readonly generation: number
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

export class Sink extends Context.Service<Sink, {
  /**
   * Fences whoever published here before, then says what was last published; null = nothing yet. It may be of another
   * store, in an earlier generation; where it is not earlier this fails with `ForeignStore`.
   */
  readonly open: (identity: LogIdentity) => Effect.Effect<SinkCheckpoint | null, SinkError>
  /**
   * Publishes in order and remembers how far it came, in one transaction where the sink has them; returns once every event
   * is durable at the other end. An event too large for the sink is replaced by a stub that points at the log (K1).
   */
  readonly publish: (
    identity: LogIdentity,
    batch: ReadonlyArray<LogEntry>,
    reached?: Checkpoint
  ) => Effect.Effect<void, SinkError>
  /** Tells how far streams are complete; of each the newest word is kept. */
  readonly publishProgress: (
    identity: LogIdentity,
    streams: ReadonlyArray<StreamProgress>
  ) => Effect.Effect<void, SinkError>
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
