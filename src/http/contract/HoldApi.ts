/** The contract of the operating API for holds: changes that wait for an operator's decision, and the decision. */
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as Schema from "effect/Schema"
import { Conflict, NotFound } from "./Problem.ts"
import { ShowsRecords } from "./ReadAudit.ts"
import { Instant, Limit, Model, page, PositiveInt, words } from "./Schemas.ts"

const HoldState = Schema.Literals(["open", "rejected", "approving", "approved", "canceled"])

export const HoldView = Schema.Struct({
  id: Schema.Int,
  stream: Schema.String,
  integration: Schema.String,
  model: Model,
  kind: Schema.Literals(["deletes", "restores", "scope"]),
  state: HoldState,
  /** Why the changes are held, as text. */
  reason: Schema.String,
  /** Scope holds only: JSON Pointers that keep their published values; `*` means every item of an array. */
  paths: Schema.Array(Schema.String),
  opened_at: Schema.String,
  /** When an operator last decided; if none did, when the hold was canceled. */
  decided_at: Instant,
  /** Records that are held now. */
  records: Schema.Int,
  /** Records that were released since the hold was approved. */
  released: Schema.Int,
  /** True if the approval has published events; `GET /v1/changes?hold=…` lists them. */
  published: Schema.Boolean,
  /** Why an approved hold is not released yet, and when it will be, as text; null if nothing delays it. */
  waiting_reason: Schema.NullOr(Schema.String),
  /**
   * When the next sweep is due. Its end publishes the held changes that it still finds, because they are fewer than the limits; null if only a
   * decision publishes them.
   */
  sweep_at: Instant
}).annotate({ identifier: "Hold" })
export type HoldView = typeof HoldView.Type

/** One held record, without content. */
const HeldRecord = Schema.Struct({
  id: Schema.String,
  remote_id: Schema.NullOr(Schema.String),
  status: Schema.Literals(["held", "rejected"]),
  /** Why the record is deleted; null if its change is not a delete. */
  reason: Schema.NullOr(Schema.String),
  paths: Schema.Array(Schema.String).annotate({
    description:
      "Paths (JSON Pointer) that would change, without values, at most 200; none if the record would be deleted or restored"
  }),
  lost: Schema.Array(Schema.String).annotate({ description: "Those of `paths` whose value would go" }),
  gained: Schema.Array(Schema.String).annotate({ description: "Those of `paths` that have no value now" }),
  changed_at: Instant,
  detected_at: Schema.String
})

/** A hold and a page of its records. */
export const HoldPage = Schema.Struct({
  hold: HoldView,
  decision: Schema.NullOr(
    Schema.Struct({ at: Schema.String, actor: Schema.String, address: Schema.NullOr(Schema.String) })
  ).annotate({ description: "The last decision of an operator, as in `GET /v1/audit`; null if there is none" }),
  records: Schema.Array(HeldRecord),
  next: Schema.NullOr(Schema.String)
}).annotate({ identifier: "HoldDetail" })

export type HoldPage = typeof HoldPage.Type

export const HoldPlanView = Schema.Struct({
  plan: Schema.String.annotate({ description: "Identifies exactly these records with their current content" }),
  hold: HoldView
}).annotate({ identifier: "HoldPlan" })
export type HoldPlanView = typeof HoldPlanView.Type

/** The properties that the held changes have in common. */
export const HoldPatterns = Schema.Struct({
  counted: Schema.Int.annotate({ description: "How many records of the hold were compared: at most 10,000" }),
  patterns: Schema.Array(Schema.Struct({ what: Schema.String, records: Schema.Int })).annotate({
    description:
      "The effects of an approval, as text without values, each with its number of records; the most frequent first, at most 20"
  })
}).annotate({ identifier: "HoldPatterns" })
export type HoldPatterns = typeof HoldPatterns.Type

const Content = Schema.Struct({
  id: Schema.String,
  name: Schema.NullOr(Schema.String),
  remote_url: Schema.NullOr(Schema.String).annotate({ description: "An https address at the vendor" }),
  changes: Schema.Array(Schema.Struct({ path: Schema.String, before: Schema.Unknown, after: Schema.Unknown }))
})
export const HeldContents = Schema.Struct({ items: Schema.Array(Content), next: Schema.NullOr(Schema.String) })
  .annotate({ identifier: "HeldContents" })
export type HeldContents = typeof HeldContents.Type

const holdId = { id: PositiveInt }
const recordPage = { after: Schema.optionalKey(Schema.String), limit: Schema.optionalKey(Limit) }

export const holds = HttpApiGroup.make("holds").add(
  HttpApiEndpoint.get("list", "/v1/holds", {
    query: {
      state: Schema.optionalKey(HoldState),
      after: Schema.optionalKey(PositiveInt),
      limit: Schema.optionalKey(Limit)
    },
    success: page(HoldView)
  }).annotateMerge(words(
    "listHolds",
    "List the holds",
    "Lists the holds of the guard, newest first. Without `state`: those that are neither approved nor canceled."
  )),
  HttpApiEndpoint.get("show", "/v1/holds/:id", {
    params: holdId,
    query: recordPage,
    success: HoldPage,
    error: NotFound
  }).annotate(ShowsRecords, true).annotateMerge(words(
    "getHold",
    "Get a hold",
    "Returns a hold with a page of its records, without their content."
  )),
  HttpApiEndpoint.get("patterns", "/v1/holds/:id/patterns", {
    params: holdId,
    success: HoldPatterns,
    error: NotFound
  }).annotateMerge(words(
    "countHeldChanges",
    "Count the held changes by pattern",
    "Compares the held content with the published content, and counts how many records lose or get a value, or would be deleted."
  )),
  HttpApiEndpoint.get("content", "/v1/holds/:id/content", {
    params: holdId,
    query: recordPage,
    success: HeldContents,
    error: NotFound
  }).annotate(ShowsRecords, true).annotateMerge(words(
    "revealHold",
    "Reveal the content of held changes",
    "The names and the changed values of a page of records. The response is sent after `holds.reveal` is in the audit log."
  )),
  HttpApiEndpoint.get("plan", "/v1/holds/:id/plan", {
    params: holdId,
    success: HoldPlanView,
    error: [NotFound, Conflict]
  }).annotateMerge(words(
    "planApproval",
    "Count the records that an approval would publish",
    "Counts the records of a hold, and returns a `plan` that identifies these records and their content. An approval " +
      "requires the `plan`. Changes nothing. 409 if there is nothing to approve."
  )),
  HttpApiEndpoint.post("approve", "/v1/holds/:id/approve", {
    params: holdId,
    query: {
      plan: Schema.String.annotate({ description: "The `plan` that `GET /v1/holds/{id}/plan` returned" }),
      origin: Schema.optionalKey(Schema.Literal("backfill")),
      silent: Schema.optionalKey(Schema.Literals(["true", "false"]))
    },
    success: HoldView,
    error: [NotFound, Conflict]
  }).annotateMerge(words(
    "approveHold",
    "Publish held changes",
    "Publishes the held changes; with `origin=backfill`, as backfill events. 409 if the records of the hold or their " +
      "content have changed since the `plan`. `silent=true` (scope holds only) accepts the new content without publishing events. The response comes at once, and the hold is `approving` " +
      "until all its changes are published. This also works for a paused or blocked stream. If the stream is no " +
      "longer read, the changes are published once it is read again, and `waiting_reason` says so."
  )),
  HttpApiEndpoint.post("reject", "/v1/holds/:id/reject", {
    params: holdId,
    success: HoldView,
    error: [NotFound, Conflict]
  }).annotateMerge(words(
    "rejectHold",
    "Keep held changes unpublished",
    "Rejects the hold; its changes stay unpublished. The records stay listed as rejected and cause no new hold " +
      "until their content changes again."
  ))
)
