/** The contract of the operating API for forgetting records: plan, confirm, list, and allow again. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as Schema from "effect/Schema"
import { ModelName } from "../../domain/Model.ts"
import { callProblems, Conflict, NotFound } from "./Problem.ts"
import { ShowsRecords } from "./ReadAudit.ts"
import { Instant, Model, page, words } from "./Schemas.ts"

const RecordFields = {
  integration: Schema.String,
  model: ModelName.annotate({
    description: "A model, or `hris.employee` or `ats.user`: people who appear only in other records"
  }),
  id: Schema.String.annotate({ description: "The unified API's id, as events show it; not a name or an address" })
}

const example = { integration: "greenhouse:acme", model: "ats.candidate", id: "8Xi6iZrwusZqJmDGXs49GBmJ" } as const

const Records = Schema.Struct({
  model: Model,
  records: Schema.Int,
  ids: Schema.Array(Schema.String).annotate({ description: "The first hundred of these ids" })
})

export const ForgetPlanView = Schema.Struct({
  plan: Schema.String.annotate({ description: "Identifies the record and these counts" }),
  live: Schema.Boolean.annotate({ description: "Whether the record is published as live" }),
  versions: Schema.Int.annotate({ description: "Rows of the event log that lose their content" }),
  pending: Schema.Int.annotate({ description: "Pending changes, held ones too" }),
  deliveries: Schema.Int.annotate({ description: "Unsettled deliveries to plugins, and dead letters" }),
  steps: Schema.Int.annotate({ description: "Journaled steps of handlers" }),
  copies: Schema.Array(Records).annotate({
    description:
      "Records that repeat its content: only that part is removed. Forget them too if their other content is personal"
  }),
  mentions: Schema.Array(Records).annotate({
    description:
      "Records with an object of its id at a place where their model is not known to repeat others. They are "
      + "not changed: forget them too, or name the place in the `references` of their list first"
  }),
  unreadable: Schema.Array(Schema.Struct({
    model: Model,
    id: Schema.String,
    position: Schema.NullOr(Schema.Int).annotate({ description: "In the event log; null for a pending change" })
  })).annotate({
    description:
      "The first hundred rows of other records that cannot be decrypted, so they are not searched. Forget these "
      + "records too, and allow them again: the next sweep reads them"
  })
}).annotate({
  identifier: "ForgettingPlan",
  examples: [{
    plan: "5c1f0a9e2b7d4e63",
    live: true,
    versions: 3,
    pending: 0,
    deliveries: 1,
    steps: 2,
    copies: [{ model: "ats.application", records: 1, ids: ["tA1yPn5oBfBGx5GqBmdCzwdE"] }],
    mentions: [],
    unreadable: []
  }]
})
export type ForgetPlanView = typeof ForgetPlanView.Type

export const ForgottenView = Schema.Struct({
  ...RecordFields,
  model: Schema.String,
  /** `erasing`: some of its data may be left, for example while a handler that has the record is running. */
  state: Schema.Literals(["erasing", "forgotten"]),
  requested_at: Schema.String,
  done_at: Instant,
  /**
   * How many records the removal has changed: the record itself, and those that repeat it. Null before it has found them, and after it is
   * complete. Once `done` is `total`, it removes what is left elsewhere, such as results of handlers.
   */
  progress: Schema.NullOr(Schema.Struct({ done: Schema.Int, total: Schema.Int }))
}).annotate({
  identifier: "ForgottenRecord",
  examples: [{
    ...example,
    state: "forgotten",
    requested_at: "2026-03-01T12:00:00.000Z",
    done_at: "2026-03-01T12:00:02.000Z",
    progress: null
  }]
})
export type ForgottenView = typeof ForgottenView.Type

export const AllowedView = Schema.Struct({ ...RecordFields, model: Schema.String }).annotate({
  identifier: "AllowedRecord"
})

export const forget = HttpApiGroup.make("forget").add(
  HttpApiEndpoint.get("list", "/v1/forget", { success: page(ForgottenView) }).annotate(
    ShowsRecords,
    true
  ).annotateMerge(words(
    "listForgottenRecords",
    "List the forgotten records",
    "Lists the forgotten records, by their ids. No run stores them again."
  )),
  HttpApiEndpoint.post("plan", "/v1/forget/plan", {
    payload: Schema.Struct(RecordFields).annotate({ examples: [example] }),
    success: ForgetPlanView,
    error: [NotFound, Conflict, ...callProblems]
  }).annotate(ShowsRecords, true).annotateMerge(words(
    "planForgetting",
    "Count what forgetting a record would remove",
    "Counts what `POST /v1/forget` would remove, and returns a `plan` that identifies the record and these counts. " +
      "Changes nothing. Reads the whole log of the models that may repeat the record. 404 if nothing is stored about it."
  )),
  HttpApiEndpoint.post("forget", "/v1/forget", {
    payload: Schema.Struct({
      ...RecordFields,
      plan: Schema.String.annotate({ description: "The `plan` that `POST /v1/forget/plan` returned for the record" })
    }).annotate({ examples: [{ ...example, plan: "5c1f0a9e2b7d4e63" }] }),
    success: ForgottenView,
    error: [NotFound, Conflict, ...callProblems]
  }).annotateMerge(words(
    "forgetRecord",
    "Forget a record",
    "Forgets a record: removes it from the store, and its content from the records that repeat it, and never stores " +
      "it again. The removal continues in the background, even after a restart. 409 if the counts have changed since the plan."
  )),
  HttpApiEndpoint.post("progress", "/v1/forget/progress", {
    payload: Schema.Struct(RecordFields).annotate({ examples: [example] }),
    success: ForgottenView,
    error: NotFound
  }).annotate(ShowsRecords, true).annotateMerge(words(
    "getForgettingProgress",
    "Get how far forgetting a record is",
    "Shows how far the removal of a record is. Changes nothing. 404 if the record is neither forgotten nor being forgotten."
  )),
  HttpApiEndpoint.post("allow", "/v1/forget/allow", {
    payload: Schema.Struct(RecordFields).annotate({ examples: [example] }),
    success: AllowedView,
    error: [NotFound, Conflict, ...callProblems]
  }).annotateMerge(words(
    "allowRecord",
    "Let runs store a forgotten record again",
    "Lets runs store a forgotten record again: with its next change, or by the next sweep. 409 while it is being erased."
  ))
)
