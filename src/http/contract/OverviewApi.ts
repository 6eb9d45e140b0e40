/**
 * The contract of the operating API for the state of the whole installation: what needs attention, the data path, and its history. Every
 * process of a fleet gives the same answer.
 */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Schema from "effect/Schema"
import { Instant, Model, Time, words } from "./Schemas.ts"

const Matter = Schema.Struct({
  id: Schema.String.annotate({ description: "Identifies the matter for as long as it lasts" }),
  kind: Schema.Literals([
    "store",
    "process",
    "kafka",
    "disk",
    "hold",
    "blocked",
    "failing",
    "late",
    "late_sweep",
    "circuit",
    "dead_letters",
    "plugin",
    "switched_off",
    "quarantine"
  ]),
  severity: Schema.Literals(["act", "watch"]).annotate({
    description: "`act`: it stays until a person does something. `watch`: it is new, deliberate, or may end by itself"
  }),
  title: Schema.String,
  detail: Schema.String.annotate({ description: "The cause, and what to do" }),
  since: Instant,
  integrations: Schema.Array(Schema.String).annotate({ description: "The first few that are affected, by name" }),
  integration_count: Schema.Int.annotate({
    description: "How many integrations are affected; 0 if the matter does not concern integrations"
  }),
  stream_count: Schema.Int,
  action: Schema.String.annotate({ description: "What to do next, as the label of a link" }),
  link: Schema.String.annotate({ description: "The page of the console on which this can be done" }),
  command: Schema.String.annotate({ description: "The command with which this can be done, or which shows more" })
}).annotate({ identifier: "Matter" })
export type Matter = typeof Matter.Type

const Step = Schema.Struct({
  step: Schema.Literals(["source", "log", "kafka", "handlers"]),
  state: Schema.Literals(["ok", "late", "stopped", "unused"]),
  rate: Schema.NullOr(Schema.Finite).annotate({
    description:
      "Per second, over the last minute: records read, events appended, events published, events dispatched; null until it is known"
  }),
  waiting: Schema.Int.annotate({
    description:
      "Streams beyond their target; changes that are not published; events that are not in Kafka; deliveries that are not settled"
  }),
  oldest_at: Instant.annotate({ description: "The time since which the oldest of them waits" }),
  remark: Schema.NullOr(Schema.String)
}).annotate({ identifier: "DataPathStep" })
export type Step = typeof Step.Type

export const OverviewView = Schema.Struct({
  as_of: Schema.String.annotate({
    description: "When it was read. While the store does not answer, this is the last state that was read"
  }),
  outage: Schema.NullOr(Schema.Struct({ title: Schema.String, cause: Schema.String, since: Instant })).annotate({
    description:
      "Why the store does not answer, or why more than half of the streams are not read; null while neither is the case"
  }),
  matters: Schema.Array(Matter).annotate({
    description: "The matters that need attention, the most urgent first; at most 200"
  }),
  omitted: Schema.Int.annotate({ description: "How many matters are left out" }),
  path: Schema.Array(Step).annotate({ description: "The steps on the path of a change, in order" }),
  streams: Schema.Struct({
    total: Schema.Int,
    live: Schema.Int,
    backfilling: Schema.Int,
    blocked: Schema.Int,
    failing: Schema.Int,
    paused: Schema.Int,
    late: Schema.Int
  }),
  integrations: Schema.Int,
  open_holds: Schema.Int,
  open_circuits: Schema.Int.annotate({ description: "How many handlers have an open circuit" }),
  dead_letters: Schema.Int,
  records: Schema.Int.annotate({ description: "Published records that are not deleted" }),
  freshness: Schema.Struct({
    median_seconds: Schema.NullOr(Schema.Finite),
    p95_seconds: Schema.NullOr(Schema.Finite),
    worst_seconds: Schema.NullOr(Schema.Finite),
    worst_stream: Schema.NullOr(Schema.String),
    streams: Schema.Int.annotate({
      description: "How many streams these numbers are of: those that were never read have none"
    })
  }).annotate({ description: "Of the streams that are neither paused nor backfilling" }),
  store: Schema.Struct({
    size_bytes: Schema.NullOr(Schema.Int).annotate({ description: "Of the database; null if it is not known yet" }),
    free_bytes: Schema.NullOr(Schema.Finite).annotate({
      description: "Free space on the disk of a SQLite file; null for PostgreSQL, whose disk Rollcall does not see"
    }),
    disk_bytes: Schema.NullOr(Schema.Finite)
  }),
  processes: Schema.Struct({ alive: Schema.Int, silent: Schema.Int }),
  models: Schema.Array(Model).annotate({ description: "The models that this process knows" }),
  transitions: Schema.Array(Schema.String).annotate({ description: "The names of their transitions" })
}).annotate({ identifier: "Overview" })
export type OverviewView = typeof OverviewView.Type

export const streamStates = ["ok", "late", "backfilling", "failing", "blocked", "paused"] as const

const StreamRow = Schema.Struct({
  stream: Schema.String,
  integration: Schema.String,
  model: Model,
  state: Schema.Literals(streamStates),
  cause: Schema.NullOr(Schema.String).annotate({ description: "Why it is blocked or failing" }),
  since: Instant,
  freshness_seconds: Schema.NullOr(Schema.Finite),
  target_seconds: Schema.Finite.annotate({ description: "The stream is late if its freshness exceeds this" }),
  late_sweep: Schema.NullOr(Schema.String).annotate({
    description: "How late its last complete sweep is, as a sentence; null if it is not late"
  }),
  records_live: Schema.Int,
  pending: Schema.Int,
  held: Schema.Int.annotate({ description: "Those of the pending changes that wait in a hold" }),
  quarantined: Schema.Int
}).annotate({ identifier: "StreamRow" })
export type StreamRow = typeof StreamRow.Type

export const streamOrders = ["urgency", "stream", "freshness", "records", "pending", "quarantined"] as const

const StreamRows = Schema.Struct({
  as_of: Schema.String,
  items: Schema.Array(StreamRow),
  total: Schema.Int.annotate({ description: "How many streams match" }),
  next: Schema.NullOr(Schema.String).annotate({ description: "Pass it as `after`; null on the last page" })
}).annotate({ identifier: "StreamRowPage" })

const RowLimit = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 1, maximum: 500 }))
const Offset = Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 0, maximum: 1e9 }))

const Sample = Schema.Struct({
  at: Schema.String,
  median_seconds: Schema.NullOr(Schema.Finite),
  p95_seconds: Schema.NullOr(Schema.Finite),
  worst_seconds: Schema.NullOr(Schema.Finite),
  events: Schema.Int.annotate({ description: "Newest position of the event log" }),
  unpublished: Schema.Int,
  deliveries: Schema.Int.annotate({ description: "Deliveries that are not settled" }),
  dead_letters: Schema.Int,
  late: Schema.Int,
  blocked: Schema.Int,
  failing: Schema.Int,
  holds: Schema.Int
}).annotate({ identifier: "Sample" })
export type SampleView = typeof Sample.Type

export const overviewEndpoints = HttpApiGroup.make("overview").add(
  HttpApiEndpoint.get("show", "/v1/overview", {
    success: [
      OverviewView,
      Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/event-stream" }))
    ]
  }).annotateMerge(words(
    "getOverview",
    "Get or stream the state of the installation",
    "The matters that need attention, and the data path from the source to the handlers. The state is shared between all clients of a process and " +
      "may be a few seconds old; with `Cache-Control: no-cache` it is read for this request. With `Accept: text/event-stream` every new " +
      "state is sent as an event `overview`."
  )),
  HttpApiEndpoint.get("streams", "/v1/overview/streams", {
    query: {
      search: Schema.optionalKey(Schema.String),
      state: Schema.optionalKey(Schema.Literals(streamStates)),
      integration: Schema.optionalKey(Schema.String),
      order: Schema.optionalKey(Schema.Literals(streamOrders)),
      after: Schema.optionalKey(Offset),
      limit: Schema.optionalKey(RowLimit)
    },
    success: StreamRows
  }).annotateMerge(words(
    "searchStreams",
    "Search and sort the streams",
    "A short row for each stream, filtered and sorted: `search` matches parts of integration, model and cause, all its words. `order` " +
      "is `urgency` by default: blocked, failing and late streams first."
  )),
  HttpApiEndpoint.get("history", "/v1/overview/history", {
    query: { since: Schema.optionalKey(Time) },
    success: Schema.Struct({ interval_seconds: Schema.Finite, samples: Schema.Array(Sample) })
  }).annotateMerge(words(
    "getHistory",
    "List the samples of the last day",
    "One sample for each minute of the last 24 hours in which a process ran, oldest first."
  ))
)
