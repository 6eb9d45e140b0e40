/**
 * The contract of the operating API: paths, queries, responses and problems. The server and the OpenAPI document are built
 * from it.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { builtInModels } from "../../domain/BuiltInModels.ts"
import type { Models } from "../../domain/Model.ts"
import { audit } from "./AuditApi.ts"
import { changes } from "./ChangeApi.ts"
import { deadLetters } from "./DeadLetterApi.ts"
import { feed } from "./FeedApi.ts"
import { fleet } from "./FleetApi.ts"
import { forget } from "./ForgetApi.ts"
import { holds } from "./HoldApi.ts"
import { completeDocument } from "./OpenApiDocument.ts"
import { overviewEndpoints } from "./OverviewApi.ts"
import { plugins } from "./PluginApi.ts"
import { callProblems, Conflict, IntegrationInvalid, NotFound, NotReady, ReadinessCheck } from "./Problem.ts"
import { ReadAudit } from "./ReadAudit.ts"
import { RequestValidation } from "./RequestValidation.ts"
import { schemas } from "./SchemaApi.ts"
import { DurationText, Model, page, words } from "./Schemas.ts"
import { sessions } from "./SessionApi.ts"
import { StoreFailures } from "./StoreFailures.ts"
import { commandEndpoints, streams } from "./StreamApi.ts"
import { streamDetail } from "./StreamDetailApi.ts"
import { UnknownParameters } from "./UnknownParameters.ts"

// ---- schemas ------------------------------------------------------------------------------------------------------

/** `auto`: every model that the integration's tool may support. */
const Models = Schema.Union([Schema.Literal("auto"), Schema.Array(Model)])
const Backfill = Schema.Literals(["publish", "fill"])

export const IntegrationView = Schema.Struct({
  id: Schema.String,
  account: Schema.String,
  /** `removed`: not read, but its data is kept. `erasing`: its data is deleted once its events in the log are published. */
  state: Schema.Literals(["active", "removed", "erasing"]),
  /** Whether the configuration declares it. If so, only a change of the configuration removes it. */
  declared: Schema.Boolean,
  models: Models,
  backfill: Backfill,
  interval_seconds: Schema.Finite,
  sweep_interval_seconds: Schema.Finite,
  /** Starts at 1 and grows by one each time the records of the integration are erased. */
  generation: Schema.Int,
  streams: Schema.Int,
  live: Schema.Int,
  blocked: Schema.Int,
  /** Streams whose last run failed and that are not blocked. */
  failing: Schema.Int,
  records_live: Schema.Int
}).annotate({ identifier: "Integration" })
export type IntegrationView = typeof IntegrationView.Type

/** A setting that is left out has the configured default. */
const IntegrationRequest = Schema.Struct({
  id: Schema.String.annotate({ description: "`<tool>:<identifier>`" }),
  account: Schema.optionalKey(
    Schema.String.annotate({
      description: "Name of an account (default: the only one, or `default` if there are several)"
    })
  ),
  models: Schema.optionalKey(Models),
  interval: Schema.optionalKey(DurationText),
  sweepInterval: Schema.optionalKey(DurationText),
  backfill: Schema.optionalKey(Backfill)
})

const RemovalRequest = Schema.Struct({
  data: Schema.Literals(["keep", "erase"]).annotate({
    description:
      "`keep`: if the integration is added again, it continues where it stopped. `erase`: its records are deleted"
  })
})

// ---- endpoints ----------------------------------------------------------------------------------------------------

const integrations = HttpApiGroup.make("integrations").add(
  HttpApiEndpoint.get("list", "/v1/integrations", { success: page(IntegrationView) })
    .annotateMerge(words(
      "listIntegrations",
      "List the integrations",
      "Lists the integrations that are declared or were added, including removed ones whose data is kept."
    )),
  HttpApiEndpoint.post("add", "/v1/integrations", {
    payload: IntegrationRequest,
    success: IntegrationView,
    error: [IntegrationInvalid, Conflict, ...callProblems]
  }).annotateMerge(words(
    "addIntegration",
    "Add an integration",
    "Adds an integration at run time; it stays across restarts. An integration that was removed with its data kept " +
      "continues where it stopped."
  )),
  HttpApiEndpoint.post("remove", "/v1/integrations/:id/remove", {
    params: { id: Schema.String },
    payload: RemovalRequest,
    success: IntegrationView,
    error: [NotFound, Conflict, ...callProblems]
  }).annotateMerge(words(
    "removeIntegration",
    "Remove an integration",
    "Removes an integration that was added at run time. After the response Rollcall no longer reads it. Erasing " +
      "continues in the background: its events are deleted from the log once they are published to every sink."
  ))
)

const health = HttpApiGroup.make("health").add(
  HttpApiEndpoint.get("live", "/health/live", { success: Schema.Struct({ status: Schema.Literal("live") }) })
    .annotateMerge(words(
      "getLiveness",
      "Liveness",
      "Responds as long as the process can respond."
    )),
  HttpApiEndpoint.get("ready", "/health/ready", {
    success: Schema.Struct({
      status: Schema.Literals(["ready", "degraded"]),
      cause: Schema.NullOr(Schema.String).annotate({
        description: "`degraded`: why most streams are not read; null for a caller without a token"
      }),
      checks: Schema.Array(ReadinessCheck)
    }),
    error: NotReady
  }).annotateMerge(words(
    "getReadiness",
    "Readiness",
    "200 if the store, the streams and the sinks work, otherwise 503; `checks` shows which of them failed. A process that works is " +
      "`degraded` while more than half of the streams of the installation are not read, for example because the API does not answer."
  ))
)

export const Api = HttpApi.make("rollcall")
  .add(feed)
  .add(changes)
  .add(schemas)
  .add(streams)
  .add(streamDetail)
  .add(integrations)
  .add(commandEndpoints)
  .add(holds)
  .add(plugins)
  .add(deadLetters)
  .add(forget)
  .add(audit)
  .add(sessions)
  .add(fleet)
  .add(overviewEndpoints)
  .middleware(StoreFailures)
  .add(health)
  // a misspelled filter would otherwise select everything, and a misspelled `dryRun` would write
  .annotate(HttpApi.PayloadParseOptions, { onExcessProperty: "error" })
  .middleware(RequestValidation)
  .middleware(UnknownParameters)
  .middleware(ReadAudit)
  .annotateMerge(OpenApi.annotations({ transform: completeDocument(builtInModels) }))

/** The contract, whose document describes these models. */
export const documentedApi = (models: Models) =>
  Api.annotateMerge(OpenApi.annotations({ transform: completeDocument(models) }))
