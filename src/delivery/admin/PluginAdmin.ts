/** The plugins of the running process, for operators: their status, their switches, replays and dry runs. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { IdRange } from "../../domain/DeliveryProgress.ts"
import type { Switch } from "../../store/DeadLetters.ts"
import { failureReasons, type HandlerName } from "../../store/Delivery.ts"
import type { StoreError } from "../../store/Store.ts"
import type { DeliveryStatus } from "../engine/EngineStatus.ts"

export const HandlerView = Schema.Struct({
  handler: Schema.String,
  /** Null if the configuration no longer has the handler. */
  trigger: Schema.NullOr(Schema.Struct({ kind: Schema.Literals(["event", "batch", "tick"]), of: Schema.String })),
  /** Deliveries exist for every event up to this position; null before the first one. */
  position: Schema.NullOr(Schema.String),
  /** Events of the log after that position. */
  lag_events: Schema.Int,
  running: Schema.Int,
  /** Deliveries that wait for their next attempt, for an earlier delivery of their record, or behind a dead letter. */
  waiting: Schema.Int,
  due: Schema.Int,
  dead: Schema.Int,
  /** When the oldest delivery that is neither settled nor dead was made. */
  oldest_at: Schema.NullOr(Schema.String).annotate({ description: "RFC 3339, UTC" }),
  /** Set if too many records failed in a row. Then deliveries are tried one at a time until one succeeds. */
  circuit_open: Schema.NullOr(Schema.Struct({ until: Schema.String, failures: Schema.Int }))
}).annotate({ identifier: "Handler" })

export type HandlerView = typeof HandlerView.Type

export const PluginView = Schema.Struct({
  plugin: Schema.String,
  /** False if the plugin is no longer configured, but some of its deliveries remain. */
  configured: Schema.Boolean,
  /** False if an operator has switched off the whole plugin. */
  on: Schema.Boolean,
  handlers: Schema.Array(HandlerView),
  integrations: Schema.Array(Schema.Struct({
    integration: Schema.String,
    /**
     * `unconfigured`: the plugin's configuration is incomplete in this integration; deliveries wait until it is complete. `removed`: the
     * integration is no longer configured; deliveries wait until it is added again. `blocked`: the API accepts no requests of the account or
     * the integration; deliveries wait until it does.
     */
    state: Schema.Literals(["on", "off", "unconfigured", "removed", "blocked"]),
    /** Why the plugin is not on in this integration, or why its deliveries wait there. */
    reason: Schema.NullOr(Schema.String)
  }))
}).annotate({
  identifier: "Plugin",
  examples: [{
    plugin: "welcome-new-hire",
    configured: true,
    on: true,
    handlers: [{
      handler: "ats.application.hired",
      trigger: { kind: "event", of: "ats.application.hired" },
      position: "k3v9-1-10482",
      lag_events: 0,
      running: 1,
      waiting: 3,
      due: 0,
      dead: 1,
      oldest_at: "2026-03-01T12:00:00.000Z",
      circuit_open: null
    }],
    integrations: [
      { integration: "greenhouse:acme", state: "on", reason: null },
      { integration: "lever:acme", state: "off", reason: "by an operator" }
    ]
  }]
})
export type PluginView = typeof PluginView.Type
export type PluginIntegration = PluginView["integrations"][number]

/** The state of the delivery engine. */
export type EngineState = Pick<DeliveryStatus, "state" | "reason">

export interface PluginsView extends EngineState {
  readonly writesStopped: boolean
  readonly plugins: ReadonlyArray<PluginView>
}

/** A request to deliver a range of the log again to one handler. */
export interface ReplayRequest extends HandlerName {
  /** The position of the first event, or a time (RFC 3339). Default: the oldest event that is kept. */
  readonly from?: string | undefined
  /** The position of the last event, or a time: the range ends before it. Default: the newest event. */
  readonly to?: string | undefined
  readonly integration?: string | undefined
}

export interface SelectedRange {
  readonly deliveries: number
  /** The first and the last position of the range. */
  readonly from: number
  readonly to: number
}

export interface ReplayResult extends SelectedRange {
  /** The ids of the deliveries that were made. */
  readonly ranges: ReadonlyArray<IdRange>
}

/** Why a delivery failed. */
export const failureFields = {
  reason: Schema.Literals(failureReasons),
  message: Schema.String,
  /** For the reasons `Permanent` and `Blocked`: the kind of refusal. */
  refusal: Schema.NullOr(Schema.String),
  faults: Schema.Array(Schema.Struct({ path: Schema.String, rule: Schema.String, message: Schema.String }))
}

/** A write, or another request, that a handler would have made. */
export const DryRunRequest = Schema.Struct({
  /** `addTag`, `POST https://hooks.example/in` */
  what: Schema.String,
  integration: Schema.NullOr(Schema.String),
  /** For a write: the ids in its path. */
  params: Schema.Record(Schema.String, Schema.Unknown),
  body: Schema.Unknown
})
export type DryRunRequest = typeof DryRunRequest.Type

/** One delivery that was tried in a dry run. */
export const DryRunDelivery = Schema.Struct({
  integration: Schema.String,
  /** The position of the event, of the first event of a batch, or the position after which the span of a tick starts. */
  position: Schema.Int,
  /** `<model>/<id>` */
  records: Schema.Array(Schema.String),
  requests: Schema.Array(DryRunRequest),
  /** Null if the delivery would succeed. */
  failure: Schema.NullOr(Schema.Struct(failureFields))
})
export type DryRunDelivery = typeof DryRunDelivery.Type

export interface DryRunResult extends SelectedRange {
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
   * Returns once the engine has stopped, or once every delivery up to `position` is settled, or waits for its next attempt, for more
   * events in its batch, or for an operator.
   */
  readonly awaitDrained: (position: number) => Effect.Effect<EngineState>
  /** Switches a plugin on or off, everywhere or in one integration, or the writes of all plugins. */
  readonly setSwitch: (which: Switch, on: boolean) => Effect.Effect<void, PluginRequestError | StoreError>
  /** `fresh`: with a new journal, so that steps and writes are done again. */
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

const noWrites = new PluginRequestError({
  reason: "unknown",
  message: "no plugin is configured, so there are no writes to stop or resume",
  hint: "add a plugin to `plugins` in rollcall.config.ts"
})

const idle: EngineState = { state: "running", reason: null }

/** The layer for a process without plugins. */
export const none: Layer.Layer<PluginAdmin> = Layer.succeed(PluginAdmin, {
  engineState: Effect.succeed(idle),
  view: Effect.succeed({ ...idle, writesStopped: false, plugins: [] }),
  awaitDrained: () => Effect.succeed(idle),
  setSwitch: (which) => Effect.fail(which._tag === "Plugin" ? unknownPlugin(which.plugin, []) : noWrites),
  replay: ({ plugin }) => Effect.fail(unknownPlugin(plugin, [])),
  dryRun: ({ plugin }) => Effect.fail(unknownPlugin(plugin, []))
})
