/**
 * Implements `PluginAdmin`: combines the data of the configuration, the store and the engine.
 *
 * Gotchas
 * - Switches are in the store, so they survive restarts and apply to every process that delivers.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import { formatPosition, type LogIdentity } from "../../domain/ChangeEvent.ts"
import { toDuration } from "../../domain/DurationText.ts"
import * as HandlerCircuit from "../../domain/HandlerCircuit.ts"
import { formatTime } from "../../domain/Watermark.ts"
import type { Handler, Plugin } from "../../plugin/Plugin.ts"
import { isEnabledIn } from "../../plugin/PluginConfiguration.ts"
import { Source } from "../../source/Source.ts"
import { type Backlog, Deliveries, type HandlerState, isSwitchedOff, type Switch } from "../../store/Deliveries.ts"
import { Store } from "../../store/Store.ts"
import { DeliveryEngine, type DeliveryStatus } from "../engine/DeliveryEngine.ts"
import { batchWindowOf, type Subscription } from "../engine/Subscription.ts"
import * as IntegrationAccounts from "../handler/IntegrationAccounts.ts"
import * as DryRun from "./DryRun.ts"
import {
  type HandlerView,
  PluginAdmin,
  type PluginIntegration,
  PluginRequestError,
  type PluginView,
  type ReplayRequest,
  unknownPlugin
} from "./PluginAdmin.ts"
import * as Replay from "./Replay.ts"

type Configured = ReadonlyArray<Plugin<unknown>>

const triggerOf = ({ activation }: Handler<unknown>): NonNullable<HandlerView["trigger"]> => {
  if (activation._tag === "Tick") {
    return { kind: "tick", of: `every ${Duration.format(toDuration(activation.every))}` }
  }
  return { kind: activation._tag === "Batch" ? "batch" : "event", of: activation.triggers.join(", ") }
}

/** A snapshot of the data from the engine and the store. */
interface AdminSnapshot {
  readonly identity: LogIdentity
  readonly status: DeliveryStatus
  readonly newest: number
  readonly states: ReadonlyArray<HandlerState>
  readonly backlog: ReadonlyArray<Backlog>
  readonly off: ReadonlyArray<Switch>
  readonly integrations: ReadonlyArray<string>
}

const handlerView = (
  { backlog, identity, newest, states }: AdminSnapshot,
  plugin: string,
  handler: string,
  trigger: HandlerView["trigger"]
): HandlerView => {
  const is = (one: { readonly plugin: string; readonly handler: string }) =>
    one.plugin === plugin && one.handler === handler
  const own = backlog.filter(is)
  const sum = (count: (one: Backlog) => number) => own.reduce((total, one) => total + count(one), 0)
  const state = states.find(is)
  const position = state?.position ?? null
  const made = own.flatMap(({ oldest }) => oldest === null ? [] : [oldest])
  const { failed, openUntil } = state?.circuit ?? HandlerCircuit.closed
  return {
    handler,
    trigger,
    position: position === null ? null : formatPosition(identity, position),
    // a scheduled handler does not read the log
    lag_events: position === null || trigger === null || trigger.kind === "tick" ? 0 : Math.max(0, newest - position),
    running: sum(({ running }) => running),
    waiting: sum(({ later, waiting }) => later + waiting),
    due: sum(({ due }) => due),
    dead: sum(({ dead }) => dead),
    oldest_at: made.length === 0 ? null : formatTime(Math.min(...made)),
    circuit_open: openUntil === null ? null : { until: formatTime(openUntil), failures: failed.length }
  }
}

/** Integrations that are no longer configured, with the number of deliveries of the plugin that wait for them. */
const removedOf = (plugin: string, { backlog, integrations }: AdminSnapshot): ReadonlyArray<PluginIntegration> =>
  [...Map.groupBy(backlog.filter((one) => one.plugin === plugin), ({ integration }) => integration)]
    .flatMap(([integration, own]): ReadonlyArray<PluginIntegration> => {
      const wait = own.reduce((sum, { due, later, waiting }) => sum + due + later + waiting, 0)
      if (integrations.includes(integration) || wait === 0) return []
      const deliveries = wait === 1 ? "1 delivery is waiting" : `${wait} deliveries are waiting`
      return [{ integration, state: "removed", reason: `${deliveries} until the integration is added again` }]
    })

const usedIn = (plugin: Plugin<unknown>, { integrations, off, status }: AdminSnapshot) =>
  integrations.map((integration): PluginIntegration => {
    const unconfigured = status.unconfigured.find((one) =>
      one.plugin === plugin.name && one.integration === integration
    )
    if (!isEnabledIn(plugin, integration)) return { integration, state: "off", reason: "in the configuration" }
    if (isSwitchedOff(off, plugin.name, null)) {
      return { integration, state: "off", reason: "by an operator, everywhere" }
    }
    if (isSwitchedOff(off, plugin.name, integration)) return { integration, state: "off", reason: "by an operator" }
    if (unconfigured !== undefined) return { integration, state: "unconfigured", reason: unconfigured.message }
    return { integration, state: "on", reason: null }
  })

/** Handlers that are no longer configured and still have deliveries. */
const leftoverHandlers = (
  snapshot: AdminSnapshot,
  plugin: string,
  configured: ReadonlyArray<string>
): ReadonlyArray<HandlerView> => {
  const own = snapshot.backlog.filter((one) => one.plugin === plugin).map(({ handler }) => handler)
  return [...new Set(own)].filter((handler) => !configured.includes(handler))
    .map((handler) => handlerView(snapshot, plugin, handler, null))
}

const pluginsView = (configured: Configured, snapshot: AdminSnapshot): ReadonlyArray<PluginView> => {
  const names = new Set(configured.map(({ name }) => name))
  const gone = new Set(snapshot.backlog.flatMap(({ plugin }) => names.has(plugin) ? [] : [plugin]))
  return [
    ...configured.map((plugin): PluginView => ({
      plugin: plugin.name,
      configured: true,
      on: !isSwitchedOff(snapshot.off, plugin.name, null),
      handlers: [
        ...plugin.handlers.map((handler) => handlerView(snapshot, plugin.name, handler.name, triggerOf(handler))),
        ...leftoverHandlers(snapshot, plugin.name, plugin.handlers.map(({ name }) => name))
      ],
      integrations: [...usedIn(plugin, snapshot), ...removedOf(plugin.name, snapshot)]
    })),
    ...[...gone].map((plugin): PluginView => ({
      plugin,
      configured: false,
      on: false,
      handlers: leftoverHandlers(snapshot, plugin, []),
      integrations: []
    }))
  ]
}

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
    const snapshot: AdminSnapshot = {
      identity,
      status: yield* engine.status,
      newest: (yield* store.logRange).newest,
      states: yield* deliveries.handlers,
      backlog: yield* deliveries.backlog,
      off: yield* deliveries.switchedOff,
      integrations: yield* integrationIds
    }
    return {
      state: snapshot.status.state,
      reason: snapshot.status.reason,
      writesStopped: snapshot.off.some(({ _tag }) => _tag === "Writes"),
      plugins: pluginsView(configured, snapshot)
    }
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
    const handler = plugin.handlers.find((handler) => handler.name === handlerName)
    if (handler === undefined) {
      return yield* new PluginRequestError({
        reason: "unknown",
        message: `${name} has no handler "${handlerName}"`,
        hint: `its handlers are ${plugin.handlers.map(({ name }) => name).join(", ")}`
      })
    }
    const state = (yield* deliveries.handlers).find((one) => one.plugin === name && one.handler === handlerName)
    if (state === undefined) return yield* conflict("delivery has not started yet", "try again in a moment")
    const subscription: Subscription = { key: state.key, plugin, handler, batchWindow: batchWindowOf(handler) }
    return subscription
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
