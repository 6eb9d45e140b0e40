/**
 * An HTTP server of the unified API over a simulated world, in real time. This is the package's `rollcall/sandbox`:
 * `startSandbox` for promises, `Sandbox.layer` for Effect.
 *
 * Gotchas
 * - `speed` multiplies how many changes happen; timestamps and the `Date` header stay real.
 * - The open port keeps the process alive: stop the sandbox, or close its scope.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpRouter from "effect/http/HttpRouter"
import type { ServeError } from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { createServer } from "node:http"
import { cursorParameter as defaultCursorParameter } from "../api/Lists.ts"
import { Account, type AccountSettings } from "./server/Account.ts"
import { FaultInjector, type FaultProfile, type FaultSettings } from "./server/FaultInjection.ts"
import * as Middleware from "./server/Middleware.ts"
import * as ControlRoutes from "./server/routes/ControlRoutes.ts"
import * as EndpointRoutes from "./server/routes/EndpointRoutes.ts"
import { type RequestEntry, SandboxState } from "./server/SandboxState.ts"
import type { ApiError } from "./world/ApiError.ts"
import { type ExampleIds, exampleIdsOf } from "./world/ExampleIds.ts"
import type { MutationRequest } from "./world/Mutations.ts"
import type { Json, WorldModel } from "./world/Records.ts"
import { World, type WorldOptions } from "./world/World.ts"

export type { AccountSettings } from "./server/Account.ts"
export type { FaultProfile, FaultSettings } from "./server/FaultInjection.ts"
export type { RequestEntry } from "./server/SandboxState.ts"
export type { ApiError } from "./world/ApiError.ts"
export type { MutationRequest } from "./world/Mutations.ts"
export type { Json, WorldModel } from "./world/Records.ts"

export interface SandboxOptions extends Pick<WorldOptions, "integrations" | "records" | "speed" | "order"> {
  /** 0 (the default) for any free port. */
  readonly port?: number
  /** 127.0.0.1 by default. */
  readonly host?: string
  /** 1 by default. */
  readonly seed?: number
  /** No faults by default. */
  readonly faults?: FaultProfile
  /** `sandbox` by default. */
  readonly key?: string
  /** Query name of the cursor, which the specification does not show; default `cursor`. */
  readonly cursorParameter?: string
}

/** The address of a sandbox, and the ids needed for first requests. */
export interface SandboxInfo {
  /** Base address, ends in `/v1`. */
  readonly url: string
  readonly key: string
  readonly integrations: ReadonlyArray<string>
  /** One existing id of each kind that requests need; empty if no integration has a record of that kind. */
  readonly ids: ExampleIds
}

export interface SandboxHandle extends SandboxInfo {
  readonly world: World
  /** Advances the world to now and stops its activity; reads, writes and `mutate` still work. */
  readonly freeze: Effect.Effect<void>
  readonly unfreeze: Effect.Effect<void>
  /** Applies one mutation to the world, as `POST /_sandbox/mutations` does; returns the id of the changed record. */
  readonly mutate: (mutation: MutationRequest) => Effect.Effect<{ readonly id: string }, ApiError>
  /** Live records of a model; without `integration`, of the first integration that has the model. */
  readonly truth: (model: WorldModel, integration?: string) => Effect.Effect<ReadonlyArray<Json>, ApiError>
  /** Replaces all fault settings; `{}` removes all faults. */
  readonly setFaults: (settings: FaultSettings) => Effect.Effect<void>
  /** Replaces all account settings; `{}` restores the defaults. */
  readonly setAccount: (settings: AccountSettings) => Effect.Effect<void>
  /** The most recent requests, oldest first, without keys and bodies. */
  readonly requests: Effect.Effect<ReadonlyArray<RequestEntry>>
}

/** An effect as a function that returns a promise; the promise rejects with the effect's error. */
type Promised<A> = A extends Effect.Effect<infer B, unknown> ? () => Promise<B>
  : A extends (...args: infer Args) => Effect.Effect<infer B, unknown> ? (...args: Args) => Promise<B>
  : never
type Actions = Omit<SandboxHandle, keyof SandboxInfo | "world">

/** The same handle with promises. `await using` stops the sandbox. */
export interface RunningSandbox
  extends SandboxInfo, AsyncDisposable, Readonly<{ [K in keyof Actions]: Promised<Actions[K]> }>
{
  /** Waits up to one second for requests in flight, then frees the port. */
  readonly stop: () => Promise<void>
}

/** The sandbox cannot listen on this address. */
export class AddressUnavailable extends Schema.TaggedError<AddressUnavailable>()("AddressUnavailable", {
  host: Schema.String,
  port: Schema.Number,
  code: Schema.NullOr(Schema.String)
}) {
  readonly hint = "choose another port with --port, or 0 for any free one."
  override get message(): string {
    const why = this.code === "EADDRINUSE"
      ? "is taken by another program"
      : this.code === "EACCES"
      ? "may not be used by this user"
      : `cannot be opened (${this.code ?? "unknown cause"})`
    return `the sandbox did not start: port ${this.port} on ${this.host} ${why}; ${this.hint}`
  }
}

/** Serves until the scope closes. */
export const serve = Effect.fn("Sandbox.serve")(
  function*(options: SandboxOptions = {}): Effect.fn.Return<SandboxHandle, AddressUnavailable, Scope.Scope> {
    const {
      cursorParameter = defaultCursorParameter,
      faults = "none",
      host = "127.0.0.1",
      key = "sandbox",
      port = 0,
      seed = 1,
      ...rest
    } = options
    const world = World.make({ ...rest, seed, start: yield* Clock.currentTimeMillis })
    const state = new SandboxState({
      world,
      faults: new FaultInjector(seed, faults),
      account: new Account(),
      key,
      cursorParameter
    })
    const app = yield* HttpRouter.toHttpEffect(
      Layer.mergeAll(
        EndpointRoutes.layer(state),
        ControlRoutes.layer(state),
        HttpRouter.addAll([Middleware.routeNotFound(state)])
      )
    )
    const server = yield* NodeHttpServer.make(createServer, { host, port, gracefulShutdownTimeout: "1 second" }).pipe(
      Effect.mapError((error) => new AddressUnavailable({ host, port, code: codeOf(error) }))
    )
    yield* server.serve(app)
    const listening = "port" in server.address ? server.address.port : port
    return {
      url: `http://${clientHost(host)}:${listening}/v1`,
      key,
      integrations: world.integrations.map(({ id }) => id),
      ids: exampleIdsOf(world),
      world,
      freeze: Effect.map(state.advanceToNow, () => world.freeze()),
      unfreeze: Effect.map(state.advanceToNow, () => world.unfreeze()),
      mutate: (mutation) => state.mutate(mutation),
      truth: (model, integration) => Effect.map(state.truth(model, integration), ({ records }) => records),
      setFaults: (settings) => Effect.sync(() => state.faults.set(settings)),
      setAccount: (settings) => Effect.sync(() => state.account.set(settings)),
      requests: Effect.sync(() => [...state.requests])
    }
  }
)

/** The handle of a sandbox that runs as long as the layer. */
export class Sandbox extends Context.Service<Sandbox, SandboxHandle>()("rollcall/sandbox/Sandbox") {
  static readonly layer = (options?: SandboxOptions): Layer.Layer<Sandbox, AddressUnavailable> =>
    Layer.effect(Sandbox, serve(options))
}

/** Serves until `stop` is called; rejects with `AddressUnavailable`. */
export const startSandbox = async (options: SandboxOptions = {}): Promise<RunningSandbox> => {
  const scope = Scope.makeUnsafe()
  const stop = () => Effect.runPromise(Scope.close(scope, Exit.void))
  const { world: _, ...handle } = await Effect.runPromise(Scope.provide(serve(options), scope))
  return {
    ...handle,
    freeze: () => Effect.runPromise(handle.freeze),
    unfreeze: () => Effect.runPromise(handle.unfreeze),
    mutate: (mutation) => Effect.runPromise(handle.mutate(mutation)),
    truth: (model, integration) => Effect.runPromise(handle.truth(model, integration)),
    setFaults: (settings) => Effect.runPromise(handle.setFaults(settings)),
    setAccount: (settings) => Effect.runPromise(handle.setAccount(settings)),
    requests: () => Effect.runPromise(handle.requests),
    stop,
    [Symbol.asyncDispose]: stop
  }
}

/** The host that clients on this machine use to reach a server that listens on `host`. */
const clientHost = (host: string): string => {
  if (host === "0.0.0.0") return "127.0.0.1"
  return host === "::" ? "[::1]" : host.includes(":") ? `[${host}]` : host
}

const codeOf = (error: ServeError): string | null => {
  const { cause } = error
  return cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : null
}
