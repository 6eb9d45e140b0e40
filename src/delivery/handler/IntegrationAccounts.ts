/** Looks up in the store which integrations are configured and which account each belongs to. */
import * as Effect from "effect/Effect"
import type { HandlerError } from "../../plugin/Failure.ts"
import type { Store, StoreError } from "../../store/Store.ts"
import * as ErrorMapping from "./ErrorMapping.ts"

/** Integrations that are no longer configured. */
export interface UnavailableIntegrations {
  /** Their deliveries wait. */
  readonly removed: ReadonlySet<string>
  /** Their events are erased, so their deliveries are dropped. */
  readonly erased: ReadonlySet<string>
}

export interface IntegrationAccounts {
  /** Fails if the integration is not configured. */
  readonly of: (integration: string) => Effect.Effect<string, HandlerError>
  readonly unavailable: Effect.Effect<UnavailableIntegrations, StoreError>
}

export const make = (store: Store["Service"]): IntegrationAccounts => ({
  of: (integration) =>
    Effect.flatMap(Effect.mapError(store.integrations, ErrorMapping.fromStore), (all) => {
      const known = all.find(({ id, state }) => id === integration && state === "active")
      return known === undefined
        ? Effect.fail(ErrorMapping.integrationRemoved(integration))
        : Effect.succeed(known.account)
    }),
  unavailable: Effect.map(store.integrations, (all) => {
    const removed = all.filter(({ state }) => state === "removed" || state === "erasing")
    const erased = all.filter(({ state }) => state === "erased")
    return { removed: new Set(removed.map(({ id }) => id)), erased: new Set(erased.map(({ id }) => id)) }
  })
})
