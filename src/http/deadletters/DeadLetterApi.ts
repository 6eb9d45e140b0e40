/** The part of the operating API's contract that is about dead letters: what they tell, how they are sent again or given up. */
import * as Duration from "effect/Duration"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { failureFields } from "../plugins/PluginApi.ts"
import { Conflict, NotFound, ResolutionMalformed, StoreUnavailable } from "../Problem.ts"
import { DurationText, Instant, Limit, Model, page, PositiveInt } from "../Schemas.ts"

export const DeadLetterView = Schema.Struct({
  id: Schema.Number,
  plugin: Schema.String,
  handler: Schema.String,
  integration: Schema.String,
  /** null: a tick, or the record is erased. */
  event: Schema.NullOr(Schema.Struct({
    id: Schema.String,
    model: Model,
    record: Schema.String,
    version: Schema.Number,
    kind: Schema.Literals(["created", "updated", "deleted"])
  })),
  /** Of the event, or behind the tick. */
  position: Schema.String,
  /** Of a tick: when it was due. */
  scheduled_at: Instant,
  ...failureFields,
  attempts: Schema.Number,
  created_at: Schema.String,
  died_at: Schema.String,
  /** Deliveries of the same record that wait behind it. */
  parked: Schema.Number,
  /** It has a journal of its own. */
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
    message: "createEmployee: the form wants what the application does not have",
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

/** A write or step of unknown outcome, and what to do about it. */
export const OutcomeView = Schema.Struct({
  outcome: Schema.String.annotate({ description: "Names it as it is shown here; `POST …/resolve` wants it" }),
  /**
   * `unsent`: asked for with other content than a write that an operator said happened. `running`: the attempt that sent
   * it is under way. `answered`: by an operator; it can be corrected until a handler is given the answer.
   */
  state: Schema.Literals(["unknown", "unsent", "running", "answered"]),
  step: Schema.String,
  /** null: a step that is no write of the unified API. */
  write: Schema.NullOr(Schema.String),
  method: Schema.NullOr(Schema.String),
  /** With the ids in it. null: a step, or begun by an earlier version. */
  path: Schema.NullOr(Schema.String),
  integration: Schema.NullOr(Schema.String),
  sent_at: Instant,
  /** The delivery that sent it, by now perhaps settled: what is done once per record may be an earlier one's. */
  delivery: Schema.Number,
  /** The model whose records come to show it; null: nothing that is read does. */
  visible_in: Schema.NullOr(Model),
  /** The first record that Rollcall saw showing it. */
  seen: Schema.NullOr(Schema.Struct({ model: Model, record: Schema.String, at: Schema.String })),
  /** Where to look, in words. */
  where_to_look: Schema.String,
  /** Commands that give the one answer or the other. */
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
    where_to_look: "Nothing that Rollcall reads shows this: look in the system that workday:acme connects.",
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
    /** What it asked the API, or anybody. */
    requests: Schema.Array(Schema.Struct({
      what: Schema.String,
      integration: Schema.NullOr(Schema.String),
      at: Schema.String,
      outcome: Schema.Literals(["done", "refused", "unknown"])
    }))
  })),
  /** What is not done again when this is sent again. */
  journal: Schema.Array(Schema.Struct({
    step: Schema.String,
    /** Name of the write, if it was one. */
    write: Schema.NullOr(Schema.String),
    /** False: begun, and nobody knows what became of it. */
    done: Schema.Boolean,
    begun_at: Schema.String
  })),
  /** What must be answered for before it goes on. */
  outcomes: Schema.Array(OutcomeView)
})
export type DeadLetterDetailView = typeof DeadLetterDetailView.Type

const QueryFields = {
  plugin: Schema.optionalKey(Schema.String),
  handler: Schema.optionalKey(Schema.String),
  integration: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(failureFields.reason),
  since: Schema.optionalKey(Schema.DateTimeUtcFromString),
  until: Schema.optionalKey(Schema.DateTimeUtcFromString)
}

const FilterFields = {
  ...QueryFields,
  ids: Schema.optionalKey(Schema.Array(Schema.Finite).annotate({ description: "Only these of them" }))
}

const PlannedFields = {
  ...FilterFields,
  plan: Schema.String.annotate({ description: "`plan` as `POST /v1/deadletters/plan` gave it for the same filter" })
}

const shareFields = {
  plugin: Schema.String,
  handler: Schema.String,
  reason: failureFields.reason,
  count: Schema.Number
}

export const PlanView = Schema.Struct({
  plan: Schema.String.annotate({ description: "Stands for exactly these letters, as they died" }),
  count: Schema.Number,
  parked: Schema.Number,
  unknown: Schema.Number.annotate({
    description: "Letters with a write or step of unknown outcome: answer with `POST …/resolve`, or they die again"
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

export const RedriveView = Schema.Struct({ count: Schema.Number, from: Schema.String, to: Schema.String })
export const DiscardView = Schema.Struct({ count: Schema.Number })
export const ResolveView = Schema.Struct({
  outcome: Schema.String,
  happened: Schema.Boolean,
  /** The dead letter is tried again: nothing else of it is without an answer. */
  redriven: Schema.Boolean,
  /** Outcomes that still have no answer. */
  remaining: Schema.Number
})

const SpreadDuration = DurationText.check(
  Schema.makeFilter((text) =>
    Option.isSome(Duration.fromInput(text as Duration.Input)) || "write a number and a unit, such as 10 minutes"
  )
)

export const deadLetters = HttpApiGroup.make("deadletters").add(
  HttpApiEndpoint.get("list", "/v1/deadletters", {
    query: { ...QueryFields, after: Schema.optionalKey(PositiveInt), limit: Schema.optionalKey(Limit) },
    success: page(DeadLetterView),
    error: StoreUnavailable
  }).annotate(
    OpenApi.Description,
    "Deliveries that were given up, oldest first. `since` and `until` are about when they died."
  ),
  HttpApiEndpoint.get("show", "/v1/deadletters/:id", {
    params: { id: PositiveInt },
    success: DeadLetterDetailView,
    error: [NotFound, StoreUnavailable]
  }).annotate(OpenApi.Description, "One with its whole story: each attempt, what it asked for, what is journaled."),
  HttpApiEndpoint.post("plan", "/v1/deadletters/plan", {
    payload: Schema.Struct(FilterFields),
    success: PlanView,
    error: [NotFound, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Counts what a filter means, and names exactly that. Changes nothing. 404 if one of `ids` is not there, or not of the filter."
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
    "Sends what was planned again, evenly `over` a time, a week at most, with what was journaled unless `fresh`. 409 if other " +
      "letters match by now, and with `fresh` if the outcome of a write or step of one of them is unknown. Cut short, the rest is dead as before: plan again."
  ),
  HttpApiEndpoint.post("discard", "/v1/deadletters/discard", {
    payload: Schema.Struct(PlannedFields),
    success: DiscardView,
    error: [Conflict, StoreUnavailable]
  }).annotate(OpenApi.Description, "Gives what was planned up for good; what waits behind it goes on."),
  HttpApiEndpoint.post("resolve", "/v1/deadletters/:id/resolve", {
    params: { id: PositiveInt },
    payload: Schema.Struct({
      outcome: Schema.String.annotate({ description: "`outcome` as `GET /v1/deadletters/{id}` shows it" }),
      happened: Schema.Boolean,
      id: Schema.optionalKey(
        Schema.String.annotate({ description: "The unified API's id of what the write created; only if it happened" })
      ),
      result: Schema.optionalKey(
        Schema.Json.annotate({ description: "All that the write answered, or the step gave back, in place of `id`" })
      )
    }).annotate({ examples: [{ outcome: "5c1f0a9e2b7d", happened: true, id: "8Xi6iZrwusZqJmDGXs49GBmJ" }] }),
    success: ResolveView,
    error: [NotFound, ResolutionMalformed, Conflict, StoreUnavailable]
  }).annotate(
    OpenApi.Description,
    "Says of a write or step of unknown outcome whether it happened. If it did, it gets its result, which the handler goes " +
      "on with; if not, it is forgotten, and done again. With the last answer the dead letter is tried again. 409 if the " +
      "outcome is not open any more, or the attempt that sent it is under way."
  )
)
