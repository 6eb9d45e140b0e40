/**
 * The HTTP server of the operating API: joins its routes, turns every failure into a problem response and listens on one
 * address.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServer from "effect/http/HttpServer"
import * as HttpServerRespondable from "effect/http/HttpServerRespondable"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { createServer } from "node:http"
import type { Commands } from "../capture/command/Commands.ts"
import type { PluginAdmin as PluginControl } from "../delivery/admin/PluginAdmin.ts"
import { CurrentModels } from "../domain/BuiltInModels.ts"
import { display } from "../domain/Quote.ts"
import type { BudgetUsage } from "../source/RequestBudget.ts"
import type { Deliveries } from "../store/Deliveries.ts"
import type { Processes } from "../store/Processes.ts"
import type { Store, StoreError } from "../store/Store.ts"
import type { StoredSessions } from "../store/StoredSessions.ts"
import * as AccessControl from "./access/AccessControl.ts"
import { Sessions } from "./access/Sessions.ts"
import { Tokens, type TokenSources } from "./access/Tokens.ts"
import { WrongTokens } from "./access/WrongTokens.ts"
import * as ReadAudit from "./audit/ReadAudit.ts"
import { ReadLog } from "./audit/ReadLog.ts"
import * as ConsolePage from "./console/ConsolePage.ts"
import { documentedApi } from "./contract/Api.ts"
import { InternalError, UnsupportedMediaType } from "./contract/Problem.ts"
import * as RequestValidation from "./contract/RequestValidation.ts"
import * as UnknownParameters from "./contract/UnknownParameters.ts"
import * as FeedHandlers from "./feed/FeedHandlers.ts"
import * as TlsFiles from "./files/TlsFiles.ts"
import * as AuditHandlers from "./handlers/AuditHandlers.ts"
import * as ChangeHandlers from "./handlers/ChangeHandlers.ts"
import * as DeadLetterHandlers from "./handlers/DeadLetterHandlers.ts"
import * as FleetHandlers from "./handlers/FleetHandlers.ts"
import * as ForgetHandlers from "./handlers/ForgetHandlers.ts"
import * as HoldHandlers from "./handlers/HoldHandlers.ts"
import * as IntegrationHandlers from "./handlers/IntegrationHandlers.ts"
import * as PluginHandlers from "./handlers/PluginHandlers.ts"
import * as SchemaHandlers from "./handlers/SchemaHandlers.ts"
import * as SessionHandlers from "./handlers/SessionHandlers.ts"
import * as StreamHandlers from "./handlers/StreamHandlers.ts"
import * as HealthHandlers from "./health/HealthHandlers.ts"
import { makeServer } from "./limits/Connections.ts"
import { defaults, type Limits } from "./limits/Limits.ts"
import * as PageBudget from "./limits/PageBudget.ts"
import * as RequestCounts from "./limits/RequestCounts.ts"
import * as RequestLimits from "./limits/RequestLimits.ts"
import * as MetricsEndpoint from "./metrics/MetricsEndpoint.ts"
import * as HistorySampler from "./overview/HistorySampler.ts"
import * as OverviewHandlers from "./overview/OverviewHandlers.ts"
import { SharedOverview } from "./overview/SharedOverview.ts"
import * as Documentation from "./pages/Documentation.ts"
import * as LoginPage from "./pages/LoginPage.ts"
import * as FailureResponses from "./request/FailureResponses.ts"
import type { AllowedHost, Reachability } from "./request/RequestOrigin.ts"
import * as RouteNotFound from "./request/RouteNotFound.ts"
import * as SecurityHeaders from "./request/SecurityHeaders.ts"
import { OverviewCache } from "./status/OverviewCache.ts"

export interface ServerOptions extends TokenSources {
  readonly host: string
  /** 0 for any free port. */
  readonly port: number
  /** Names under which clients reach the API, in addition to the names of this machine. */
  readonly hosts: ReadonlyArray<AllowedHost>
  /** Null if the server does not use TLS. */
  readonly tls: TlsFiles.TlsFiles | null
  /** Whether the event log is published to a sink. */
  readonly publishes: boolean
  /** The folder of the store, whose free space is watched; null if it is not on this machine. */
  readonly storeFolder: string | null
  /** Whether this process adds samples to the history. */
  readonly samples: boolean
  /** The requests of all processes to an account; null if this process does not know the account. */
  readonly usageOf: (account: string) => Effect.Effect<BudgetUsage | null, StoreError>
  /** Further dependencies of readiness, in addition to the store and the streams. */
  readonly dependencies: ReadonlyArray<HealthHandlers.Dependency>
  /** Override `Limits.defaults`. */
  readonly limits?: Partial<Limits>
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

// ---- problems ------------------------------------------------------------------------------------------------------

const withUnsupportedMediaType = (response: HttpServerResponse.HttpServerResponse) =>
  response.status === 415 && response.headers["content-type"]?.startsWith("application/problem+json") !== true
    ? HttpServerRespondable.toResponse(
      new UnsupportedMediaType({
        detail: "the body is not JSON",
        hint: "send JSON with `Content-Type: application/json`"
      })
    )
    : Effect.succeed(response)

/** Turns the router's errors into problem responses. A defect is logged; its response reveals no details. */
const errorsAsProblems =
  (limits: Limits) => <E, R>(handler: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
    Effect.catchCause(Effect.flatMap(handler, withUnsupportedMediaType), (cause) => {
      if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
      if (RouteNotFound.isRouteNotFound(cause)) return RouteNotFound.respond
      if (RequestLimits.isTooLarge(cause)) return RequestLimits.respondTooLarge(limits.bodyBytes)
      return Effect.logError("request failed", cause).pipe(
        Effect.andThen(
          HttpServerRespondable.toResponse(new InternalError({ detail: "see the log of this process for details" }))
        )
      )
    })

/** The middleware of every request, the outermost first. */
const middleware = (access: Reachability, limits: Limits) => {
  const limited = RequestLimits.make(limits)
  const withProblems = errorsAsProblems(limits)
  return HttpRouter.middleware(
    Effect.gen(function*() {
      const counted = yield* RequestCounts.make
      const checked = yield* AccessControl.make(access)
      return <E, R>(handler: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) =>
        counted(SecurityHeaders.add(access)(withProblems(checked(RequestCounts.noteRight(limited(handler))))))
    }),
    { global: true }
  )
}

const accessOf = ({ hosts, tls, token }: ServerOptions): Reachability => ({
  hosts,
  guarded: token !== null,
  encrypted: tls !== null
})

// ---- routes -------------------------------------------------------------------------------------------------------

const routes = (options: ServerOptions) =>
  Layer.mergeAll(
    Layer.unwrap(
      Effect.map(
        CurrentModels,
        (models) => HttpApiBuilder.layer(documentedApi(models), { openapiPath: "/openapi.json" })
      )
    ).pipe(
      Layer.provide([
        FeedHandlers.layer,
        ChangeHandlers.layer(options.publishes),
        SchemaHandlers.layer,
        IntegrationHandlers.layer(options.checkIntegration),
        StreamHandlers.layer(options.usageOf),
        HoldHandlers.layer,
        PluginHandlers.layer,
        DeadLetterHandlers.layer,
        ForgetHandlers.layer,
        AuditHandlers.layer,
        SessionHandlers.layer,
        FleetHandlers.layer,
        OverviewHandlers.layer,
        HealthHandlers.layer(options.dependencies)
      ]),
      Layer.provide([RequestValidation.layer, UnknownParameters.layer, ReadAudit.layer, FailureResponses.layer])
    ),
    MetricsEndpoint.layer(options),
    Documentation.layer,
    ConsolePage.layer,
    options.samples ? HistorySampler.layer : Layer.empty,
    LoginPage.layer(accessOf(options))
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
  EACCES: ["may not be used by this user", "set ROLLCALL_HTTP_PORT to a port above 1023"]
}

const explain = (host: string, port: number, cause: unknown): ServerError => {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : String(cause)
  const [message, hint] = reasons[code] ??
    [`cannot be opened (${code})`, "check ROLLCALL_HTTP_HOST and ROLLCALL_HTTP_PORT"]
  return new ServerError({ message: `${display(host)} port ${port} ${message}`, hint })
}

/**
 * Fails as the server would if it cannot listen on the address. Call it before the process takes ownership of the store: otherwise a
 * process that is started twice by mistake would fence the running one and then exit because of the port.
 */
export const checkAddress = (
  { host, port, tls }: Pick<ServerOptions, "host" | "port" | "tls">
): Effect.Effect<void, ServerError | TlsFiles.TlsError> =>
  Effect.callback<void, ServerError>((resume) => {
    const server = createServer()
    server.once("error", (error) => resume(Effect.fail(explain(host, port, error))))
    server.listen({ host, port }, () => server.close(() => resume(Effect.void)))
  }).pipe(Effect.andThen(tls === null ? Effect.void : TlsFiles.load(tls)))

type Requirements = Store | Deliveries | Processes | StoredSessions | Commands | PluginControl

/** Serves until its scope closes. Running requests then have one second to finish; open event streams are closed. */
export const layer = (
  options: ServerOptions
): Layer.Layer<Server, ServerError | TlsFiles.TlsError, Requirements> => {
  const { host, port } = options
  const limits = { ...defaults, ...options.limits }
  // listen only after the first read: a request that arrives before the handlers are installed is never answered
  const http = Layer.unwrap(Effect.gen(function*() {
    yield* OverviewCache
    const server = yield* makeServer(limits, options.tls)
    const listening = NodeHttpServer.layer(() => server, { host, port, gracefulShutdownTimeout: "1 second" }).pipe(
      Layer.catch((error) => Layer.effectContext(Effect.fail(explain(host, port, error.cause))))
    )
    // A request that arrives after the handlers are removed is never answered; without this, closing would wait for it.
    const cut = Layer.effectDiscard(Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections())))
    return Layer.provideMerge(cut, listening)
  }))
  const address = Layer.effect(
    Server,
    Effect.map(
      HttpServer.HttpServer,
      ({ address }) =>
        Server.of({
          url: HttpServer.formatAddress(address).replace(/^http:/, options.tls === null ? "http:" : "https:")
        })
    )
  )
  return HttpRouter.serve(Layer.merge(routes(options), middleware(accessOf(options), limits)), {
    disableLogger: true,
    disableListenLog: true,
    routerConfig: { maxParamLength: RouteNotFound.maxParameterLength }
  }).pipe(
    Layer.merge(address),
    Layer.provide(http),
    Layer.provide(SharedOverview.layer({ publishes: options.publishes, folder: options.storeFolder })),
    Layer.provide([
      OverviewCache.layer,
      PageBudget.layer(limits),
      ReadLog.layer,
      Layer.provideMerge(Sessions.layer, Tokens.layer(options)),
      WrongTokens.layer
    ])
  )
}
