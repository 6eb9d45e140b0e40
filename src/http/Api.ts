/**
 * The operating API as a contract: paths, queries, answers and problems, from which server and OpenAPI document are made.
 *
 * Gotchas
 * - The answers' schemas document; events and records are served as spliced text and never pass through them.
 */
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { deadLetters } from "./deadletters/DeadLetterApi.ts"
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
import { commandEndpoints, streams } from "./streams/StreamApi.ts"

// ---- shapes -------------------------------------------------------------------------------------------------------

/** A CloudEvent 1.0 in JSON format, as `GET /v1/events` lists it. */
const Event = Schema.StructWithRest(
  Schema.Struct({
    specversion: Schema.String,
    id: Schema.String,
    source: Schema.String,
    type: Schema.String,
    subject: Schema.String,
    time: Schema.String,
    position: Schema.String,
    data: Schema.Unknown
  }),
  [Schema.Record(Schema.String, Schema.Unknown)]
)

/** The current published state of one record. `after` is its content, as on the event that made it. */
const CurrentRecord = Schema.Struct({
  integration: Schema.String,
  model: Model,
  id: Schema.String,
  generation: Schema.Number,
  version: Schema.Number,
  after: Schema.Unknown
})

/** `auto`: all that the integration's tool is not known to lack. */
const Models = Schema.Union([Schema.Literal("auto"), Schema.Array(Model)])
const Backfill = Schema.Literals(["publish", "fill"])

export const IntegrationView = Schema.Struct({
  id: Schema.String,
  account: Schema.String,
  /** `removed`: not read, all is kept. `erasing`: goes once what the log has of it is published. */
  state: Schema.Literals(["active", "removed", "erasing"]),
  /** By configuration, which alone can take it out again. */
  declared: Schema.Boolean,
  models: Models,
  backfill: Backfill,
  interval_seconds: Schema.Number,
  sweep_interval_seconds: Schema.Number,
  /** 1, and one more for each time that its records were erased. */
  generation: Schema.Number,
  streams: Schema.Number,
  live: Schema.Number,
  blocked: Schema.Number,
  records_live: Schema.Number
})
export type IntegrationView = typeof IntegrationView.Type

/** What is not said is as configured for all. */
const IntegrationRequest = Schema.Struct({
  id: Schema.String.annotate({ description: "`<tool>:<identifier>`" }),
  account: Schema.optionalKey(
    Schema.String.annotate({ description: "Name of an account; the only one, or `default`, without it" })
  ),
  models: Schema.optionalKey(Models),
  interval: Schema.optionalKey(DurationText),
  sweepInterval: Schema.optionalKey(DurationText),
  backfill: Schema.optionalKey(Backfill)
})

const RemovalRequest = Schema.Struct({
  data: Schema.Literals(["keep", "erase"]).annotate({
    description: "`keep`: added again, it goes on where it stood. `erase`: nothing is left of its records"
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
          Schema.String.annotate({ description: "For people: why nothing may ever come through this filter" })
        )
      }),
      Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/event-stream" }))
    ],
    error: positionErrors
  }).annotate(
    OpenApi.Description,
    "Events in the order of the log. `after` is a position, or `latest`; without it the oldest kept event comes first. " +
      "`next` is always given and is the next call's `after`. A page ends before `limit` where it would hold more than 8 MiB. " +
      "With `Accept: text/event-stream` the same events are " +
      "streamed: `id` is the position, `Last-Event-ID` continues, comments keep the connection alive."
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
    "The current published state of a stream, the way in for a new consumer: read all pages (`next` is the next call's " +
      "`after`, null on the last), then follow `GET /v1/events?after=<position>`. `position` is the same on every page, " +
      "which ends before `limit` where it would hold more than 8 MiB."
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
    "Adds an integration while Rollcall runs; it stays over restarts. One that was removed and kept goes on where it stood."
  ),
  HttpApiEndpoint.post("remove", "/v1/integrations/:id/remove", {
    params: { id: Schema.String },
    payload: RemovalRequest,
    success: IntegrationView,
    error: [NotFound, Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Nothing more is read of the integration once this is answered. Erasing goes on after that: its events go when they " +
      "are where they are published to."
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
  .add(streams)
  .add(integrations)
  .add(commandEndpoints)
  .add(holds)
  .add(plugins)
  .add(deadLetters)
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
