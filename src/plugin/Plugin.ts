/**
 * PUBLIC: how a plugin is written. A plugin is a value: its handlers, what triggers them, the configuration and the
 * permissions they need are known without running anything.
 *
 * Gotchas
 * - A handler may be run more than once for an event: what must happen once goes through `Api` or `Journal`.
 * - What is wrong with a plugin is found here and told at start, by `doctor` and by the test kit: see `faults`.
 * - An async function is a handler as it is. In TypeScript `Plugin.async` around it says what its second parameter is.
 * - A handler that computes without ever yielding holds up the whole process; it is named in the log, not stopped.
 */
import type * as Config from "effect/Config"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ReadName } from "../api/Reads.ts"
import type { WriteName } from "../api/Writes.ts"
import type { Origin } from "../domain/ChangeEvent.ts"
import { adaptAsync, type AsyncHandler } from "./Async.ts"
import type { HandlerEffect } from "./Capabilities.ts"
import type { EventOf, OneOf, PropertyOf, Trigger } from "./Event.ts"
import { Uncaught } from "./Failure.ts"
import {
  type HandlerDefinition,
  type PluginIssue,
  validateDefinition,
  validateHandler,
  validateSettings
} from "./Validation.ts"

export type { Attachment } from "../api/Attachments.ts"
export { checkForm, type FormViolation } from "../api/FormCheck.ts"
export type { EmployeeForm, FormField } from "../api/Forms.ts"
export { checkProficiency, type ProficiencyScale } from "../api/Proficiency.ts"
export {
  adaptAsync as async,
  type AsyncApi,
  type AsyncCapabilities,
  type AsyncHandler,
  type AsyncJournal
} from "./Async.ts"
export {
  Api,
  type Capabilities,
  Events,
  type HandlerEffect,
  Journal,
  type OnUnknown,
  Records,
  type StepOptions,
  type UnifiedApi,
  type WriteOptions
} from "./Capabilities.ts"
export type { AnyEvent, Cause, Change, EventOf, ModelOf, OneOf, PropertyOf, RecordOf, Trigger } from "./Event.ts"
export { type HandlerError, Permanent, RateLimited, type Refusal, Transient } from "./Failure.ts"
export { send } from "./Send.ts"
export type { PluginIssue } from "./Validation.ts"

/** One run of an `.every` handler in one integration: when it was due, and the stretch of the log since the last one. */
export interface Tick {
  readonly integration: string
  readonly scheduledAt: Date
  /** Positions of the log, for `Events.between`. */
  readonly from: string
  readonly to: string
}

export interface HandlerOptions {
  /** Name of the handler, unique in the plugin; the trigger by default. It keys deliveries and journal: never change it. */
  readonly as?: string
  /** For one attempt; 30 seconds by default. */
  readonly timeout?: Duration.Input
  /** Attempts under way at once; 4 by default. Those of one record are always one after another. */
  readonly concurrency?: number
  /** Failed attempts until the delivery is a dead letter; 8 by default. */
  readonly attempts?: number
  /** Wait after a first failure, doubled up to the longest; 1 second and 10 minutes by default. */
  readonly retry?: { readonly first?: Duration.Input; readonly longest?: Duration.Input }
  /** What follows for the record's later events: they wait (default), or they go on and the order is given up. */
  readonly onDeadLetter?: "park" | "skip"
}

export interface EventOptions extends HandlerOptions {
  /** All but `backfill` by default. */
  readonly origins?: ReadonlyArray<Origin>
  /** Whether a change that is wholly the plugin's own doing is delivered to it; `ignore-own` by default. */
  readonly echo?: "ignore-own" | "deliver"
}

export interface UpdateOptions<P> extends EventOptions {
  /** Only updates that touched any of these properties. */
  readonly changed?: ReadonlyArray<P>
}

export interface BatchOptions extends EventOptions {
  /** Most events of one batch, of one integration. */
  readonly size: number
  /** How long the first event waits for others. */
  readonly within: Duration.Input
}

/** What makes a handler run. */
export type Activation =
  | {
    readonly _tag: "Event"
    readonly triggers: ReadonlyArray<Trigger>
    readonly changed: ReadonlyArray<string> | null
  }
  | {
    readonly _tag: "Batch"
    readonly triggers: ReadonlyArray<Trigger>
    readonly size: number
    readonly within: Duration.Input
  }
  | { readonly _tag: "Tick"; readonly every: Duration.Input }

/** A handler as the engine sees it. */
export interface Handler<C> {
  readonly name: string
  readonly activation: Activation
  readonly options: EventOptions
  /** An event, a batch's events or a tick, as its occasion says. */
  run(input: unknown, config: C): HandlerEffect
}

/** Values by their configuration name; nested as the configuration is. */
export interface Values {
  readonly [name: string]: string | number | boolean | Values
}

/** How a plugin is used. */
export interface Settings {
  /** Where configuration is looked up before the environment. */
  readonly values?: Values
  /** By integration: off, on, or on with own values. Integrations that are not named are on, see `others`. */
  readonly integrations?: Readonly<Record<string, boolean | { readonly values: Values }>>
  /** Whether integrations that are not named are on; true by default. */
  readonly others?: boolean
  /** Where in the log its handlers begin when they are first seen; `now` by default. */
  readonly from?: "now" | "oldest"
}

export interface Needs {
  readonly writes?: ReadonlyArray<WriteName>
  readonly reads?: ReadonlyArray<ReadName>
}

export interface Definition<C> {
  readonly config?: Config.Config<C>
  /** What it asks of the API: `rollcall doctor` checks the permissions for it. */
  readonly needs?: Needs
  /** Most writes to the API in an hour, in one integration; 1,000 by default. What exceeds it waits. */
  readonly writesPerHour?: number
}

export interface Plugin<C> {
  readonly name: string
  readonly definition: Definition<C>
  readonly handlers: ReadonlyArray<Handler<C>>
  readonly settings: Settings
  /** All that is wrong with it; a plugin with faults is not started. */
  readonly issues: ReadonlyArray<PluginIssue>

  /** For each event of a trigger, in the order of its record. */
  on<const T extends Trigger, const P extends PropertyOf<T> = never>(
    trigger: T,
    options: T extends `${string}.updated` ? UpdateOptions<P> : EventOptions,
    handle: (event: EventOf<T, P>, config: C) => HandlerEffect
  ): Plugin<C>
  on<const T extends Trigger, const P extends PropertyOf<T> = never>(
    trigger: T,
    options: T extends `${string}.updated` ? UpdateOptions<P> : EventOptions,
    handle: AsyncHandler<EventOf<T, P>, C>
  ): Plugin<C>
  /** For each event of any of these triggers: one handler, so that their order per record is kept across them. */
  onAny<const T extends Trigger, const P extends PropertyOf<T> = never>(
    triggers: ReadonlyArray<T>,
    options: UpdateOptions<P> & { readonly as: string },
    handle: (event: OneOf<T, P>, config: C) => HandlerEffect
  ): Plugin<C>
  onAny<const T extends Trigger, const P extends PropertyOf<T> = never>(
    triggers: ReadonlyArray<T>,
    options: UpdateOptions<P> & { readonly as: string },
    handle: AsyncHandler<OneOf<T, P>, C>
  ): Plugin<C>
  /** For several events of one integration at a time. A batch that fails is halved down to the event that is to blame. */
  batch<const T extends Trigger>(
    trigger: T,
    options: BatchOptions,
    handle: (events: ReadonlyArray<EventOf<T>>, config: C) => HandlerEffect
  ): Plugin<C>
  batch<const T extends Trigger>(
    trigger: T,
    options: BatchOptions,
    handle: AsyncHandler<ReadonlyArray<EventOf<T>>, C>
  ): Plugin<C>
  /** Regularly in each integration; missed ticks become one, which spans them. */
  every(
    interval: Duration.Input,
    options: HandlerOptions & { readonly as: string },
    handle: (tick: Tick, config: C) => HandlerEffect
  ): Plugin<C>
  every(
    interval: Duration.Input,
    options: HandlerOptions & { readonly as: string },
    handle: AsyncHandler<Tick, C>
  ): Plugin<C>
  /** The same plugin, used in this way. */
  with(settings: Settings): Plugin<C>
}

/** Whether `make` made it; a configuration file may export anything. */
export const isPlugin = (value: unknown): value is Plugin<unknown> =>
  typeof value === "object" && value !== null && "handlers" in value && Array.isArray(value.handlers) &&
  "name" in value && typeof value.name === "string" && "settings" in value && "definition" in value &&
  "issues" in value && Array.isArray(value.issues)

/** What a function gives that is no async function, and no Effect. */
const wrongReturnMessage = (given: unknown): string =>
  given instanceof Promise
    ? "the handler gave a promise but is not written as an async function: put `async` before it, or Plugin.async around it"
    : "the handler gave neither an Effect nor a promise: write an async function, or give an Effect"

type HandlerFunction<C> = Handler<C>["run"]

/** An async function says so itself, whatever it will give. */
const runOf = <C>(handle: unknown): HandlerFunction<C> => {
  if (typeof handle !== "function") return () => Effect.die(new Uncaught("there is no handler"))
  if (Object.prototype.toString.call(handle) === "[object AsyncFunction]") {
    return adaptAsync(handle as AsyncHandler<unknown, C>)
  }
  return (input, config) => {
    const given: unknown = handle(input, config)
    if (Effect.isEffect(given)) return given as HandlerEffect
    if (given instanceof Promise) given.catch(() => undefined)
    return Effect.die(new Uncaught(wrongReturnMessage(given)))
  }
}

const optionsOf = (options: unknown): EventOptions & Partial<BatchOptions> & Pick<UpdateOptions<string>, "changed"> =>
  typeof options === "object" && options !== null ? options : {}

const define = <C>(
  name: string,
  definition: Definition<C>,
  handlers: ReadonlyArray<Handler<C>>,
  settings: Settings,
  issues: ReadonlyArray<PluginIssue>
): Plugin<C> => {
  const add = (
    by: HandlerDefinition["by"],
    triggers: ReadonlyArray<Trigger>,
    options: unknown,
    handle: unknown,
    activation: Activation,
    interval: unknown = null
  ): Plugin<C> => {
    const { as } = optionsOf(options)
    const own = typeof as === "string" ? as : by === "every" ? String(interval) : triggers.join(", ")
    const found = [...validateHandler(name, { by, name: own, triggers, interval, options, handle })]
    if (handlers.some(({ name }) => name === own)) {
      found.push({
        message: `plugin "${name}" has two handlers named "${own}"`,
        hint: "Give one another name with `as`"
      })
    }
    const handler: Handler<C> = { name: own, activation, options: optionsOf(options), run: runOf<C>(handle) }
    return define(name, definition, [...handlers, handler], settings, [...issues, ...found])
  }
  const event = (triggers: ReadonlyArray<Trigger>, options: unknown): Activation => ({
    _tag: "Event",
    triggers,
    changed: optionsOf(options).changed ?? null
  })
  return {
    name,
    definition,
    handlers,
    settings,
    issues,
    on: (trigger: Trigger, options: unknown, handle: unknown) =>
      add("on", [trigger], options, handle, event([trigger], options)),
    onAny: (some: ReadonlyArray<Trigger>, options: unknown, handle: unknown) => {
      const triggers = Array.isArray(some) ? some : [some]
      return add("onAny", triggers, options, handle, event(triggers, options))
    },
    batch: (trigger: Trigger, options: unknown, handle: unknown) => {
      // where they are missing it has a fault, and is not started
      const { size = 1, within = 0 } = optionsOf(options)
      return add("batch", [trigger], options, handle, { _tag: "Batch", triggers: [trigger], size, within })
    },
    every: (interval: Duration.Input, options: unknown, handle: unknown) =>
      add("every", [], options, handle, { _tag: "Tick", every: interval }, interval),
    with: (more) =>
      define(name, definition, handlers, { ...settings, ...more }, [...issues, ...validateSettings(name, more)])
  }
}

/** A plugin without handlers yet. `name`: lower case, digits and hyphens; it keys deliveries and journal. */
export const make = <C = {}>(name: string, definition: Definition<C> = {}): Plugin<C> =>
  define(
    String(name),
    typeof definition === "object" && definition !== null ? definition : {},
    [],
    {},
    validateDefinition(name, definition)
  )
