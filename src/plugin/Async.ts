/**
 * Handlers as async functions, for plugins that do not use Effect. The capabilities become an object whose methods return promises.
 *
 * Invariants
 * 1. A capability that is called while a step runs belongs to that step, as in a handler that is an Effect
 * 2. A handler or a step is done only when all calls that it made are done; a failed call that was not awaited makes the handler or the
 *    step fail
 *
 * Gotchas
 * - A thrown value that is not one of the four failures (`Transient`, `RateLimited`, `Blocked`, `Permanent`) is a defect: a bug in the handler.
 * - A running promise cannot be stopped. After a timeout or a shutdown, `signal` is aborted and the capabilities do nothing more.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpClient from "effect/http/HttpClient"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { AsyncLocalStorage } from "node:async_hooks"
import { type ReadName, readNames } from "../api/Reads.ts"
import { type WriteName, writeNames } from "../api/Writes.ts"
import type { Model, StreamModel } from "../domain/Model.ts"
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
import type { EventOf, RecordOf, Trigger } from "./Event.ts"
import { isHandlerError, Transient, Uncaught } from "./Failure.ts"
import { PendingCalls } from "./PendingCalls.ts"
import { describeNoResponse } from "./Send.ts"

type Promised<F> = F extends (...args: infer Args) => Effect.Effect<infer A, unknown, unknown>
  ? (...args: Args) => Promise<A>
  : never

/** The twelve writes and the live reads, of one integration. */
export type AsyncApi =
  & { readonly [N in WriteName | ReadName]: Promised<UnifiedApi[N]> }
  & {
    readonly integration: string
    /** The record's current state, requested from the API; null if the API does not return it. */
    readonly live: <M extends StreamModel>(model: M, id: string) => Promise<RecordOf<M> | null>
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
    readonly get: <M extends Model>(model: M, id: string, integration?: string) => Promise<RecordOf<M> | null>
    /** The candidate's applications as last published, without deleted ones; at most 50. */
    readonly applicationsOf: (
      candidateId: string,
      integration?: string
    ) => Promise<ReadonlyArray<RecordOf<"ats.application">>>
  }
  readonly events: {
    /** The events after position `from`, up to and including position `to`, in order. */
    readonly between: <T extends Trigger>(trigger: T, from: string, to: string) => Promise<ReadonlyArray<EventOf<T>>>
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

/** A handler that is an async function. */
export type AsyncHandler<E, C> = (event: E, capabilities: AsyncCapabilities, config: C) => Promise<void>

type Services = Context.Context<Capabilities>

/** One run of a handler or of a step. */
interface Invocation {
  /** The services of the run. They include the current step, to which writes are attributed. */
  readonly services: Services
  readonly calls: PendingCalls
}

/** The invocation that is currently running. */
const currentInvocation = new AsyncLocalStorage<Invocation>()

/** Runs an async function as an effect with typed failures. `around`: for a step, the calls of the run that contains it. */
const runAsync = <A>(
  services: Services,
  run: (signal: AbortSignal, own: Invocation) => Promise<A>,
  around: PendingCalls | null = null
) =>
  Effect.tryPromise({
    try: (signal) => {
      const own = { services, calls: new PendingCalls(around) }
      return currentInvocation.run(own, () => own.calls.runAndAwaitCalls(async () => run(signal, own)))
    },
    catch: (thrown) => thrown
  }).pipe(
    Effect.catch((thrown) => isHandlerError(thrown) ? Effect.fail(thrown) : Effect.die(thrown))
  )

/** Runs a step. The first run returns the value in its JSON form, exactly as later runs read it from the journal. */
const runStep = <A>(run: () => Promise<A>, around: PendingCalls) =>
  Effect.context<Capabilities>().pipe(
    Effect.flatMap((services) => runAsync(services, run, around)),
    Effect.map((value): Schema.Json => value === undefined ? null : JSON.parse(JSON.stringify(value)))
  )

const toClientRequest = Effect.fnUntraced(function*(request: Request) {
  const bytes = new Uint8Array(yield* Effect.promise(() => request.arrayBuffer()))
  const bare = HttpClientRequest.make(request.method as "GET")(request.url, {
    headers: Object.fromEntries(request.headers)
  })
  return request.body === null
    ? bare
    : HttpClientRequest.bodyUint8Array(bare, bytes, request.headers.get("content-type") ?? "application/octet-stream")
})

/** Fails when the signal of the request is aborted. */
const aborted = ({ signal }: Request) =>
  Effect.callback<never, Transient>((resume) => {
    const fail = () =>
      resume(Effect.fail(new Transient({ message: "no response: the signal of the request was aborted" })))
    if (signal.aborted) return fail()
    signal.addEventListener("abort", fail, { once: true })
    return Effect.sync(() => signal.removeEventListener("abort", fail))
  })

const exchange = Effect.fnUntraced(
  function*(request: Request) {
    const response = yield* HttpClient.execute(yield* toClientRequest(request))
    const web = HttpClientResponse.toWeb(response)
    if (Option.isSome(web)) return web.value
    const hasNoBody = response.status === 204 || response.status === 205 || response.status === 304
    return new Response(hasNoBody ? null : yield* response.arrayBuffer, {
      status: response.status,
      headers: response.headers
    })
  },
  Effect.catchTag(
    "HttpClientError",
    ({ reason }) => new Transient({ message: `no response: ${describeNoResponse(reason)}` })
  )
)

const executeFetch = Effect.fnUntraced(
  function*(...[input, init]: Parameters<typeof globalThis.fetch>) {
    const request = new Request(input, init)
    return yield* Effect.raceFirst(aborted(request), exchange(request))
  }
)

const calls = [...writeNames, ...readNames, "live" as const]

const capabilitiesOf = (handler: Invocation, signal: AbortSignal): AsyncCapabilities => {
  const { services } = handler
  const api = Context.get(services, Api)
  const records = Context.get(services, Records)
  const events = Context.get(services, Events)
  const journal = Context.get(services, Journal)

  const runPromise = async <A>(effect: Effect.Effect<A, unknown, Capabilities>, services: Services): Promise<A> => {
    const exit = await Effect.runPromiseExitWith(services)(effect, { signal })
    if (Exit.isSuccess(exit)) return exit.value
    throw Cause.squash(exit.cause)
  }
  const trackedCall = <A>(name: string, effect: Effect.Effect<A, unknown, Capabilities>): Promise<A> => {
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
      return trackedCall(`journal.${kind}`, journal[kind](name, Schema.Json, runStep(run, calls), options)) as Promise<
        A
      >
    }

  return {
    api: Object.assign(asyncApi(api), { for: (integration: string) => asyncApi(api.for(integration)) }),
    records: {
      get: (...args) => trackedCall("records.get", records.get(...args)),
      applicationsOf: (...args) => trackedCall("records.applicationsOf", records.applicationsOf(...args))
    },
    events: { between: (...args) => trackedCall("events.between", events.between(...args)) },
    journal: { once: step("once"), oncePerRecord: step("oncePerRecord") },
    fetch: (...request) => trackedCall("fetch", executeFetch(...request)),
    signal
  }
}

const returnedEffectMessage =
  "the async handler returned an Effect, which does not run: return it from a function that is not async, or use only promises"

/**
 * Makes an async function a handler: `.on("ats.tag.created", {}, Plugin.async(async (event, { api }) => …))`. The function
 * fails by throwing `Plugin.Transient`, `Plugin.RateLimited`, `Plugin.Blocked` or `Plugin.Permanent`. Capabilities throw the same four failures.
 */
export const adaptAsync = <E, C>(handle: AsyncHandler<E, C>): (event: E, config: C) => HandlerEffect =>
  // a value that is not a function is returned unchanged, so that validation reports it at start
  typeof handle !== "function" ? handle : (event, config) =>
    Effect.flatMap(
      Effect.context<Capabilities>(),
      (services) =>
        runAsync(services, async (signal, own) => {
          const returned: unknown = await handle(event, capabilitiesOf(own, signal), config)
          if (Effect.isEffect(returned)) throw new Uncaught(returnedEffectMessage)
        })
    )
