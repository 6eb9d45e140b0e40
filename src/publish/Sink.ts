/**
 * The port through which events are published: Kafka, or memory in tests.
 *
 * Invariants
 * 1. `publish` keeps the order of its batch per record   (I5)
 * 2. After `open` every earlier publisher is fenced   (I10, X15)
 * 3. A store publishes nothing to a sink that another store wrote to, unless it was adopted afterwards   (X14)
 * 4. No reader sees the progress of `publishProgress` before the events that were published earlier
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { LogEntry, LogIdentity } from "../domain/ChangeEvent.ts"
import type { StreamKey } from "../domain/Model.ts"
import type { EventPlaces, Publication } from "../store/EventLog.ts"

/** The sink is unavailable: the relay keeps its position and retries. */
export class Unreachable extends Schema.TaggedError<Unreachable>()("Unreachable", {
  message: Schema.String,
  cause: Schema.Defect(),
  /** A more specific instruction for the hint, if the cause is known. */
  advice: Schema.optionalKey(Schema.String),
  /** The unavailable server if it is not Kafka, as the beginning of a sentence. */
  service: Schema.optionalKey(Schema.String)
}) {
  readonly retryable = true
  get hint(): string {
    const advice = this.advice ?? "Check KAFKA_BROKERS."
    return `${
      this.service ?? "Kafka"
    } is not available; events stay in the log and are published in order once it is. ${advice}`
  }
}
/** Another relay took over, so this one stops. */
export class Fenced extends Schema.TaggedError<Fenced>()("Fenced", { message: Schema.String }) {
  readonly retryable = false
  readonly hint = "another process now publishes this store's events, so this process has stopped publishing."
}
/** Another store published here last, and this store was not adopted afterwards: publishing would mix two histories. */
export class ForeignStore extends Schema.TaggedError<ForeignStore>()("ForeignStore", { message: Schema.String }) {
  readonly retryable = false
  readonly hint =
    "check that ROLLCALL_STORE is correct, that its volume is mounted, and that Rollcall started in the right directory. " +
    "Bring back the store that published there; or stop Rollcall and run `rollcall store adopt`, which publishes every live " +
    "record of this store again in a later generation; or set ROLLCALL_TOPIC to other topics for this store."
}
/** The sink rejects the request until an operator changes something: credentials, authorization, topic configuration. */
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

export const unreachable = (message: string, cause: unknown = null, advice?: string): SinkError =>
  new SinkError({ reason: new Unreachable({ message, cause, ...(advice === undefined ? {} : { advice }) }) })
export const refused = (message: string, hint: string): SinkError =>
  new SinkError({ reason: new Refused({ message, hint }) })

/** A position of the log up to which everything is published, with the chain that proves it. */
export interface Checkpoint {
  /** Every row up to this position is published or silent. */
  readonly position: number
  /** The chain at this position: proves all rows up to it, including silent ones   (X4, X14, X18). See `chainOf`. */
  readonly chain: string
}

/** The checkpoint of the last publication to the sink, by any store; kept in the sink itself. */
export interface SinkCheckpoint extends LogIdentity, Checkpoint {
  /** Where the events of the last publication are; absent if there were none, or it is not known. */
  readonly published?: Publication
}

/** The error if this store must not publish after `published`; null if it may. `identity` null: the store does not exist yet. */
export const findForeignStore = (
  identity: LogIdentity | null,
  published: SinkCheckpoint | null
): ForeignStore | null => {
  if (published === null || published.store === identity?.store) return null
  if (identity !== null && identity.generation > published.generation) return null
  const other =
    `store ${published.store} published up to position ${published.position} in generation ${published.generation}`
  const own = identity === null
    ? "this store does not exist yet"
    : `this is store ${identity.store} in generation ${identity.generation}`
  return new ForeignStore({ message: `the topics were written by another store: ${other}, ${own}` })
}

/**
 * If the store has published events of this generation to another sink, describes that: then it must not resume from its saved position.
 * Null if it may resume. `start`: publishing starts after this position.
 */
export const findPublishedElsewhere = (
  identity: LogIdentity,
  published: SinkCheckpoint | null,
  { saved, start }: { readonly saved: number; readonly start: number }
): string | null => {
  if (saved <= start || (published?.store === identity.store && published.generation >= identity.generation)) {
    return null
  }
  const lastThere = published === null
    ? "they hold no published position"
    : published.store === identity.store
    ? `it last published to them in generation ${published.generation}`
    : `store ${published.store} published to them last`
  return `this store published up to position ${saved}, but not to these topics: ${lastThere}`
}

/** The checkpoint of a batch whose last row is not silent; undefined for an empty batch. */
export const checkpointOf = (batch: ReadonlyArray<LogEntry>): Checkpoint | undefined => {
  const last = batch.at(-1)
  return last && { position: last.position, chain: last.chain }
}

/** The result of inspecting the sink. */
export interface SinkInspection {
  /** Missing topics, which would be created. */
  readonly missing: ReadonlyArray<string>
  /** Existing topics that differ from the settings for new ones. */
  readonly deviations: ReadonlyArray<{
    readonly topic: string
    readonly setting: "partitions" | "replicationFactor"
    readonly wanted: number
    readonly actual: number
  }>
  /** Topics with partitions that are not used. */
  readonly unusedPartitions: ReadonlyArray<
    { readonly topic: string; readonly partitions: number; readonly used: number }
  >
  /** The checkpoint of the last publication, by any store; null if nothing was published. */
  readonly published: SinkCheckpoint | null
  /** Why this store is not allowed to publish, and what to do; null if it is allowed. */
  readonly blocker: { readonly message: string; readonly hint: string } | null
}

/** How far the published events of a stream are complete. */
export interface StreamProgress extends StreamKey {
  readonly generation: number
  /** Server time, in ms: every change up to this time is published or pending. */
  readonly completeTo: number
  /** Position of the log: everything up to it is published. */
  readonly position: number
  /** When the progress was read, our clock, in ms. */
  readonly at: number
}

export interface RecordKey extends StreamKey {
  readonly id: string
}

export class Sink extends Context.Service<Sink, {
  /**
   * Fences every earlier publisher, then returns the last checkpoint; null if nothing was published yet. Fails
   * with `ForeignStore` if another store published it in the generation of `identity` or a later one.
   */
  readonly open: (identity: LogIdentity) => Effect.Effect<SinkCheckpoint | null, SinkError>
  /**
   * Publishes in order and saves the checkpoint, in one transaction if the sink supports transactions. Returns when every
   * event is durable in the sink, with the places of the events, as far as they are known. An event that is too large is replaced
   * by a stub that points at the log (K1).
   */
  readonly publish: (
    identity: LogIdentity,
    batch: ReadonlyArray<LogEntry>,
    checkpoint?: Checkpoint
  ) => Effect.Effect<ReadonlyArray<EventPlaces>, SinkError>
  /** Publishes how far streams are complete; the sink keeps the newest report of each stream. */
  readonly publishProgress: (
    identity: LogIdentity,
    streams: ReadonlyArray<StreamProgress>
  ) => Effect.Effect<void, SinkError>
  /**
   * If the sink keeps the latest content of records: removes the records that `lacking` selects, of `streams` and of the configured
   * streams. Used after an adoption, because the adopted store may not have all published records   (X14)
   */
  readonly reconcile: <E>(
    identity: LogIdentity,
    streams: ReadonlyArray<StreamKey>,
    lacking: (records: ReadonlyArray<RecordKey>) => Effect.Effect<ReadonlyArray<RecordKey>, E>
  ) => Effect.Effect<void, SinkError | E>
}>()("rollcall/publish/Sink") {}
