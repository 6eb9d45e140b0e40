/**
 * Handlers as async functions, for those who do not write Effect: the capabilities become an object of promises.
 *
 * Invariants
 * 1. What is called while a step runs belongs to that step, as in a handler that is an Effect
 * 2. A handler, or a step, is not done before all that it called is; what it called and did not await fails it
 *
 * Gotchas
 * - What is thrown and none of the three failures is a defect: a mistake in the handler.
 * - Nothing can stop a promise. After a time-out or a shutdown `signal` is aborted and the capabilities do nothing more.
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
import { isHandlerError, Transient } from "./Failure.ts"
import { PendingCalls } from "./PendingCalls.ts"

type Promised<F> = F extends (...given: infer Given) => Effect.Effect<infer A, unknown, unknown>
  ? (...given: Given) => Promise<A>
  : never

/** The twelve writes and the live reads, of one integration. */
export type AsyncApi =
  & { readonly [N in WriteName | ReadName]: Promised<UnifiedApi[N]> }
  & {
    readonly integration: string
    /** One record as it is now; null if the API does not show it. */
    readonly live: <M extends StreamModel>(model: M, id: string) => Promise<RecordOf<M> | null>
  }

type AsyncStep = <A>(step: string, run: () => Promise<A>, options?: StepOptions) => Promise<A>

/** Results of steps are JSON, kept over retries; `undefined` comes back as null. */
export interface AsyncJournal {
  /** Once for this event (or batch, or tick). */
  readonly once: AsyncStep
  /** Once for ever per handler, integration, model and record of the event. */
  readonly oncePerRecord: AsyncStep
}

export interface AsyncCapabilities {
  readonly api: AsyncApi & { readonly for: (integration: string) => AsyncApi }
  readonly records: {
    /** As last published; null if it is not known, or deleted. */
    readonly get: <M extends Model>(model: M, id: string, integration?: string) => Promise<RecordOf<M> | null>
    /** The applications that show a candidate, as last published, deleted ones left out; at most fifty. */
    readonly applicationsOf: (
      candidateId: string,
      integration?: string
    ) => Promise<ReadonlyArray<RecordOf<"ats.application">>>
  }
  readonly events: {
    /** What happened behind one position up to another, in order. */
    readonly between: <T extends Trigger>(trigger: T, from: string, to: string) => Promise<ReadonlyArray<EventOf<T>>>
  }
  readonly journal: AsyncJournal
  /** As everywhere; where nobody answers, `Transient` is thrown. */
  readonly fetch: typeof globalThis.fetch
  /** Aborted when the attempt is over before the function is. */
  readonly signal: AbortSignal
}

/** A handler that is an async function. */
export type AsyncHandler<E, C> = (event: E, capabilities: AsyncCapabilities, config: C) => Promise<void>

type Services = Context.Context<Capabilities>

/** A run of a handler or of a step. */
interface Invocation {
  /** They say to what a write belongs. */
  readonly services: Services
  readonly calls: PendingCalls
}

/** The one that is under way. */
const currentInvocation = new AsyncLocalStorage<Invocation>()

/** What an async function did, as an effect that knows its failures. `around`: of a step. */
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

/** Of a step: the first run gives what later ones will find in the journal. */
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

const executeFetch = Effect.fnUntraced(function*(request: Request) {
  const response = yield* HttpClient.execute(yield* toClientRequest(request))
  const web = HttpClientResponse.toWeb(response)
  if (Option.isSome(web)) return web.value
  const hollow = response.status === 204 || response.status === 205 || response.status === 304
  return new Response(hollow ? null : yield* response.arrayBuffer, {
    status: response.status,
    headers: response.headers
  })
}, Effect.catchTag("HttpClientError", ({ reason }) => new Transient({ message: `no answer (${reason._tag})` })))

const calls = [...writeNames, ...readNames, "live" as const]

const capabilitiesOf = (handler: Invocation, signal: AbortSignal): AsyncCapabilities => {
  const { services } = handler
  const api = Context.get(services, Api)
  const records = Context.get(services, Records)
  const events = Context.get(services, Events)
  const journal = Context.get(services, Journal)

  const called = async <A>(effect: Effect.Effect<A, unknown, Capabilities>, services: Services): Promise<A> => {
    const exit = await Effect.runPromiseExitWith(services)(effect, { signal })
    if (Exit.isSuccess(exit)) return exit.value
    throw Cause.squash(exit.cause)
  }
  const promised = <A>(what: string, effect: Effect.Effect<A, unknown, Capabilities>): Promise<A> => {
    const { calls, services } = currentInvocation.getStore() ?? handler
    return calls.add(what, called(effect, services))
  }
  const asyncApi = (api: UnifiedApi): AsyncApi => {
    const promises: Record<string, unknown> = { integration: api.integration }
    for (const call of calls) {
      const method: (...given: ReadonlyArray<never>) => Effect.Effect<unknown, unknown> = api[call]
      promises[call] = (...given: ReadonlyArray<never>) => promised(`api.${call}`, method(...given))
    }
    return promises as AsyncApi
  }
  const step =
    (of: "once" | "oncePerRecord"): AsyncStep => <A>(name: string, run: () => Promise<A>, options?: StepOptions) => {
      const { calls } = currentInvocation.getStore() ?? handler
      return promised(`journal.${of}`, journal[of](name, Schema.Json, runStep(run, calls), options)) as Promise<A>
    }

  return {
    api: Object.assign(asyncApi(api), { for: (integration: string) => asyncApi(api.for(integration)) }),
    records: {
      get: (...given) => promised("records.get", records.get(...given)),
      applicationsOf: (...given) => promised("records.applicationsOf", records.applicationsOf(...given))
    },
    events: { between: (...given) => promised("events.between", events.between(...given)) },
    journal: { once: step("once"), oncePerRecord: step("oncePerRecord") },
    fetch: (input, init) => promised("fetch", executeFetch(new Request(input, init))),
    signal
  }
}

/**
 * A handler that is an async function: `.on("ats.tag.created", {}, Plugin.async(async (event, { api }) => …))`. It fails
 * by throwing `Plugin.Transient`, `Plugin.RateLimited` or `Plugin.Permanent`; what the capabilities fail with they throw.
 */
export const adaptAsync = <E, C>(handle: AsyncHandler<E, C>): (event: E, config: C) => HandlerEffect =>
  // what is no function stays as it is, for it to be found at start
  typeof handle !== "function" ? handle : (event, config) =>
    Effect.flatMap(
      Effect.context<Capabilities>(),
      (services) => runAsync(services, (signal, own) => handle(event, capabilitiesOf(own, signal), config))
    )
