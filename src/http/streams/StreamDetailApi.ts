/** The contract of the operating API for one stream in detail: its state as a sentence, its runs and its request budget. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { streamStates } from "../overview/OverviewApi.ts"
import { NotFound, StoreUnavailable } from "../Problem.ts"
import { Instant, Model } from "../Schemas.ts"
import { StreamView } from "./StreamApi.ts"

const RunView = Schema.Struct({
  id: Schema.Number,
  kind: Schema.Literals(["poll", "sweep", "backfill"]),
  pass: Schema.Number,
  started_at: Schema.String,
  ended_at: Instant.annotate({ description: "null while it runs" }),
  pages: Schema.Number,
  read: Schema.Number,
  unchanged: Schema.Number,
  equivalent: Schema.Number,
  changed: Schema.Number,
  tombstones: Schema.Number,
  duplicates: Schema.Number,
  pending: Schema.Number,
  quarantined: Schema.Number,
  balanced: Schema.Boolean.annotate({ description: "Whether `read` is the sum of the others, as it must be" })
})

const BudgetView = Schema.Struct({
  account: Schema.String,
  in_flight: Schema.NullOr(Schema.Number),
  waiting: Schema.NullOr(Schema.Number),
  limit: Schema.NullOr(Schema.Number),
  paused_seconds: Schema.Number,
  text: Schema.String
}).annotate({ description: "The requests of the process that answers, to the account of the stream" })

export const StreamDetailView = Schema.Struct({
  stream: StreamView,
  state: Schema.Literals(streamStates),
  sentence: Schema.String,
  target_seconds: Schema.Number.annotate({ description: "The stream is late if its freshness exceeds this" }),
  runs: Schema.Array(RunView).annotate({ description: "The run in progress, the last poll and the last sweep" }),
  budget: BudgetView
})
export type StreamDetailView = typeof StreamDetailView.Type

export const streamDetail = HttpApiGroup.make("streamDetail").add(
  HttpApiEndpoint.get("detail", "/v1/streams/:integration/:model/detail", {
    params: { integration: Schema.String, model: Model },
    success: StreamDetailView,
    error: [NotFound, StoreUnavailable]
  }).annotate(OpenApi.Description, "One stream with its state as a sentence, its runs and its request budget.")
)
