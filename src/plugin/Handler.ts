/** A handler of a plugin: what makes it run, its options, and how its function is called. */
import * as Effect from "effect/Effect"
import * as HttpClient from "effect/http/HttpClient"
import * as Scope from "effect/Scope"
import type { Origin } from "../domain/ChangeEvent.ts"
import type { DurationInput } from "../domain/DurationText.ts"
import { callHandler, type HandlerFunction } from "./Async.ts"
import type { HandlerEffect } from "./Capabilities.ts"
import { Uncaught } from "./Failure.ts"
import { lazyClient } from "./Lazy.ts"

/** One run of an `.every` handler in one integration: when it was due, and the part of the log since the previous run. */
export interface Tick {
  readonly integration: string
  readonly scheduledAt: Date
  /** Positions in the event log, for `Events.between`. */
  readonly from: string
  readonly to: string
}

export interface HandlerOptions {
  /** Name of the handler, unique in the plugin; by default its trigger. Deliveries and the journal are keyed by it: never change it. */
  readonly as?: string
  /** Time limit of one attempt; 30 seconds by default. */
  readonly timeout?: DurationInput
  /** Attempts that run at the same time, in all processes together; 4 by default. Attempts for one record run one after another. */
  readonly concurrency?: number
  /** Failed attempts after which the delivery becomes a dead letter; 8 by default. */
  readonly attempts?: number
  /** Wait after the first failure, doubled after each further one up to `longest`. Defaults: 1 second and 10 minutes. */
  readonly retry?: { readonly first?: DurationInput; readonly longest?: DurationInput }
  /** Later events of the record wait behind the dead letter (`park`, the default), or are delivered out of order (`skip`). */
  readonly onDeadLetter?: "park" | "skip"
}

export interface EventOptions extends HandlerOptions {
  /** Origins of the events to deliver; by default all except `backfill`. */
  readonly origins?: ReadonlyArray<Origin>
  /** Whether the plugin receives a change that was caused entirely by writes of this plugin; `ignore-own` by default. */
  readonly echo?: "ignore-own" | "deliver"
}

export interface UpdateOptions<P> extends EventOptions {
  /** Deliver only updates that changed at least one of these properties. */
  readonly changed?: ReadonlyArray<P>
}

export interface BatchOptions extends EventOptions {
  /** Maximum number of events in a batch. All events of a batch belong to one integration. */
  readonly size: number
  /** How long the first event of a batch waits for further events. */
  readonly within: DurationInput
}

/** The events or the interval that make a handler run. */
export type Activation =
  | {
    readonly _tag: "Event"
    readonly triggers: ReadonlyArray<string>
    readonly changed: ReadonlyArray<string> | null
  }
  | {
    readonly _tag: "Batch"
    readonly triggers: ReadonlyArray<string>
    readonly size: number
    readonly within: DurationInput
  }
  | { readonly _tag: "Tick"; readonly every: DurationInput }

/** A handler as the engine sees it. */
export interface Handler<C> {
  readonly name: string
  readonly activation: Activation
  readonly options: EventOptions
  /** `input`: an event, the events of a batch, or a tick, depending on `activation`. */
  run(input: unknown, config: C): HandlerEffect
}

/**
 * Closes the connections of the handler's requests when it ends. Otherwise a response could keep its connection open as long as the process
 * runs: if the handler does not read its body, and the other server does not end it.
 */
const endingRequests = (handler: HandlerEffect): HandlerEffect =>
  Effect.scopedWith((scope) =>
    Effect.updateService(
      handler,
      HttpClient.HttpClient,
      (client) =>
        lazyClient(() =>
          HttpClient.transformResponse(HttpClient.withScope(client), Effect.provideService(Scope.Scope, scope))
        )
    )
  )

/** A handler's function, as the engine runs it. */
export const runOf = <C>(handle: unknown): Handler<C>["run"] => (input, config) =>
  typeof handle === "function"
    ? endingRequests(callHandler(handle as HandlerFunction<unknown, C>, input, config))
    : Effect.die(new Uncaught("the handler is missing"))
