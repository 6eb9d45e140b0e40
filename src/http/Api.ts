/**
 * The contract of the operating API: paths, queries, responses and problems. The server and the OpenAPI document are built
 * from it.
 *
 * Gotchas
 * - The schemas of events and records are only documentation: the server concatenates stored JSON text and does not encode
 *   it with them.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { audit } from "./audit/AuditApi.ts"
import { deadLetters } from "./deadletters/DeadLetterApi.ts"
import { forget } from "./forget/ForgetApi.ts"
import { holds } from "./holds/HoldApi.ts"
import { plugins } from "./plugins/PluginApi.ts"
import {
  Conflict,
  IntegrationInvalid,
  NotFound,
  NotReady,
  PositionGone,
  PositionMalformed,
  ReadinessCheck,
  StoreUnavailable
} from "./Problem.ts"
import { RequestValidation } from "./RequestValidation.ts"
import { DurationText, Limit, Model, page } from "./Schemas.ts"
import { schemas } from "./schemas/SchemaApi.ts"
import { commandEndpoints, streams } from "./streams/StreamApi.ts"

// ---- schemas ------------------------------------------------------------------------------------------------------

/** A CloudEvent 1.0 in JSON format, as `GET /v1/events` lists it. */
const Event = Schema.StructWithRest(
  Schema.Struct({
    specversion: Schema.String,
    id: Schema.String,
    source: Schema.String,
    type: Schema.String,
    subject: Schema.String,
    time: Schema.String,
    position: Schema.String.annotate({ description: "Pass it as `after` to resume after this event; opaque" }),
    sequence: Schema.String.annotate({ description: "Sorts as text in the order of the log; its width is fixed" }),
    data: Schema.Unknown
  }),
  [Schema.Record(Schema.String, Schema.Unknown)]
)

/** The current published state of one record. `after` is its content, as in its latest event. */
const CurrentRecord = Schema.Struct({
  integration: Schema.String,
  model: Model,
  id: Schema.String,
  generation: Schema.Number,
  version: Schema.Number,
  after: Schema.Unknown
})

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
  interval_seconds: Schema.Number,
  sweep_interval_seconds: Schema.Number,
  /** Starts at 1 and grows by one each time the records of the integration are erased. */
  generation: Schema.Number,
  streams: Schema.Number,
  live: Schema.Number,
  blocked: Schema.Number,
  records_live: Schema.Number
})
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

const positionErrors = [PositionMalformed, PositionGone, StoreUnavailable] as const

const feed = HttpApiGroup.make("feed").add(
  HttpApiEndpoint.get("events", "/v1/events", {
    query: {
      after: Schema.optionalKey(Schema.String),
      limit: Schema.optionalKey(Limit),
      integration: Schema.optionalKey(Schema.String),
      model: Schema.optionalKey(Model)
    },
    headers: { accept: Schema.optionalKey(Schema.String), "last-event-id": Schema.optionalKey(Schema.String) },
    success: [
      Schema.Struct({
        events: Schema.Array(Event),
        next: Schema.String,
        hint: Schema.optionalKey(
          Schema.String.annotate({ description: "For people: why no event may ever match this filter" })
        )
      }),
      Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/event-stream" }))
    ],
    error: positionErrors
  }).annotate(
    OpenApi.Description,
    "Lists events in the order of the log. `after` is a position or `latest`; without it the list starts with the " +
      "oldest retained event. `next` is always present: pass it as `after` of the next request. A page has fewer " +
      "than `limit` events if it would otherwise exceed 8 MiB. With `Accept: text/event-stream` the same events are " +
      "streamed: `id` is the position, `Last-Event-ID` resumes after it, and comments keep the connection alive."
  ),
  HttpApiEndpoint.get("records", "/v1/records", {
    query: {
      integration: Schema.String,
      model: Model,
      after: Schema.optionalKey(Schema.String),
      limit: Schema.optionalKey(Limit)
    },
    success: Schema.Struct({
      records: Schema.Array(CurrentRecord),
      position: Schema.String,
      next: Schema.NullOr(Schema.String)
    }),
    error: [...positionErrors, NotFound]
  }).annotate(
    OpenApi.Description,
    "Lists the current published state of a stream. A new consumer reads all pages (pass `next` as `after` of the " +
      "next request; it is null on the last page) and then follows `GET /v1/events?after=<position>`. `position` is " +
      "the same on every page. A page has fewer than `limit` records if it would otherwise exceed 8 MiB."
  )
)

const integrations = HttpApiGroup.make("integrations").add(
  HttpApiEndpoint.get("list", "/v1/integrations", { success: page(IntegrationView), error: StoreUnavailable }),
  HttpApiEndpoint.post("add", "/v1/integrations", {
    payload: IntegrationRequest,
    success: IntegrationView,
    error: [IntegrationInvalid, Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Adds an integration at run time; it stays across restarts. An integration that was removed with its data kept " +
      "continues where it stopped."
  ),
  HttpApiEndpoint.post("remove", "/v1/integrations/:id/remove", {
    params: { id: Schema.String },
    payload: RemovalRequest,
    success: IntegrationView,
    error: [NotFound, Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Removes an integration that was added at run time. After the response Rollcall no longer reads it. Erasing " +
      "continues in the background: its events are deleted from the log once they are published to every sink."
  )
)

const health = HttpApiGroup.make("health").add(
  HttpApiEndpoint.get("live", "/health/live", { success: Schema.Struct({ status: Schema.Literal("live") }) }),
  HttpApiEndpoint.get("ready", "/health/ready", {
    success: Schema.Struct({ status: Schema.Literal("ready"), checks: Schema.Array(ReadinessCheck) }),
    error: NotReady
  })
)

export const Api = HttpApi.make("rollcall")
  .add(feed)
  .add(schemas)
  .add(streams)
  .add(integrations)
  .add(commandEndpoints)
  .add(holds)
  .add(plugins)
  .add(deadLetters)
  .add(forget)
  .add(audit)
  .add(health)
  .middleware(RequestValidation)
  .annotateMerge(OpenApi.annotations({
    title: "Rollcall",
    description:
      "Change events of a polled HR, recruiting, assessment and learning API, and the state of their capture.",
    transform: (document) => ({
      ...document,
      components: {
        ...document["components"],
        securitySchemes: { token: { type: "http", scheme: "bearer", description: "ROLLCALL_HTTP_TOKEN, if it is set" } }
      },
      security: [{ token: [] }, {}]
    })
  }))
