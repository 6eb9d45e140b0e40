/**
 * The port to where events are published.
 *
 * Invariants
 * 1. `publish` keeps the order of its batch per record   (I5)
 * 2. After `open` whoever published before is fenced   (I10, X15)
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { LogEntry, LogIdentity } from "../domain/ChangeEvent.ts"

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

/** A place in the log, and the event that stands there. */
export interface Reached {
  readonly position: number
  readonly eventId: string
}

/** What the sink itself remembers of the last thing published. */
export interface Published extends LogIdentity, Reached {}

export class Sink extends Context.Service<Sink, {
  /** Fences older publishers of this store, then says what was last published; null = nothing yet. */
  readonly open: (identity: LogIdentity) => Effect.Effect<Published | null, SinkError>
  /**
   * Publishes in order and remembers the last one, or `reached`, a later position of the log, in one transaction where the sink has them; returns once every event
   * is durable at the other end. An event too large for the sink is replaced by a stub that points at the log (K1).
   */
  readonly publish: (
    identity: LogIdentity,
    batch: ReadonlyArray<LogEntry>,
    reached?: Reached
  ) => Effect.Effect<void, SinkError>
}>()("rollcall/publish/Sink") {}
