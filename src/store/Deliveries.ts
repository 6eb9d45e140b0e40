/**
 * The port to all durable state of deliveries: handlers and their positions, deliveries, dead letters and switches. Includes
 * `AttemptJournal`, the part that a running attempt uses.
 *
 * Invariants
 * 1. The deliveries of a range of the log, and the handlers' positions after that range, are committed together   (I2)
 * 2. Per handler and ordering key, at most one delivery is claimed at a time: the earliest that is not settled   (I5)
 * 3. An owner or a claim that is no longer the newest cannot settle a delivery   (I10, X16)
 * 4. A log row that an unsettled delivery needs is not pruned
 *
 * Gotchas
 * - A settled delivery is deleted, but its journal stays. All stored deliveries are waiting, due, running or dead.
 * - Operators' commands need no owner, because they change only deliveries that are not claimed.
 * - The owner of `dispatchScope` creates deliveries; a shard's owner (`deliveryScopeOf`) runs them. These may be different processes.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { WriteName } from "../api/Writes.ts"
import type { Json, LogEntry } from "../domain/ChangeEvent.ts"
import type { DeliveryProgress, IdRange } from "../domain/DeliveryProgress.ts"
import type { HandlerCircuit } from "../domain/HandlerCircuit.ts"
import type { Model, StreamKey } from "../domain/Model.ts"
import type { AttemptJournal } from "./AttemptJournal.ts"
import type { OperatorAction } from "./AuditLog.ts"
import type { Owner } from "./Ownership.ts"
import type { StoreError } from "./Store.ts"

/**
 * All times are by our clock, in ms, even if another process wrote them, because the store keeps due times by the clock of the database.
 * All positions are positions in the event log.
 */

// ---- handlers -----------------------------------------------------------------------------------------------------

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

// ---- deliveries ---------------------------------------------------------------------------------------------------

/**
 * The reasons, in the order in which they are listed for people. `ProcessEnded`: the process ended while the attempt ran, see
 * `isolateAfterCrashes`.
 */
export const failureReasons = [
  "Transient",
  "RateLimited",
  "Permanent",
  "TimedOut",
  "Defect",
  "LoopDetected",
  "ProcessEnded"
] as const
export type FailureReason = (typeof failureReasons)[number]

/**
 * A delivery that was running this many times when its process ended runs in isolation from then on: no other delivery runs beside it. If
 * the process ends once more, the delivery is the cause.
 */
export const isolateAfterCrashes = 3

/** Why an attempt failed. Messages contain no personal data. */
export interface Failure {
  readonly reason: FailureReason
  readonly message: string
  /** For `Permanent`: the kind of refusal. */
  readonly refusal: string | null
  readonly faults: ReadonlyArray<{ readonly path: string; readonly rule: string; readonly message: string }>
  readonly at: number
}

export type Subject =
  | { readonly _tag: "Event"; readonly position: number }
  /** A tick covers the positions after `from`, up to and including `to`. */
  | { readonly _tag: "Tick"; readonly scheduledAt: number; readonly from: number; readonly to: number }

/** A time at which a handler must run for an integration. */
export interface Tick {
  readonly handler: number
  readonly integration: string
  readonly scheduledAt: number
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

/** A delivery that this process may attempt until a later claim exists. */
export interface Claimed extends Delivery {
  readonly claim: number
  /** Number of earlier claims whose process ended before they were settled or released; see `isolateAfterCrashes`. */
  readonly crashes: number
}

export interface RunningDelivery {
  readonly id: number
  readonly shard: number
}

/** The deliveries that a handler has capacity for. */
export interface ClaimRequest {
  readonly handler: number
  /** Maximum number of deliveries, or of batches. */
  readonly most: number
  /**
   * Replaces `most` while one of the handler's due or running deliveries was running during an earlier crash. The next crash is counted
   * for every claimed delivery, so only as many are claimed as can start at once. `most` if absent.
   */
  readonly mostAfterCrash?: number
  /**
   * True to claim only deliveries that must run alone, and at most one for all requests together. Otherwise only other deliveries are
   * claimed.
   */
  readonly isolated?: boolean
  /** Maximum number of deliveries in a batch; null if the handler takes no batches. */
  readonly size: number | null
  /**
   * Maximum number of deliveries, or of batches, that are claimed in all processes together, while other processes own shards too. A
   * process that owns all shards may claim more than it starts at once. No maximum if absent.
   */
  readonly concurrency?: number
  /** Integrations whose deliveries are not claimed now. */
  readonly excludedIntegrations: ReadonlyArray<string>
  /** A delivery that is due more than this far ahead, in ms, becomes due now, because our clock was set back   (W4). */
  readonly maxLead: number
}

export interface ClaimResult {
  readonly claimed: ReadonlyArray<Claimed>
  /** When the next delivery will be due; null if no delivery is waiting for its time. */
  readonly next: number | null
  /** True if a delivery that must run alone is due, and a request for other deliveries skipped it. */
  readonly isolatedDue: boolean
  readonly lost: ReadonlyArray<Owner>
  /** The circuits of handlers that failed since their last success, in any process. The others are closed. */
  readonly circuits: ReadonlyMap<number, HandlerCircuit>
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

/** How an attempt ended. The outcome of a batch applies to all its members. */
export type AttemptOutcome =
  & {
    readonly deliveries: ReadonlyArray<number>
    /**
     * The result of the attempt for the handler's circuit. `failed`: the ordering key of the failed record; null if it succeeded. Absent
     * if the circuit does not change, because the handler did not run, or met a rate limit.
     */
    readonly result?: { readonly handler: number; readonly failed: string | null }
  }
  & (
    | { readonly _tag: "Settled" }
    /** The deliveries are due again, as if they had not been claimed. */
    | { readonly _tag: "Released" }
    | {
      readonly _tag: "Retry"
      readonly dueAt: number
      readonly attempts: number
      readonly failedAttempt: FailedAttempt
      /** True if the attempt ended because all writes are stopped. The delivery is due as soon as they are resumed. */
      readonly stopped?: boolean
    }
    | { readonly _tag: "Dead"; readonly attempts: number; readonly failedAttempt: FailedAttempt }
    /** The batch becomes two batches. */
    | { readonly _tag: "Split"; readonly batch: string; readonly dueAt: number; readonly failedAttempt: FailedAttempt }
  )

// ---- unresolved steps ----------------------------------------------------------------------------------------------

/** A step without a result, or with an operator's result that no handler has received yet. */
export interface UnresolvedStep {
  /** Identifies the step in its present state: the name changes if the step is sent again, or its outcome reported again. */
  readonly name: string
  readonly step: string
  /** Null if the step is not a write. */
  readonly write: WriteName | null
  /** Target of the write; null for other steps, and for writes that an earlier version of Rollcall started. */
  readonly target: { readonly integration: string; readonly params: Readonly<Record<string, string>> } | null
  readonly begunAt: number
  /** The delivery whose attempt started the step. It may be settled already. */
  readonly delivery: number
  /**
   * `unsent`: see `NeedsReport` of `BeginRefusal`. `running`: the attempt that started the step is running. `answered`: an operator reported
   * the result, and no handler has received it.
   */
  readonly state: "unknown" | "unsent" | "running" | "answered"
  /** The first record that showed the write while its outcome was unknown. */
  readonly shownBy: { readonly model: Model; readonly id: string; readonly at: number } | null
}

/** The outcome that an operator reports for a step of unknown outcome. */
export type Resolution =
  /** `created`: ids of the records that the write created. */
  | { readonly _tag: "Happened"; readonly result: Json; readonly created: Readonly<Partial<Record<Model, string>>> }
  | { readonly _tag: "DidNotHappen" }

export type ResolveResult =
  /** `left`: how many steps of the delivery are still unresolved. The dead letter is redriven once there are none. */
  | { readonly _tag: "Resolved"; readonly left: number }
  /** The delivery is not, or no longer, a dead letter. */
  | { readonly _tag: "NotDeadLetter" }
  /** The delivery has no (or no longer an) unresolved step with this name. */
  | { readonly _tag: "Outdated" }
  | { readonly _tag: "Running" }

// ---- for operators ------------------------------------------------------------------------------------------------

export interface DeadLetter extends Omit<Delivery, "handler">, HandlerName {
  /** Null if the delivery is a tick, or the record is erased. */
  readonly event: Pick<LogEntry, "eventId" | "model" | "id" | "version" | "kind"> | null
  readonly failure: Failure
  /** Number of later deliveries with the same ordering key that wait for it. */
  readonly parked: number
}

export interface DeadLetterDetail extends DeadLetter {
  readonly failedAttempts: ReadonlyArray<FailedAttempt>
  readonly journal: ReadonlyArray<
    { readonly step: string; readonly write: string | null; readonly done: boolean; readonly begunAt: number }
  >
}

export interface DeadLetterQuery extends Partial<HandlerName> {
  readonly integration?: string | undefined
  readonly reason?: Failure["reason"] | undefined
  /** Only dead letters that died in [since, until). */
  readonly since?: number | undefined
  readonly until?: number | undefined
  /** Only ids after this one. */
  readonly after?: number | undefined
  readonly limit: number
}

/** The delivery of one event to one handler, as far as the store still knows it. */
export interface DeliveryTrace extends HandlerName {
  /** Id of the delivery. If it is settled, the id of the delivery that started its steps. */
  readonly id: number
  readonly state: "waiting" | "due" | "running" | "dead" | "settled"
  readonly attempts: number
  /** When the next attempt is due; null if it is settled, dead or running. */
  readonly dueAt: number | null
  readonly failedAttempts: ReadonlyArray<Omit<FailedAttempt, "requests">>
  readonly steps: DeadLetterDetail["journal"]
}

/** The numbers of deliveries of one handler in one integration, by state. */
export interface Backlog extends HandlerName {
  readonly integration: string
  readonly waiting: number
  /** Deliveries that can start now. */
  readonly due: number
  /** Deliveries that wait for the time of their next attempt, or for their batch to fill. */
  readonly later: number
  readonly running: number
  readonly dead: number
  /** When the oldest delivery that is not dead was created. */
  readonly oldest: number | null
}

/** Identifies the writes, plugin or integration that an operator switches off or on. No delivery is lost while a switch is off. */
export type Switch =
  | { readonly _tag: "Writes" }
  | { readonly _tag: "Plugin"; readonly plugin: string; readonly integration: string | null }

/** `integration`: null for everywhere. */
export const isSwitchedOff = (off: ReadonlyArray<Switch>, plugin: string, integration: string | null): boolean =>
  off.some((one) => one._tag === "Plugin" && one.plugin === plugin && one.integration === integration)

export class Deliveries extends Context.Service<
  Deliveries,
  AttemptJournal & {
    // dispatching
    /**
     * Registers these handlers and returns them all. Other handlers become inactive: they keep their deliveries, but the log is not kept
     * for them. Handlers with an open circuit may be tried at once, because a process that starts may have a fixed plugin. `owner`: the
     * owner of `dispatchScope`, as in the other operations that dispatch.
     */
    readonly registerHandlers: (
      owner: Owner,
      handlers: ReadonlyArray<ConfiguredHandler>
    ) => Effect.Effect<ReadonlyArray<HandlerState>, StoreError>
    /** Adds deliveries and moves `handlers` to `position`. */
    readonly dispatch: (
      owner: Owner,
      dispatched: {
        readonly deliveries: ReadonlyArray<NewDelivery>
        readonly handlers: ReadonlyArray<number>
        readonly position: number
      }
    ) => Effect.Effect<void, StoreError>
    /**
     * Creates a delivery for each due tick that has none. Returns the ticks that must wait, because the previous tick is neither settled
     * nor dead. The part of the log that a delivery spans starts
     * - at the previous tick, even if the integration was inactive in between, as far as the log still has the rows;
     * - for the first tick, and for the first one after the handler was off: when the handler was registered or switched on.
     * The log is kept neither for an integration that is not active nor for a handler that is off.
     */
    readonly dispatchTicks: (owner: Owner, schedule: TickSchedule) => Effect.Effect<ReadonlyArray<Tick>, StoreError>

    // attempting
    /**
     * A new owner of shards must call this first. Deliveries of these shards that were running for an earlier owner are due again
     * (batches keep their members), and their claims are counted as crashes. `continued`: the owners among these of which the earlier
     * owner is the same process, which has not crashed. `blocking`: deliveries in the shards of `continued` whose attempts blocked that
     * process; they count a crash nevertheless, even if they have been released. Returns the owners that have been replaced since.
     */
    readonly takeShards: (
      owners: ReadonlyArray<Owner>,
      continued?: ReadonlyArray<Owner>,
      blocking?: ReadonlyArray<number>
    ) => Effect.Effect<ReadonlyArray<Owner>, StoreError>
    /**
     * In one transaction: settles the attempts that have ended, then claims due deliveries. Ignores deliveries of other shards than those
     * of `owners`. `lost`: the owners that have been replaced; nothing is settled or claimed for them. For a handler whose circuit is
     * open, nothing is claimed. When the open time is over, one delivery or batch is claimed in all processes together.
     */
    readonly settleAndClaim: (
      owners: ReadonlyArray<Owner>,
      outcomes: ReadonlyArray<AttemptOutcome>,
      requests: ReadonlyArray<ClaimRequest>
    ) => Effect.Effect<ClaimResult, StoreError>
    /**
     * The running deliveries of the shards of `owners`. If `settleAndClaim` fails, its transaction may have been committed: the deliveries
     * that it claimed are running then, although the caller does not know them.
     */
    readonly running: (owners: ReadonlyArray<Owner>) => Effect.Effect<ReadonlyArray<RunningDelivery>, StoreError>
    /** Log rows at these positions, however old, in position order; erased rows are missing. */
    readonly entries: (positions: ReadonlyArray<number>) => Effect.Effect<ReadonlyArray<LogEntry>, StoreError>
    /** The batch in which each event was last delivered to the handler, by position. Events without a batch are missing. */
    readonly batches: (
      handler: number,
      positions: ReadonlyArray<number>
    ) => Effect.Effect<ReadonlyMap<number, string>, StoreError>

    // operating
    readonly handlers: Effect.Effect<ReadonlyArray<HandlerState>, StoreError>
    readonly backlog: Effect.Effect<ReadonlyArray<Backlog>, StoreError>
    /** In id order. */
    readonly deadLetters: (query: DeadLetterQuery) => Effect.Effect<ReadonlyArray<DeadLetter>, StoreError>
    /**
     * The deliveries of an event that are open, or that left steps in the journal. A settled delivery without steps leaves nothing.
     */
    readonly traces: (position: number) => Effect.Effect<ReadonlyArray<DeliveryTrace>, StoreError>
    /** The position of the event whose delivery this is, or was; null if it is not known. */
    readonly eventOf: (delivery: number) => Effect.Effect<number | null, StoreError>
    readonly deadLetterDetail: (id: number) => Effect.Effect<DeadLetterDetail | null, StoreError>
    /**
     * Makes dead letters due at `dueAt`, with the full number of attempts. `fresh`: as in `NewDelivery`. `died`: when each of them
     * died, by id; one that died at another time, because it was redriven and failed again, is skipped. Returns how many became due.
     */
    readonly redrive: (
      ids: ReadonlyArray<number>,
      how: { readonly dueAt: number; readonly fresh: string | null; readonly died?: ReadonlyMap<number, number> },
      action: OperatorAction
    ) => Effect.Effect<number, StoreError>
    /** Deletes dead letters, which unblocks the deliveries parked behind them. `died`: as for `redrive`. Returns how many were deleted. */
    readonly discard: (
      ids: ReadonlyArray<number>,
      action: OperatorAction,
      died?: ReadonlyMap<number, number>
    ) => Effect.Effect<number, StoreError>
    /** How many of these deliveries are settled, open, and dead. */
    readonly progressOf: (ranges: ReadonlyArray<IdRange>) => Effect.Effect<DeliveryProgress, StoreError>
    /** Unresolved steps with these keys that block an attempt at this dead letter, oldest first. Steps that may be repeated block none. */
    readonly unresolvedSteps: (
      delivery: number,
      dedupKeys: ReadonlyArray<string>
    ) => Effect.Effect<ReadonlyArray<UnresolvedStep>, StoreError>
    /** Resolves the step with this name. If it was the last unresolved one, the dead letter is redriven, due at `dueAt`. */
    readonly resolve: (
      delivery: number,
      dedupKeys: ReadonlyArray<string>,
      name: string,
      resolution: Resolution,
      dueAt: number,
      action: OperatorAction
    ) => Effect.Effect<ResolveResult, StoreError>
    /** Adds deliveries again, after those that already have the same ordering key. Returns their ids. */
    readonly replay: (
      deliveries: ReadonlyArray<NewDelivery>,
      action: OperatorAction
    ) => Effect.Effect<ReadonlyArray<number>, StoreError>
    /**
     * Removes what is left of these records from before their last delete: content and changes in the log, waiting deliveries, dead
     * letters, and journals. `found`: further log rows of these records. `own`: false if the records only repeat a forgotten record.
     * Returns how many of their deliveries are running; call it again once these have ended.
     */
    readonly purgeForgotten: (
      key: StreamKey,
      ids: ReadonlyArray<string>,
      how: {
        readonly found: ReadonlyArray<{ readonly id: string; readonly position: number }>
        readonly own: boolean
      }
    ) => Effect.Effect<number, StoreError>
    /**
     * Empties the results of journaled steps that contain the text, whichever events they belong to, because the response to a write
     * contains the record that the write created. Returns how many such steps belong to running deliveries; these keep their results:
     * call it again once the deliveries have ended.
     */
    readonly purgeResults: (integration: string, text: string) => Effect.Effect<number, StoreError>
    /** How many rows of the log, unsettled deliveries and dead letters, and journaled steps a record has. */
    readonly countForgettable: (
      key: StreamKey,
      id: string
    ) => Effect.Effect<
      { readonly rows: number; readonly deliveries: number; readonly steps: number },
      StoreError
    >
    /** All switches that are off. */
    readonly switchedOff: Effect.Effect<ReadonlyArray<Switch>, StoreError>
    /** Sets a switch. If this resumes writes, the deliveries that waited for them become due. */
    readonly setSwitch: (which: Switch, on: boolean, action: OperatorAction) => Effect.Effect<void, StoreError>
    /**
     * Waits until this process knows of more than `seen` operator commands; returns how many it knows of. On PostgreSQL it may take a
     * second to notice a command that another process committed.
     */
    readonly awaitCommand: (seen: number) => Effect.Effect<number>
    /**
     * Deletes journal rows of steps that started before `before`, unless a delivery or a replay can still need them. A replay can need
     * them as long as the log has the event, and the log keeps events until all readers have read them. Returns how many were deleted.
     */
    readonly prune: (before: number) => Effect.Effect<number, StoreError>
  }
>()("rollcall/store/Deliveries") {}
