/** The part of the operating API's contract that is about dead letters: what they tell, how they are sent again or given up. */
import * as Duration from "effect/Duration"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { failure } from "./PluginApi.ts"
import { NotFound, NotNow, StoreAway } from "./Problem.ts"
import { Instant, Length, Limit, Model, page, PositiveInt } from "./Shape.ts"

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
  ...failure,
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

export const StoryView = Schema.Struct({
  ...DeadLetterView.fields,
  attempted: Schema.Array(Schema.Struct({
    number: Schema.Number,
    started_at: Schema.String,
    failed_at: Schema.String,
    ...failure,
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
  }))
})
export type StoryView = typeof StoryView.Type

const Which = {
  plugin: Schema.optionalKey(Schema.String),
  handler: Schema.optionalKey(Schema.String),
  integration: Schema.optionalKey(Schema.String),
  reason: Schema.optionalKey(failure.reason),
  since: Schema.optionalKey(Schema.DateTimeUtcFromString),
  until: Schema.optionalKey(Schema.DateTimeUtcFromString)
}

const Filter = {
  ...Which,
  ids: Schema.optionalKey(Schema.Array(Schema.Finite).annotate({ description: "Only these of them" }))
}

const Planned = {
  ...Filter,
  plan: Schema.String.annotate({ description: "`plan` as `POST /v1/deadletters/plan` gave it for the same filter" })
}

const share = { plugin: Schema.String, handler: Schema.String, reason: failure.reason, count: Schema.Number }

export const PlanView = Schema.Struct({
  plan: Schema.String.annotate({ description: "Stands for exactly these letters, as they died" }),
  count: Schema.Number,
  parked: Schema.Number,
  shares: Schema.Array(Schema.Struct(share))
}).annotate({
  examples: [{
    plan: "5c1f0a9e2b7d4e63",
    count: 12,
    parked: 4,
    shares: [{ plugin: "webhook", handler: "ats.application.hired", reason: "Transient", count: 12 }]
  }]
})
export type PlanView = typeof PlanView.Type

export const RedriveView = Schema.Struct({ count: Schema.Number, from: Schema.String, to: Schema.String })
export const DiscardView = Schema.Struct({ count: Schema.Number })

const Over = Length.check(
  Schema.makeFilter((text) =>
    Option.isSome(Duration.fromInput(text as Duration.Input)) || "write a number and a unit, such as 10 minutes"
  )
)

export const deadLetters = HttpApiGroup.make("deadletters").add(
  HttpApiEndpoint.get("list", "/v1/deadletters", {
    query: { ...Which, after: Schema.optionalKey(PositiveInt), limit: Schema.optionalKey(Limit) },
    success: page(DeadLetterView),
    error: StoreAway
  }).annotate(
    OpenApi.Description,
    "Deliveries that were given up, oldest first. `since` and `until` are about when they died."
  ),
  HttpApiEndpoint.get("show", "/v1/deadletters/:id", {
    params: { id: PositiveInt },
    success: StoryView,
    error: [NotFound, StoreAway]
  }).annotate(OpenApi.Description, "One with its whole story: each attempt, what it asked for, what is journaled."),
  HttpApiEndpoint.post("plan", "/v1/deadletters/plan", {
    payload: Schema.Struct(Filter),
    success: PlanView,
    error: [NotFound, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Counts what a filter means, and names exactly that. Changes nothing. 404 if one of `ids` is not there, or not of the filter."
  ),
  HttpApiEndpoint.post("redrive", "/v1/deadletters/redrive", {
    payload: Schema.Struct({
      ...Planned,
      over: Schema.optionalKey(Over),
      fresh: Schema.optionalKey(Schema.Boolean)
    }).annotate({ examples: [{ plugin: "webhook", plan: "5c1f0a9e2b7d4e63", over: "10 minutes" }] }),
    success: RedriveView,
    error: [NotNow, StoreAway]
  }).annotate(
    OpenApi.Description,
    "Sends what was planned again, evenly `over` a time, a week at most, with what was journaled unless `fresh`. 409 if other " +
      "letters match by now. Cut short, the rest is dead as before: plan again."
  ),
  HttpApiEndpoint.post("discard", "/v1/deadletters/discard", {
    payload: Schema.Struct(Planned),
    success: DiscardView,
    error: [NotNow, StoreAway]
  }).annotate(OpenApi.Description, "Gives what was planned up for good; what waits behind it goes on.")
)
