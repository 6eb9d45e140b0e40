/** The deliveries that each handler can take now. */
import type { Plugin } from "../../plugin/Plugin.ts"
import type { IncompleteConfiguration } from "../../plugin/PluginConfiguration.ts"
import { isSwitchedOff, type Switch } from "../../store/DeadLetters.ts"
import type { ClaimRequest } from "../../store/DeliveryClaims.ts"
import type { UnavailableIntegrations } from "../handler/IntegrationAccounts.ts"
import type { ClaimMode } from "./CrashIsolation.ts"
import type { HandlerQueue } from "./HandlerQueue.ts"
import { maxDueAhead } from "./Retry.ts"

/** Maximum number of deliveries, queued or running, that a handler has claimed at once: as many as one statement takes. */
export const maxClaimedPerHandler = 250

/** The plugins and integrations in which no deliveries start. */
export interface Disabled {
  readonly off: ReadonlyArray<Switch>
  readonly unavailable: UnavailableIntegrations
  readonly unconfigured: ReadonlyArray<IncompleteConfiguration>
}

export const excludedIntegrations = (
  { name, settings }: Plugin<unknown>,
  { off, unavailable: { removed }, unconfigured }: Disabled
): ReadonlyArray<string> => [
  ...removed,
  ...Object.entries(settings.integrations ?? {}).flatMap(([id, use]) => use === false ? [id] : []),
  ...off.flatMap((each) =>
    each._tag === "Plugin" && each.plugin === name && each.integration !== null ? [each.integration] : []
  ),
  ...unconfigured.flatMap((one) => one.plugin === name ? [one.integration] : [])
]

/** If the plugin is off in all integrations that its settings do not list: those that they list. */
const onlyIntegrations = ({ settings: { integrations = {}, others } }: Plugin<unknown>) =>
  others === false ? { onlyIntegrations: Object.keys(integrations) } : {}

/** A claim request for each handler that can take more deliveries now. `blocked`: see `BlockedIntegrations`. */
export const claimRequestsOf = (
  queues: Iterable<HandlerQueue>,
  disabled: Disabled,
  blocked: (handler: number) => ReadonlyArray<string>,
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
      excludedIntegrations: [...excludedIntegrations(plugin, disabled), ...blocked(key)],
      ...onlyIntegrations(plugin),
      subject: handler.activation._tag === "Tick" ? "Tick" : "Event",
      maxLead: maxDueAhead(handler.options, batchWindow)
    }]
  })
