/**
 * A server of the unified API over a simulated world, in real time: hides how the world is kept in step with the
 * clock and put behind HTTP. This is the package's `rollcall/sandbox`: `startSandbox` for promises, `Sandbox.layer` for Effect.
 *
 * Gotchas
 * - `speed` multiplies how much happens; timestamps and the `Date` header stay real.
 * - Nothing of it keeps a process alive but the open port: stop it, or let its scope close.
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
import type { ApiError } from "./ApiError.ts"
import { Account, type AccountSettings } from "./server/Account.ts"
import { type ExampleIds, exampleIdsOf } from "./server/ExampleIds.ts"
import { FaultInjector, type FaultProfile, type FaultSettings } from "./server/FaultInjection.ts"
import * as Middleware from "./server/Middleware.ts"
import * as ControlRoutes from "./server/routes/ControlRoutes.ts"
import * as ListRoutes from "./server/routes/ListRoutes.ts"
import * as ReadRoutes from "./server/routes/ReadRoutes.ts"
import * as WriteRoutes from "./server/routes/WriteRoutes.ts"
import { type RequestEntry, SandboxState } from "./server/SandboxState.ts"
import type { MutationRequest } from "./world/Mutations.ts"
import type { Json, ListOrder, WorldModel } from "./world/Records.ts"
import { World } from "./world/World.ts"

export type { ApiError } from "./ApiError.ts"
export type { AccountSettings } from "./server/Account.ts"
export type { FaultProfile, FaultSettings } from "./server/FaultInjection.ts"
export type { RequestEntry } from "./server/SandboxState.ts"
export type { MutationRequest } from "./world/Mutations.ts"
export type { Json, WorldModel } from "./world/Records.ts"

export interface SandboxOptions {
  /** 0 (default) = any free one. */
  readonly port?: number
  /** Default 127.0.0.1. */
  readonly host?: string
  /** Default 1. */
  readonly seed?: number
  /** Default 1; 0 = nothing happens by itself. */
  readonly speed?: number
  /** Default 1: one that has everything. */
  readonly integrations?: number
  /** Applications, and payslips, per integration; default 500. */
  readonly records?: number
  /** Default none. */
  readonly faults?: FaultProfile
  /** Default `sandbox`. */
  readonly key?: string
  /** Query name of the cursor, which the specification does not show; default `cursor`. */
  readonly cursorParameter?: string
  /** Default drifting. */
  readonly order?: ListOrder
}

/** Where a sandbox is, and what to begin with. */
export interface SandboxInfo {
  /** Base address, ends in `/v1`. */
  readonly url: string
  readonly key: string
  readonly integrations: ReadonlyArray<string>
  /** One existing id of each kind that requests need; empty where no integration has the kind. */
  readonly ids: ExampleIds
}

export interface SandboxHandle extends SandboxInfo {
  readonly world: World
  /** Lets the world live up to now and stops it there; reads, writes and `mutate` go on. */
  readonly freeze: Effect.Effect<void>
  readonly unfreeze: Effect.Effect<void>
  /** Carries out one act upon the world, as `POST /_sandbox/mutations` does; the record it was done to. */
  readonly mutate: (act: MutationRequest) => Effect.Effect<{ readonly id: string }, ApiError>
  /** Live records of a model, of the first integration that has it unless one is named. */
  readonly truth: (model: WorldModel, integration?: string) => Effect.Effect<ReadonlyArray<Json>, ApiError>
  /** Replaces all that was set; `{}` ends it. */
  readonly setFaults: (settings: FaultSettings) => Effect.Effect<void>
  /** Replaces all that was set; `{}` is the account of the beginning. */
  readonly setAccount: (settings: AccountSettings) => Effect.Effect<void>
  /** The last ones, oldest first, without keys and bodies. */
  readonly requests: Effect.Effect<ReadonlyArray<RequestEntry>>
}

/** The same for those who do not use Effect. `await using` stops it. */
export interface RunningSandbox extends SandboxInfo, AsyncDisposable {
  readonly freeze: () => Promise<void>
  readonly unfreeze: () => Promise<void>
  /** Rejects with an `ApiError` that says why it cannot be done. */
  readonly mutate: (act: MutationRequest) => Promise<{ readonly id: string }>
  readonly truth: (model: WorldModel, integration?: string) => Promise<ReadonlyArray<Json>>
  readonly setFaults: (settings: FaultSettings) => Promise<void>
  readonly setAccount: (settings: AccountSettings) => Promise<void>
  readonly requests: () => Promise<ReadonlyArray<RequestEntry>>
  /** Requests in flight have a second; then the port is free. */
  readonly stop: () => Promise<void>
}

/** The address cannot be listened on. */
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
      : `cannot be listened on (${this.code ?? "unknown cause"})`
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
    const state = new SandboxState(world, new FaultInjector(seed, faults), new Account(), key, cursorParameter)
    const app = yield* HttpRouter.toHttpEffect(
      Layer.mergeAll(
        ListRoutes.layer(state),
        ReadRoutes.layer(state),
        WriteRoutes.layer(state),
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
      mutate: (act) => state.mutate(act),
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

/** Serves until it is stopped; rejects with `AddressUnavailable`. */
export const startSandbox = async (options: SandboxOptions = {}): Promise<RunningSandbox> => {
  const scope = Scope.makeUnsafe()
  const stop = () => Effect.runPromise(Scope.close(scope, Exit.void))
  const { ids, integrations, key, url, ...handle } = await Effect.runPromise(Scope.provide(serve(options), scope))
  return {
    url,
    key,
    integrations,
    ids,
    freeze: () => Effect.runPromise(handle.freeze),
    unfreeze: () => Effect.runPromise(handle.unfreeze),
    mutate: (act) => Effect.runPromise(handle.mutate(act)),
    truth: (model, integration) => Effect.runPromise(handle.truth(model, integration)),
    setFaults: (settings) => Effect.runPromise(handle.setFaults(settings)),
    setAccount: (settings) => Effect.runPromise(handle.setAccount(settings)),
    requests: () => Effect.runPromise(handle.requests),
    stop,
    [Symbol.asyncDispose]: stop
  }
}

/** How this machine reaches what listens there. */
const clientHost = (host: string): string => {
  if (host === "0.0.0.0") return "127.0.0.1"
  return host === "::" ? "[::1]" : host.includes(":") ? `[${host}]` : host
}

const codeOf = (error: ServeError): string | null => {
  const { cause } = error
  return cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : null
}
