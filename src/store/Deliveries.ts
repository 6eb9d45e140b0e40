/**
 * The port to all durable state of deliveries. Its parts have their interfaces in their own files:
 *
 * - `DeliveryClaims.ts`: claims and the results of attempts. `AttemptJournal.ts`: the part that a running attempt uses
 * - `DeadLetters.ts`: dead letters and unresolved steps
 * - `Delivery.ts`: the values of a delivery, and the units of times and positions
 *
 * This file has handlers and their positions, the dispatch of deliveries and ticks, switches, and the operators' other commands and lists.
 *
 * Invariants
 * 1. The deliveries of a range of the log, and the handlers' positions after that range, are committed together   (I2)
 * 2. A log row that an unsettled delivery needs is not pruned
 *
 * Gotchas
 * - A settled delivery is deleted, but its journal stays. All stored deliveries are waiting, due, running or dead.
 * - Operators' commands need no owner, because they change only deliveries that are not claimed.
 * - The owner of `dispatchScope` creates deliveries; a shard's owner (`deliveryScopeOf`) runs them. These may be different processes.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { DeliveryProgress, IdRange } from "../domain/DeliveryProgress.ts"
import type { HandlerCircuit } from "../domain/HandlerCircuit.ts"
import type { StreamKey } from "../domain/Model.ts"
import type { AttemptJournal } from "./AttemptJournal.ts"
import type { DeadLetterDetail, DeadLetters } from "./DeadLetters.ts"
import type { FailedAttempt, HandlerName, NewDelivery } from "./Delivery.ts"
import type { DeliveryClaims } from "./DeliveryClaims.ts"
import type { OperatorAction } from "./Operators.ts"
import type { Owner } from "./State.ts"
import type { StoreError } from "./StoreError.ts"

// ---- handlers and ticks -------------------------------------------------------------------------------------------

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

// ---- for operators ------------------------------------------------------------------------------------------------

/** The delivery of one event to one handler, as far as the store still knows it. */
export interface DeliveryTrace extends HandlerName {
  /** Id of the delivery. If it is settled, the id of the delivery that started its steps. */
  readonly id: number
  /** `waiting`: an earlier delivery with the same ordering key blocks it. `due`: none does; `dueAt` may still be in the future. */
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
  /** Why the API accepted no requests of these deliveries, if some of them wait for that. */
  readonly blocked: string | null
}

/** Identifies the writes, plugin or integration that an operator switches off or on. No delivery is lost while a switch is off. */
export type Switch =
  | { readonly _tag: "Writes" }
  | { readonly _tag: "Plugin"; readonly plugin: string; readonly integration: string | null }

/** `integration`: null for everywhere. */
export const isSwitchedOff = (off: ReadonlyArray<Switch>, plugin: string, integration: string | null): boolean =>
  off.some((one) => one._tag === "Plugin" && one.plugin === plugin && one.integration === integration)

// ---- the port -----------------------------------------------------------------------------------------------------

export class Deliveries extends Context.Service<
  Deliveries,
  AttemptJournal & DeliveryClaims & DeadLetters & {
    // dispatching
    /**
     * Registers these handlers and returns them all. Other handlers become inactive: they keep their deliveries, but the log is not kept
     * for them. Handlers with an open circuit may be tried at once, because a process that starts may have a fixed plugin. `owner`: the
     * owner of `dispatchScope`, as in the other operations that dispatch.
     */
    readonly registerHandlers: (
      owner: Owner,
      handlers: ReadonlyArray<ConfiguredHandler>
    ) => Effect.Effect<ReadonlyArray<RegisteredHandler>, StoreError>
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
     * If the previous tick lies more than an interval ahead, our clock was set back: the due tick is created nevertheless   (W4).
     * The log is kept neither for an integration that is not active nor for a handler that is off.
     */
    readonly dispatchTicks: (owner: Owner, schedule: TickSchedule) => Effect.Effect<ReadonlyArray<Tick>, StoreError>

    // operating
    readonly handlers: Effect.Effect<ReadonlyArray<HandlerState>, StoreError>
    readonly backlog: Effect.Effect<ReadonlyArray<Backlog>, StoreError>
    /**
     * The deliveries of an event that are open, or that left steps in the journal. A settled delivery without steps leaves nothing.
     */
    readonly traces: (position: number) => Effect.Effect<ReadonlyArray<DeliveryTrace>, StoreError>
    /** The position of the event whose delivery this is, or was; null if it is not known. */
    readonly eventOf: (delivery: number) => Effect.Effect<number | null, StoreError>
    /** How many of these deliveries are settled, open, and dead. */
    readonly progressOf: (ranges: ReadonlyArray<IdRange>) => Effect.Effect<DeliveryProgress, StoreError>
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
