/** Looks up in the store which integrations are configured and which account each belongs to. */
import * as Effect from "effect/Effect"
import type { HandlerError } from "../../plugin/Failure.ts"
import type { Store } from "../../store/Store.ts"
import * as ErrorMapping from "./ErrorMapping.ts"

/** Integrations in which no delivery can run. */
export interface UnavailableIntegrations {
  /**
   * Integrations that are no longer configured. Also those whose account this process does not know, because its configuration is older.
   * Their deliveries wait.
   */
  readonly removed: ReadonlySet<string>
  /** Their events are erased, so their deliveries are dropped. */
  readonly erased: ReadonlySet<string>
}

/** `accounts`: the accounts that this process knows; all if absent. */
export const make = (store: Store["Service"], accounts?: ReadonlySet<string>) => ({
  /** Fails if the integration is not configured. */
  of: (integration: string): Effect.Effect<string, HandlerError> =>
    Effect.flatMap(
      Effect.mapError(store.integration(integration), ErrorMapping.fromStore),
      (known) =>
        known?.state === "active"
          ? Effect.succeed(known.account)
          : Effect.fail(ErrorMapping.integrationRemoved(integration))
    ),
  unavailable: Effect.map(store.unavailableIntegrations(accounts), (found): UnavailableIntegrations => {
    const { erased = [], removed = [] } = Object.groupBy(
      found,
      ({ state }) => state === "erased" ? "erased" : "removed"
    )
    return { removed: new Set(removed.map(({ id }) => id)), erased: new Set(erased.map(({ id }) => id)) }
  })
})

export type IntegrationAccounts = ReturnType<typeof make>
