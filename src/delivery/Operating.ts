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
import { isOn } from "../plugin/Configured.ts"
import type { Handler, Plugin } from "../plugin/Plugin.ts"
import { Source } from "../source/Source.ts"
import { type Backlog, Deliveries, type HandlerState, type Switch } from "../store/Deliveries.ts"
import { Store } from "../store/Store.ts"
import * as Accounts from "./Accounts.ts"
import { Delivery, type DeliveryStatus } from "./Delivery.ts"
import {
  type HandlerView,
  PluginRefused,
  Plugins,
  type PluginView,
  type Stretch,
  unknownPlugin,
  type UsedIn
} from "./Plugins.ts"
import * as Rehearsal from "./Rehearsal.ts"
import * as Replay from "./Replay.ts"
import { gatheringOf, type Subscription } from "./Subscription.ts"

type Configured = ReadonlyArray<Plugin<unknown>>

const occasionOf = ({ occasion }: Handler<unknown>): NonNullable<HandlerView["occasion"]> => {
  if (occasion._tag === "Tick") {
    return { kind: "tick", of: `every ${Duration.format(Duration.fromInputUnsafe(occasion.every))}` }
  }
  return { kind: occasion._tag === "Batch" ? "batch" : "event", of: occasion.triggers.join(", ") }
}

const isOff = (off: ReadonlyArray<Switch>, plugin: string, integration: string | null): boolean =>
  off.some((one) => one._tag === "Plugin" && one.plugin === plugin && one.integration === integration)

/** What the engine and the store know, in hand. */
interface Known {
  readonly status: DeliveryStatus
  readonly newest: number
  readonly states: ReadonlyArray<HandlerState>
  readonly backlog: ReadonlyArray<Backlog>
  readonly off: ReadonlyArray<Switch>
  readonly integrations: ReadonlyArray<string>
}

const handlerView = (
  { backlog, newest, states, status }: Known,
  plugin: string,
  handler: string,
  occasion: HandlerView["occasion"]
): HandlerView => {
  const is = (one: { readonly plugin: string; readonly handler: string }) =>
    one.plugin === plugin && one.handler === handler
  const own = backlog.filter(is)
  const sum = (count: (one: Backlog) => number) => own.reduce((total, one) => total + count(one), 0)
  const position = states.find(is)?.position ?? null
  const made = own.flatMap(({ oldest }) => oldest === null ? [] : [oldest])
  return {
    handler,
    occasion,
    position,
    // who runs by the clock is not fed from the log
    lag: position === null || occasion === null || occasion.kind === "tick" ? 0 : Math.max(0, newest - position),
    running: sum(({ running }) => running),
    waiting: sum(({ later, waiting }) => later + waiting),
    due: sum(({ due }) => due),
    dead: sum(({ dead }) => dead),
    oldest: made.length === 0 ? null : Math.min(...made),
    resting: status.handlers.find(is)?.resting ?? null
  }
}

/** Integrations that are not configured any more, with how many deliveries of the plugin wait for them. */
const removedOf = (plugin: string, { backlog, integrations }: Known): ReadonlyArray<UsedIn> =>
  [...Map.groupBy(backlog.filter((one) => one.plugin === plugin), ({ integration }) => integration)]
    .flatMap(([integration, own]): ReadonlyArray<UsedIn> => {
      const wait = own.reduce((sum, { due, later, waiting }) => sum + due + later + waiting, 0)
      if (integrations.includes(integration) || wait === 0) return []
      const deliveries = wait === 1 ? "1 delivery waits" : `${wait} deliveries wait`
      return [{ integration, state: "removed", reason: `${deliveries} until the integration is added again` }]
    })

const usedIn = (plugin: Plugin<unknown>, { integrations, off, status }: Known) =>
  integrations.map((integration): UsedIn => {
    const unconfigured = status.unconfigured.find((one) =>
      one.plugin === plugin.name && one.integration === integration
    )
    if (!isOn(plugin, integration)) return { integration, state: "off", reason: "in the configuration" }
    if (isOff(off, plugin.name, null)) return { integration, state: "off", reason: "by an operator, everywhere" }
    if (isOff(off, plugin.name, integration)) return { integration, state: "off", reason: "by an operator" }
    if (unconfigured !== undefined) return { integration, state: "unconfigured", reason: unconfigured.message }
    return { integration, state: "on", reason: null }
  })

/** Of what the configuration does not have any more, only what is left to be done is shown. */
const leftOf = (known: Known, plugin: string, configured: ReadonlyArray<string>): ReadonlyArray<HandlerView> => {
  const own = known.backlog.filter((one) => one.plugin === plugin).map(({ handler }) => handler)
  return [...new Set(own)].filter((handler) => !configured.includes(handler))
    .map((handler) => handlerView(known, plugin, handler, null))
}

const pluginsView = (configured: Configured, known: Known): ReadonlyArray<PluginView> => {
  const names = new Set(configured.map(({ name }) => name))
  const gone = new Set(known.backlog.flatMap(({ plugin }) => names.has(plugin) ? [] : [plugin]))
  return [
    ...configured.map((plugin): PluginView => ({
      plugin: plugin.name,
      configured: true,
      on: !isOff(known.off, plugin.name, null),
      handlers: [
        ...plugin.handlers.map((handler) => handlerView(known, plugin.name, handler.name, occasionOf(handler))),
        ...leftOf(known, plugin.name, plugin.handlers.map(({ name }) => name))
      ],
      integrations: [...usedIn(plugin, known), ...removedOf(plugin.name, known)]
    })),
    ...[...gone].map((plugin): PluginView => ({
      plugin,
      configured: false,
      on: false,
      handlers: leftOf(known, plugin, []),
      integrations: []
    }))
  ]
}

const refuse = (message: string, hint: string) => new PluginRefused({ reason: "now", message, hint })

const make = Effect.fnUntraced(function*(configured: Configured) {
  const store = yield* Store
  const deliveries = yield* Deliveries
  const delivery = yield* Delivery
  const { applicationsOf, batches, content, entries, result } = deliveries
  const { page, read } = yield* Source
  const { identity, log } = store
  /** Nothing in it writes. */
  const readable: Rehearsal.Services = {
    store: { identity, log },
    deliveries: { applicationsOf, batches, content, entries, result },
    source: { page, read },
    http: yield* HttpClient.HttpClient,
    accounts: Accounts.make(store)
  }

  const integrationIds = Effect.map(
    store.integrations,
    (integrations) => integrations.filter(({ state }) => state === "active").map(({ id }) => id)
  )

  const view: Plugins["Service"]["view"] = Effect.gen(function*() {
    const known: Known = {
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

  const known = Effect.fnUntraced(function*(integration: string) {
    if ((yield* integrationIds).includes(integration)) return
    return yield* new PluginRefused({
      reason: "unknown",
      message: `there is no integration ${integration}`,
      hint: "rollcall integrations list shows them"
    })
  })

  const checkSwitch = Effect.fnUntraced(function*(which: Extract<Switch, { _tag: "Plugin" }>, on: boolean) {
    const { integration } = which
    const plugin = yield* find(which.plugin)
    if (integration === null) return
    yield* known(integration)
    if (!on) return
    if (!isOn(plugin, integration)) {
      return yield* refuse(
        `${plugin.name} is off for ${integration} in the configuration`,
        "switch it on there, in `integrations` or `others` of its `with({ … })`, and start anew"
      )
    }
    if (isOff(yield* deliveries.switchedOff, plugin.name, null)) {
      return yield* refuse(`${plugin.name} is off everywhere`, `switch it on first: rollcall plugins on ${plugin.name}`)
    }
  })

  const set: Plugins["Service"]["set"] = Effect.fn("Plugins.set")(function*(which, on) {
    if (which._tag === "Plugin") yield* checkSwitch(which, on)
    const act = which._tag === "Writes"
      ? { act: on ? "plugins.resume-writes" : "plugins.stop-writes", target: "all plugins" }
      : { act: on ? "plugins.on" : "plugins.off", target: which.plugin }
    const detail = which._tag === "Plugin" && which.integration !== null ? which.integration : ""
    yield* deliveries.set(which, on, { at: yield* Clock.currentTimeMillis, ...act, detail })
    yield* Effect.annotateLogs(Effect.logInfo("operator acted"), { ...act, ...(detail === "" ? {} : { detail }) })
  })

  /** Under the key that the store gave it. */
  const subscriptionOf = Effect.fnUntraced(function*(name: string, handlerName: string) {
    const plugin = yield* find(name)
    const handler = plugin.handlers.find((handler) => handler.name === handlerName)
    if (handler === undefined) {
      return yield* new PluginRefused({
        reason: "unknown",
        message: `${name} has no handler "${handlerName}"`,
        hint: `its handlers are ${plugin.handlers.map(({ name }) => name).join(", ")}`
      })
    }
    const state = (yield* deliveries.handlers).find((one) => one.plugin === name && one.handler === handlerName)
    if (state === undefined) return yield* refuse("delivering has not begun yet", "try again in a moment")
    const subscription: Subscription = { key: state.key, plugin, handler, gathering: gatheringOf(handler) }
    return subscription
  })

  const integrationsFor = Effect.fnUntraced(function*(plugin: Plugin<unknown>, only: string | undefined) {
    const ids = yield* integrationIds
    if (only !== undefined) yield* known(only)
    return ids.filter((id) => (only ?? id) === id && isOn(plugin, id))
  })

  /** What is meant, as far as it exists. */
  const meant = Effect.fnUntraced(function*({ handler, integration, plugin }: Stretch) {
    const subscription = yield* subscriptionOf(plugin, handler)
    return { subscription, integrations: yield* integrationsFor(subscription.plugin, integration) }
  })

  const replay: Plugins["Service"]["replay"] = (stretch) =>
    Effect.flatMap(
      meant(stretch),
      ({ integrations, subscription }) => Replay.replay(subscription, stretch, integrations)
    ).pipe(
      Effect.provideService(Store, store),
      Effect.provideService(Deliveries, deliveries)
    )

  const dryRun: Plugins["Service"]["dryRun"] = (stretch) =>
    Effect.flatMap(
      meant(stretch),
      ({ integrations, subscription }) => Rehearsal.dryRun(readable, subscription, stretch, integrations)
    ).pipe(Effect.provideService(Store, store))

  return Plugins.of({ delivering: delivery.status, reached: delivery.reached, view, set, replay, dryRun })
})

/** `HttpClient`: what dry runs may GET with. */
export const layer = (
  plugins: Configured
): Layer.Layer<Plugins, never, Store | Deliveries | Delivery | Source | HttpClient.HttpClient> =>
  Layer.effect(Plugins, make(plugins))
