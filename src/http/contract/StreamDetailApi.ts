/** The contract of the operating API for one stream in detail: its state as a sentence and its request budget; and its runs. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as Schema from "effect/Schema"
import { streamStates } from "./OverviewApi.ts"
import { NotFound } from "./Problem.ts"
import { Instant, KnownModel, words } from "./Schemas.ts"
import { StreamView } from "./StreamApi.ts"

const BudgetView = Schema.Struct({
  account: Schema.String,
  limit: Schema.NullOr(Schema.Int).annotate({ description: "How many requests may be in flight at once" }),
  taken: Schema.NullOr(Schema.Int).annotate({
    description: "Slots of requests that are in flight; in a fleet, the slots that its processes have leased for them"
  }),
  wanted: Schema.NullOr(Schema.Int).annotate({
    description: "Slots that could be used for the requests that are in flight or wait"
  }),
  processes: Schema.NullOr(Schema.Int).annotate({
    description: "How many processes of a fleet have slots or want some; null if one process has the whole budget"
  }),
  paused_seconds: Schema.Finite,
  text: Schema.String
}).annotate({
  description:
    "The requests of all processes to the account of the stream, the same whichever process answers. The numbers are null if " +
    "the account is not in the configuration of that process"
})

export const StreamDetailView = Schema.Struct({
  stream: StreamView,
  state: Schema.Literals(streamStates),
  sentence: Schema.String,
  target_seconds: Schema.Finite.annotate({ description: "The stream is late if its freshness exceeds this" }),
  budget: BudgetView
}).annotate({ identifier: "StreamDetail" })
export type StreamDetailView = typeof StreamDetailView.Type

const IdlePolls = Schema.Struct({
  polls: Schema.Int,
  read: Schema.Int.annotate({ description: "Records that they read nevertheless, because polls overlap" }),
  since: Schema.String,
  until: Schema.String
})
export type IdlePollsView = typeof IdlePolls.Type

export const RunView = Schema.Struct({
  number: Schema.NullOr(Schema.Int).annotate({ description: "1, 2, 3 … per stream; null while it runs" }),
  kind: Schema.Literals(["poll", "sweep", "backfill"]),
  pass: Schema.Int,
  started_at: Schema.String,
  ended_at: Instant.annotate({ description: "null while it runs" }),
  outcome: Schema.Literals(["running", "complete", "repeated", "failed", "blocked", "replaced"]).annotate({
    description:
      "`repeated`: it may have skipped records, so the list is read again. `blocked`: it failed, and only a person or the API can help. " +
      "`replaced`: an operator started another sweep"
  }),
  reason: Schema.NullOr(Schema.String).annotate({ description: "Why it ended like this, in words" }),
  times: Schema.Int.annotate({
    description: "Failures in a row are one entry, from the beginning of the first to the end of the newest"
  }),
  pages: Schema.Int,
  created: Schema.Int.annotate({ description: "Events that it published, by kind" }),
  updated: Schema.Int,
  deleted: Schema.Int,
  read: Schema.Int,
  unchanged: Schema.Int,
  equivalent: Schema.Int,
  changed: Schema.Int,
  tombstones: Schema.Int,
  duplicates: Schema.Int,
  pending: Schema.Int,
  quarantined: Schema.Int,
  balanced: Schema.Boolean.annotate({ description: "Whether `read` is the sum of its outcomes, as it must be" }),
  idle_before: Schema.NullOr(IdlePolls).annotate({
    description: "The polls between this run and the one before it, which found nothing new"
  })
}).annotate({ identifier: "Run" })
export type RunView = typeof RunView.Type

export const StreamRuns = Schema.Struct({
  idle: Schema.NullOr(IdlePolls).annotate({ description: "The polls since the newest run, which found nothing new" }),
  items: Schema.Array(RunView).annotate({ description: "The sweep in progress, and the runs that ended, newest first" })
}).annotate({ identifier: "StreamRuns" })
export type StreamRuns = typeof StreamRuns.Type

export const streamDetail = HttpApiGroup.make("streamDetail").add(
  HttpApiEndpoint.get("detail", "/v1/streams/:integration/:model/detail", {
    params: { integration: Schema.String, model: KnownModel },
    success: StreamDetailView,
    error: NotFound
  }).annotateMerge(words(
    "getStreamDetail",
    "Get a stream in detail",
    "One stream with its state as a sentence and its request budget."
  )),
  HttpApiEndpoint.get("runs", "/v1/streams/:integration/:model/runs", {
    params: { integration: Schema.String, model: KnownModel },
    success: StreamRuns,
    error: NotFound
  }).annotateMerge(words(
    "listRuns",
    "List the runs of a stream",
    "The history of a stream's runs: the newest 50, without the polls that found nothing new, which are counted. A poll that the end of " +
      "its process interrupted is not listed."
  ))
)
