/**
 * The plugins of the running process, for operators: their status, their switches, replays and dry runs. Hides which data comes
 * from the configuration, from the store and from the engine.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Failure, HandlerName, Switch } from "../../store/Deliveries.ts"
import type { StoreError } from "../../store/Store.ts"
import type { DeliveryStatus, HandlerStatus } from "../engine/DeliveryEngine.ts"

/** Positions are positions of the log. Times are our clock, ms. */

export interface HandlerView {
  readonly handler: string
  /** The handler's triggers, or its interval; null: the handler is no longer configured. */
  readonly trigger: { readonly kind: "event" | "batch" | "tick"; readonly of: string } | null
  /** Deliveries have been created for all events up to this position; null: the handler was never registered. */
  readonly position: number | null
  /** Events of the log after that position. */
  readonly lag: number
  readonly running: number
  /** Deliveries that wait for their next attempt, for an earlier delivery of their record, or behind a dead letter. */
  readonly waiting: number
  readonly due: number
  readonly dead: number
  /** When the oldest delivery that is not dead was created. */
  readonly oldest: number | null
  readonly circuitOpen: HandlerStatus["circuitOpen"]
}

export interface PluginIntegration {
  readonly integration: string
  /**
   * `unconfigured`: the plugin's configuration is incomplete. `removed`: the integration is no longer configured. In both states
   * the deliveries wait.
   */
  readonly state: "on" | "off" | "unconfigured" | "removed"
  /** Why the plugin is not on in this integration. */
  readonly reason: string | null
}

export interface PluginView {
  readonly plugin: string
  /** False: the plugin is no longer configured, but some of its deliveries remain. */
  readonly configured: boolean
  /** False: an operator has switched off the whole plugin. */
  readonly on: boolean
  readonly handlers: ReadonlyArray<HandlerView>
  readonly integrations: ReadonlyArray<PluginIntegration>
}

/** The state of the delivery engine. */
export type EngineState = Pick<DeliveryStatus, "state" | "reason">

export interface PluginsView extends EngineState {
  readonly writesStopped: boolean
  readonly plugins: ReadonlyArray<PluginView>
}

/** Requests that a range of the log is delivered again to one handler. */
export interface ReplayRequest extends HandlerName {
  /** The position of the first event, or a time (RFC 3339). Default: the oldest event that is kept. */
  readonly from?: string | undefined
  /** The position of the last event, or a time: the range ends before it. Default: the newest event. */
  readonly to?: string | undefined
  readonly integration?: string | undefined
}

export interface ReplayResult {
  readonly deliveries: number
  /** The first and the last position of the range. */
  readonly from: number
  readonly to: number
}

/** A write, or another request, that a handler would have made. */
export interface DryRunRequest {
  /** `addTag`, `POST https://hooks.example/in` */
  readonly what: string
  readonly integration: string | null
  /** For a write: the ids in its path. */
  readonly params: Readonly<Record<string, unknown>>
  readonly body: unknown
}

/** One delivery that was tried in a dry run. */
export interface DryRunDelivery {
  readonly integration: string
  /** The position of the event, of the first event of a batch, or the position after which the span of a tick starts. */
  readonly position: number
  /** As `model/id`. */
  readonly records: ReadonlyArray<string>
  readonly requests: ReadonlyArray<DryRunRequest>
  /** null: the delivery would succeed. */
  readonly failure: Pick<Failure, "reason" | "message" | "refusal" | "faults"> | null
}

export interface DryRunResult extends ReplayResult {
  readonly results: ReadonlyArray<DryRunDelivery>
  /** Deliveries that were not tried, because they exceed the limit. */
  readonly omitted: number
}

/** The request was refused. Nothing was changed. */
export class PluginRequestError extends Schema.TaggedError<PluginRequestError>()("PluginRequestError", {
  /**
   * `malformed`: the request is invalid. `unknown`: the plugin, handler or integration was not found. `conflict`: the request is
   * not possible in the current state.
   */
  reason: Schema.Literals(["malformed", "unknown", "conflict"]),
  message: Schema.String,
  hint: Schema.String
}) {}

export class PluginAdmin extends Context.Service<PluginAdmin, {
  readonly engineState: Effect.Effect<EngineState>
  readonly view: Effect.Effect<PluginsView, StoreError>
  /**
   * Returns once every delivery up to `position` has ended or waits for its next attempt, for its batch to fill or for an
   * operator; or once the engine has stopped.
   */
  readonly awaitDrained: (position: number) => Effect.Effect<EngineState>
  /** Switches a plugin on or off, everywhere or in one integration, or the writes of all plugins. */
  readonly setSwitch: (which: Switch, on: boolean) => Effect.Effect<void, PluginRequestError | StoreError>
  /** `fresh`: with a journal of its own, so that steps and writes are done again. */
  readonly replay: (
    request: ReplayRequest & { readonly fresh: boolean }
  ) => Effect.Effect<ReplayResult, PluginRequestError | StoreError>
  /** Runs the handler for at most `limit` deliveries of the range and reports the requests that it would make. Writes nothing. */
  readonly dryRun: (
    request: ReplayRequest & { readonly fresh: boolean; readonly limit: number }
  ) => Effect.Effect<DryRunResult, PluginRequestError | StoreError>
}>()("rollcall/delivery/PluginAdmin") {}

export const unknownPlugin = (plugin: string, known: ReadonlyArray<string>): PluginRequestError =>
  new PluginRequestError({
    reason: "unknown",
    message: `there is no plugin "${plugin}"`,
    hint: known.length === 0
      ? "no plugin is configured: add it to `plugins` in rollcall.config.ts"
      : `the plugins are ${known.join(", ")}`
  })

const idle: EngineState = { state: "running", reason: null }

/** The layer for a process without plugins. */
export const none: Layer.Layer<PluginAdmin> = Layer.succeed(PluginAdmin, {
  engineState: Effect.succeed(idle),
  view: Effect.succeed({ ...idle, writesStopped: false, plugins: [] }),
  awaitDrained: () => Effect.succeed(idle),
  setSwitch: (which) => Effect.fail(unknownPlugin(which._tag === "Plugin" ? which.plugin : "any", [])),
  replay: ({ plugin }) => Effect.fail(unknownPlugin(plugin, [])),
  dryRun: ({ plugin }) => Effect.fail(unknownPlugin(plugin, []))
})
