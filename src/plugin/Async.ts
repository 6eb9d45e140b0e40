/**
 * Calls the function of a handler, which returns a promise or an Effect. For async functions the capabilities become an object whose methods
 * return promises.
 *
 * Invariants
 * 1. A capability that is called while a step runs belongs to that step, as in a handler that is an Effect
 * 2. A handler or a step is done only when all calls that it made are done; a failed call that was not awaited makes the handler or the
 *    step fail
 *
 * Gotchas
 * - A thrown value that is not one of the four failures (`Transient`, `RateLimited`, `Blocked`, `Permanent`) is a defect: a bug in the handler.
 * - The function of an Effect handler gets that object too, but only its `config` is of use there. A call would belong to no step, so it fails.
 * - A running promise cannot be stopped. After a timeout or a shutdown, `signal` is aborted and the capabilities do nothing more.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { AsyncLocalStorage } from "node:async_hooks"
import { type ReadName, readNames } from "../api/Reads.ts"
import { type WriteName, writeNames } from "../api/Writes.ts"
import type { BuiltInModel, ReadModel } from "../domain/BuiltInModels.ts"
import type { AnyList, AnyListTrigger } from "../domain/DefinedList.ts"
import {
  Api,
  type Capabilities,
  Events,
  type HandlerEffect,
  Journal,
  Records,
  type StepOptions,
  type UnifiedApi
} from "./Capabilities.ts"
import type { OneOf, RecordIn, RecordOf, Trigger } from "./Event.ts"
import { isHandlerError, Uncaught } from "./Failure.ts"
import { executeFetch } from "./Fetch.ts"
import { lazily } from "./Lazy.ts"
import { PendingCalls } from "./PendingCalls.ts"

type Promised<F> = F extends (...args: infer Args) => Effect.Effect<infer A, unknown, unknown>
  ? (...args: Args) => Promise<A>
  : never

/** The twelve writes and the live reads, of one integration. */
export type AsyncApi =
  & { readonly [N in WriteName | ReadName]: Promised<UnifiedApi[N]> }
  & {
    readonly integration: string
    /** The record's current state, requested from the API; null if the API does not return it. */
    readonly live: <M extends ReadModel | AnyList>(model: M, id: string) => Promise<RecordIn<M> | null>
  }

type AsyncStep = <A>(step: string, run: () => Promise<A>, options?: StepOptions) => Promise<A>

/** Step results are stored as JSON and survive retries. An `undefined` result is read back as null. */
export interface AsyncJournal {
  /** Runs the step once for this event (or batch, or tick). */
  readonly once: AsyncStep
  /** Runs the step only once, ever, per handler, integration, model and record of the event. */
  readonly oncePerRecord: AsyncStep
}

export interface AsyncCapabilities {
  readonly api: AsyncApi & { readonly for: (integration: string) => AsyncApi }
  readonly records: {
    /** The record as last published; null if it is unknown or deleted. */
    readonly get: <M extends BuiltInModel | AnyList>(
      model: M,
      id: string,
      integration?: string
    ) => Promise<RecordIn<M> | null>
    /** The candidate's applications as last published, without deleted ones; at most 50. */
    readonly applicationsOf: (
      candidateId: string,
      integration?: string
    ) => Promise<ReadonlyArray<RecordOf<"ats.application">>>
  }
  readonly events: {
    /** The events after position `from`, up to and including position `to`, in order. */
    readonly between: <const T extends Trigger | AnyListTrigger>(
      trigger: T,
      from: string,
      to: string
    ) => Promise<ReadonlyArray<OneOf<T>>>
  }
  readonly journal: AsyncJournal
  /**
   * Like the global `fetch`, with two differences: it throws `Transient` when no response arrives, also because the request's `signal` was
   * aborted; and it returns the response of a redirect instead of following it.
   */
  readonly fetch: typeof globalThis.fetch
  /** Aborted when the attempt ends before the function does. */
  readonly signal: AbortSignal
}

/** The second argument of a handler: the plugin's configuration, and the capabilities of async functions. */
export interface Given<C> extends AsyncCapabilities {
  readonly config: C
}

/** The function of a handler: an async function, or a function that returns an Effect. */
export type HandlerFunction<E, C> = (event: E, given: Given<C>) => Promise<void> | HandlerEffect

type Services = Context.Context<Capabilities>

/** One run of a handler or of a step. */
interface Invocation {
  /** The services of the run. They include the current step, to which writes are attributed. */
  readonly services: Services
  readonly calls: PendingCalls
  /** Whether the function returned an Effect. */
  returnedEffect: boolean
}

/** The invocation that is currently running. */
const currentInvocation = new AsyncLocalStorage<Invocation>()

/** `around`: for a step, the calls of the run that contains it. */
const invocation = (services: Services, around: PendingCalls | null = null): Invocation => ({
  services,
  calls: new PendingCalls(around),
  returnedEffect: false
})

/** Awaits an async function and its calls, as an effect with typed failures. */
const awaitAsync = <A>({ calls }: Invocation, run: () => Promise<A>) =>
  Effect.tryPromise({ try: () => calls.runAndAwaitCalls(run), catch: (thrown) => thrown }).pipe(
    Effect.catch((thrown) => isHandlerError(thrown) ? Effect.fail(thrown) : Effect.die(thrown))
  )

/** Runs a step. The first run returns the value in its JSON form, exactly as later runs read it from the journal. */
const runStep = <A>(run: () => Promise<A>, around: PendingCalls) =>
  Effect.context<Capabilities>().pipe(
    Effect.flatMap((services) => {
      const own = invocation(services, around)
      return awaitAsync(own, () => currentInvocation.run(own, async () => run()))
    }),
    Effect.map((value): Schema.Json => value === undefined ? null : JSON.parse(JSON.stringify(value)))
  )

const callInEffectMessage =
  "a handler that returns an Effect cannot call the capabilities of async functions: use the services, such as Plugin.Api"
const promisedEffectMessage =
  "the async handler returned an Effect, which does not run: return it from a function that is not async, or use only promises"
const wrongReturnMessage =
  "the handler returned neither an Effect nor a promise: return an Effect, or write an async function"

const calls = [...writeNames, ...readNames, "live" as const]

const capabilitiesOf = (handler: Invocation, { signal }: AbortController): AsyncCapabilities => {
  const service = <I extends Capabilities, S>(tag: Context.Key<I, S>): S => Context.get(handler.services, tag)

  const runPromise = async <A>(effect: Effect.Effect<A, unknown, Capabilities>, services: Services): Promise<A> => {
    const exit = await Effect.runPromiseExitWith(services)(effect, { signal })
    if (Exit.isSuccess(exit)) return exit.value
    throw Cause.squash(exit.cause)
  }
  const trackedCall = <A>(name: string, effect: Effect.Effect<A, unknown, Capabilities>): Promise<A> => {
    if (handler.returnedEffect) return Promise.reject(new Uncaught(callInEffectMessage))
    const { calls, services } = currentInvocation.getStore() ?? handler
    return calls.add(name, runPromise(effect, services))
  }
  const asyncApi = (api: UnifiedApi): AsyncApi => {
    const promises: Record<string, unknown> = { integration: api.integration }
    for (const call of calls) {
      const method: (...args: ReadonlyArray<never>) => Effect.Effect<unknown, unknown> = api[call]
      promises[call] = (...args: ReadonlyArray<never>) => trackedCall(`api.${call}`, method(...args))
    }
    return promises as AsyncApi
  }
  const step =
    (kind: "once" | "oncePerRecord"): AsyncStep => <A>(name: string, run: () => Promise<A>, options?: StepOptions) => {
      const { calls } = currentInvocation.getStore() ?? handler
      if (typeof run !== "function") {
        return Promise.reject(new Uncaught(`journal.${kind} needs a function: write async () => { … }`))
      }
      return trackedCall(
        `journal.${kind}`,
        service(Journal)[kind](name, Schema.Json, runStep(run, calls), options)
      ) as Promise<
        A
      >
    }

  const api = service(Api)
  return {
    api: Object.assign(asyncApi(api), { for: (integration: string) => asyncApi(api.for(integration)) }),
    records: {
      get: (...args) => trackedCall("records.get", service(Records).get(...args)),
      applicationsOf: (...args) => trackedCall("records.applicationsOf", service(Records).applicationsOf(...args))
    },
    events: { between: (...args) => trackedCall("events.between", service(Events).between(...args)) },
    journal: { once: step("once"), oncePerRecord: step("oncePerRecord") },
    fetch: (...request) => trackedCall("fetch", executeFetch(...request)),
    signal
  }
}

/** The function of an Effect handler uses none of them. */
const lazyCapabilities = lazily<AsyncCapabilities>(["api", "records", "events", "journal", "fetch", "signal"], {
  own: true
})

/**
 * Calls the function of a handler, and runs the promise or the Effect that it returns. The function fails by throwing one of the four failures, or with an Effect that
 * fails. Capabilities throw the same four failures.
 */
export const callHandler = <E, C>(handle: HandlerFunction<E, C>, event: E, config: C): HandlerEffect =>
  Effect.flatMap(Effect.context<Capabilities>(), (services) => {
    const own = invocation(services)
    let controller: AbortController | undefined
    const stop = () => controller ??= new AbortController()
    const given: Given<C> = Object.assign(lazyCapabilities(() => capabilitiesOf(own, stop())), { config })
    const called = Result.try({
      try: (): unknown => currentInvocation.run(own, () => handle(event, given)),
      catch: (thrown) => thrown
    })
    if (Result.isSuccess(called) && Effect.isEffect(called.success) && !own.calls.isRunning) {
      own.returnedEffect = true
      return called.success as HandlerEffect
    }
    // the fiber may pause before it awaits the promise, which must not count as a promise that nothing awaits
    if (Result.isSuccess(called) && called.success instanceof Promise) called.success.catch(() => undefined)
    const finished = async () => {
      const returned = Result.getOrThrow(called)
      if (Effect.isEffect(returned)) throw new Uncaught(callInEffectMessage)
      if (!Predicate.isPromiseLike(returned)) throw new Uncaught(wrongReturnMessage)
      if (Effect.isEffect(await returned)) throw new Uncaught(promisedEffectMessage)
    }
    return Effect.onInterrupt(awaitAsync(own, finished), () => Effect.sync(() => stop().abort()))
  })
