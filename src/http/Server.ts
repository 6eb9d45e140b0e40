/**
 * The operating API as it is served: every route behind the token, every failure a problem, on one address.
 *
 * Invariants
 * 1. Without the token nothing but `/health/*` answers, when there is a token   (I11)
 * 2. Without a token only this machine is served, and only under its own names: a web page that makes a browser here
 *    ask for it (DNS rebinding) gets nothing, and one that makes it act (a forged POST) does nothing
 *
 * Gotchas
 * - The documentation page weighs 3 MB: it is loaded when first asked for.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiScalar from "effect/http-api/HttpApiScalar"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import { HttpServerRequest } from "effect/http/HttpServerRequest"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createHash, timingSafeEqual } from "node:crypto"
import { createServer } from "node:http"
import type { Capture } from "../capture/schedule/Capture.ts"
import type { Integrations as Control } from "../capture/schedule/Integrations.ts"
import type { PluginAdmin as PluginControl } from "../delivery/admin/PluginAdmin.ts"
import type { Deliveries } from "../store/Deliveries.ts"
import { Store } from "../store/Store.ts"
import { Api } from "./Api.ts"
import * as DeadLetterHandlers from "./deadletters/DeadLetterHandlers.ts"
import * as FeedHandlers from "./feed/FeedHandlers.ts"
import * as HoldHandlers from "./holds/HoldHandlers.ts"
import * as IntegrationHandlers from "./integrations/IntegrationHandlers.ts"
import { renderMetrics } from "./metrics/MetricsEndpoint.ts"
import * as PluginHandlers from "./plugins/PluginHandlers.ts"
import {
  HostNotAllowed,
  InternalError,
  NotReady,
  OriginNotAllowed,
  TokenRequired,
  UnsupportedMediaType
} from "./Problem.ts"
import * as RequestValidation from "./RequestValidation.ts"
import * as RouteNotFound from "./RouteNotFound.ts"
import { checkReadiness, type Dependency, outageText } from "./status/Overview.ts"
import { OverviewCache } from "./status/OverviewCache.ts"
import { statusPage } from "./status/StatusPage.ts"
import * as StreamHandlers from "./streams/StreamHandlers.ts"

export interface ServerOptions {
  readonly host: string
  /** 0 = any free one. */
  readonly port: number
  readonly token: Redacted.Redacted | null
  /** What readiness depends on beside the store and the streams. */
  readonly dependencies: ReadonlyArray<Dependency>
  /** What is asked to be added, or all that is wrong with it. */
  readonly checkIntegration: IntegrationHandlers.IntegrationValidator
}

/** The address could not be bound. */
export class ServerError extends Schema.TaggedError<ServerError>()("ServerError", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** The running server. */
export class Server extends Context.Service<Server, {
  /** `http://127.0.0.1:8477`, without a slash at the end. */
  readonly url: string
}>()("rollcall/http/Server") {}

// ---- who may ask --------------------------------------------------------------------------------------------------

const digest = (text: string) => createHash("sha256").update(text).digest()

/** Takes the same time however much of the token is right. */
const isToken = (token: Redacted.Redacted, authorization: string | undefined): boolean =>
  timingSafeEqual(
    digest(`Bearer ${Redacted.value(token)}`),
    digest((authorization ?? "").replace(/^bearer +/i, "Bearer "))
  )

const loopbackHost = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/i

const isLoopbackOrigin = (origin: string): boolean => loopbackHost.test(origin.replace(/^https?:\/\//, ""))

const requireAccess = (token: Redacted.Redacted | null) =>
  HttpRouter.middleware((handler) =>
    Effect.gen(function*() {
      const request = yield* HttpServerRequest
      if (request.url.startsWith("/health/")) return yield* handler
      if (token === null && !loopbackHost.test(request.headers["host"] ?? "localhost")) {
        return yield* HttpServerRespondable.toResponse(
          new HostNotAllowed({ detail: "ask for 127.0.0.1 or localhost, or set ROLLCALL_HTTP_TOKEN" })
        )
      }
      const { origin } = request.headers
      if (token === null && request.method === "POST" && origin !== undefined && !isLoopbackOrigin(origin)) {
        return yield* HttpServerRespondable.toResponse(
          new OriginNotAllowed({ detail: "ask without a browser, or set ROLLCALL_HTTP_TOKEN" })
        )
      }
      if (token !== null && !isToken(token, request.headers["authorization"])) {
        const problem = new TokenRequired({
          detail:
            "send `Authorization: Bearer <ROLLCALL_HTTP_TOKEN>`; the rollcall command does with that variable set as here"
        })
        const response = yield* HttpServerRespondable.toResponse(problem)
        return HttpServerResponse.setHeader(response, "www-authenticate", "Bearer")
      }
      return yield* handler
    }), { global: true })

const withUnsupportedMediaType = (response: HttpServerResponse.HttpServerResponse) =>
  response.status === 415
    ? HttpServerRespondable.toResponse(
      new UnsupportedMediaType({
        detail: "the body is not JSON",
        hint: "send JSON, and `Content-Type: application/json`"
      })
    )
    : Effect.succeed(response)

/** The router's own refusals become problems; a defect is logged and answered with one that tells nothing of it. */
const errorsAsProblems = HttpRouter.middleware(
  (handler) =>
    Effect.catchCause(Effect.flatMap(handler, withUnsupportedMediaType), (cause) => {
      if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
      if (RouteNotFound.isRouteNotFound(cause)) return RouteNotFound.respond
      return Effect.logError("request failed", cause).pipe(
        Effect.andThen(
          HttpServerRespondable.toResponse(new InternalError({ detail: "the log of this process says more" }))
        )
      )
    }),
  { global: true }
)

// ---- routes -------------------------------------------------------------------------------------------------------

const streamHandlers = HttpApiBuilder.group(Api, "streams", (handlers) =>
  handlers
    .handle("streams", () =>
      Effect.flatMap(OverviewCache, ({ overview }) => overview).pipe(
        Effect.map(({ at, value: { streams } }) => ({ items: streams, next: null, as_of: new Date(at).toISOString() })),
        Effect.catchTag("StoreError", FeedHandlers.toStoreUnavailable)
      ))
    .handle("stream", ({ params }) => StreamHandlers.viewOf(params)))

const health = (dependencies: ReadonlyArray<Dependency>) =>
  HttpApiBuilder.group(Api, "health", (handlers) =>
    handlers
      .handle("live", () => Effect.succeed({ status: "live" as const }))
      .handle("ready", () =>
        Effect.flatMap(
          Effect.flatMap(OverviewCache, ({ overview }) => checkReadiness(overview, dependencies)),
          (checks) => {
            const missing = checks.filter((check) => !check.ok)
            return missing.length === 0
              ? Effect.succeed({ status: "ready" as const, checks })
              : Effect.fail(new NotReady({ detail: missing.map((check) => check.reason).join("; "), checks }))
          }
        )))

const metrics = HttpRouter.add(
  "GET",
  "/metrics",
  Effect.map(
    renderMetrics,
    (text) => HttpServerResponse.text(text, { contentType: "text/plain; version=0.0.4; charset=utf-8" })
  )
)

/** Mounted by a request to it; the router it is mounted on is thrown away, the page is kept. */
const documentation = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const page = yield* Effect.cached(HttpRouter.toHttpEffect(HttpApiScalar.layer(Api, { path: "/docs" })))
  yield* router.add("GET", "/docs", Effect.flatten(page))
}))

const statusPageRoute = HttpRouter.add(
  "GET",
  "/",
  Effect.gen(function*() {
    const { overview, plugins } = yield* OverviewCache
    const [streams, delivering] = yield* Effect.all([overview, plugins], { concurrency: "unbounded" })
    return statusPage(streams.value, delivering.value, outageText(yield* (yield* Store).outage))
  }).pipe(
    Effect.catchTag(
      "StoreError",
      (error) => Effect.flatMap(Effect.flip(FeedHandlers.toStoreUnavailable(error)), HttpServerRespondable.toResponse)
    )
  )
)

const routes = ({ checkIntegration, dependencies, token }: ServerOptions) =>
  Layer.mergeAll(
    HttpApiBuilder.layer(Api, { openapiPath: "/openapi.json" }).pipe(
      Layer.provide([
        FeedHandlers.layer,
        streamHandlers,
        IntegrationHandlers.layer(checkIntegration),
        StreamHandlers.layer,
        HoldHandlers.layer,
        PluginHandlers.layer,
        DeadLetterHandlers.layer,
        health(dependencies)
      ]),
      Layer.provide(RequestValidation.layer)
    ),
    metrics,
    documentation,
    statusPageRoute,
    requireAccess(token),
    errorsAsProblems
  )

// ---- the server ---------------------------------------------------------------------------------------------------

const reasons: Readonly<Record<string, readonly [message: string, hint: string]>> = {
  EADDRINUSE: [
    "is taken",
    "another Rollcall may be running (`rollcall status` shows it); stop it or set ROLLCALL_HTTP_PORT"
  ],
  EADDRNOTAVAIL: ["is no address of this machine", "set ROLLCALL_HTTP_HOST to one that is, such as 127.0.0.1"],
  EACCES: ["may not be used by this user", "set ROLLCALL_HTTP_PORT to a port above 1023"]
}

const explain = (host: string, port: number, cause: unknown): ServerError => {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause)
  const [message, hint] = reasons[code] ??
    [`could not be bound (${code})`, "check ROLLCALL_HTTP_HOST and ROLLCALL_HTTP_PORT"]
  return new ServerError({ message: `${host} port ${port} ${message}`, hint })
}

/**
 * Fails as the server would if the address cannot be listened on. To be asked before the store is taken over: whoever
 * starts a second time by mistake must not fence the one that runs, only to end for its port.
 */
export const checkAddress = ({ host, port }: Pick<ServerOptions, "host" | "port">): Effect.Effect<void, ServerError> =>
  Effect.callback<void, ServerError>((resume) => {
    const server = createServer()
    server.once("error", (error) => resume(Effect.fail(explain(host, port, error))))
    server.listen({ host, port }, () => server.close(() => resume(Effect.void)))
  })

type Requirements = Store | Deliveries | Capture | Control | PluginControl

/** Ids of integrations stand in paths, percent-encoded; the router's own limit of 100 leaves some that nobody can remove. */
const maxParameterLength = 3 * 255

/** Serves until its scope closes; requests under way have a second to end, open streams of events are cut then. */
export const layer = (options: ServerOptions): Layer.Layer<Server, ServerError, Requirements> => {
  const { host, port } = options
  // not before there is something to answer: a request that comes before the handlers are there is never answered
  const http = Layer.unwrap(Effect.map(OverviewCache, () => {
    const server = createServer()
    const listening = NodeHttpServer.layer(() => server, { host, port, gracefulShutdownTimeout: "1 second" }).pipe(
      Layer.catch((error) => Layer.effectContext(Effect.fail(explain(host, port, error.cause))))
    )
    // A connection whose request comes after the handlers are gone is never answered: without this, closing waits for it.
    const cut = Layer.effectDiscard(Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections())))
    return Layer.provideMerge(cut, listening)
  }))
  const address = Layer.effect(
    Server,
    Effect.map(HttpServer.HttpServer, ({ address }) => Server.of({ url: HttpServer.formatAddress(address) }))
  )
  return HttpRouter.serve(routes(options), {
    disableLogger: true,
    disableListenLog: true,
    routerConfig: { maxParamLength: maxParameterLength }
  }).pipe(
    Layer.merge(address),
    Layer.provide(http),
    Layer.provide(OverviewCache.layer)
  )
}
