/** The view of each plugin for operators, from the configuration and the data of the store and the engine. Pure. */
import * as Duration from "effect/Duration"
import { formatPosition, type LogIdentity } from "../../domain/ChangeEvent.ts"
import { toDuration } from "../../domain/DurationText.ts"
import * as HandlerCircuit from "../../domain/HandlerCircuit.ts"
import { formatTime } from "../../domain/Watermark.ts"
import type { Handler, Plugin } from "../../plugin/Plugin.ts"
import { isEnabledIn } from "../../plugin/PluginConfiguration.ts"
import { type Backlog, isSwitchedOff, type Switch } from "../../store/DeadLetters.ts"
import type { HandlerState } from "../../store/Delivery.ts"
import type { DeliveryStatus } from "../engine/EngineStatus.ts"
import type { HandlerView, PluginIntegration, PluginsView, PluginView } from "./PluginAdmin.ts"

export type Configured = ReadonlyArray<Plugin<unknown>>

const triggerOf = ({ activation }: Handler<unknown>): NonNullable<HandlerView["trigger"]> => {
  if (activation._tag === "Tick") {
    return { kind: "tick", of: `every ${Duration.format(toDuration(activation.every))}` }
  }
  return { kind: activation._tag === "Batch" ? "batch" : "event", of: activation.triggers.join(", ") }
}

/** A snapshot of the data from the engine and the store. */
export interface AdminSnapshot {
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

const usedIn = (plugin: Plugin<unknown>, { backlog, integrations, off, status }: AdminSnapshot) =>
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
    const blocked = backlog.find((one) =>
      one.plugin === plugin.name && one.integration === integration && one.blocked !== null
    )
    // without a number, so that `rollcall status` has one line for all integrations that wait for the same
    if (blocked !== undefined) return { integration, state: "blocked", reason: blocked.blocked }
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

export const pluginsView = (configured: Configured, snapshot: AdminSnapshot): PluginsView => {
  const { backlog, off, status } = snapshot
  const names = new Set(configured.map(({ name }) => name))
  const gone = new Set(backlog.flatMap(({ plugin }) => names.has(plugin) ? [] : [plugin]))
  return {
    state: status.state,
    reason: status.reason,
    writesStopped: off.some(({ _tag }) => _tag === "Writes"),
    plugins: [
      ...configured.map((plugin): PluginView => ({
        plugin: plugin.name,
        configured: true,
        on: !isSwitchedOff(off, plugin.name, null),
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
}
