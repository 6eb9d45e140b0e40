/** Which integrations are configured, and which account each belongs to, as the store has it. */
import * as Effect from "effect/Effect"
import type { HandlerError } from "../plugin/Failure.ts"
import type { Store, StoreError } from "../store/Store.ts"
import * as Refusals from "./Refusals.ts"

/** Integrations that are not configured any more. */
export interface Absent {
  /** Their deliveries wait. */
  readonly removed: ReadonlySet<string>
  /** Nothing is left of them that could be delivered. */
  readonly erased: ReadonlySet<string>
}

export interface Accounts {
  /** Fails if the integration is not configured. */
  readonly of: (integration: string) => Effect.Effect<string, HandlerError>
  readonly absent: Effect.Effect<Absent, StoreError>
}

export const make = (store: Store["Service"]): Accounts => ({
  of: (integration) =>
    Effect.flatMap(Effect.mapError(store.integrations, Refusals.ofStore), (all) => {
      const known = all.find(({ id, state }) => id === integration && state === "active")
      return known === undefined ? Effect.fail(Refusals.removed(integration)) : Effect.succeed(known.account)
    }),
  absent: Effect.map(store.integrations, (all) => {
    const removed = all.filter(({ state }) => state === "removed" || state === "erasing")
    const erased = all.filter(({ state }) => state === "erased")
    return { removed: new Set(removed.map(({ id }) => id)), erased: new Set(erased.map(({ id }) => id)) }
  })
})
