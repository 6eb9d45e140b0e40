/**
 * The HTTP server of the operating API. It checks the token on every route, turns every failure into a problem response
 * and listens on one address.
 *
 * Invariants
 * 1. If a token is configured, a request without the token gets an answer only from `/health/*`   (I11)
 * 2. If no token is configured, only this machine is served, and only under its loopback names. A web page that makes a
 *    local browser send a request gets no data (DNS rebinding) and cannot run a command (forged POST)
 *
 * Gotchas
 * - The documentation page has 3 MB, so it is loaded on the first request for it.
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
  /** 0 = any free port. */
  readonly port: number
  readonly token: Redacted.Redacted | null
  /** Further dependencies of readiness, in addition to the store and the streams. */
  readonly dependencies: ReadonlyArray<Dependency>
  /** Checks the body of a request to add an integration. */
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

// ---- access -------------------------------------------------------------------------------------------------------

const digest = (text: string) => createHash("sha256").update(text).digest()

/** Compares in constant time, so that the duration reveals nothing about the token. */
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
          new HostNotAllowed({ detail: "use 127.0.0.1 or localhost as the host name, or set ROLLCALL_HTTP_TOKEN" })
        )
      }
      const { origin } = request.headers
      if (token === null && request.method === "POST" && origin !== undefined && !isLoopbackOrigin(origin)) {
        return yield* HttpServerRespondable.toResponse(
          new OriginNotAllowed({ detail: "send the request from outside a browser, or set ROLLCALL_HTTP_TOKEN" })
        )
      }
      if (token !== null && !isToken(token, request.headers["authorization"])) {
        const problem = new TokenRequired({
          detail:
            "send `Authorization: Bearer <ROLLCALL_HTTP_TOKEN>`; the rollcall command does this if that variable is set"
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
        hint: "send JSON with `Content-Type: application/json`"
      })
    )
    : Effect.succeed(response)

/** Turns refusals of the router into problem responses. A defect is logged, and its response reveals nothing about it. */
const errorsAsProblems = HttpRouter.middleware(
  (handler) =>
    Effect.catchCause(Effect.flatMap(handler, withUnsupportedMediaType), (cause) => {
      if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
      if (RouteNotFound.isRouteNotFound(cause)) return RouteNotFound.respond
      return Effect.logError("request failed", cause).pipe(
        Effect.andThen(
          HttpServerRespondable.toResponse(new InternalError({ detail: "see the log of this process for details" }))
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
            const failed = checks.filter((check) => !check.ok)
            return failed.length === 0
              ? Effect.succeed({ status: "ready" as const, checks })
              : Effect.fail(new NotReady({ detail: failed.map((check) => check.reason).join("; "), checks }))
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

/** Builds the page on the first request. Its temporary router is discarded; the page is cached. */
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
    "is in use",
    "another Rollcall process may be running (`rollcall status` shows it); stop it or set ROLLCALL_HTTP_PORT"
  ],
  EADDRNOTAVAIL: [
    "is not an address of this machine",
    "set ROLLCALL_HTTP_HOST to one of its addresses, such as 127.0.0.1"
  ],
  EACCES: ["must not be used by this user", "set ROLLCALL_HTTP_PORT to a port above 1023"]
}

const explain = (host: string, port: number, cause: unknown): ServerError => {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause)
  const [message, hint] = reasons[code] ??
    [`cannot be listened on (${code})`, "check ROLLCALL_HTTP_HOST and ROLLCALL_HTTP_PORT"]
  return new ServerError({ message: `${host} port ${port} ${message}`, hint })
}

/**
 * Fails like the server would if the address cannot be listened on. Call it before the process takes ownership of the
 * store: otherwise a process that is started twice by mistake would fence the running one and then exit because of the port.
 */
export const checkAddress = ({ host, port }: Pick<ServerOptions, "host" | "port">): Effect.Effect<void, ServerError> =>
  Effect.callback<void, ServerError>((resume) => {
    const server = createServer()
    server.once("error", (error) => resume(Effect.fail(explain(host, port, error))))
    server.listen({ host, port }, () => server.close(() => resume(Effect.void)))
  })

type Requirements = Store | Deliveries | Capture | Control | PluginControl

/** Paths contain percent-encoded integration ids. With the router's default limit of 100, long ids could not be removed. */
const maxParameterLength = 3 * 255

/** Serves until its scope closes. Running requests then have one second to finish; open event streams are cut. */
export const layer = (options: ServerOptions): Layer.Layer<Server, ServerError, Requirements> => {
  const { host, port } = options
  // listen only after the first read: a request that arrives before the handlers are installed is never answered
  const http = Layer.unwrap(Effect.map(OverviewCache, () => {
    const server = createServer()
    const listening = NodeHttpServer.layer(() => server, { host, port, gracefulShutdownTimeout: "1 second" }).pipe(
      Layer.catch((error) => Layer.effectContext(Effect.fail(explain(host, port, error.cause))))
    )
    // A request that arrives after the handlers are removed is never answered; without this, closing would wait for it.
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
