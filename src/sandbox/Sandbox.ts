/**
 * A server of the unified API over a simulated world, in real time: hides how the world is kept in step with the
 * clock and put behind HTTP.
 *
 * Gotchas
 * - `speed` multiplies how much happens; timestamps and the `Date` header stay real.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import type { ServeError } from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { createServer } from "node:http"
import { Account } from "./Account.ts"
import * as Control from "./Control.ts"
import { type Examples, examplesOf } from "./Examples.ts"
import { Faults, type Weather } from "./Faults.ts"
import * as Gate from "./Gate.ts"
import * as ListRoutes from "./ListRoutes.ts"
import * as ReadRoutes from "./ReadRoutes.ts"
import type { Order } from "./Records.ts"
import { Stage } from "./Stage.ts"
import { World } from "./World.ts"
import * as WriteRoutes from "./WriteRoutes.ts"

export interface Options {
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
  /** Default calm. */
  readonly faults?: Weather
  /** Default `sandbox`. */
  readonly key?: string
  /** Default drifting. */
  readonly order?: Order
}

export interface SandboxHandle {
  /** Base address, ends in `/v1`. */
  readonly url: string
  readonly key: string
  readonly integrations: ReadonlyArray<string>
  /** One existing id of each kind that requests need; empty where no integration has the kind. */
  readonly ids: Examples
  readonly world: World
  /** Lets the world live up to now and stops it there; reads and `POST mutations` go on. */
  readonly freeze: Effect.Effect<void>
  readonly unfreeze: Effect.Effect<void>
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
  function*(options: Options = {}): Effect.fn.Return<SandboxHandle, AddressUnavailable, Scope.Scope> {
    const { faults = "calm", host = "127.0.0.1", key = "sandbox", port = 0, seed = 1, ...rest } = options
    const world = World.make({ ...rest, seed, start: yield* Clock.currentTimeMillis })
    const stage = new Stage(world, new Faults(seed, faults), new Account(), key)
    const app = yield* HttpRouter.toHttpEffect(
      Layer.mergeAll(
        ListRoutes.layer(stage),
        ReadRoutes.layer(stage),
        WriteRoutes.layer(stage),
        Control.layer(stage),
        HttpRouter.addAll([Gate.unknown(stage)])
      )
    )
    const server = yield* NodeHttpServer.make(createServer, { host, port, gracefulShutdownTimeout: "1 second" }).pipe(
      Effect.mapError((error) => new AddressUnavailable({ host, port, code: codeOf(error) }))
    )
    yield* server.serve(app)
    const listening = "port" in server.address ? server.address.port : port
    return {
      url: `http://${host.includes(":") ? `[${host}]` : host}:${listening}/v1`,
      key,
      integrations: world.integrations.map(({ id }) => id),
      ids: examplesOf(world),
      world,
      freeze: Effect.map(stage.catchUp, () => world.freeze()),
      unfreeze: Effect.map(stage.catchUp, () => world.unfreeze())
    }
  }
)

/** The handle of a sandbox that runs as long as the layer. */
export class Sandbox extends Context.Service<Sandbox, SandboxHandle>()("rollcall/sandbox/Sandbox") {
  static readonly layer = (options?: Options): Layer.Layer<Sandbox, AddressUnavailable> =>
    Layer.effect(Sandbox, serve(options))
}

const codeOf = (error: ServeError): string | null => {
  const { cause } = error
  return cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : null
}
