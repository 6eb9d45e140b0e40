/**
 * Runs plugins: hides dispatching, claims, attempts and their ends behind one service that says how plugins are and lets
 * operators hold them.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { StoreError } from "../store/Store.ts"

/** How one handler is. */
export interface HandlerStatus {
  readonly handler: string
  /** Up to here of the log its deliveries are made. */
  readonly position: number
  /** Attempts under way. */
  readonly running: number
  /** So many different records failed one after another that it is only probed until one succeeds. */
  readonly resting: { readonly until: number; readonly failures: number } | null
}

export interface PluginStatus {
  readonly plugin: string
  readonly handlers: ReadonlyArray<HandlerStatus>
  /** Where its configuration is not complete, its deliveries wait. */
  readonly unconfigured: ReadonlyArray<{ readonly integration: string; readonly message: string }>
}

export interface DeliveryStatus {
  /** `waiting`: the store is away, it goes on by itself. `stopped`: another process delivers, or someone has to act. */
  readonly state: "starting" | "running" | "waiting" | "stopped"
  /** Of `waiting` and `stopped`; `since` is our clock, ms. */
  readonly reason: { readonly message: string; readonly hint: string; readonly since: number } | null
  readonly plugins: ReadonlyArray<PluginStatus>
}

export class Delivery extends Context.Service<Delivery, {
  readonly status: Effect.Effect<DeliveryStatus>
  /**
   * Returns once of everything up to `position` nothing is left but what waits for its next try, behind another delivery
   * or for an operator; or delivering has stopped.
   */
  readonly reached: (position: number) => Effect.Effect<DeliveryStatus, StoreError>
}>()("rollcall/delivery/Delivery") {}
