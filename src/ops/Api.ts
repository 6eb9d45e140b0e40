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
import { acts } from "../capture/Operation.ts"
import { Malformed } from "./Malformed.ts"
import { deadLetters, plugins } from "./PluginApi.ts"
import {
  Check,
  IntegrationInvalid,
  NotFound,
  NotNow,
  NotReady,
  PositionGone,
  PositionMalformed,
  SourceAway,
  StoreAway
} from "./Problem.ts"
import { Instant, Length, Limit, Model, page, PositiveInt } from "./Shape.ts"

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
  lineage: Schema.Number,
  version: Schema.Number,
  after: Schema.Unknown
})

const Progress = Schema.Struct({
  kind: Schema.Literals(["backfill", "sweep"]),
  records: Schema.Number,
  pages: Schema.Number,
  started_at: Schema.String,
  records_per_second: Schema.Number,
  /** null during a backfill: the API does not say how much there is. */
  seconds_left: Schema.NullOr(Schema.Number)
})

export const StreamView = Schema.Struct({
  stream: Schema.String,
  integration: Schema.String,
  model: Model,
  phase: Schema.Literals(["starting", "backfilling", "live"]),
  paused: Schema.Boolean,
  blocked: Schema.NullOr(Schema.Struct({ reason: Schema.String, message: Schema.String, since: Schema.String })),
  failing: Schema.NullOr(Schema.Struct({ count: Schema.Number, message: Schema.String, since: Schema.String })),
  watermark: Instant,
  lineage: Schema.Number,
  /** Every change up to then is in the log or pending; null before the backfill is complete. */
  complete_to: Instant,
  /** Of the log: what made that so lies at or before it. */
  position: Schema.String,
  /** Now − watermark, seconds; null until the first answer. */
  freshness_seconds: Schema.NullOr(Schema.Number),
  records_live: Schema.Number,
  pending: Schema.Record(Schema.String, Schema.Number),
  quarantined: Schema.Number,
  /** Records to be re-read because content they repeat was seen changed elsewhere. */
  owed: Schema.Number,
  /** What polls are answered: the changes, everything (`updated_after` is ignored) or nothing (it finds nothing). */
  polls: Schema.Literals(["changes", "everything", "nothing"]),
  progress: Schema.NullOr(Progress),
  last_poll_at: Instant,
  last_sweep_at: Instant
})
export type StreamView = typeof StreamView.Type

const HoldState = Schema.Literals(["open", "rejected", "approving", "approved", "cancelled"])

export const HoldView = Schema.Struct({
  id: Schema.Number,
  stream: Schema.String,
  integration: Schema.String,
  model: Model,
  kind: Schema.Literals(["deletes", "restores", "scope"]),
  state: HoldState,
  /** In words. */
  reason: Schema.String,
  /** Of a scope hold: JSON Pointers that keep their published values; `*` is any member of an array. */
  paths: Schema.Array(Schema.String),
  opened_at: Schema.String,
  decided_at: Instant,
  /** Held now. */
  records: Schema.Number,
  /** Released since it was approved. */
  released: Schema.Number,
  /** Why an approval is not carried out yet, and when it will be, in words; null where nothing is in its way. */
  waits_for: Schema.NullOr(Schema.String)
})
export type HoldView = typeof HoldView.Type

/** One held record, without content. */
const HeldRecord = Schema.Struct({
  id: Schema.String,
  status: Schema.Literals(["held", "disputed"]),
  /** Why it counts as deleted, if it does. */
  reason: Schema.NullOr(Schema.String),
  changed_at: Instant,
  detected_at: Schema.String
})

/** A hold and a page of its records. */
export const HoldPage = Schema.Struct({
  hold: HoldView,
  records: Schema.Array(HeldRecord),
  next: Schema.NullOr(Schema.String)
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
  lineage: Schema.Number,
  streams: Schema.Number,
  live: Schema.Number,
  blocked: Schema.Number,
  records_live: Schema.Number
})
export type IntegrationView = typeof IntegrationView.Type

/** What is not said is as configured for all. */
const NewIntegration = Schema.Struct({
  id: Schema.String.annotate({ description: "`<tool>:<identifier>`" }),
  account: Schema.optionalKey(
    Schema.String.annotate({ description: "Name of an account; the only one, or `default`, without it" })
  ),
  models: Schema.optionalKey(Models),
  interval: Schema.optionalKey(Length),
  sweepInterval: Schema.optionalKey(Length),
  backfill: Schema.optionalKey(Backfill)
})

const Removal = Schema.Struct({
  data: Schema.Literals(["keep", "erase"]).annotate({
    description: "`keep`: added again, it goes on where it stood. `erase`: nothing is left of its records"
  })
})
/** What is published of a stream beside what the API shows. Ids only, never content. */
export const AuditView = Schema.Struct({
  stream: Schema.String,
  read: Schema.Number,
  pending: Schema.Record(Schema.String, Schema.Number),
  quarantined: Schema.Number,
  differing: Schema.Number,
  /** The first thousand. */
  differences: Schema.Array(Schema.Struct({
    id: Schema.String,
    what: Schema.Literals(["unknown", "gone", "deleted", "content"]),
    paths: Schema.Array(Schema.String)
  }))
})
export type AuditView = typeof AuditView.Type

// ---- endpoints ----------------------------------------------------------------------------------------------------

const positionProblems = [PositionMalformed, PositionGone, StoreAway] as const

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
    error: positionProblems
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
    error: [...positionProblems, NotFound]
  }).annotate(
    OpenApi.Description,
    "The current published state of a stream, the way in for a new consumer: read all pages (`next` is the next call's " +
      "`after`, null on the last), then follow `GET /v1/events?after=<position>`. `position` is the same on every page, " +
      "which ends before `limit` where it would hold more than 8 MiB."
  )
)

const state = HttpApiGroup.make("state").add(
  HttpApiEndpoint.get("streams", "/v1/streams", { success: page(StreamView), error: StoreAway }),
  HttpApiEndpoint.get("stream", "/v1/streams/:integration/:model", {
    params: { integration: Schema.String, model: Model },
    success: StreamView,
    error: [NotFound, StoreAway]
  })
)

const integrations = HttpApiGroup.make("integrations").add(
  HttpApiEndpoint.get("list", "/v1/integrations", { success: page(IntegrationView), error: StoreAway }),
  HttpApiEndpoint.post("add", "/v1/integrations", {
    payload: NewIntegration,
    success: IntegrationView,
    error: [IntegrationInvalid, NotNow, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Adds an integration while Rollcall runs; it stays over restarts. One that was removed and kept goes on where it stood."
  ),
  HttpApiEndpoint.post("remove", "/v1/integrations/:id/remove", {
    params: { id: Schema.String },
    payload: Removal,
    success: IntegrationView,
    error: [NotFound, NotNow, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Nothing more is read of the integration once this is answered. Erasing goes on after that: its events go when they " +
      "are where they are published to."
  )
)

const operation = HttpApiGroup.make("operation").add(
  HttpApiEndpoint.post("act", "/v1/streams/:integration/:model/:act", {
    params: { integration: Schema.String, model: Model, act: Schema.Literals(acts) },
    success: StreamView,
    error: [NotFound, NotNow, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Answers at once with the stream as it is now; what has to be read is read after the page under way. `pause` keeps the " +
      "stream as it is until `resume`, which also tries a blocked one at once. `sweep` begins a full reading anew, `backfill` " +
      "one after which nothing that it found counts as new."
  ),
  HttpApiEndpoint.post("rewind", "/v1/streams/:integration/:model/rewind", {
    params: { integration: Schema.String, model: Model },
    payload: Schema.Struct({ to: Schema.DateTimeUtcFromString }),
    success: StreamView,
    error: [NotFound, NotNow, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Sets the watermark back: the next poll reads from there, less the margin. What it meets and is published already " +
      "makes no event."
  ),
  HttpApiEndpoint.post("audit", "/v1/streams/:integration/:model/audit", {
    params: { integration: Schema.String, model: Model },
    success: AuditView,
    error: [NotFound, SourceAway, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Reads the whole stream and compares it with what its events add up to; publishes nothing. Answers when it is done."
  )
)

const holdId = { id: PositiveInt }

const holds = HttpApiGroup.make("holds").add(
  HttpApiEndpoint.get("list", "/v1/holds", {
    query: {
      state: Schema.optionalKey(HoldState),
      after: Schema.optionalKey(Schema.FiniteFromString),
      limit: Schema.optionalKey(Limit)
    },
    success: page(HoldView),
    error: StoreAway
  }).annotate(
    OpenApi.Description,
    "Changes that the guard keeps back, newest first. Without `state` those that are neither approved nor cancelled."
  ),
  HttpApiEndpoint.get("show", "/v1/holds/:id", {
    params: holdId,
    query: { after: Schema.optionalKey(Schema.String), limit: Schema.optionalKey(Limit) },
    success: HoldPage,
    error: [NotFound, StoreAway]
  }),
  HttpApiEndpoint.post("approve", "/v1/holds/:id/approve", {
    params: holdId,
    query: {
      origin: Schema.optionalKey(Schema.Literal("backfill")),
      silent: Schema.optionalKey(Schema.Literals(["true", "false"]))
    },
    success: HoldView,
    error: [NotFound, NotNow, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Publishes what is held, as `origin: backfill` if asked for. `silent=true`, for a scope hold: publishes nothing, the " +
      "records count as they are now shown. The answer comes at once; the hold is `approving` until all is published. That is " +
      "soon, of a paused or blocked stream too; of one that is not read any more, once it is read again: `waits_for` says so."
  ),
  HttpApiEndpoint.post("reject", "/v1/holds/:id/reject", {
    params: holdId,
    success: HoldView,
    error: [NotFound, NotNow, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Publishes nothing; the records stay listed as disputed and are not asked about again until they are seen otherwise."
  )
)

const health = HttpApiGroup.make("health").add(
  HttpApiEndpoint.get("live", "/health/live", { success: Schema.Struct({ status: Schema.Literal("live") }) }),
  HttpApiEndpoint.get("ready", "/health/ready", {
    success: Schema.Struct({ status: Schema.Literal("ready"), checks: Schema.Array(Check) }),
    error: NotReady
  })
)

export const Api = HttpApi.make("rollcall")
  .add(feed)
  .add(state)
  .add(integrations)
  .add(operation)
  .add(holds)
  .add(plugins)
  .add(deadLetters)
  .add(health)
  .middleware(Malformed)
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
