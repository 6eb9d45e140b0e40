/** The contract of the operating API for dead letters: how to list, redrive, discard and resolve them. */
import * as Duration from "effect/Duration"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { failureFields } from "../../delivery/admin/PluginAdmin.ts"
import { rangesPerRequest } from "../../domain/DeliveryProgress.ts"
import { parseDuration } from "../../domain/DurationText.ts"
import { DeadLetterDetailView, DeadLetterGroups, DeadLetterView } from "./DeadLetterViews.ts"
import { Conflict, NotFound, ResolutionMalformed } from "./Problem.ts"
import { ShowsRecords } from "./ReadAudit.ts"
import { DurationText, IdRanges, Limit, page, PositiveInt, Time, words } from "./Schemas.ts"

const QueryFields = {
  plugin: Schema.optionalKey(Schema.String),
  handler: Schema.optionalKey(Schema.String),
  integration: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(failureFields.reason),
  cause: Schema.optionalKey(
    Schema.String.annotate({ description: "A `cause` of `GET /v1/deadletters/groups`" })
  ),
  since: Schema.optionalKey(Time),
  until: Schema.optionalKey(Time)
}

const FilterFields = {
  ...QueryFields,
  ids: Schema.optionalKey(
    Schema.Array(Schema.Int).check(Schema.isMaxLength(1000)).annotate({
      description: "Only dead letters with these ids; at most a thousand"
    })
  )
}

const PlannedFields = {
  ...FilterFields,
  plan: Schema.String.annotate({
    description: "The `plan` that `POST /v1/deadletters/plan` returned for the same filter"
  })
}

export const PlanView = Schema.Struct({
  plan: Schema.String.annotate({ description: "Identifies exactly these dead letters in their current state" }),
  count: Schema.Int,
  parked: Schema.Int,
  unknown: Schema.Int.annotate({
    description:
      "Number of dead letters with a write or step of unknown outcome: resolve them with `POST …/resolve`, or " +
      "they fail again"
  }),
  unknown_ids: Schema.Array(Schema.Int).annotate({ description: "The ids of the first ten of these" }),
  shares: Schema.Array(Schema.Struct({
    plugin: Schema.String,
    handler: Schema.String,
    reason: failureFields.reason,
    refusal: failureFields.refusal,
    count: Schema.Int
  })),
  circuits: Schema.Array(Schema.Struct({ plugin: Schema.String, handler: Schema.String, until: Schema.String }))
    .annotate({
      description: "Open circuits of their handlers: sent again, these dead letters wait, and one is tried at `until`"
    })
}).annotate({
  identifier: "RedrivePlan",
  examples: [{
    plan: "5c1f0a9e2b7d4e63",
    count: 12,
    parked: 4,
    unknown: 0,
    unknown_ids: [],
    shares: [{ plugin: "webhook", handler: "ats.application.hired", reason: "Transient", refusal: null, count: 12 }],
    circuits: []
  }]
})
export type PlanView = typeof PlanView.Type

export const RedriveView = Schema.Struct({
  count: Schema.Int,
  ranges: IdRanges.annotate({
    description: "Ids of the deliveries that are tried again; `POST /v1/deadletters/progress` shows how far they are"
  }),
  from: Schema.String,
  to: Schema.String
}).annotate({ identifier: "Redrive" })
export type RedriveView = typeof RedriveView.Type
export const ProgressView = Schema.Struct({
  done: Schema.Int.annotate({ description: "Settled: their handlers are done with them" }),
  open: Schema.Int.annotate({ description: "They run, or wait for their time or for an earlier delivery" }),
  dead: Schema.Int.annotate({ description: "Dead letters; after a redrive, those that failed again" })
}).annotate({ identifier: "RedriveProgress" })
export type ProgressView = typeof ProgressView.Type
export const DiscardView = Schema.Struct({ count: Schema.Int }).annotate({ identifier: "Discarded" })
export const ResolveView = Schema.Struct({
  outcome: Schema.String,
  happened: Schema.Boolean,
  /** Whether the dead letter is sent again, because this was its last unresolved outcome. */
  redriven: Schema.Boolean,
  /** Number of outcomes that are still unresolved. */
  remaining: Schema.Int
}).annotate({ identifier: "Resolution" })

export const SpreadDuration = DurationText.check(
  Schema.makeFilter((text) =>
    Option.exists(parseDuration(text), (over) => Duration.isFinite(over) && Duration.toMillis(over) >= 0) ||
    "write a number and a unit, such as 10 minutes"
  )
)

export const deadLetters = HttpApiGroup.make("deadletters").add(
  HttpApiEndpoint.get("list", "/v1/deadletters", {
    query: { ...QueryFields, after: Schema.optionalKey(PositiveInt), limit: Schema.optionalKey(Limit) },
    success: page(DeadLetterView)
  }).annotate(ShowsRecords, true).annotateMerge(words(
    "listDeadLetters",
    "List the dead letters",
    "Lists deliveries that failed for good, oldest first. `since` and `until` filter by the time of the failure."
  )),
  HttpApiEndpoint.get("groups", "/v1/deadletters/groups", {
    query: QueryFields,
    success: DeadLetterGroups
  }).annotateMerge(words(
    "groupDeadLetters",
    "Group the dead letters by cause",
    "Groups the dead letters of a handler whose failures differ only in ids, times and addresses, the largest group first."
  )),
  HttpApiEndpoint.get("show", "/v1/deadletters/:id", {
    params: { id: PositiveInt },
    success: DeadLetterDetailView,
    error: NotFound
  }).annotate(ShowsRecords, true).annotateMerge(words(
    "getDeadLetter",
    "Get a dead letter",
    "Shows one dead letter with its attempts, their requests, its journal and its unknown outcomes."
  )),
  HttpApiEndpoint.post("plan", "/v1/deadletters/plan", {
    payload: Schema.Struct(FilterFields),
    success: PlanView,
    error: NotFound
  }).annotateMerge(words(
    "planRedrive",
    "Count the dead letters of a filter",
    "Counts the dead letters that match a filter, and returns a `plan` that identifies exactly these. Changes " +
      "nothing. 404 if one of `ids` does not exist or does not match the filter."
  )),
  HttpApiEndpoint.post("redrive", "/v1/deadletters/redrive", {
    payload: Schema.Struct({
      ...PlannedFields,
      over: Schema.optionalKey(SpreadDuration),
      fresh: Schema.optionalKey(Schema.Boolean)
    }).annotate({ examples: [{ plugin: "webhook", plan: "5c1f0a9e2b7d4e63", over: "10 minutes" }] }),
    success: RedriveView,
    error: Conflict
  }).annotateMerge(words(
    "redriveDeadLetters",
    "Deliver planned dead letters again",
    "Sends the planned dead letters again, spread evenly `over` a duration of at most a week. Each uses its journal " +
      "unless `fresh` is true. 409 if other dead letters match the filter now, and with `fresh` if one of them " +
      "has a write or step of unknown outcome. If the request is interrupted, the remaining ones stay dead letters: " +
      "make a new plan."
  )),
  HttpApiEndpoint.post("progress", "/v1/deadletters/progress", {
    payload: Schema.Struct({ ranges: IdRanges.check(Schema.isMaxLength(rangesPerRequest)) }).annotate({
      examples: [{ ranges: [{ first: 17, last: 18 }] }]
    }),
    success: ProgressView
  }).annotateMerge(words(
    "getRedriveProgress",
    "Count how far redriven dead letters are",
    "Counts how many deliveries of a redrive or a replay are done, open, or dead letters. `ranges`: at most a thousand " +
      "of those that `POST /v1/deadletters/redrive` or `POST /v1/plugins/{plugin}/replay` returned. Changes nothing."
  )),
  HttpApiEndpoint.post("discard", "/v1/deadletters/discard", {
    payload: Schema.Struct(PlannedFields),
    success: DiscardView,
    error: Conflict
  }).annotateMerge(words(
    "discardDeadLetters",
    "Discard planned dead letters",
    "Discards the planned dead letters for good. Later deliveries no longer wait for them."
  )),
  HttpApiEndpoint.post("resolve", "/v1/deadletters/:id/resolve", {
    params: { id: PositiveInt },
    payload: Schema.Struct({
      outcome: Schema.String.annotate({ description: "The `outcome` that `GET /v1/deadletters/{id}` returned" }),
      happened: Schema.Boolean,
      id: Schema.optionalKey(
        Schema.String.annotate({
          description: "The unified API's id of the object that the write created; only with `happened: true`"
        })
      ),
      result: Schema.optionalKey(
        Schema.Json.annotate({ description: "The complete result of the write or step, in place of `id`" })
      )
    }).annotate({ examples: [{ outcome: "5c1f0a9e2b7d", happened: true, id: "8Xi6iZrwusZqJmDGXs49GBmJ" }] }),
    success: ResolveView,
    error: [NotFound, ResolutionMalformed, Conflict]
  }).annotateMerge(words(
    "resolveOutcome",
    "Record the outcome of a write",
    "Records whether a write or step of unknown outcome happened. If it happened, the handler continues with the " +
      "given result. If not, its journal entry is deleted, and it is done again. After the last resolution the dead " +
      "letter is sent again. 409 if the outcome is no longer unresolved, or if the attempt that sent it is still " +
      "running."
  ))
)
