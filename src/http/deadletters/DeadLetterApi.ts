/** The contract of the operating API for dead letters: their details, and how to redrive, discard and resolve them. */
import * as Duration from "effect/Duration"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { failureFields } from "../../delivery/admin/PluginAdmin.ts"
import { rangesPerRequest } from "../../domain/DeliveryProgress.ts"
import { parseDuration } from "../../domain/DurationText.ts"
import { ShowsRecords } from "../audit/ReadAudit.ts"
import { Conflict, NotFound, ResolutionMalformed, StoreUnavailable } from "../Problem.ts"
import { DurationText, IdRanges, Instant, Limit, Model, page, PositiveInt, Time } from "../Schemas.ts"

export const DeadLetterView = Schema.Struct({
  id: Schema.Number,
  plugin: Schema.String,
  handler: Schema.String,
  integration: Schema.String,
  /** Null for a tick, and if the record was erased. */
  event: Schema.NullOr(Schema.Struct({
    id: Schema.String,
    model: Model,
    record: Schema.String,
    version: Schema.Number,
    kind: Schema.Literals(["created", "updated", "deleted"])
  })),
  /** Position of the event; for a tick, the position after which it fired. */
  position: Schema.String,
  /** Ticks only: when the tick was due. */
  scheduled_at: Instant,
  ...failureFields,
  attempts: Schema.Number,
  created_at: Schema.String,
  died_at: Schema.String,
  /** Number of deliveries of the same record that wait behind the dead letter. */
  parked: Schema.Number,
  /** True if the dead letter was sent again with a new journal. */
  fresh: Schema.Boolean
}).annotate({
  examples: [{
    id: 17,
    plugin: "welcome-new-hire",
    handler: "ats.application.hired",
    integration: "greenhouse:acme",
    event: {
      id: "9pHLsmL0vyOrBnsfPvjNPrg0KZ9nVDhGHHSTP5c1RmQ",
      model: "ats.application",
      record: "8Xi6iZrwusZqJmDGXs49GBmJ",
      version: 4,
      kind: "updated"
    },
    position: "k3v9-1-10482",
    scheduled_at: null,
    reason: "Permanent",
    message: "createEmployee: the form requires a field that the application does not have",
    refusal: "Invalid",
    faults: [{ path: "/body/properties/start_date", rule: "required", message: "is required" }],
    attempts: 1,
    created_at: "2026-03-01T12:00:00.000Z",
    died_at: "2026-03-01T12:00:02.000Z",
    parked: 1,
    fresh: false
  }]
})
export type DeadLetterView = typeof DeadLetterView.Type

/** A write or step whose outcome is unknown, and how to resolve it. */
export const OutcomeView = Schema.Struct({
  outcome: Schema.String.annotate({
    description: "Identifies the outcome in its current state; pass it to `POST …/resolve`"
  }),
  /**
   * `unsent`: not sent, because an operator reported that an earlier write of this kind for this record, with different content,
   * happened. `running`: the attempt that sent it is still running. `answered`: an operator resolved it; the resolution can be corrected until a
   * handler has used it.
   */
  state: Schema.Literals(["unknown", "unsent", "running", "answered"]),
  step: Schema.String,
  /** Name of the write; null for a step that is not a write to the unified API. */
  write: Schema.NullOr(Schema.String),
  method: Schema.NullOr(Schema.String),
  /** Path of the request, with its ids; null for a step, and for a write that an earlier version of Rollcall started. */
  path: Schema.NullOr(Schema.String),
  integration: Schema.NullOr(Schema.String),
  sent_at: Instant,
  /** The delivery that sent the write or ran the step. It may be an earlier, settled delivery if the step is done once per record. */
  delivery: Schema.Number,
  /** The model whose records show the effect of the write; null if no model that Rollcall reads shows it. */
  visible_in: Schema.NullOr(Model),
  /** The first record in which Rollcall saw the effect. */
  seen: Schema.NullOr(Schema.Struct({ model: Model, record: Schema.String, at: Schema.String })),
  /** Where an operator can find out whether it happened, as text. */
  where_to_look: Schema.String,
  /** The command for each of the two resolutions. */
  commands: Schema.Struct({ happened: Schema.String, did_not_happen: Schema.String })
}).annotate({
  examples: [{
    outcome: "5c1f0a9e2b7d",
    state: "unknown",
    step: "employee/createEmployee:tA1y…:9kQz…",
    write: "createEmployee",
    method: "POST",
    path: "/hris/employees/form",
    integration: "workday:acme",
    sent_at: "2026-03-01T12:00:01.000Z",
    delivery: 17,
    visible_in: null,
    seen: null,
    where_to_look: "No model that Rollcall reads shows this write: look in the system that workday:acme connects.",
    commands: {
      happened: "rollcall deadletters resolve 17 --outcome 5c1f0a9e2b7d --happened --id <id>",
      did_not_happen: "rollcall deadletters resolve 17 --outcome 5c1f0a9e2b7d --did-not-happen"
    }
  }]
})
export type OutcomeView = typeof OutcomeView.Type

export const DeadLetterDetailView = Schema.Struct({
  ...DeadLetterView.fields,
  failed_attempts: Schema.Array(Schema.Struct({
    number: Schema.Number,
    started_at: Schema.String,
    failed_at: Schema.String,
    ...failureFields,
    /** Requests of the attempt, to the unified API or to any other server. */
    requests: Schema.Array(Schema.Struct({
      what: Schema.String,
      integration: Schema.NullOr(Schema.String),
      at: Schema.String,
      outcome: Schema.Literals(["done", "refused", "unknown"])
    }))
  })),
  /** The journaled steps. A step that is done is not repeated when the dead letter is sent again. */
  journal: Schema.Array(Schema.Struct({
    step: Schema.String,
    /** Name of the write; null for a step that is not a write. */
    write: Schema.NullOr(Schema.String),
    /** False if the step was started and its outcome is unknown. */
    done: Schema.Boolean,
    begun_at: Schema.String
  })),
  /** Unknown outcomes of writes and steps. The delivery continues once an operator has resolved all of them. */
  outcomes: Schema.Array(OutcomeView)
})
export type DeadLetterDetailView = typeof DeadLetterDetailView.Type

const QueryFields = {
  plugin: Schema.optionalKey(Schema.String),
  handler: Schema.optionalKey(Schema.String),
  integration: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(failureFields.reason),
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

const shareFields = {
  plugin: Schema.String,
  handler: Schema.String,
  reason: failureFields.reason,
  count: Schema.Number
}

export const PlanView = Schema.Struct({
  plan: Schema.String.annotate({ description: "Identifies exactly these dead letters in their current state" }),
  count: Schema.Number,
  parked: Schema.Number,
  unknown: Schema.Number.annotate({
    description:
      "Number of dead letters with a write or step of unknown outcome: resolve them with `POST …/resolve`, or " +
      "they fail again"
  }),
  shares: Schema.Array(Schema.Struct(shareFields))
}).annotate({
  examples: [{
    plan: "5c1f0a9e2b7d4e63",
    count: 12,
    parked: 4,
    unknown: 0,
    shares: [{ plugin: "webhook", handler: "ats.application.hired", reason: "Transient", count: 12 }]
  }]
})
export type PlanView = typeof PlanView.Type

export const RedriveView = Schema.Struct({
  count: Schema.Number,
  ranges: IdRanges.annotate({
    description: "Ids of the deliveries that are tried again; `POST /v1/deadletters/progress` shows how far they are"
  }),
  from: Schema.String,
  to: Schema.String
})
export type RedriveView = typeof RedriveView.Type
export const ProgressView = Schema.Struct({
  done: Schema.Number.annotate({ description: "Settled: their handlers are done with them" }),
  open: Schema.Number.annotate({ description: "They run, or wait for their time or for an earlier delivery" }),
  dead: Schema.Number.annotate({ description: "Dead letters; after a redrive, those that failed again" })
})
export type ProgressView = typeof ProgressView.Type
export const DiscardView = Schema.Struct({ count: Schema.Number })
export const ResolveView = Schema.Struct({
  outcome: Schema.String,
  happened: Schema.Boolean,
  /** Whether the dead letter is sent again, because this was its last unresolved outcome. */
  redriven: Schema.Boolean,
  /** Number of outcomes that are still unresolved. */
  remaining: Schema.Number
})

export const SpreadDuration = DurationText.check(
  Schema.makeFilter((text) =>
    Option.exists(parseDuration(text), (over) => Duration.isFinite(over) && Duration.toMillis(over) >= 0) ||
    "write a number and a unit, such as 10 minutes"
  )
)

export const deadLetters = HttpApiGroup.make("deadletters").add(
  HttpApiEndpoint.get("list", "/v1/deadletters", {
    query: { ...QueryFields, after: Schema.optionalKey(PositiveInt), limit: Schema.optionalKey(Limit) },
    success: page(DeadLetterView),
    error: StoreUnavailable
  }).annotate(ShowsRecords, true).annotate(
    OpenApi.Description,
    "Lists deliveries that failed for good, oldest first. `since` and `until` filter by the time of the failure."
  ),
  HttpApiEndpoint.get("show", "/v1/deadletters/:id", {
    params: { id: PositiveInt },
    success: DeadLetterDetailView,
    error: [NotFound, StoreUnavailable]
  }).annotate(ShowsRecords, true).annotate(
    OpenApi.Description,
    "Shows one dead letter with its attempts, their requests, its journal and its unknown outcomes."
  ),
  HttpApiEndpoint.post("plan", "/v1/deadletters/plan", {
    payload: Schema.Struct(FilterFields),
    success: PlanView,
    error: [NotFound, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Counts the dead letters that match a filter, and returns a `plan` that identifies exactly these. Changes " +
      "nothing. 404 if one of `ids` does not exist or does not match the filter."
  ),
  HttpApiEndpoint.post("redrive", "/v1/deadletters/redrive", {
    payload: Schema.Struct({
      ...PlannedFields,
      over: Schema.optionalKey(SpreadDuration),
      fresh: Schema.optionalKey(Schema.Boolean)
    }).annotate({ examples: [{ plugin: "webhook", plan: "5c1f0a9e2b7d4e63", over: "10 minutes" }] }),
    success: RedriveView,
    error: [Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Sends the planned dead letters again, spread evenly `over` a duration of at most a week. Each uses its journal " +
      "unless `fresh` is true. 409 if other dead letters match the filter now, and with `fresh` if one of them " +
      "has a write or step of unknown outcome. If the request is interrupted, the remaining ones stay dead letters: " +
      "make a new plan."
  ),
  HttpApiEndpoint.post("progress", "/v1/deadletters/progress", {
    payload: Schema.Struct({ ranges: IdRanges.check(Schema.isMaxLength(rangesPerRequest)) }).annotate({
      examples: [{ ranges: [{ first: 17, last: 18 }] }]
    }),
    success: ProgressView,
    error: StoreUnavailable
  }).annotate(
    OpenApi.Description,
    "Counts how many deliveries of a redrive or a replay are done, open, or dead letters. `ranges`: at most a thousand " +
      "of those that `POST /v1/deadletters/redrive` or `POST /v1/plugins/{plugin}/replay` returned. Changes nothing."
  ),
  HttpApiEndpoint.post("discard", "/v1/deadletters/discard", {
    payload: Schema.Struct(PlannedFields),
    success: DiscardView,
    error: [Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Discards the planned dead letters for good. Later deliveries no longer wait for them."
  ),
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
    error: [NotFound, ResolutionMalformed, Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Records whether a write or step of unknown outcome happened. If it happened, the handler continues with the " +
      "given result. If not, its journal entry is deleted, and it is done again. After the last resolution the dead " +
      "letter is sent again. 409 if the outcome is no longer unresolved, or if the attempt that sent it is still " +
      "running."
  )
)
