/** Values for operators: dead letters, unresolved steps and reported outcomes, the lists of deliveries, and switches. */
import type { WriteName } from "../api/Writes.ts"
import type { Json, LogEntry } from "../domain/ChangeEvent.ts"
import type { Model } from "../domain/Model.ts"
import type { Delivery, FailedAttempt, Failure, HandlerName } from "./Delivery.ts"

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

/** The dead letters of a handler whose failures have the same cause. */
export interface DeadLetterCause extends HandlerName {
  /** Names the cause in a `DeadLetterQuery`. */
  readonly cause: string
  readonly count: number
  /** Number of later deliveries that wait for them. */
  readonly parked: number
  readonly integrations: ReadonlyArray<string>
  readonly oldestAt: number
  readonly newestAt: number
  /** Of the newest delivery. */
  readonly failure: Failure
}

export interface DeadLetterQuery extends Partial<HandlerName> {
  readonly integration?: string | undefined
  readonly reason?: Failure["reason"] | undefined
  readonly cause?: string | undefined
  /** Only dead letters that died in [since, until). */
  readonly since?: number | undefined
  readonly until?: number | undefined
  /** Only ids after this one. */
  readonly after?: number | undefined
  readonly limit: number
}

// ---- unresolved steps ----------------------------------------------------------------------------------------------

/** A step without a result, or with an operator's result that no handler has received yet. */
export interface UnresolvedStep {
  /** Identifies the step in its present state: the name changes if the step is sent again, or its outcome reported again. */
  readonly name: string
  readonly step: string
  /** Null if the step is not a write. */
  readonly write: WriteName | null
  /** Target of the write; null for other steps. */
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

// ---- lists and switches -------------------------------------------------------------------------------------------

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
