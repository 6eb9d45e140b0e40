/**
 * Handlers and the values of a delivery: its subject, its batch, its failures, and the keys under which its steps run once.
 *
 * Gotchas
 * - All times are by our clock, in ms, even if another process wrote them, because the store keeps due times by the clock of the database.
 * - All positions are positions in the event log.
 */
import type { HandlerCircuit } from "../domain/HandlerCircuit.ts"
import type { Model } from "../domain/Model.ts"

// ---- handlers and ticks -------------------------------------------------------------------------------------------

export interface HandlerName {
  readonly plugin: string
  readonly handler: string
}

/** Name of the reader that keeps the log for deliveries that are not created yet. */
export const deliveryReader = "delivery"

/** A handler of the configuration, whether or not it is registered already. */
export interface ConfiguredHandler extends HandlerName {
  /** True if the handler runs at scheduled times, not for events. */
  readonly scheduled: boolean
  /** Where in the log the handler starts when it is registered for the first time. */
  readonly from: "now" | "oldest"
  /** True if a dead letter does not block the later events of its record. */
  readonly skipsDeadLetters: boolean
}

export interface HandlerState extends HandlerName {
  readonly key: number
  /** Deliveries are created for all events up to this position. */
  readonly position: number
  /** True if the handler is configured in the process that delivers. */
  readonly active: boolean
  /** The circuit that all processes share. */
  readonly circuit: HandlerCircuit
}

/** A handler that this process dispatches to. */
export interface RegisteredHandler extends HandlerState {
  /**
   * For a handler that takes events now and took ticks before: the integrations in which its ticks spanned the log beyond `position`, each
   * with the end of the last span.
   */
  readonly ticked: ReadonlyMap<string, number>
}

/** A time at which a handler must run for an integration. */
export interface Tick {
  readonly handler: number
  readonly integration: string
  readonly scheduledAt: number
  /** Time between two ticks of the handler, in ms. */
  readonly interval: number
}

/** The ticks that are due at one time, and the handlers that have no ticks. */
export interface TickSchedule {
  /** The latest scheduled time of each handler, in the integrations where the handler is on. */
  readonly due: ReadonlyArray<Tick>
  /**
   * The integrations in which the configuration turns handlers off. The store remembers them, so later calls for the same integrations
   * may leave this empty.
   */
  readonly off: ReadonlyArray<Pick<Tick, "handler" | "integration">>
  /** The active integrations. */
  readonly integrations: ReadonlyArray<string>
  /**
   * Time of the previous check. The first tick of a handler is delivered if it became due after this time. Otherwise its first delivery
   * is at the next scheduled time.
   */
  readonly lastCheckedAt: number
}

// ---- deliveries ---------------------------------------------------------------------------------------------------

export type Subject =
  | { readonly _tag: "Event"; readonly position: number }
  /** A tick covers the positions after `from`, up to and including `to`. */
  | { readonly _tag: "Tick"; readonly scheduledAt: number; readonly from: number; readonly to: number }

export interface NewDelivery {
  readonly handler: number
  readonly integration: string
  /** Deliveries with the same key run in order: those of one record, or the ticks of one integration. */
  readonly orderingKey: string
  readonly subject: Subject
  readonly dueAt: number
  /** The failure of a delivery that is dead from the start and never attempted; otherwise null. */
  readonly dead: Failure | null
  /** Name of a new journal for the delivery; null if the delivery uses the journal of its event or tick. */
  readonly fresh: string | null
}

export interface Delivery extends Omit<NewDelivery, "dead" | "dueAt"> {
  readonly id: number
  readonly createdAt: number
  /** Failed attempts. */
  readonly attempts: number
  /**
   * Name of the batch, fixed at the first claim. A new batch is named `<id of the first member>`. The halves of a batch append `.0` or
   * `.1` to its name. If the events were delivered in a batch before, the name is that of the earlier batch followed by `.r<id of the
   * first member>`.
   */
  readonly batch: string | null
}

// ---- batches and keys of steps --------------------------------------------------------------------------------------

/** A batch and the batches that contain it, the narrowest first. */
const batchesAround = (batch: string): ReadonlyArray<string> => {
  const parts = batch.split(".")
  return parts.map((_, index) => parts.slice(0, parts.length - index).join("."))
}

/** The keys under which a step of this delivery runs once, the narrowest first. All integrations have ticks at the same times   (L6). */
export const dedupKeysOf = (
  { batch, fresh, integration, subject }: Pick<Delivery, "batch" | "fresh" | "integration" | "subject">
): readonly [string, ...ReadonlyArray<string>] => {
  const own = fresh === null ? "" : `~${fresh}`
  if (batch !== null) {
    const [first = batch, ...others] = batchesAround(batch).map((name) => `b${name}${own}`)
    return [first, ...others]
  }
  return subject._tag === "Event" ? [`e${subject.position}${own}`] : [`t${subject.scheduledAt}/${integration}${own}`]
}

/**
 * The keys of a delivery that may have been delivered alone although it is in a batch: the handler was changed, and takes single events now.
 * Its steps count only for its event, and the steps that the whole batch has done are done.
 */
export const keysWithoutBatch = (
  delivery: Parameters<typeof dedupKeysOf>[0]
): ReturnType<typeof dedupKeysOf> => {
  const keys = dedupKeysOf(delivery)
  return delivery.batch === null ? keys : [dedupKeysOf({ ...delivery, batch: null })[0], ...keys]
}

/** The key of a step that runs once per record, or, for a tick, once per integration. */
export const recordDedupKeyOf = (
  integration: string,
  record: { readonly model: Model; readonly id: string } | "tick"
): string => record === "tick" ? `r:${integration}` : `r:${integration}/${record.model}/${record.id}`

/** Name of a new batch. `last`: the batch in which its events were last delivered, or null; `first`: id of its first delivery. */
export const batchNameOf = (last: string | null, first: number): string =>
  last === null ? String(first) : `${last}.r${first}`

/** The two batches into which a failed batch is split. */
export const halvesOf = <A>(batch: string, members: ReadonlyArray<A>) => {
  const middle = Math.ceil(members.length / 2)
  return [members.slice(0, middle), members.slice(middle)].map((half, index) => ({
    batch: `${batch}.${index}`,
    members: half
  }))
}

// ---- failures -----------------------------------------------------------------------------------------------------

/**
 * The reasons, in the order in which they are listed for people. `ProcessEnded`: the process ended while the attempt ran, see
 * `isolateAfterCrashes`.
 */
export const failureReasons = [
  "Transient",
  "RateLimited",
  "Blocked",
  "Permanent",
  "TimedOut",
  "Defect",
  "LoopDetected",
  "ProcessEnded"
] as const
/**
 * A delivery that was running this many times when its process ended runs in isolation from then on: no other delivery runs beside it. If
 * the process ends once more, the delivery is the cause.
 */
export const isolateAfterCrashes = 3

/** Why an attempt failed. Messages contain no personal data. */
export interface Failure {
  readonly reason: (typeof failureReasons)[number]
  readonly message: string
  /** For `Permanent` and `Blocked`: the kind of refusal. */
  readonly refusal: string | null
  readonly faults: ReadonlyArray<{ readonly path: string; readonly rule: string; readonly message: string }>
  readonly at: number
}

/** A request that an attempt sent, to the API or to another server. */
export interface SentRequest {
  /** `addTag`, `live ats.application`, `POST hooks.example`: no path, no body. */
  readonly what: string
  readonly integration: string | null
  readonly at: number
  readonly outcome: "done" | "refused" | "unknown"
}

/** One failed attempt, as shown in the details of a dead letter. */
export interface FailedAttempt {
  readonly number: number
  readonly startedAt: number
  readonly failure: Failure
  readonly requests: ReadonlyArray<SentRequest>
}

// ---- counted attempts -----------------------------------------------------------------------------------------------

/** Attempts are counted in steps of this many ms. */
export const countedStep = 600_000
/** How many steps are kept for each handler: those of a day. */
export const countedSteps = 144

/** A failure, with the integration in which it happened. */
export interface CountedFailure extends Failure {
  readonly integration: string
}

/** The attempts of a handler that ended in one step. */
export interface AttemptCounts {
  /** Start of the step; our clock, in ms. */
  readonly at: number
  readonly attempts: number
  readonly failed: number
  /** The deliveries that ended with success. A batch is one attempt for many deliveries. */
  readonly settled: number
  /** The last failure of the step; null if no attempt failed. */
  readonly failure: CountedFailure | null
}
