/**
 * PUBLIC: `rollcall/plugin`, for writing a plugin. A plugin is a value: its handlers, their triggers, and the configuration
 * and permissions that it needs are known without running anything.
 *
 * Gotchas
 * - A handler may run more than once for an event. An effect that must happen only once goes through `Api` or `Journal`.
 * - Mistakes in a plugin are collected in `issues` when it is built. Start, `doctor` and the test kit report them.
 * - A handler that computes without ever yielding blocks the whole process. The log names such a handler, but the handler cannot be
 *   stopped.
 */
import type * as Config from "effect/Config"
import type { ReadName } from "../api/Reads.ts"
import type { WriteName } from "../api/Writes.ts"
import {
  type AnyList,
  type AnyListTrigger,
  isListTrigger,
  type ListTrigger,
  nameOfTrigger,
  type RecordFields
} from "../domain/DefinedList.ts"
import type { DurationInput } from "../domain/DurationText.ts"
import type { Model } from "../domain/Model.ts"
import type { HandlerFunction } from "./Async.ts"
import type {
  CheckedTrigger,
  EventOf,
  KnownTrigger,
  ListEventOf,
  ListPropertyOf,
  OneOf,
  PropertyOf,
  Trigger,
  UpdatedPropertyOf
} from "./Event.ts"
import {
  type Activation,
  type BatchOptions,
  type EventOptions,
  type Handler,
  type HandlerOptions,
  runOf,
  type Tick,
  type UpdateOptions
} from "./Handler.ts"
import type { PluginIssue } from "./PropertyChecks.ts"
import { combine, type CombinedSettings, type Settings } from "./Settings.ts"
import { type HandlerDefinition, validateDefinition, validateHandler, validateSettings } from "./Validation.ts"

export type { Attachment } from "../api/Attachments.ts"
export { checkForm, type FormViolation } from "../api/FormCheck.ts"
export type { EmployeeForm, FormField } from "../api/Forms.ts"
export { checkProficiency, type ProficiencyScale } from "../api/Proficiency.ts"
export type { AsyncApi, AsyncCapabilities, AsyncJournal, Given, HandlerFunction } from "./Async.ts"
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
export {
  Blocked,
  type BlockReason,
  type HandlerError,
  Permanent,
  RateLimited,
  type Refusal,
  Transient
} from "./Failure.ts"
export type { Activation, BatchOptions, EventOptions, Handler, HandlerOptions, Tick, UpdateOptions } from "./Handler.ts"
export type { PluginIssue } from "./PropertyChecks.ts"
export { addressFault, send } from "./Send.ts"
export type { CombinedSettings, Settings, Values } from "./Settings.ts"

export interface Needs {
  /** The writes that the plugin makes. Any other write fails without being sent. */
  readonly writes?: ReadonlyArray<WriteName>
  readonly reads?: ReadonlyArray<ReadName>
}

export interface Definition<C> {
  readonly config?: Config.Config<C>
  /** The writes and reads that the plugin uses. `rollcall doctor` checks the permissions for the reads, and names those for the writes. */
  readonly needs?: Needs
  /** Maximum writes per hour in one integration; 1,000 by default. Further writes wait. */
  readonly writesPerHour?: number
}

export interface Plugin<C> {
  readonly name: string
  readonly definition: Definition<C>
  readonly handlers: ReadonlyArray<Handler<C>>
  readonly settings: CombinedSettings
  /** All mistakes in the plugin; a plugin with issues is not started. */
  readonly issues: ReadonlyArray<PluginIssue>

  /** The defined lists whose events the handlers receive. */
  readonly lists: ReadonlyArray<AnyList>

  /** Runs the handler for each event of a defined list, in order per record. */
  on<
    M extends Model,
    F extends RecordFields,
    T extends string,
    S extends string,
    const P extends ListPropertyOf<F> = never
  >(
    trigger: ListTrigger<M, F, T, S>,
    options: S extends "updated" ? UpdateOptions<P> : EventOptions,
    handle: HandlerFunction<ListEventOf<M, F, S, P>, C>
  ): Plugin<C>
  /** Runs the handler for each event of a trigger, in order per record. */
  on<const T extends string, const P extends PropertyOf<KnownTrigger<T>> = never>(
    trigger: CheckedTrigger<T>,
    options: T extends `${string}.updated` ? UpdateOptions<P> : EventOptions,
    handle: HandlerFunction<EventOf<KnownTrigger<T>, P>, C>
  ): Plugin<C>
  /** Runs one handler for the events of several triggers, in order per record across all of them. */
  onAny<const T extends Trigger | AnyListTrigger, const P extends UpdatedPropertyOf<T> = never>(
    triggers: ReadonlyArray<T>,
    options: UpdateOptions<P> & { readonly as: string },
    handle: HandlerFunction<OneOf<T, P>, C>
  ): Plugin<C>
  /** Runs the handler for several events of one integration at once. A failed batch is halved until the failing event is alone. */
  batch<M extends Model, F extends RecordFields, T extends string, S extends string>(
    trigger: ListTrigger<M, F, T, S>,
    options: BatchOptions,
    handle: HandlerFunction<ReadonlyArray<ListEventOf<M, F, S>>, C>
  ): Plugin<C>
  batch<const T extends string>(
    trigger: CheckedTrigger<T>,
    options: BatchOptions,
    handle: HandlerFunction<ReadonlyArray<EventOf<KnownTrigger<T>>>, C>
  ): Plugin<C>
  /** Runs the handler at an interval in each integration. Missed ticks are combined into one that covers their whole time. */
  every(
    interval: DurationInput,
    options: HandlerOptions & { readonly as: string },
    handle: HandlerFunction<Tick, C>
  ): Plugin<C>
  /** Returns the same plugin with these settings. A later call adds to the earlier ones, and replaces what both set. */
  with(settings: Settings): Plugin<C>
}

/** Whether `value` is a plugin made by `make`. A configuration file may export any value. */
export const isPlugin = (value: unknown): value is Plugin<unknown> =>
  typeof value === "object" && value !== null && "handlers" in value && Array.isArray(value.handlers) &&
  "name" in value && typeof value.name === "string" && "settings" in value && "definition" in value &&
  "issues" in value && Array.isArray(value.issues)

const optionsOf = (options: unknown): EventOptions & Partial<BatchOptions> & Pick<UpdateOptions<string>, "changed"> =>
  typeof options === "object" && options !== null ? options : {}

const define = <C>(
  name: string,
  definition: Definition<C>,
  handlers: ReadonlyArray<Handler<C>>,
  settings: CombinedSettings,
  issues: ReadonlyArray<PluginIssue>,
  lists: ReadonlyArray<AnyList> = []
): Plugin<C> => {
  const add = (
    by: HandlerDefinition["by"],
    given: ReadonlyArray<unknown>,
    options: unknown,
    handle: unknown,
    activationOf: (triggers: ReadonlyArray<string>) => Activation,
    interval: unknown = null
  ): Plugin<C> => {
    const used = new Map(lists.map((list) => [list.model, list]))
    for (const trigger of given) if (isListTrigger(trigger)) used.set(trigger.list.model, trigger.list)
    const triggers = given.map((trigger) => isListTrigger(trigger) ? nameOfTrigger(trigger) : trigger)
    const { as } = optionsOf(options)
    const own = typeof as === "string" ? as : by === "every" ? String(interval) : triggers.join(", ")
    const found = [...validateHandler(name, { by, name: own, triggers, interval, options, handle }, [...used.values()])]
    if (handlers.some(({ name }) => name === own)) {
      found.push({
        message: `plugin "${name}" has two handlers named "${own}"`,
        hint: "Give one of them a different name with `as`"
      })
    }
    const activation = activationOf(triggers as ReadonlyArray<string>)
    const handler: Handler<C> = { name: own, activation, options: optionsOf(options), run: runOf<C>(handle) }
    return define(name, definition, [...handlers, handler], settings, [...issues, ...found], [...used.values()])
  }
  const event = (options: unknown) => (triggers: ReadonlyArray<string>): Activation => ({
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
    lists,
    on: (trigger: unknown, options: unknown, handle: unknown) => add("on", [trigger], options, handle, event(options)),
    onAny: (some: ReadonlyArray<unknown>, options: unknown, handle: unknown) => {
      const triggers = Array.isArray(some) ? some : [some]
      return add("onAny", triggers, options, handle, event(options))
    },
    batch: (trigger: unknown, options: unknown, handle: unknown) => {
      // a missing option is an issue, so the plugin never starts with these defaults
      const { size = 1, within = 0 } = optionsOf(options)
      return add("batch", [trigger], options, handle, (triggers) => ({ _tag: "Batch", triggers, size, within }))
    },
    every: (interval: DurationInput, options: unknown, handle: unknown) =>
      add("every", [], options, handle, () => ({ _tag: "Tick", every: interval }), interval),
    with: (more) =>
      define(name, definition, handlers, combine(settings, more), [...issues, ...validateSettings(name, more)], lists)
  }
}

/**
 * Makes a plugin without handlers. `name`: lower-case letters, digits and hyphens. Deliveries and the journal are keyed by
 * the name: never change it.
 */
export const make = <C = {}>(name: string, definition: Definition<C> = {}): Plugin<C> =>
  define(
    String(name),
    typeof definition === "object" && definition !== null ? definition : {},
    [],
    {},
    validateDefinition(name, definition)
  )
