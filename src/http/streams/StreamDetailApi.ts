/** The contract of the operating API for one stream in detail: its state as a sentence and its request budget; and its runs. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Schema from "effect/Schema"
import { streamStates } from "../overview/OverviewApi.ts"
import { NotFound, StoreUnavailable } from "../Problem.ts"
import { Model } from "../Schemas.ts"
import { StreamRuns } from "./RunApi.ts"
import { StreamView } from "./StreamApi.ts"

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
  budget: BudgetView
})
export type StreamDetailView = typeof StreamDetailView.Type

export const streamDetail = HttpApiGroup.make("streamDetail").add(
  HttpApiEndpoint.get("detail", "/v1/streams/:integration/:model/detail", {
    params: { integration: Schema.String, model: Model },
    success: StreamDetailView,
    error: [NotFound, StoreUnavailable]
  }).annotate(OpenApi.Description, "One stream with its state as a sentence and its request budget."),
  HttpApiEndpoint.get("runs", "/v1/streams/:integration/:model/runs", {
    params: { integration: Schema.String, model: Model },
    success: StreamRuns,
    error: [NotFound, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "The history of a stream's runs: the newest 50, without the polls that found nothing new, which are counted. A poll that the end of " +
      "its process interrupted is not listed."
  )
)
