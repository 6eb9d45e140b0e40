/**
 * What operators see of plugins and may do with them, put together from the configuration, the store and the engine.
 *
 * Gotchas
 * - Switches stand in the store: they outlast restarts, and count for every process that delivers.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Layer from "effect/Layer"
import type { Handler, Plugin } from "../../plugin/Plugin.ts"
import { isEnabledIn } from "../../plugin/PluginConfiguration.ts"
import { Source } from "../../source/Source.ts"
import { type Backlog, Deliveries, type HandlerState, type Switch } from "../../store/Deliveries.ts"
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
    return { kind: "tick", of: `every ${Duration.format(Duration.fromInputUnsafe(activation.every))}` }
  }
  return { kind: activation._tag === "Batch" ? "batch" : "event", of: activation.triggers.join(", ") }
}

const isOff = (off: ReadonlyArray<Switch>, plugin: string, integration: string | null): boolean =>
  off.some((one) => one._tag === "Plugin" && one.plugin === plugin && one.integration === integration)

/** What the engine and the store know, in hand. */
interface AdminSnapshot {
  readonly status: DeliveryStatus
  readonly newest: number
  readonly states: ReadonlyArray<HandlerState>
  readonly backlog: ReadonlyArray<Backlog>
  readonly off: ReadonlyArray<Switch>
  readonly integrations: ReadonlyArray<string>
}

const handlerView = (
  { backlog, newest, states, status }: AdminSnapshot,
  plugin: string,
  handler: string,
  trigger: HandlerView["trigger"]
): HandlerView => {
  const is = (one: { readonly plugin: string; readonly handler: string }) =>
    one.plugin === plugin && one.handler === handler
  const own = backlog.filter(is)
  const sum = (count: (one: Backlog) => number) => own.reduce((total, one) => total + count(one), 0)
  const position = states.find(is)?.position ?? null
  const made = own.flatMap(({ oldest }) => oldest === null ? [] : [oldest])
  return {
    handler,
    trigger,
    position,
    // who runs by the clock is not fed from the log
    lag: position === null || trigger === null || trigger.kind === "tick" ? 0 : Math.max(0, newest - position),
    running: sum(({ running }) => running),
    waiting: sum(({ later, waiting }) => later + waiting),
    due: sum(({ due }) => due),
    dead: sum(({ dead }) => dead),
    oldest: made.length === 0 ? null : Math.min(...made),
    circuitOpen: status.handlers.find(is)?.circuitOpen ?? null
  }
}

/** Integrations that are not configured any more, with how many deliveries of the plugin wait for them. */
const removedOf = (plugin: string, { backlog, integrations }: AdminSnapshot): ReadonlyArray<PluginIntegration> =>
  [...Map.groupBy(backlog.filter((one) => one.plugin === plugin), ({ integration }) => integration)]
    .flatMap(([integration, own]): ReadonlyArray<PluginIntegration> => {
      const wait = own.reduce((sum, { due, later, waiting }) => sum + due + later + waiting, 0)
      if (integrations.includes(integration) || wait === 0) return []
      const deliveries = wait === 1 ? "1 delivery waits" : `${wait} deliveries wait`
      return [{ integration, state: "removed", reason: `${deliveries} until the integration is added again` }]
    })

const usedIn = (plugin: Plugin<unknown>, { integrations, off, status }: AdminSnapshot) =>
  integrations.map((integration): PluginIntegration => {
    const unconfigured = status.unconfigured.find((one) =>
      one.plugin === plugin.name && one.integration === integration
    )
    if (!isEnabledIn(plugin, integration)) return { integration, state: "off", reason: "in the configuration" }
    if (isOff(off, plugin.name, null)) return { integration, state: "off", reason: "by an operator, everywhere" }
    if (isOff(off, plugin.name, integration)) return { integration, state: "off", reason: "by an operator" }
    if (unconfigured !== undefined) return { integration, state: "unconfigured", reason: unconfigured.message }
    return { integration, state: "on", reason: null }
  })

/** Of what the configuration does not have any more, only what is left to be done is shown. */
const leftoverHandlers = (
  known: AdminSnapshot,
  plugin: string,
  configured: ReadonlyArray<string>
): ReadonlyArray<HandlerView> => {
  const own = known.backlog.filter((one) => one.plugin === plugin).map(({ handler }) => handler)
  return [...new Set(own)].filter((handler) => !configured.includes(handler))
    .map((handler) => handlerView(known, plugin, handler, null))
}

const pluginsView = (configured: Configured, known: AdminSnapshot): ReadonlyArray<PluginView> => {
  const names = new Set(configured.map(({ name }) => name))
  const gone = new Set(known.backlog.flatMap(({ plugin }) => names.has(plugin) ? [] : [plugin]))
  return [
    ...configured.map((plugin): PluginView => ({
      plugin: plugin.name,
      configured: true,
      on: !isOff(known.off, plugin.name, null),
      handlers: [
        ...plugin.handlers.map((handler) => handlerView(known, plugin.name, handler.name, triggerOf(handler))),
        ...leftoverHandlers(known, plugin.name, plugin.handlers.map(({ name }) => name))
      ],
      integrations: [...usedIn(plugin, known), ...removedOf(plugin.name, known)]
    })),
    ...[...gone].map((plugin): PluginView => ({
      plugin,
      configured: false,
      on: false,
      handlers: leftoverHandlers(known, plugin, []),
      integrations: []
    }))
  ]
}

const conflict = (message: string, hint: string) => new PluginRequestError({ reason: "conflict", message, hint })

const make = Effect.fnUntraced(function*(configured: Configured) {
  const store = yield* Store
  const deliveries = yield* Deliveries
  const delivery = yield* DeliveryEngine
  const { applicationsOf, batches, content, entries, result } = deliveries
  const { page, read } = yield* Source
  const { identity, readLog } = store
  /** Nothing in it writes. */
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
    const known: AdminSnapshot = {
      status: yield* delivery.status,
      newest: (yield* store.logRange).newest,
      states: yield* deliveries.handlers,
      backlog: yield* deliveries.backlog,
      off: yield* deliveries.switchedOff,
      integrations: yield* integrationIds
    }
    return {
      state: known.status.state,
      reason: known.status.reason,
      writesStopped: known.off.some(({ _tag }) => _tag === "Writes"),
      plugins: pluginsView(configured, known)
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
        "switch it on there, in `integrations` or `others` of its `with({ … })`, and start anew"
      )
    }
    if (isOff(yield* deliveries.switchedOff, plugin.name, null)) {
      return yield* conflict(
        `${plugin.name} is off everywhere`,
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

  /** Under the key that the store gave it. */
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
    if (state === undefined) return yield* conflict("delivering has not begun yet", "try again in a moment")
    const subscription: Subscription = { key: state.key, plugin, handler, batchWindow: batchWindowOf(handler) }
    return subscription
  })

  const integrationsFor = Effect.fnUntraced(function*(plugin: Plugin<unknown>, only: string | undefined) {
    const ids = yield* integrationIds
    if (only !== undefined) yield* ensureIntegration(only)
    return ids.filter((id) => (only ?? id) === id && isEnabledIn(plugin, id))
  })

  /** What is meant, as far as it exists. */
  const resolveTarget = Effect.fnUntraced(function*({ handler, integration, plugin }: ReplayRequest) {
    const subscription = yield* subscriptionOf(plugin, handler)
    return { subscription, integrations: yield* integrationsFor(subscription.plugin, integration) }
  })

  const replay: PluginAdmin["Service"]["replay"] = (stretch) =>
    Effect.flatMap(
      resolveTarget(stretch),
      ({ integrations, subscription }) => Replay.replay(subscription, stretch, integrations)
    ).pipe(
      Effect.provideService(Store, store),
      Effect.provideService(Deliveries, deliveries)
    )

  const dryRun: PluginAdmin["Service"]["dryRun"] = (stretch) =>
    Effect.flatMap(
      resolveTarget(stretch),
      ({ integrations, subscription }) => DryRun.dryRun(readable, subscription, stretch, integrations)
    ).pipe(Effect.provideService(Store, store))

  return PluginAdmin.of({
    engineState: delivery.status,
    awaitDrained: delivery.awaitDrained,
    view,
    setSwitch,
    replay,
    dryRun
  })
})

/** `HttpClient`: what dry runs may GET with. */
export const layer = (
  plugins: Configured
): Layer.Layer<PluginAdmin, never, Store | Deliveries | DeliveryEngine | Source | HttpClient.HttpClient> =>
  Layer.effect(PluginAdmin, make(plugins))
