/** The deliveries that each handler can take now. */
import type { IncompleteConfiguration } from "../../plugin/PluginConfiguration.ts"
import { isSwitchedOff, type Switch } from "../../store/Deliveries.ts"
import type { ClaimRequest } from "../../store/DeliveryClaims.ts"
import type { UnavailableIntegrations } from "../handler/IntegrationAccounts.ts"
import type { ClaimMode } from "./CrashIsolation.ts"
import type { HandlerQueue } from "./HandlerQueue.ts"
import { maxDueAhead } from "./Retry.ts"

/** Maximum number of deliveries, queued or running, that a handler has claimed at once. */
export const maxClaimedPerHandler = 256

/** The plugins and integrations in which no deliveries start. */
export interface Disabled {
  readonly off: ReadonlyArray<Switch>
  readonly unavailable: UnavailableIntegrations
  readonly unconfigured: ReadonlyArray<IncompleteConfiguration>
}

export const excludedIntegrations = (
  plugin: string,
  { off, unavailable: { removed }, unconfigured }: Disabled
): ReadonlyArray<string> => [
  ...removed,
  ...off.flatMap((each) =>
    each._tag === "Plugin" && each.plugin === plugin && each.integration !== null ? [each.integration] : []
  ),
  ...unconfigured.flatMap((one) => one.plugin === plugin ? [one.integration] : [])
]

/** A claim request for each handler that can take more deliveries now. */
export const claimRequestsOf = (
  queues: Iterable<HandlerQueue>,
  disabled: Disabled,
  mode: ClaimMode
): ReadonlyArray<ClaimRequest> =>
  [...queues].flatMap((handlerQueue): ReadonlyArray<ClaimRequest> => {
    const { concurrency, batchWindow, handler, inFlight, key, plugin } = handlerQueue
    const size = handler.activation._tag === "Batch" ? handler.activation.size : null
    const most = (size === null ? Math.max(maxClaimedPerHandler, concurrency) : concurrency) - inFlight
    if (most <= 0 || isSwitchedOff(disabled.off, plugin.name, null)) return []
    return [{
      handler: key,
      most,
      mostAfterCrash: Math.max(0, concurrency - inFlight),
      isolated: mode === "isolated",
      size,
      concurrency,
      excludedIntegrations: excludedIntegrations(plugin.name, disabled),
      maxLead: maxDueAhead(handler.options, batchWindow)
    }]
  })
