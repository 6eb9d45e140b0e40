/**
 * The port to the calls between the processes of a fleet: a call is an operator's command that one process receives and the process that
 * owns the scope executes. `fleet/Calls.ts` is the interface that commands use.
 *
 * Invariants
 * 1. A call is claimed at most once, and only by the process that owns its scope while the claim is committed   (I10)
 * 2. A call that was removed before it was claimed is never claimed
 *
 * Gotchas
 * - Payloads and replies may contain ids of persons. They are encrypted like other content, never appear in messages, and are removed soon.
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { Actor } from "./Actor.ts"
import type { StoreError } from "./Store.ts"

export interface NewCall {
  /** Unique, chosen by the caller. */
  readonly id: string
  /** The ownership scope whose owner must execute the call, such as `capture/12`. */
  readonly scope: string
  readonly method: string
  readonly payload: string
  readonly actor: Actor
  /** The call cannot be claimed after this time. */
  readonly patience: Duration.Duration
}

export interface ClaimedCall extends Pick<NewCall, "id" | "method" | "actor"> {
  /** Null if it is damaged. */
  readonly payload: string | null
}

/** A call as its caller sees it. */
export interface SeenCall {
  readonly id: string
  readonly state: "waiting" | "running" | "answered"
  /** Whether the process that claimed the call has owned the scope since. */
  readonly owned: boolean
  /** Grows while the process that claimed the call executes it. */
  readonly beats: number
  /** Null if there is no reply, or if it is damaged. */
  readonly reply: string | null
}

type Operation<A> = Effect.Effect<A, StoreError>

export class CallQueue extends Context.Service<CallQueue, {
  readonly submit: (call: NewCall) => Operation<void>
  /** The scopes among these that have calls to claim, found with one statement. */
  readonly waiting: (scopes: ReadonlyArray<string>) => Operation<ReadonlyArray<string>>
  /** Claims all waiting calls of a scope; none if another process owns the scope, or, with `MissingKey`, if this process lacks a key. */
  readonly claim: (scope: string) => Operation<ReadonlyArray<ClaimedCall>>
  /** Reports that these calls are still being executed; returns those whose callers still wait. */
  readonly beat: (ids: ReadonlyArray<string>) => Operation<ReadonlyArray<string>>
  /** Does nothing if the caller no longer waits. */
  readonly answer: (id: string, reply: string) => Operation<void>
  /** Calls that were removed are left out. */
  readonly look: (ids: ReadonlyArray<string>) => Operation<ReadonlyArray<SeenCall>>
  /** Removes the calls that are in this state, or all calls if no state is given; returns the removed calls. */
  readonly remove: (ids: ReadonlyArray<string>, state?: SeenCall["state"]) => Operation<ReadonlyArray<string>>
  /** Removes calls whose callers or owners have ended. */
  readonly prune: Operation<void>
}>()("rollcall/store/CallQueue") {}
