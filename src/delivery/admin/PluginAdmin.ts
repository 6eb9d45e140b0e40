/**
 * The plugins of the running process as its operators hold them: how each is, what is switched off, and delivering a
 * stretch of the log again. Hides which of that is configured, stored, or known to the engine alone.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Failure, HandlerName, Switch } from "../../store/Deliveries.ts"
import type { StoreError } from "../../store/Store.ts"
import type { DeliveryStatus, HandlerStatus } from "../engine/DeliveryEngine.ts"

/** Positions are of the log, times our clock, ms. */

export interface HandlerView {
  readonly handler: string
  /** What makes it run: a trigger, or how often. */
  readonly trigger: { readonly kind: "event" | "batch" | "tick"; readonly of: string } | null
  /** Up to here its deliveries are made; null: it never ran. */
  readonly position: number | null
  /** Events behind that. */
  readonly lag: number
  readonly running: number
  /** For their turn, or for what is dead before them. */
  readonly waiting: number
  readonly due: number
  readonly dead: number
  /** When the oldest of these that is not dead was made. */
  readonly oldest: number | null
  readonly circuitOpen: HandlerStatus["circuitOpen"]
}

export interface PluginIntegration {
  readonly integration: string
  /** `unconfigured`: its deliveries wait. `removed`: the integration is not configured any more, its deliveries wait. */
  readonly state: "on" | "off" | "unconfigured" | "removed"
  /** Why it is not on. */
  readonly reason: string | null
}

export interface PluginView {
  readonly plugin: string
  /** False: something is left of a plugin, or of a handler, that the configuration no longer has. */
  readonly configured: boolean
  /** Not switched off as a whole. */
  readonly on: boolean
  readonly handlers: ReadonlyArray<HandlerView>
  readonly integrations: ReadonlyArray<PluginIntegration>
}

/** How delivering as a whole is. */
export type EngineState = Pick<DeliveryStatus, "state" | "reason">

export interface PluginsView extends EngineState {
  readonly writesStopped: boolean
  readonly plugins: ReadonlyArray<PluginView>
}

/** A stretch of the log, delivered again to one handler. */
export interface ReplayRequest extends HandlerName {
  /** A position, whose event is the first, or a time (RFC 3339); the oldest that is kept without it. */
  readonly from?: string | undefined
  /** A position, whose event is the last, or a time, before which it is; now without it. */
  readonly to?: string | undefined
  readonly integration?: string | undefined
}

export interface ReplayResult {
  readonly deliveries: number
  /** First and last position that was looked at. */
  readonly from: number
  readonly to: number
}

/** A write, or another request, that a handler would have made. */
export interface DryRunRequest {
  /** `addTag`, `POST https://hooks.example/in` */
  readonly what: string
  readonly integration: string | null
  /** Of a write: what stands in its path. */
  readonly params: Readonly<Record<string, unknown>>
  readonly body: unknown
}

/** One delivery that was rehearsed. */
export interface DryRunDelivery {
  readonly integration: string
  /** Of the event, of the first of a batch, or behind the tick. */
  readonly position: number
  /** Records, with their model before them. */
  readonly records: ReadonlyArray<string>
  readonly requests: ReadonlyArray<DryRunRequest>
  /** null: it would settle. */
  readonly failure: Pick<Failure, "reason" | "message" | "refusal" | "faults"> | null
}

export interface DryRunResult extends ReplayResult {
  readonly results: ReadonlyArray<DryRunDelivery>
  /** Deliveries that were left out, being too many. */
  readonly omitted: number
}

/** Nothing was done. */
export class PluginRequestError extends Schema.TaggedError<PluginRequestError>()("PluginRequestError", {
  /** `malformed`: the request is wrong; `unknown`: there is no such thing; `now`: not in this condition. */
  reason: Schema.Literals(["malformed", "unknown", "conflict"]),
  message: Schema.String,
  hint: Schema.String
}) {}

export class PluginAdmin extends Context.Service<PluginAdmin, {
  readonly engineState: Effect.Effect<EngineState>
  readonly view: Effect.Effect<PluginsView, StoreError>
  /**
   * Returns once of everything up to `position` nothing is left but what waits for its next try, for others of its batch or
   * for an operator; or delivering has stopped.
   */
  readonly awaitDrained: (position: number) => Effect.Effect<EngineState>
  /** Switches a plugin, everywhere or in one integration, or the writes of all. */
  readonly setSwitch: (which: Switch, on: boolean) => Effect.Effect<void, PluginRequestError | StoreError>
  /** `fresh`: with a journal of its own, so that what was done is done again. */
  readonly replay: (
    stretch: ReplayRequest & { readonly fresh: boolean }
  ) => Effect.Effect<ReplayResult, PluginRequestError | StoreError>
  /** What that would do, at most for `limit` deliveries. Writes nothing, anywhere. */
  readonly dryRun: (
    stretch: ReplayRequest & { readonly fresh: boolean; readonly limit: number }
  ) => Effect.Effect<DryRunResult, PluginRequestError | StoreError>
}>()("rollcall/delivery/PluginAdmin") {}

export const unknownPlugin = (plugin: string, known: ReadonlyArray<string>): PluginRequestError =>
  new PluginRequestError({
    reason: "unknown",
    message: `there is no plugin "${plugin}"`,
    hint: known.length === 0
      ? "none is configured: name it in `plugins` of rollcall.config.ts"
      : `the plugins are ${known.join(", ")}`
  })

const idle: EngineState = { state: "running", reason: null }

/** Where no plugin is configured. */
export const none: Layer.Layer<PluginAdmin> = Layer.succeed(PluginAdmin, {
  engineState: Effect.succeed(idle),
  view: Effect.succeed({ ...idle, writesStopped: false, plugins: [] }),
  awaitDrained: () => Effect.succeed(idle),
  setSwitch: (which) => Effect.fail(unknownPlugin(which._tag === "Plugin" ? which.plugin : "any", [])),
  replay: ({ plugin }) => Effect.fail(unknownPlugin(plugin, [])),
  dryRun: ({ plugin }) => Effect.fail(unknownPlugin(plugin, []))
})
