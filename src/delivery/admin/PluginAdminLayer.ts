/**
 * Implements `PluginAdmin` with the configuration, the store and the engine.
 *
 * Gotchas
 * - Switches are in the store, so they survive restarts and apply to every process that delivers.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import type { Plugin } from "../../plugin/Plugin.ts"
import { isEnabledIn } from "../../plugin/PluginConfiguration.ts"
import { Source } from "../../source/Source.ts"
import { isSwitchedOff, type Switch } from "../../store/DeadLetters.ts"
import { Deliveries } from "../../store/Deliveries.ts"
import { Store } from "../../store/Store.ts"
import { DeliveryEngine } from "../engine/DeliveryEngine.ts"
import { subscriptionsOf } from "../engine/Dispatching.ts"
import * as IntegrationAccounts from "../handler/IntegrationAccounts.ts"
import * as DryRun from "./DryRun.ts"
import { PluginAdmin, PluginRequestError, type ReplayRequest, unknownPlugin } from "./PluginAdmin.ts"
import { type Configured, pluginsView } from "./PluginViews.ts"
import * as Replay from "./Replay.ts"

const conflict = (message: string, hint: string) => new PluginRequestError({ reason: "conflict", message, hint })

const make = Effect.fnUntraced(function*(configured: Configured) {
  const store = yield* Store
  const deliveries = yield* Deliveries
  const engine = yield* DeliveryEngine
  const { applicationsOf, batches, content, entries, result } = deliveries
  const { page, read } = yield* Source
  const { identity, readLog } = store
  /** Contains only services that read. */
  const readable: DryRun.Services = {
    store: { identity, readLog },
    deliveries: { applicationsOf, batches, content, entries, result },
    source: { page, read },
    http: yield* HttpClient.HttpClient,
    accounts: IntegrationAccounts.make(store)
  }

  const integrationIds = Effect.map(
    store.integrations,
    (integrations) => integrations.filter(({ state }) => state === "active").map(({ id }) => id)
  )

  const view: PluginAdmin["Service"]["view"] = Effect.gen(function*() {
    return pluginsView(configured, {
      identity,
      status: yield* engine.status,
      newest: (yield* store.logRange).newest,
      states: yield* deliveries.handlers,
      backlog: yield* deliveries.backlog,
      off: yield* deliveries.switchedOff,
      integrations: yield* integrationIds
    })
  })

  const find = Effect.fnUntraced(function*(name: string) {
    return configured.find((plugin) => plugin.name === name) ??
      (yield* unknownPlugin(name, configured.map((plugin) => plugin.name)))
  })

  const ensureIntegration = Effect.fnUntraced(function*(integration: string) {
    if ((yield* integrationIds).includes(integration)) return
    return yield* new PluginRequestError({
      reason: "unknown",
      message: `there is no integration ${integration}`,
      hint: "rollcall integrations list shows them"
    })
  })

  const checkSwitch = Effect.fnUntraced(function*(which: Extract<Switch, { _tag: "Plugin" }>, on: boolean) {
    const { integration } = which
    const plugin = yield* find(which.plugin)
    if (integration === null) return
    yield* ensureIntegration(integration)
    if (!on) return
    if (!isEnabledIn(plugin, integration)) {
      return yield* conflict(
        `${plugin.name} is off for ${integration} in the configuration`,
        "switch it on in the configuration, in `integrations` or `others` of its `with({ … })`, and restart"
      )
    }
    if (isSwitchedOff(yield* deliveries.switchedOff, plugin.name, null)) {
      return yield* conflict(
        `${plugin.name} is switched off everywhere`,
        `switch it on first: rollcall plugins on ${plugin.name}`
      )
    }
  })

  const setSwitch: PluginAdmin["Service"]["setSwitch"] = Effect.fn("PluginAdmin.setSwitch")(function*(which, on) {
    if (which._tag === "Plugin") yield* checkSwitch(which, on)
    const action = which._tag === "Writes"
      ? { command: on ? "plugins.resume-writes" : "plugins.stop-writes", target: "all plugins" }
      : { command: on ? "plugins.on" : "plugins.off", target: which.plugin }
    const detail = which._tag === "Plugin" && which.integration !== null ? which.integration : ""
    yield* deliveries.setSwitch(which, on, { at: yield* Clock.currentTimeMillis, ...action, detail })
    yield* Effect.annotateLogs(Effect.logInfo("operator acted"), { ...action, ...(detail === "" ? {} : { detail }) })
  })

  /** The subscription of a handler, with the key that the store has assigned to it. */
  const subscriptionOf = Effect.fnUntraced(function*(name: string, handlerName: string) {
    const plugin = yield* find(name)
    if (!plugin.handlers.some((handler) => handler.name === handlerName)) {
      return yield* new PluginRequestError({
        reason: "unknown",
        message: `${name} has no handler "${handlerName}"`,
        hint: `its handlers are ${plugin.handlers.map(({ name }) => name).join(", ")}`
      })
    }
    const subscription = subscriptionsOf([plugin], yield* deliveries.handlers).find(({ handler }) =>
      handler.name === handlerName
    )
    return subscription ?? (yield* conflict("delivery has not started yet", "try again in a moment"))
  })

  const integrationsFor = Effect.fnUntraced(function*(plugin: Plugin<unknown>, only: string | undefined) {
    const ids = yield* integrationIds
    if (only !== undefined) yield* ensureIntegration(only)
    return ids.filter((id) => (only ?? id) === id && isEnabledIn(plugin, id))
  })

  /** Finds the handler and the integrations that a request names; fails if one of them does not exist. */
  const resolveTarget = Effect.fnUntraced(function*({ handler, integration, plugin }: ReplayRequest) {
    const subscription = yield* subscriptionOf(plugin, handler)
    return { subscription, integrations: yield* integrationsFor(subscription.plugin, integration) }
  })

  const replay: PluginAdmin["Service"]["replay"] = (request) =>
    Effect.flatMap(
      resolveTarget(request),
      ({ integrations, subscription }) => Replay.replay(subscription, request, integrations)
    ).pipe(
      Effect.provideService(Store, store),
      Effect.provideService(Deliveries, deliveries)
    )

  const dryRun: PluginAdmin["Service"]["dryRun"] = (request) =>
    Effect.flatMap(
      resolveTarget(request),
      ({ integrations, subscription }) => DryRun.dryRun(readable, subscription, request, integrations)
    ).pipe(Effect.provideService(Store, store))

  return PluginAdmin.of({
    engineState: engine.status,
    awaitDrained: engine.awaitDrained,
    view,
    setSwitch,
    replay,
    dryRun
  })
})

/** Dry runs send their GET and HEAD requests with `HttpClient`. */
export const layer = (
  plugins: Configured
): Layer.Layer<PluginAdmin, never, Store | Deliveries | DeliveryEngine | Source | HttpClient.HttpClient> =>
  Layer.effect(PluginAdmin, make(plugins))
