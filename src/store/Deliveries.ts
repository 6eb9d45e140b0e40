/**
 * The port behind which everything durable of deliveries lives: handlers and how far they have come, deliveries, what
 * their attempts did, dead letters, switches. Hides tables, order and fencing.
 *
 * Invariants
 * 1. Deliveries of a stretch of the log and the handlers' positions behind it are committed together   (I2)
 * 2. Of one handler and lane at most one delivery is claimed at a time, the earliest that is not settled   (I5)
 * 3. Nothing is settled, begun or journaled for an owner, or a claim, that is no longer the newest   (I10, X16)
 * 4. A log row that an unsettled delivery needs is not pruned
 *
 * Gotchas
 * - A settled delivery leaves nothing but its journal. What is here is waiting, due, under way or dead.
 * - What operators do needs no owner: it changes only what nobody has claimed.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { WriteName } from "../api/Writes.ts"
import type { Json, LogEntry } from "../domain/ChangeEvent.ts"
import type { Expectation } from "../domain/Expectation.ts"
import type { Model, StreamKey } from "../domain/Model.ts"
import type { OperatorAction } from "./State.ts"
import type { Owner, StoreError } from "./Store.ts"

/** Times are our clock, ms; positions are of the log. */

// ---- handlers -----------------------------------------------------------------------------------------------------

export interface HandlerName {
  readonly plugin: string
  readonly handler: string
}

/** Under this name the log is kept for deliveries that are still to be made of it. */
export const deliveryReader = "delivery"

/** A handler as the configuration has it. */
export interface NewHandler extends HandlerName {
  /** Fed by the clock, not by the log. */
  readonly scheduled: boolean
  /** Where in the log it begins if it was never seen. */
  readonly from: "now" | "oldest"
  /** Later events of a record pass a dead one by. */
  readonly skipsDeadLetters: boolean
}

export interface HandlerState extends HandlerName {
  readonly key: number
  /** Up to here its deliveries are made. */
  readonly position: number
  /** The configuration of the process that delivers has it. */
  readonly active: boolean
}

// ---- deliveries ---------------------------------------------------------------------------------------------------

/** In the order in which they are listed; `ProcessEnded`: the process ended while the attempt ran, see `aloneAfter`. */
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
 * A delivery that was running this many times when its process ended is run with no other delivery beside it: if the process
 * ends once more, it is known which delivery ends it.
 */
export const isolateAfterCrashes = 3

/** Why an attempt failed. Messages name no personal data. */
export interface Failure {
  readonly reason: FailureReason
  readonly message: string
  /** Of `Permanent`: what refused. */
  readonly refusal: string | null
  readonly faults: ReadonlyArray<{ readonly path: string; readonly rule: string; readonly message: string }>
  readonly at: number
}

export type Subject =
  | { readonly _tag: "Event"; readonly position: number }
  /** Behind `from` up to `to`. */
  | { readonly _tag: "Tick"; readonly scheduledAt: number; readonly from: number; readonly to: number }

/** A moment at which a handler is to run for an integration. */
export interface Tick {
  readonly handler: number
  readonly integration: string
  readonly scheduledAt: number
}

/** The ticks of a moment, and where there are none. */
export interface TickSchedule {
  /** The latest moment of each handler, in the integrations where it is on. */
  readonly due: ReadonlyArray<Tick>
  /** Where handlers are off by configuration; may be left empty if the caller has given it for these integrations. */
  readonly off: ReadonlyArray<Pick<Tick, "handler" | "integration">>
  /** Those that are active. */
  readonly integrations: ReadonlyArray<string>
  /** When this was looked at before: a first tick is delivered if it became due since, and otherwise at the next moment. */
  readonly lastCheckedAt: number
}

export interface NewDelivery {
  readonly handler: number
  readonly integration: string
  /** What is delivered in order: a record, or the ticks of an integration. */
  readonly orderingKey: string
  readonly subject: Subject
  readonly dueAt: number
  /** Never to be tried. */
  readonly dead: Failure | null
  /** A journal of its own, told apart by this. */
  readonly fresh: string | null
}

export interface Delivery extends Omit<NewDelivery, "dead"> {
  readonly id: number
  readonly createdAt: number
  /** Failed ones. */
  readonly attempts: number
  /**
   * Fixed at the first claim: `<id of the first member>`, of halves with `.0` or `.1` behind it. Of events that were
   * delivered in a batch before: that one's name with `.r<id of the first member>` behind it.
   */
  readonly batch: string | null
}

/** A batch and those that it is a part of, the narrowest first. */
const batchesAround = (batch: string): ReadonlyArray<string> => {
  const parts = batch.split(".")
  return parts.map((_, index) => parts.slice(0, parts.length - index).join("."))
}

/** What a step of this delivery is done once for, the narrowest first. All integrations have their ticks at the same times   (L6). */
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

/** A delivery that is ours to attempt, as long as nobody has a later claim. */
export interface Claimed extends Delivery {
  readonly claim: number
  /** How many earlier claims were neither settled nor released before their process ended; see `aloneAfter`. */
  readonly crashes: number
}

/** What a handler could take on. */
export interface ClaimRequest {
  readonly handler: number
  /** Most deliveries, or batches. */
  readonly most: number
  /**
   * The same, while a delivery of the handler that is due was running when a process ended: what can begin at once, so that
   * what only waited in memory is not counted when the process ends again. Absent: `most`.
   */
  readonly mostAfterCrash?: number
  /** Only deliveries that must run alone, and one of all wants together; otherwise only others. */
  readonly isolated?: boolean
  /** Members of a batch; null = no batches. */
  readonly size: number | null
  /** Integrations that get nothing now. */
  readonly excludedIntegrations: ReadonlyArray<string>
  /** What is due by more than this ahead, ms, is due now: our clock was set back   (W4). */
  readonly maxLead: number
}

/** A request that an attempt made of the API, or of anybody. */
export interface SentRequest {
  /** `addTag`, `live ats.application`, `POST hooks.example`: no path, no body. */
  readonly what: string
  readonly integration: string | null
  readonly at: number
  readonly outcome: "done" | "refused" | "unknown"
}

/** One failed attempt, for the story of a dead letter. */
export interface FailedAttempt {
  readonly number: number
  readonly startedAt: number
  readonly failure: Failure
  readonly requests: ReadonlyArray<SentRequest>
}

/** How an attempt ended, for all members if it was of a batch. */
export type AttemptOutcome =
  & { readonly deliveries: ReadonlyArray<number> }
  & (
    | { readonly _tag: "Settled" }
    /** As if it had not been claimed. */
    | { readonly _tag: "Released" }
    | {
      readonly _tag: "Retry"
      readonly dueAt: number
      readonly attempts: number
      readonly attempted: FailedAttempt
      /** Because all writes are stopped: due at once when they are resumed, or already are. */
      readonly stopped?: boolean
    }
    | { readonly _tag: "Dead"; readonly attempts: number; readonly attempted: FailedAttempt }
    /** Two batches of what was one. */
    | { readonly _tag: "Split"; readonly batch: string; readonly dueAt: number; readonly attempted: FailedAttempt }
  )

// ---- the journal --------------------------------------------------------------------------------------------------

/** The attempt in whose name something is done. */
export interface FencingToken {
  readonly owner: Owner
  /** Of a batch: its first member. */
  readonly delivery: number
  readonly claim: number
}

export interface StepKey {
  readonly handler: number
  /** What the step is done once for, the narrowest first: an event, a batch and those it was a part of, a record. */
  readonly dedupKeys: readonly [string, ...ReadonlyArray<string>]
  readonly step: string
  /** Kept for ever. */
  readonly keepForever: boolean
}

/** What must not be sent without being written down. */
export interface Intent extends StepKey {
  readonly integration: string
  /** A write of a plugin: refused while writes are stopped, or the hour's budget is used up. */
  readonly write: {
    readonly name: WriteName
    /** The ids in its path, where it has any. */
    readonly params?: Readonly<Record<string, string>>
    readonly plugin: string
    /** null: an earlier try of the same request was counted. */
    readonly perHour: number | null
    /** Of what it causes; see `Author`. */
    readonly depth: number
    /** What is to be seen of it. */
    readonly expected: ReadonlyArray<Expectation>
  } | null
  /**
   * It is unknown too while an earlier attempt's step whose name begins so is: that is the same request in other words,
   * which must not be sent beside it.
   */
  readonly sameRequestPrefix?: string
  /** Of a request with `kin`: an operator's answer for the other one counts for this one too. */
  readonly isSameRequest?: boolean
  /** What an attempt does that finds it begun and without a result; a dead letter without it. */
  readonly onUnknown?: "repeat" | "verify" | "deadLetter"
  /** Although an earlier attempt began it: what became of that is known, or does not matter. */
  readonly allowRepeat: boolean
}

export type BeginResult =
  | { readonly _tag: "Begun" }
  | { readonly _tag: "Done"; readonly result: Json }
  /** Begun by an earlier attempt, and never heard of again. */
  | { readonly _tag: "Unknown"; readonly begunAt: number }
  /** An operator answered for a request in other words, and it is unclear whether this one is the same. It was not sent. */
  | { readonly _tag: "Unclear" }
  /** The writes of all plugins are stopped. */
  | { readonly _tag: "Stopped" }
  /** The integration that would be written to is not configured any more. */
  | { readonly _tag: "Removed" }
  | { readonly _tag: "BudgetExhausted"; readonly until: number }

/** A step without a result, or with one that an operator gave and no handler was given yet. */
export interface UnresolvedStep {
  /** Names this step as it is now; another sending and another answer have other names. */
  readonly name: string
  readonly step: string
  /** null: a step that is not a write. */
  readonly write: WriteName | null
  /** Where the write went; null of a step, and of a write that an earlier version of this program began. */
  readonly target: { readonly integration: string; readonly params: Readonly<Record<string, string>> } | null
  readonly begunAt: number
  /** The delivery whose attempt began it. It may be settled by now. */
  readonly delivery: number
  /** `unsent`: see `Unclear`. `running`: the attempt that began it is under way. `answered`: by an operator. */
  readonly state: "unknown" | "unsent" | "running" | "answered"
  /** The first record that came to show the write while its outcome was unknown. */
  readonly shownBy: { readonly model: Model; readonly id: string; readonly at: number } | null
}

/** What an operator says of an open step. */
export type Resolution =
  /** `created`: ids of what the write brought into being. */
  | { readonly _tag: "Happened"; readonly result: Json; readonly created: Readonly<Partial<Record<Model, string>>> }
  | { readonly _tag: "DidNotHappen" }

export type ResolveResult =
  /** `left`: open steps of the delivery that still have no answer. It is tried again when there is none. */
  | { readonly _tag: "Answered"; readonly left: number }
  /** The delivery is no dead letter (any more). */
  | { readonly _tag: "NotDeadLetter" }
  /** There is no open step of this name (any more). */
  | { readonly _tag: "Outdated" }
  | { readonly _tag: "Running" }
/** Why a step would not begin now. */
export type BeginRefusal = Exclude<BeginResult, { readonly _tag: "Begun" | "BudgetExhausted" }>

// ---- for operators ------------------------------------------------------------------------------------------------

export interface DeadLetter extends Omit<Delivery, "handler">, HandlerName {
  /** null: a tick, or the record is erased. */
  readonly event: Pick<LogEntry, "eventId" | "model" | "id" | "version" | "kind"> | null
  readonly failure: Failure
  /** Deliveries of its lane that wait behind it. */
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
  /** Those that died in [since, until). */
  readonly since?: number | undefined
  readonly until?: number | undefined
  /** An id. */
  readonly after?: number | undefined
  readonly limit: number
}

/** Counted per handler and integration. */
export interface Backlog extends HandlerName {
  readonly integration: string
  readonly waiting: number
  /** Could begin now. */
  readonly due: number
  /** Wait for the time of their next try, or for their batch. */
  readonly later: number
  readonly running: number
  readonly dead: number
  /** When the oldest of these that is not dead was made. */
  readonly oldest: number | null
}

/** Off until it is switched on again; nothing is lost meanwhile. */
export type Switch =
  | { readonly _tag: "Writes" }
  | { readonly _tag: "Plugin"; readonly plugin: string; readonly integration: string | null }

export class Deliveries extends Context.Service<Deliveries, {
  // dispatching
  /**
   * Makes what is missing of these handlers and gives them all; others keep their deliveries and do not hold the log. What
   * was under way for an earlier owner is due again, a batch with the same members; its claim counts as one that ended with
   * the process.
   */
  readonly registerHandlers: (
    owner: Owner,
    handlers: ReadonlyArray<NewHandler>
  ) => Effect.Effect<ReadonlyArray<HandlerState>, StoreError>
  /** Adds deliveries and moves `handlers` to `position`. */
  readonly dispatch: (
    owner: Owner,
    stretch: {
      readonly deliveries: ReadonlyArray<NewDelivery>
      readonly handlers: ReadonlyArray<number>
      readonly position: number
    }
  ) => Effect.Effect<void, StoreError>
  /**
   * Makes a delivery of each tick that was not made yet. It spans the log since the one before, since the handler was
   * registered if it is the first one, or since the handler was switched on. Gives those that have to wait, because the one
   * before is neither settled nor dead. Where an integration is not active the span stays open, and where a handler is off
   * it ends; neither keeps the log.
   */
  readonly dispatchTicks: (owner: Owner, ticking: TickSchedule) => Effect.Effect<ReadonlyArray<Tick>, StoreError>

  // attempting
  /**
   * Settles what has ended, then claims what is due: one transaction. `next`: when the next delivery will be due. `alone`:
   * one that must run alone is due, and was not wanted.
   */
  readonly settleAndClaim: (
    owner: Owner,
    outcomes: ReadonlyArray<AttemptOutcome>,
    wants: ReadonlyArray<ClaimRequest>
  ) => Effect.Effect<
    { readonly claimed: ReadonlyArray<Claimed>; readonly next: number | null; readonly alone: boolean },
    StoreError
  >
  /** Rows of the log, however old, in the order of positions; what was erased is missing. */
  readonly entries: (positions: ReadonlyArray<number>) => Effect.Effect<ReadonlyArray<LogEntry>, StoreError>
  /** By position: the batch in which the event was last delivered to the handler, if it ever was. */
  readonly batches: (
    handler: number,
    positions: ReadonlyArray<number>
  ) => Effect.Effect<ReadonlyMap<number, string>, StoreError>
  /** Fails with `Fenced` if the claim is not the newest. */
  readonly check: (fence: FencingToken) => Effect.Effect<void, StoreError>
  /** The result of a step, if it has one. */
  readonly result: (key: StepKey) => Effect.Effect<Json | null, StoreError>
  /**
   * What `begin` would refuse with now; null: it would begin, unless the hour's budget is used up. It begins nothing, but notes,
   * as `begin` does, that an operator's answer was given to this request or kept it back.
   */
  readonly checkBegin: (fence: FencingToken, intent: Intent) => Effect.Effect<BeginRefusal | null, StoreError>
  /** Commits the intent, and with it what is expected to be seen of the write. */
  readonly begin: (fence: FencingToken, intent: Intent) => Effect.Effect<BeginResult, StoreError>
  /**
   * Keeps the result of a step that has none, begun or not. What happened counts, whoever owns the delivery by now.
   * `created`: ids of what the write brought into being.
   */
  readonly finish: (
    fence: FencingToken,
    key: StepKey,
    result: Json,
    created?: Readonly<Partial<Record<Model, string>>>
  ) => Effect.Effect<void, StoreError>
  /** It is known that nothing was done of what this attempt began. */
  readonly withdraw: (fence: FencingToken, key: StepKey) => Effect.Effect<void, StoreError>
  /** The published content of a record; null if it is not live, or not known. */
  readonly content: (key: StreamKey, id: string) => Effect.Effect<Json | null, StoreError>
  /** Live applications that show a candidate, in the order of their ids. */
  readonly applicationsOf: (
    integration: string,
    candidate: string,
    limit: number
  ) => Effect.Effect<ReadonlyArray<string>, StoreError>

  // operating
  readonly handlers: Effect.Effect<ReadonlyArray<HandlerState>, StoreError>
  readonly backlog: Effect.Effect<ReadonlyArray<Backlog>, StoreError>
  /** In the order of ids. */
  readonly deadLetters: (query: DeadLetterQuery) => Effect.Effect<ReadonlyArray<DeadLetter>, StoreError>
  readonly deadLetterDetail: (id: number) => Effect.Effect<DeadLetterDetail | null, StoreError>
  /**
   * Tried again from `dueAt`, with all their attempts; `fresh` as of a new delivery; `died`: only those that died at that
   * time, by id. Gives how many were dead.
   */
  readonly redrive: (
    ids: ReadonlyArray<number>,
    how: { readonly dueAt: number; readonly fresh: string | null; readonly died?: ReadonlyMap<number, number> },
    act: OperatorAction
  ) => Effect.Effect<number, StoreError>
  /** Given up for good: what is parked behind them goes on; `died` as for `redrive`. Gives how many were dead. */
  readonly discard: (
    ids: ReadonlyArray<number>,
    act: OperatorAction,
    died?: ReadonlyMap<number, number>
  ) => Effect.Effect<number, StoreError>
  /** Open steps of `occasions` that an attempt at this dead letter would not simply repeat, the oldest first. */
  readonly unresolvedSteps: (
    delivery: number,
    occasions: ReadonlyArray<string>
  ) => Effect.Effect<ReadonlyArray<UnresolvedStep>, StoreError>
  /** Gives the open step of this name an answer, and tries the dead letter again from `dueAt` if it was the last one. */
  readonly resolve: (
    delivery: number,
    occasions: ReadonlyArray<string>,
    name: string,
    answer: Resolution,
    dueAt: number,
    act: OperatorAction
  ) => Effect.Effect<ResolveResult, StoreError>
  /** Delivers again, behind what the lanes hold. */
  readonly replay: (deliveries: ReadonlyArray<NewDelivery>, act: OperatorAction) => Effect.Effect<void, StoreError>
  /** What is switched off. */
  readonly switchedOff: Effect.Effect<ReadonlyArray<Switch>, StoreError>
  /** Resuming all writes makes due what was stopped by them. */
  readonly setSwitch: (which: Switch, on: boolean, act: OperatorAction) => Effect.Effect<void, StoreError>
  /** Returns once operators of this process have done more than `seen`, and gives how much. */
  readonly awaitCommand: (seen: number) => Effect.Effect<number>
  /**
   * Forgets journals that were begun before `before`, of what no delivery is of any more and no replay could be: the log is
   * kept longer while a reader is behind. Returns how many.
   */
  readonly prune: (before: number) => Effect.Effect<number, StoreError>
}>()("rollcall/store/Deliveries") {}
