/**
 * The port to the parts of the store that a running attempt needs: the journal of its steps, and the published records.
 *
 * Invariants
 * 1. An owner or a claim that is no longer the newest can start no step   (I10, X16)
 * 2. Only the attempt that started a step last can complete or withdraw it
 * 3. A step that has a result never starts again; a step that started and has no result starts again only on request   (L5)
 */
import type * as Effect from "effect/Effect"
import type { WriteName } from "../api/Writes.ts"
import type { Json } from "../domain/ChangeEvent.ts"
import type { Expectation } from "../domain/Expectation.ts"
import type { Model, StreamKey } from "../domain/Model.ts"
import type { Owner } from "./State.ts"
import type { StoreError } from "./StoreError.ts"

/** Identifies the attempt that performs an operation. */
export interface FencingToken {
  readonly owner: Owner
  /** The delivery; for a batch, its first member. */
  readonly delivery: number
  readonly claim: number
}

export interface StepKey {
  readonly handler: number
  /**
   * The keys under which the step runs once, the narrowest first: the key of an event, of a batch and the batches that contained it, or
   * of a record.
   */
  readonly dedupKeys: readonly [string, ...ReadonlyArray<string>]
  readonly step: string
  /** True if the step is never pruned. */
  readonly keepForever: boolean
}

/** A request that must be recorded before it is sent. */
export interface Intent extends StepKey {
  readonly integration: string
  /** A plugin's write: refused while writes are stopped, or if the hour's budget is used up. Null if the request is not a write. */
  readonly write: {
    readonly name: WriteName
    /** The ids in the write's path, if there are any. */
    readonly params?: Readonly<Record<string, string>>
    readonly plugin: string
    /** Writes allowed per hour; null if an earlier attempt of the same request was already counted. */
    readonly perHour: number | null
    /** Depth of the changes that the write causes; see `Author`. */
    readonly depth: number
    /** The content that records are expected to show after the write. */
    readonly expected: ReadonlyArray<Expectation>
  } | null
  /**
   * A step of an earlier attempt whose name has this prefix is the same request with different content, and only one of the two requests
   * may be sent. While the outcome of that step is unknown, the outcome of this request is treated as unknown too.
   */
  readonly sameRequestPrefix?: string
  /** With `sameRequestPrefix`: true if an outcome that an operator reported for the other request applies to this one too. */
  readonly isSameRequest?: boolean
  /** How an attempt proceeds if the step was started and has no result. `deadLetter` if absent. */
  readonly onUnknown?: "repeat" | "verify" | "deadLetter"
  /** True if the step may start although an earlier attempt started it, because the outcome of that attempt is known or does not matter. */
  readonly allowRepeat: boolean
}

export type BeginResult =
  | { readonly _tag: "Begun" }
  | { readonly _tag: "Done"; readonly result: Json }
  /** An earlier attempt started the step, and its outcome is unknown. */
  | { readonly _tag: "Unknown"; readonly begunAt: number }
  /** An operator reported the outcome of a request with different content. This request was not sent, and needs a report of its own. */
  | { readonly _tag: "NeedsReport" }
  /** The writes of all plugins are stopped. */
  | { readonly _tag: "Stopped" }
  /** The target integration is no longer configured. */
  | { readonly _tag: "Removed" }
  /** A running attempt, perhaps in another process, is replacing the same packages. */
  | { readonly _tag: "Busy" }
  | { readonly _tag: "BudgetExhausted"; readonly until: number }

/** Why a step cannot start now. */
export type BeginRefusal = Exclude<BeginResult, { readonly _tag: "Begun" | "BudgetExhausted" }>

export interface AttemptJournal {
  /** Fails with `Fenced` if the claim is no longer the newest. */
  readonly check: (fence: FencingToken) => Effect.Effect<void, StoreError>
  /** The result of a step, if it has one. */
  readonly result: (key: StepKey) => Effect.Effect<Json | null, StoreError>
  /**
   * Why `begin` would not start the step now; null if it would start it, or if only the hour's budget is used up. Does not start the step.
   * Not only a check: like `begin`, it marks a result that an operator reported as received, and saves whether an outcome that an operator
   * reported for another request applies to this request or blocks it.
   */
  readonly checkBegin: (fence: FencingToken, intent: Intent) => Effect.Effect<BeginRefusal | null, StoreError>
  /** Commits the intent, together with the expectations of the write. */
  readonly begin: (fence: FencingToken, intent: Intent) => Effect.Effect<BeginResult, StoreError>
  /**
   * Saves the result of a step that has none, whether or not `begin` was called for it. The result is saved even if another process owns
   * the delivery now, because the effect has happened. `created`: ids of the records that the write created.
   */
  readonly finish: (
    fence: FencingToken,
    key: StepKey,
    result: Json,
    created?: Readonly<Partial<Record<Model, string>>>
  ) => Effect.Effect<void, StoreError>
  /** Removes the step that this attempt started. Call it only if the step certainly had no effect. */
  readonly withdraw: (fence: FencingToken, key: StepKey) => Effect.Effect<void, StoreError>
  /** The published content of a record; null if the record is not live, or unknown. */
  readonly content: (key: StreamKey, id: string) => Effect.Effect<Json | null, StoreError>
  /** Live applications that show a candidate, in id order. */
  readonly applicationsOf: (
    integration: string,
    candidate: string,
    limit: number
  ) => Effect.Effect<ReadonlyArray<string>, StoreError>
}
