/**
 * Dead letters: the lists and commands of operators, and the outcomes that operators report for unresolved steps.
 *
 * Gotchas
 * - The commands need no owner, because they change only deliveries that are not claimed.
 */
import type * as Effect from "effect/Effect"
import type { WriteName } from "../api/Writes.ts"
import type { Json, LogEntry } from "../domain/ChangeEvent.ts"
import type { Model } from "../domain/Model.ts"
import type { Delivery, FailedAttempt, Failure, HandlerName } from "./Delivery.ts"
import type { OperatorAction } from "./Operators.ts"
import type { StoreError } from "./StoreError.ts"

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

// ---- operations ---------------------------------------------------------------------------------------------------

export interface DeadLetters {
  /** In id order. */
  readonly deadLetters: (query: DeadLetterQuery) => Effect.Effect<ReadonlyArray<DeadLetter>, StoreError>
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
}
